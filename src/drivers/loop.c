/* The driver of loop kernels: conversions, strides, blocking, threads.  It goes over an iterator,
 * as the CPU's stubs do, and passes each operand as it lies in memory or packed into a tile in
 * cache.  The table's entries and executables call it.  Invariant: the kernel sees dense runs that
 * do not overlap. */
#include "drivers/loop.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "drivers/iterator.h"
#include "operator/kernel.h"

enum {
  TILE = 1024,   /* elements of a packed tile */
  GRAIN = 32768, /* elements of a part that is worth a thread */
};

typedef struct operand_t {
  char *data;
  int64_t size;      /* bytes of an element in memory */
  int64_t loop_size; /* bytes of an element as the loop sees it */
  tenon_dtype_t dtype;
  tenon_dtype_t loop_dtype;
  bool is_output;
  bool converts;
  bool packs;             /* a tile is passed: the loop never sees the operand's memory */
  bool is_scalar;         /* one element serves for all */
  const int64_t *strides; /* those of the iterator */
} operand_t;

typedef struct drive_t {
  tenon_call_t *call;
  const tn_kernel_t *kernel;
  const tenon_iterator_t *it;
  int64_t total;       /* number of elements */
  int64_t inner;       /* extent of the innermost axis */
  operand_t *operands; /* absent operands have no data */
} drive_t;

/* packing */

static void copy_strided(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                         int64_t size, int64_t count) {
  if (from_stride == size && to_stride == size) {
    memcpy(to, from, (size_t)(count * size));
    return;
  }
#define EACH(type)                                                                                 \
  {                                                                                                \
    type v;                                                                                        \
    if (from_stride == 0 && to_stride == (int64_t)sizeof v) {                                      \
      memcpy(&v, from, sizeof v);                                                                  \
      type *all = (type *)(void *)to;                                                              \
      for (int64_t i = 0; i < count; i++)                                                          \
        all[i] = v;                                                                                \
    } else {                                                                                       \
      for (int64_t i = 0; i < count; i++)                                                          \
        memcpy(to + i * to_stride, from + i * from_stride, sizeof v);                              \
    }                                                                                              \
  }
  switch (size) {
  case 1:
    EACH(uint8_t) break;
  case 2:
    EACH(uint16_t) break;
  case 4:
    EACH(uint32_t) break;
  case 8:
    EACH(uint64_t) break;
  default:
    for (int64_t i = 0; i < count; i++)
      memcpy(to + i * to_stride, from + i * from_stride, (size_t)size);
  }
#undef EACH
}

/* Copies elements [first, first + count) of the iteration between an operand's memory and a dense
 * block of the operand's own dtype. */
static void move_elements(const drive_t *d, const operand_t *o, int64_t first, int64_t count,
                          char *block, bool to_memory) {
  int64_t index[TENON_RANK_MAX];
  int64_t rest = first;
  int64_t offset = 0;
  for (int32_t i = d->it->ndim - 1; i >= 0; i--) {
    index[i] = rest % d->it->shape[i];
    rest /= d->it->shape[i];
    offset += index[i] * o->strides[i];
  }
  int32_t last = d->it->ndim - 1;
  while (count > 0) {
    int64_t run = d->inner - index[last];
    if (run > count) run = count;
    char *memory = o->data + offset;
    if (to_memory)
      copy_strided(block, o->size, memory, o->strides[last], o->size, run);
    else
      copy_strided(memory, o->strides[last], block, o->size, o->size, run);
    block += run * o->size;
    count -= run;
    index[last] += run;
    offset += run * o->strides[last];
    for (int32_t i = last; i > 0 && index[i] == d->it->shape[i]; i--) {
      offset += o->strides[i - 1] - o->strides[i] * d->it->shape[i];
      index[i] = 0;
      index[i - 1]++;
    }
  }
}

static char *load(const drive_t *d, const operand_t *o, int64_t first, int64_t count, char *tile,
                  char *spare) {
  char *block = o->converts ? spare : tile;
  move_elements(d, o, first, count, block, false);
  if (o->converts) tn_convert(block, o->dtype, tile, o->loop_dtype, count);
  return tile;
}

static void store(const drive_t *d, const operand_t *o, int64_t first, int64_t count, char *tile,
                  char *spare) {
  char *block = tile;
  if (o->converts) tn_convert(tile, o->loop_dtype, block = spare, o->dtype, count);
  move_elements(d, o, first, count, block, true);
}

