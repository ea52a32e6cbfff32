/* The driver of loop kernels: conversions, strides, blocking, threads.  It goes over an iterator,
 * as the CPU's stubs do, and passes each operand as it lies in memory or packed into a tile in
 * cache.  The table's entries and executables call it.  Invariant: the kernel sees dense runs that
 * do not overlap. */
#include "drivers/loop.h"

#include <tenon/tenon.h>

#include "base/parallel.h"
#include "base/status.h"
#include "core/dtype.h"
#include "drivers/pieces.h"
#include "operator/kernel.h"

enum {
  TILE = 1024,   /* elements of a packed tile */
  GRAIN = 32768, /* elements of a part that is worth a thread */
};

/* running */

static tenon_status_t run_range(const tn_drive_t *d, int64_t begin, int64_t end) {
  tn_scratch_mark_t mark = tn_scratch_mark();
  tn_pieces_t pieces;
  tenon_status_t status = tn_pieces_begin(d, begin, end, TILE, &pieces);
  for (int64_t at = begin; at < end && status == TENON_OK;) {
    int64_t count = end - at;
    if (pieces.has_tiles && count > TILE) count = TILE;
    status = tn_pieces_run(&pieces, at, count);
    at += count;
  }
  tn_scratch_reset(mark);
  return status;
}

/* Returns the offset of a row of the innermost axis in an operand. */
static inline int64_t row_offset(const tn_drive_t *d, const tn_loop_operand_t *o, int64_t row) {
  int64_t offset = 0;
  for (int32_t k = d->it->ndim - 2; k >= 0; k--) {
    offset += row % d->it->shape[k] * o->strides[k];
    row /= d->it->shape[k];
  }
  return offset;
}

/* Sets each operand's stride, and gives a tile of `chunk` elements to each operand that needs one.
 * `tiles` is the memory of all tiles. */
static void place_tiles(const tn_drive_t *d, int64_t chunk, char *tiles, void **data, char **tile,
                        int64_t *strides, int64_t *filled) {
  for (uint32_t i = 0; i < d->it->count; i++) {
    const tn_loop_operand_t *o = &d->operands[i];
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
static tenon_status_t run_rows(const tn_drive_t *d, int64_t begin, int64_t end) {
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
  tenon_loop_t loop = tn_loop_argument(d->call, d->kernel, data, strides);
  tenon_loop_fn function = d->kernel->loop.function;
  tenon_status_t status = TENON_OK;
  for (int64_t row = begin; row < end && status == TENON_OK; row++) {
    for (int64_t at = 0; at < d->inner && status == TENON_OK; at += chunk) {
      int64_t count = d->inner - at < chunk ? d->inner - at : chunk;
      for (uint32_t i = 0; i < n; i++) {
        const tn_loop_operand_t *o = &d->operands[i];
        if (!o->data) continue;
        int64_t offset = row_offset(d, o, row);
        if (!o->packs) {
          data[i] = o->data + offset + at * o->size;
        } else if (!o->is_output) {
          bool steady = o->strides[last] == 0;
          /* The element is the same as in the row before. */
          if (steady && filled[i] == offset) continue;
          tn_operand_load(d, o, row * d->inner + at, count, tile[i], spare);
          filled[i] = steady ? offset : -1;
        }
      }
      loop.count = count;
      loop.first = (uint64_t)(row * d->inner + at);
      status = function(&loop);
      for (uint32_t i = 0; i < n && status == TENON_OK; i++)
        if (d->operands[i].data && d->operands[i].packs && d->operands[i].is_output)
          tn_operand_store(d, &d->operands[i], row * d->inner + at, count, tile[i], spare);
    }
  }
  tn_scratch_reset(mark);
  return status;
}

static tenon_status_t range_part(void *argument, int64_t begin, int64_t end) {
  const tn_drive_t *d = argument;
  int64_t first = begin * TILE;
  int64_t stop = end * TILE;
  return run_range(d, first, stop < d->total ? stop : d->total);
}

static tenon_status_t rows_part(void *argument, int64_t begin, int64_t end) {
  return run_rows(argument, begin, end);
}

/* setting up */

static tenon_status_t drive(tenon_call_t *call, const tn_kernel_t *kernel) {
  tenon_iterator_t it;
  TN_TRY(tn_iterator_make(call, &it));
  if (it.begin == it.end) return TENON_OK;
  tn_drive_t d;
  TN_TRY(tn_drive_begin(call, kernel, &it, &d));
  const int64_t bands = it.ndim > 1 ? tn_drive_bands(&d, TILE) : 0;
  if (it.ndim > 1 && d.inner >= 64 && !bands) {
    int64_t rows = d.total / d.inner;
    int64_t grain = GRAIN / d.inner;
    return tn_parallel(rows, grain > 0 ? grain : 1, rows_part, &d);
  }
  const bool any_packs = tn_drive_flatten(&d);
  if (it.ndim == 1 && (d.total <= GRAIN || (!any_packs && d.total < 2 * GRAIN)))
    return run_range(&d, 0, d.total);
  const int64_t grain = bands > GRAIN / TILE ? bands : GRAIN / TILE;
  return tn_parallel((d.total + TILE - 1) / TILE, grain, range_part, &d);
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
  tenon_loop_t loop = tn_loop_argument(call, kernel, data, strides);
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
