/* Copies between strided tensors (copy.h), and the operator `contiguous`. The axes are normalised
 * once: axes of extent 1 are dropped, the others are sorted by the target's strides and merged
 * where both sides allow it. Then runs are copied whole, in short rows, repeated, transposed in
 * tiles, or copied element by element.
 * Invariant: the parts that threads take write disjoint bytes, so packed dtypes are copied as one
 * part. */
#include "copy.h"
#include "capability.h"
#include "move_float.h"
#include <string.h>

typedef struct wide_t {
  uint64_t low;
  uint64_t high;
} wide_t;

enum { LINE = 64, SMALL = 1 << 16, /* bytes; less is not worth another thread */ };

/* What a part does for one run: n elements, n rows of adjacent elements, or a tile of n by m
 * elements where the source is contiguous along m. */
typedef struct plan_t {
  move_t *move;
  move_run_fn run;
  move_tile_fn tile;
  int64_t row_size; /* bytes of a row; 0: elements are not copied by rows */
  int32_t outer;    /* axes outside the run and the tile */
  int64_t to_size;
  int64_t from_size;
  int64_t run_axis;
  int64_t tile_axis;
  int64_t block;
  int64_t blocks;
  int64_t columns; /* of a tile; a run has one */
  int64_t column_blocks;
} plan_t;

#define T uint8_t
#define SIZE 1
#define NAME(x) x##_1
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#include "copy_kernel.h"

#define T uint16_t
#define SIZE 2
#define NAME(x) x##_2
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#include "copy_kernel.h"

#define T uint32_t
#define SIZE 4
#define NAME(x) x##_4
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#include "copy_kernel.h"

#define T uint64_t
#define SIZE 8
#define NAME(x) x##_8
#define LOW 0, 2
#define HIGH 1, 3
#include "copy_kernel.h"

#define T wide_t
#define SIZE 16
#define NAME(x) x##_16
#include "copy_kernel.h"

/* Packed elements may straddle bytes, so they are copied bit by bit. */
static void bits_move(tenon_tensor_t *to, int64_t index, const tenon_tensor_t *from, int64_t at) {
  uint8_t *y = (uint8_t *)to->data;
  const uint8_t *x = (const uint8_t *)from->data;
  for (int64_t b = 0; b < to->dtype.bits; b++) {
    int64_t p = index * to->dtype.bits + b;
    int64_t q = at * to->dtype.bits + b;
    uint8_t bit = (uint8_t)(x[q >> 3] >> (q & 7) & 1);
    uint8_t mask = (uint8_t)(1u << (p & 7));
    y[p >> 3] = (uint8_t)((y[p >> 3] & ~mask) | (bit ? mask : 0));
  }
}

tenon_status_t core_move_run(tenon_call_t *call, tenon_tensor_t *to, int64_t to_index,
                             const tenon_tensor_t *from, int64_t from_index, int64_t count) {
  if (tenon_dtype_id(to->dtype) == TENON_STRING) {
    const tenon_string_t *texts = (const tenon_string_t *)from->data + from_index;
    for (int64_t i = 0; i < count; i++)
      TENON_TRY(call->host->set_string(call, to, to_index + i, texts[i].data, texts[i].size));
  } else if (is_packed(to)) {
    for (int64_t i = 0; i < count; i++)
      bits_move(to, to_index + i, from, from_index + i);
  } else {
    int64_t size = element_size(to);
    memcpy((char *)to->data + to_index * size, (const char *)from->data + from_index * size,
           (size_t)(count * size));
  }
  return TENON_OK;
}

/* Copies rows of `size` bytes. The end of a row is copied by a vector that overlaps the one
 * before. */
static void copy_rows(char *to, const char *from, int64_t n, int64_t to_step, int64_t from_step,
                      int64_t size) {
  enum { WIDE = 16, NARROW = 4 };
  for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {
    int64_t at = 0;
    for (; at + WIDE <= size; at += WIDE)
      memcpy(to + at, from + at, WIDE);
    if (at == size) continue;
    if (size >= WIDE) {
      memcpy(to + size - WIDE, from + size - WIDE, WIDE);
      continue;
    }
    for (; at + NARROW <= size; at += NARROW)
      memcpy(to + at, from + at, NARROW);
    for (; at < size; at++)
      to[at] = from[at];
  }
}

/* Copies strings and packed elements one at a time. */
static tenon_status_t move_one_by_one(tenon_call_t *call, void *argument, int64_t begin,
                                      int64_t end) {
  const move_t *move = (const move_t *)argument;
  for (int64_t n = begin; n < end; n++) {
    int64_t rest = n;
    int64_t to = move->to_offset;
    int64_t from = move->from_offset;
    for (int32_t i = move->ndim - 1; i >= 0; i--) {
      int64_t at = rest % move->shape[i];
      rest /= move->shape[i];
      to += at * move->to_strides[i];
      from += at * move->from_strides[i];
    }
    TENON_TRY(core_move_run(call, move->to, to, move->from, from, 1));
  }
  return TENON_OK;
}