/* running */

static inline tenon_loop_t loop_of(const tenon_call_t *c, const tn_kernel_t *kernel,
                                   void *const *data, const int64_t *strides) {
  return (tenon_loop_t){.size = sizeof(tenon_loop_t),
                        .phase = TENON_PHASE_LOOP,
                        .host = c->host,
                        .op = c->op,
                        .attrs = c->attrs,
                        .context = kernel->context,
                        .state = c->state,
                        .data = data,
                        .stride = strides,
                        .seed = c->random ? c->random->seed : 0,
                        .offset = c->random ? c->random->offset : 0};
}

static tenon_status_t run_range(const drive_t *d, int64_t begin, int64_t end) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  uint32_t n = d->it->count;
  void **data = tn_scratch(n * (sizeof *data + sizeof(int64_t) + sizeof(char *)) + 64);
  int64_t tile_size = 0;
  for (uint32_t i = 0; i < n; i++) {
    const operand_t *o = &d->operands[i];
    if (o->data && o->packs) tile_size += TILE * o->loop_size;
  }
  char *tiles = tile_size ? tn_scratch((size_t)tile_size) : NULL;
  char *spare = tile_size ? tn_scratch(TILE * 16) : NULL;
  if (!data || (tile_size && (!tiles || !spare))) {
    tn_scratch_reset(mark);
    return tn_no_memory("a loop", (size_t)tile_size);
  }
  int64_t *strides = (int64_t *)(void *)(data + n);
  char **tile = (char **)(void *)(strides + n);
  for (uint32_t i = 0; i < n; i++) {
    const operand_t *o = &d->operands[i];
    strides[i] = o->loop_size;
    data[i] = NULL;
    tile[i] = NULL;
    if (!o->data || !o->packs) continue;
    tile[i] = tiles;
    tiles += TILE * o->loop_size;
    data[i] = tile[i];
    if (o->is_scalar) {
      load(d, o, 0, 1, tile[i], spare);
      copy_strided(tile[i], 0, tile[i], o->loop_size, o->loop_size, TILE);
    }
  }
  tenon_loop_t loop = loop_of(d->call, d->kernel, data, strides);
  tenon_loop_fn function = d->kernel->loop.function;
  tenon_status_t status = TENON_OK;
  for (int64_t at = begin; at < end && status == TENON_OK;) {
    int64_t count = end - at;
    if (tile_size && count > TILE) count = TILE;
    for (uint32_t i = 0; i < n; i++) {
      const operand_t *o = &d->operands[i];
      if (!o->data) continue;
      if (!o->packs)
        data[i] = o->data + at * o->size;
      else if (!o->is_output && !o->is_scalar)
        load(d, o, at, count, tile[i], spare);
    }
    loop.count = count;
    loop.first = (uint64_t)at;
    status = function(&loop);
    for (uint32_t i = 0; i < n && status == TENON_OK; i++)
      if (d->operands[i].data && d->operands[i].packs && d->operands[i].is_output)
        store(d, &d->operands[i], at, count, tile[i], spare);
    at += count;
  }
  tn_scratch_reset(mark);
  return status;
}

/* Returns the offset of a row of the innermost axis in an operand. */
static inline int64_t row_offset(const drive_t *d, const operand_t *o, int64_t row) {
  int64_t offset = 0;
  for (int32_t k = d->it->ndim - 2; k >= 0; k--) {
    offset += row % d->it->shape[k] * o->strides[k];
    row /= d->it->shape[k];
  }
  return offset;
}

/* Sets each operand's stride, and gives a tile of `chunk` elements to each operand that needs one.
 * `tiles` is the memory of all tiles. */
static void place_tiles(const drive_t *d, int64_t chunk, char *tiles, void **data, char **tile,
                        int64_t *strides, int64_t *filled) {
  for (uint32_t i = 0; i < d->it->count; i++) {
    const operand_t *o = &d->operands[i];
    strides[i] = o->loop_size;
    data[i] = NULL;
    tile[i] = NULL;
    filled[i] = -1;
    if (o->data && o->packs) {
      data[i] = tile[i] = tiles;
      tiles += (chunk * o->loop_size + 63) & ~(int64_t)63;
    }
  }
}

/* Runs rows of the innermost axis, which are long enough to be passed as they lie in memory. The
 * operands differ in where a row begins. An operand that does not move along the row fills a tile
 * once per row. */