static tenon_status_t move_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const plan_t *plan = (const plan_t *)argument;
  const move_t *move = plan->move;
  int64_t at[2 * TENON_RANK_MAX];
  int64_t to = move->to_offset;
  int64_t from = move->from_offset;
  int64_t rest = begin / plan->blocks / plan->column_blocks;
  int64_t column_block = begin / plan->blocks % plan->column_blocks;
  int64_t block = begin % plan->blocks;
  int64_t length = move->shape[plan->run_axis];
  int64_t to_column = plan->columns * move->to_strides[plan->tile_axis];
  int64_t to_run = move->to_strides[plan->run_axis];
  int64_t from_run = move->from_strides[plan->run_axis];
  (void)call;
  for (int32_t i = plan->outer - 1; i >= 0; i--) {
    at[i] = rest % move->shape[i];
    rest /= move->shape[i];
    to += at[i] * move->to_strides[i];
    from += at[i] * move->from_strides[i];
  }
  for (int64_t n = begin; n < end; n++) {
    int64_t first = block * plan->block;
    int64_t count = length - first < plan->block ? length - first : plan->block;
    int64_t column = column_block * plan->columns;
    int64_t y_at = to + first * to_run + column_block * to_column;
    int64_t x_at = from + first * from_run + (plan->tile ? column : 0);
    char *y = (char *)move->to->data + y_at * plan->to_size;
    const char *x = (const char *)move->from->data + x_at * plan->from_size;
    int64_t columns = move->shape[plan->tile_axis] - column;
    if (plan->tile)
      plan->tile(y, x, count, columns < plan->columns ? columns : plan->columns,
                 move->to_strides[plan->tile_axis], from_run);
    else if (plan->row_size)
      copy_rows(y, x, count, to_run * plan->to_size, from_run * plan->to_size, plan->row_size);
    else
      plan->run(y, x, count, to_run, from_run);
    if (++block < plan->blocks) continue;
    block = 0;
    if (++column_block < plan->column_blocks) continue;
    column_block = 0;
    for (int32_t i = plan->outer - 1; i >= 0; i--) {
      to += move->to_strides[i];
      from += move->from_strides[i];
      if (++at[i] < move->shape[i]) break;
      to -= at[i] * move->to_strides[i];
      from -= at[i] * move->from_strides[i];
      at[i] = 0;
    }
  }
  return TENON_OK;
}

/* moves one axis; the axes between shift */
static void axis_move(move_t *move, int32_t from, int32_t to) {
  int64_t shape = move->shape[from];
  int64_t x = move->from_strides[from];
  int64_t y = move->to_strides[from];
  int32_t step = from < to ? 1 : -1;
  for (int32_t i = from; i != to; i += step) {
    move->shape[i] = move->shape[i + step];
    move->from_strides[i] = move->from_strides[i + step];
    move->to_strides[i] = move->to_strides[i + step];
  }
  move->shape[to] = shape;
  move->from_strides[to] = x;
  move->to_strides[to] = y;
}

/* Normalises the axes and returns the number of elements. */
static int64_t normalise_axes(move_t *move) {
  int32_t n = 0;
  int64_t count = 1;
  for (int32_t i = 0; i < move->ndim; i++) {
    count *= move->shape[i];
    if (move->shape[i] == 1) continue;
    int32_t j = n++;
    axis_move(move, i, j);
    for (; j > 0 && move->to_strides[j - 1] < move->to_strides[j]; j--)
      axis_move(move, j, j - 1);
  }
  move->ndim = n;
  for (int32_t i = n - 2; i >= 0; i--) {
    if (move->to_strides[i] != move->to_strides[i + 1] * move->shape[i + 1] ||
        move->from_strides[i] != move->from_strides[i + 1] * move->shape[i + 1])
      continue;
    move->shape[i + 1] *= move->shape[i];
    axis_move(move, i, --move->ndim);
  }
  if (move->ndim == 0) {
    move->ndim = 1;
    move->shape[0] = move->from_strides[0] = move->to_strides[0] = 1;
  }
  return count;
}

static const move_floats_t *move_floats_of_isa(void) {
#if defined(__x86_64__) || defined(_M_X64)
  static const move_floats_t *const all[] = {&core_move_floats, &core_move_floats_avx2,
                                             &core_move_floats_avx512};
  return all[core_capability()];
#else
  return &core_move_floats;
#endif
}

/* The functions that convert elements of `from` to those of `to`; NULL: the dtypes are equal. */
static const move_float_t *conversion_of(const move_t *move) {
  const move_floats_t *all = move_floats_of_isa();
  const uint32_t from = tenon_dtype_id(move->from->dtype);
  const uint32_t to = tenon_dtype_id(move->to->dtype);
  if (from == to) return NULL;
  if (to == TENON_F32) return from == TENON_F16 ? &all->widen_f16 : &all->widen_bf16;
  return to == TENON_F16 ? &all->narrow_f16 : &all->narrow_bf16;
}

/* Whether tiles would have so few rows that each is copied by itself. */
static int has_few_rows(const plan_t *plan) {
  enum { MOST = 4 };
  return !conversion_of(plan->move) && plan->move->shape[plan->run_axis] <= MOST;
}

/* Chooses the functions. Returns 0 if there are none for elements of this size. */
static int choose_functions(plan_t *plan) {
  static const struct {
    int64_t size;
    move_run_fn run;
    move_tile_fn tile;
    move_tile_fn few;
  } sizes[] = {{1, run_1, tile_1, few_1},
               {2, run_2, tile_2, few_2},
               {4, run_4, tile_4, few_4},
               {8, run_8, tile_8, few_8},
               {16, run_16, tile_16, few_16}};
  const move_float_t *conversion = conversion_of(plan->move);
  const move_float_t *words = &move_floats_of_isa()->f32; /* copies of any elements of 4 bytes */
  if (conversion) {
    plan->run = conversion->run;
    plan->tile = conversion->tile;
    return 1;
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].size != plan->to_size) continue;
    plan->run = sizes[i].run;
    plan->tile = sizes[i].tile;
    if (plan->to_size == 4 && words->tile) plan->tile = words->tile;
    if (has_few_rows(plan)) plan->tile = sizes[i].few;
    return 1;
  }
  return 0;
}

/* Whether the innermost axis consists of short rows of adjacent elements, of which there are
 * several. */
static int has_short_rows(const plan_t *plan) {
  enum { MOST = 512 }; /* bytes */
  const move_t *move = plan->move;
  const int32_t last = move->ndim - 1;
  return last > 0 && !conversion_of(move) && move->to_strides[last] == 1 &&
         move->from_strides[last] == 1 && move->shape[last] <= MOST / plan->to_size;
}

/* Cuts tiles, or runs or rows if `across` is the last axis, into the units that threads take. */
static void cut_units(plan_t *plan, int32_t across) {
  enum { ROWS = 1024, COLUMNS = 1024 };
  move_t *move = plan->move;
  const int32_t last = move->ndim - 1;
  if (across == last) {
    plan->tile = NULL;
    plan->block = SMALL / plan->to_size;
    if (has_short_rows(plan)) {
      plan->row_size = move->shape[last] * plan->to_size;
      plan->block = SMALL / plan->row_size;
      plan->run_axis = last - 1;
      plan->outer = last - 1;
    }
  } else {
    axis_move(move, across, last - 1);
    plan->outer = last - 1;
    plan->tile_axis = last - 1;
    plan->block = ROWS;
    plan->columns = has_few_rows(plan) ? COLUMNS : LINE / plan->from_size;
    plan->column_blocks = (move->shape[last - 1] - 1) / plan->columns + 1;
  }
  plan->blocks = (move->shape[plan->run_axis] + plan->block - 1) / plan->block;
}

tenon_status_t core_move(tenon_call_t *call, move_t *move) {
  int64_t count = normalise_axes(move);
  int64_t size = element_size(move->to);
  int32_t last = move->ndim - 1;
  int32_t across = last;
  plan_t plan = {.move = move,
                 .outer = last,
                 .to_size = size,
                 .from_size = element_size(move->from),
                 .run_axis = last,
                 .tile_axis = last,
                 .columns = 1,
                 .column_blocks = 1};
  if (count == 0) return TENON_OK;
  if (tenon_dtype_id(move->to->dtype) == TENON_STRING || is_packed(move->to))
    return move_one_by_one(call, move, 0, count);
  for (int32_t i = 0; i < last; i++)
    if (move->from_strides[i] == 1 && move->to_strides[last] == 1 &&
        move->from_strides[last] != 0 && move->shape[i] * size >= 16)
      across = i;
  if (!choose_functions(&plan))
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "cannot copy elements of %d bytes; expected 1, 2, 4, 8 or 16", (int)size);
  cut_units(&plan, across);
  int64_t units = extents_product(move->shape, 0, plan.outer) * plan.blocks * plan.column_blocks;
  int64_t each = count * size / units;
  return call->host->parallel(call, units, each < SMALL ? SMALL / (each + 1) + 1 : 1, move_part,
                              &plan);
}

/* contiguous */

static tenon_status_t contiguous_run(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  move_t move;
  move_begin(&move, out, x);
  for (int32_t i = 0; i < x->ndim; i++)
    move_axis(&move, x->shape[i], x->strides[i], out->strides[i]);
  return core_move(call, &move);
}

/* clang-format off */
TENON_ITEMS(core_copy,
  TENON_OP("contiguous(Tensor x) -> Tensor",
    TENON_DOC("A dense row-major copy of a tensor with any strides."),
    TENON_TYPES("x: any; out = x"),
    TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: core::identity(grad)"),
    TENON_KERNEL("cpu strided", contiguous_run)))
/* clang-format on */