static tenon_status_t run_rows(const drive_t *d, int64_t begin, int64_t end) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  uint32_t n = d->it->count;
  void **data =
      tn_scratch(n * (sizeof *data + sizeof(int64_t) + sizeof(char *) + sizeof(int64_t)) + 64);
  int32_t last = d->it->ndim - 1;
  int64_t chunk = d->inner < 8 * TILE ? d->inner : 8 * TILE;
  int64_t tile_size = 0;
  for (uint32_t i = 0; i < n; i++)
    if (d->operands[i].data && d->operands[i].packs)
      tile_size += (chunk * d->operands[i].loop_size + 63) & ~(int64_t)63;
  char *tiles = tile_size ? tn_scratch((size_t)tile_size) : NULL;
  char *spare = tile_size ? tn_scratch((size_t)chunk * 16) : NULL;
  if (!data || (tile_size && (!tiles || !spare))) {
    tn_scratch_reset(mark);
    return tn_no_memory("a loop", (size_t)tile_size);
  }
  int64_t *strides = (int64_t *)(void *)(data + n);
  int64_t *filled = strides + n;
  char **tile = (char **)(void *)(filled + n);
  place_tiles(d, chunk, tiles, data, tile, strides, filled);
  tenon_loop_t loop = loop_of(d->call, d->kernel, data, strides);
  tenon_loop_fn function = d->kernel->loop.function;
  tenon_status_t status = TENON_OK;
  for (int64_t row = begin; row < end && status == TENON_OK; row++) {
    for (int64_t at = 0; at < d->inner && status == TENON_OK; at += chunk) {
      int64_t count = d->inner - at < chunk ? d->inner - at : chunk;
      for (uint32_t i = 0; i < n; i++) {
        const operand_t *o = &d->operands[i];
        if (!o->data) continue;
        int64_t offset = row_offset(d, o, row);
        if (!o->packs) {
          data[i] = o->data + offset + at * o->size;
        } else if (!o->is_output) {
          bool steady = o->strides[last] == 0;
          /* The element is the same as in the row before. */
          if (steady && filled[i] == offset) continue;
          load(d, o, row * d->inner + at, count, tile[i], spare);
          filled[i] = steady ? offset : -1;
        }
      }
      loop.count = count;
      loop.first = (uint64_t)(row * d->inner + at);
      status = function(&loop);
      for (uint32_t i = 0; i < n && status == TENON_OK; i++)
        if (d->operands[i].data && d->operands[i].packs && d->operands[i].is_output)
          store(d, &d->operands[i], row * d->inner + at, count, tile[i], spare);
    }
  }
  tn_scratch_reset(mark);
  return status;
}

static tenon_status_t range_part(void *argument, int64_t begin, int64_t end) {
  const drive_t *d = argument;
  int64_t first = begin * TILE;
  int64_t stop = end * TILE;
  return run_range(d, first, stop < d->total ? stop : d->total);
}

static tenon_status_t rows_part(void *argument, int64_t begin, int64_t end) {
  return run_rows(argument, begin, end);
}

/* setting up */

/* Sets up the operands of the loop from those of the iterator, and decides which of them are passed
 * as they lie in memory. A loop must not write where it reads. */
static void set_operands(drive_t *d, const tn_kernel_t *kernel) {
  const tenon_iterator_t *it = d->it;
  int32_t last = it->ndim - 1;
  for (uint32_t i = 0; i < it->count; i++) {
    const tenon_tensor_t *t = it->tensors[i];
    operand_t *o = &d->operands[i];
    *o = (operand_t){.loop_dtype = kernel->loop.words.dtypes[i], .strides = it->strides[i]};
    o->loop_size = o->loop_dtype.bits * o->loop_dtype.lanes / 8;
    o->size = o->loop_size;
    o->is_output = i >= it->op->input_count;
    if (!t) continue;
    o->data = (char *)t->data + it->offsets[i];
    o->dtype = t->dtype;
    o->size = t->dtype.bits * t->dtype.lanes / 8;
    o->converts = !tn_dtype_same(o->dtype, o->loop_dtype);
    o->is_scalar = !o->is_output && it->end > 1;
    for (int32_t k = 0; k <= last; k++)
      o->is_scalar &= it->strides[i][k] == 0;
    o->packs = o->converts || it->strides[i][last] != o->size;
    for (uint32_t k = it->op->input_count; k < it->count && !o->packs && !o->is_output; k++)
      if (it->tensors[k] && t->data == it->tensors[k]->data) o->packs = true;
  }
}

static tenon_status_t drive(tenon_call_t *call, const tn_kernel_t *kernel) {
  tenon_iterator_t it;
  TN_TRY(tn_iterator_make(call, &it));
  if (it.begin == it.end) return TENON_OK;
  int32_t last = it.ndim - 1;
  drive_t d = {call,   kernel,         &it,
               it.end, it.shape[last], tn_scratch(it.count * sizeof *d.operands)};
  if (!d.operands) return tn_no_memory("a loop", it.count * sizeof *d.operands);
  set_operands(&d, kernel);
  if (it.ndim > 1 && d.inner >= 64) {
    int64_t rows = d.total / d.inner;
    int64_t grain = GRAIN / d.inner;
    return tn_parallel(rows, grain > 0 ? grain : 1, rows_part, &d);
  }
  bool any_packs = false;
  /* A tile spans several short rows. An operand that is one run is passed as it lies in memory. */
  for (uint32_t i = 0; i < it.count; i++) {
    operand_t *o = &d.operands[i];
    int64_t need = o->size;
    for (int32_t k = last; k >= 0 && o->data && !o->packs; k--) {
      if (o->strides[k] != need) o->packs = true;
      need *= it.shape[k];
    }
    any_packs |= o->packs;
  }
  if (it.ndim == 1 && (d.total <= GRAIN || (!any_packs && d.total < 2 * GRAIN)))
    return run_range(&d, 0, d.total);
  return tn_parallel((d.total + TILE - 1) / TILE, GRAIN / TILE, range_part, &d);
}

static inline bool is_dense_like(const tenon_tensor_t *t, const tenon_tensor_t *like,
                                 tenon_dtype_t dtype) {
  if (!tn_dtype_same(t->dtype, dtype) || t->keys & TN_KEY_STRIDED || t->ndim != like->ndim)
    return false;
  for (int64_t i = 0; i < t->ndim; i++)
    if (t->shape[i] != like->shape[i]) return false;
  return true;
}

/* Runs few elements of dense operands as one run, as drive would, but without an iterator. Returns
 * false if the call needs drive. */
static bool run_plain(tenon_call_t *call, const tn_kernel_t *kernel, const tenon_tensor_t *like,
                      int64_t count, tenon_status_t *out_status) {
  enum { FEW = 8 };
  void *data[FEW];
  int64_t strides[FEW];
  uint32_t inputs = call->op->input_count;
  uint32_t n = inputs + call->op->output_count;
  if (n > FEW || count >= 2 * GRAIN) return false;
  for (uint32_t i = 0; i < n; i++) {
    const tenon_tensor_t *t = i < inputs ? call->inputs[i] : call->outputs[i - inputs];
    tenon_dtype_t dtype = kernel->loop.words.dtypes[i];
    strides[i] = dtype.bits * dtype.lanes / 8;
    data[i] = t ? t->data : NULL;
    /* A stride of 0 means that elements have less than a byte. */
    if (t && (!is_dense_like(t, like, dtype) || !strides[i])) return false;
    for (uint32_t k = 0; k < inputs && t && i >= inputs; k++)
      if (data[k] && (char *)data[k] < (char *)t->data + count * strides[i] &&
          (char *)t->data < (char *)data[k] + count * strides[k])
        return false;
  }
  tenon_loop_t loop = loop_of(call, kernel, data, strides);
  loop.count = count;
  *out_status = kernel->loop.function(&loop);
  return true;
}

tenon_status_t tn_loop_run(tenon_call_t *call) {
  const tenon_tensor_t *like = NULL;
  const tn_kernel_t *kernel = tn_frame_of(call)->kernel;
  for (uint32_t o = 0; o < call->op->output_count && !like; o++)
    like = call->outputs[o];
  int64_t count = like ? tenon_count(like) : 0;
  tenon_status_t status;
  if (count == 0) return TENON_OK;
  if (!kernel && !(kernel = tn_op_kernel(call->op, call->inputs, call->outputs)))
    return tn_op_missing(call->op, "cpu", call->inputs);
  if (run_plain(call, kernel, like, count, &status)) return status;
  tn_scratch_mark_t mark = tn_scratch_mark();
  status = drive(call, kernel);
  tn_scratch_reset(mark);
  return status;
}
