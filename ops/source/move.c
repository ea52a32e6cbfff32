/* Operators that move elements, for devices that compile: copies between any strides, from which
 * contiguous, concat, tile and the block operators are made, and pad, trilu, where, gather.
 * Invariant: elements are moved as words of their size; an index is checked before it is used. */
#ifndef TENON_ON_DEVICE
#include "../axes.h"
#include "../copy.h"
#include "launch.h"
#include <string.h>
#endif

#define SIZES(X) X(8) X(16) X(32) X(64)

#define DEFINE_COPY(n)                                                                             \
  TENON_SOURCE_3(copy_##n, IN, uint##n##_t, x, OUT, uint##n##_t, out, VALUE, tenon_walk_t, walk) { \
    int64_t at[4];                                                                                 \
    TENON_EACH(i, walk.count) {                                                                    \
      tenon_walk(&walk, i, at);                                                                    \
      out[at[1]] = x[at[0]];                                                                       \
    }                                                                                              \
  }
#define DEFINE_WHERE(n)                                                                            \
  TENON_SOURCE_5(where_##n, IN, uint8_t, condition, IN, uint##n##_t, a, IN, uint##n##_t, b, OUT,   \
                 uint##n##_t, out, VALUE, tenon_walk_t, walk) {                                    \
    int64_t at[4];                                                                                 \
    TENON_EACH(i, walk.count) {                                                                    \
      tenon_walk(&walk, i, at);                                                                    \
      uint##n##_t yes = a[at[1]];                                                                  \
      uint##n##_t no = b[at[2]];                                                                   \
      out[at[3]] = condition[at[0]] ? yes : no;                                                    \
    }                                                                                              \
  }
/* Reads the element of x that is `stride` times an index further; 0 if the index is outside
 * [-extent, extent). */
#define DEFINE_GATHER(n) DEFINE_GATHER_BY(n, 32) DEFINE_GATHER_BY(n, 64)
#define DEFINE_GATHER_BY(n, m)                                                                     \
  TENON_SOURCE_6(gather_##n##_##m, IN, uint##n##_t, x, IN, int##m##_t, indices, OUT, uint##n##_t,  \
                 out, VALUE, tenon_walk_t, walk, VALUE, int64_t, extent, VALUE, int64_t, stride) { \
    int64_t at[4];                                                                                 \
    TENON_EACH(i, walk.count) {                                                                    \
      tenon_walk(&walk, i, at);                                                                    \
      int64_t index = indices[at[1]];                                                              \
      index += index < 0 ? extent : 0;                                                             \
      uint##n##_t found = 0;                                                                       \
      if (index >= 0 && index < extent) found = x[at[0] + index * stride];                         \
      out[at[2]] = found;                                                                          \
    }                                                                                              \
  }
/* Axis i of the result starts `before` elements before x. Positions outside x take the value, or
 * follow the mode of pad. */
typedef struct pad_t {
  int64_t count;
  int64_t rank;
  int64_t mode;
  int64_t x_first;
  int64_t out_first;
  int64_t shape[8];
  int64_t extents[8];
  int64_t before[8];
  int64_t x_strides[8];
  int64_t out_strides[8];
} pad_t;
#define P_CONSTANT 0
#define P_REFLECT 1
#define P_EDGE 2
FUNCTION int64_t pad_source(int64_t i, int64_t n, int64_t mode) { /* -1: the value */
  int64_t period = mode == P_REFLECT ? 2 * (n - 1) : n;
  if (i >= 0 && i < n) return i;
  if (mode == P_CONSTANT) return -1;
  if (mode == P_EDGE) return i < 0 ? 0 : n - 1;
  if (period == 0) return 0;
  i %= period;
  if (i < 0) i += period;
  return i < n ? i : period - i;
}
#define DEFINE_PAD(n)                                                                              \
  TENON_SOURCE_5(pad_##n, IN, uint##n##_t, x, IN, uint##n##_t, value, OUT, uint##n##_t, out,       \
                 VALUE, pad_t, p, VALUE, int64_t, value_at) {                                      \
    TENON_EACH(i, p.count) {                                                                       \
      int64_t rest = i;                                                                            \
      int64_t from = p.x_first;                                                                    \
      int64_t to = p.out_first;                                                                    \
      int is_inside = 1;                                                                           \
      for (int64_t d = p.rank - 1; d >= 0; d--) {                                                  \
        int64_t here = rest % p.shape[d];                                                          \
        int64_t at = pad_source(here - p.before[d], p.extents[d], p.mode);                         \
        rest /= p.shape[d];                                                                        \
        to += here * p.out_strides[d];                                                             \
        from += at * p.x_strides[d];                                                               \
        is_inside = is_inside && at >= 0;                                                          \
      }                                                                                            \
      uint##n##_t found = 0;                                                                       \
      if (is_inside)                                                                               \
        found = x[from];                                                                           \
      else if (value_at >= 0)                                                                      \
        found = value[value_at];                                                                   \
      out[to] = found;                                                                             \
    }                                                                                              \
  }
/* The walk's third and fourth tensor give the row and column of a matrix; elements that are not
 * kept become 0. */
#define DEFINE_TRILU(n)                                                                            \
  TENON_SOURCE_5(trilu_##n, IN, uint##n##_t, x, OUT, uint##n##_t, out, VALUE, tenon_walk_t, walk,  \
                 VALUE, int64_t, k, VALUE, int32_t, upper) {                                       \
    int64_t at[4];                                                                                 \
    TENON_EACH(i, walk.count) {                                                                    \
      tenon_walk(&walk, i, at);                                                                    \
      uint##n##_t found = x[at[0]];                                                                \
      const int keeps = upper ? at[3] >= at[2] + k : at[3] <= at[2] + k;                           \
      out[at[1]] = keeps ? found : 0;                                                              \
    }                                                                                              \
  }
SIZES(DEFINE_COPY)
SIZES(DEFINE_PAD)
SIZES(DEFINE_TRILU)
SIZES(DEFINE_WHERE)
SIZES(DEFINE_GATHER)

#ifndef TENON_ON_DEVICE
#define NUMBERS(n)                                                                                 \
  K_copy_##n, K_pad_##n, K_trilu_##n, K_where_##n, K_gather_##n##_32, K_gather_##n##_64,
enum { SIZES(NUMBERS) PER_SIZE = 6 };
#define KERNELS(n)                                                                                 \
  {"copy_" #n, copy_##n}, {"pad_" #n, pad_##n}, {"trilu_" #n, trilu_##n},                          \
      {"where_" #n, where_##n}, {"gather_" #n "_32", gather_##n##_32},                             \
      {"gather_" #n "_64", gather_##n##_64},
TENON_CODE(core_source_move_code, SIZES(KERNELS))
#define CODE &core_source_move_code

/* Selects the kernel for elements of this size, among those that start with K_..._8. */
static tenon_status_t of_size(tenon_call_t *call, const tenon_tensor_t *t, uint32_t kernel_8,
                              uint32_t *out_kernel) {
  uint32_t bits = (uint32_t)(t->dtype.bits * t->dtype.lanes);
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return DECLINE(call, "the source kernel moves elements of 1, 2, 4 or 8 bytes");
  *out_kernel = kernel_8 + PER_SIZE * size_log2(bits);
  return TENON_OK;
}

/* copies */

/* Moves the start of t by `elements`. On devices with addresses the offset is 0. */
static void shift_start(tenon_tensor_t *t, int64_t elements) {
  int64_t bytes = elements * element_size(t);
  if (bytes >= 0)
    t->byte_offset += (uint64_t)bytes;
  else if (t->byte_offset >= (uint64_t)-bytes)
    t->byte_offset -= (uint64_t)-bytes;
  else
    t->data = (char *)t->data + bytes;
}

/* Performs a move of copy.h on the device. */
static tenon_status_t run_move(tenon_call_t *call, move_t *move) {
  tenon_tensor_t from = *move->from;
  tenon_tensor_t to = *move->to;
  const tenon_tensor_t *tensors[2] = {&from, &to};
  uint32_t kernel = 0;
  tenon_walk_t walk;
  TENON_TRY(of_size(call, &to, K_copy_8, &kernel));
  from.ndim = to.ndim = move->ndim;
  from.shape = to.shape = move->shape;
  from.strides = move->from_strides;
  to.strides = move->to_strides;
  shift_start(&from, move->from_offset);
  shift_start(&to, move->to_offset);
  TENON_TRY(walk_set(call, tensors, 2, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(&from), tenon_out(&to), TENON_VALUE(walk)};
  return tenon_each(call, CODE, kernel, walk.count, arguments, 3);
}

tenon_status_t core_source_copy(tenon_call_t *call, const tenon_tensor_t *from,
                                tenon_tensor_t *to) {
  move_t move;
  move_begin(&move, to, from);
  for (int32_t i = 0; i < to->ndim; i++)
    move_axis(&move, to->shape[i], from->strides[i], to->strides[i]);
  return run_move(call, &move);
}

static tenon_status_t contiguous_run(tenon_call_t *call) {
  return core_source_copy(call, call->inputs[0], call->outputs[0]);
}

static tenon_status_t concat_run(tenon_call_t *call) {
  const tenon_tensor_t *list = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int64_t axis = call->attrs[0].as.i;
  int64_t begin = 0;
  axis += axis < 0 ? out->ndim : 0;
  for (int64_t n = 0; n < list->shape[0]; n++) {
    const tenon_tensor_t *x = tenon_item(list, n);
    move_t move;
    move_begin(&move, out, x);
    move.to_offset = begin * out->strides[axis];
    for (int32_t i = 0; i < x->ndim; i++)
      move_axis(&move, x->shape[i], x->strides[i], out->strides[i]);
    TENON_TRY(run_move(call, &move));
    begin += x->shape[axis];
  }
  return TENON_OK;
}

static tenon_status_t tile_run(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  move_t move;
  move_begin(&move, out, x);
  for (int32_t i = 0; i < x->ndim; i++) {
    move_axis(&move, x->shape[i] ? out->shape[i] / x->shape[i] : 0, 0,
              x->shape[i] * out->strides[i]);
    move_axis(&move, x->shape[i], x->strides[i], out->strides[i]);
  }
  return run_move(call, &move);
}

/* As in ../join.c: copies between [batch, channel and position within a block, height, width] and
 * [batch, channel, height, width]. */
static tenon_status_t blocks_move(tenon_call_t *call, const tenon_tensor_t *deep,
                                  const tenon_tensor_t *wide, int to_depth) {
  int64_t block = call->attrs[0].as.i;
  int64_t channels = wide->shape[1];
  int64_t channel_first = call->attrs[1].as.i;
  int64_t place = (channel_first ? 1 : channels) * deep->strides[1];
  int64_t channel = (channel_first ? block * block : 1) * deep->strides[1];
  const int64_t extent[6] = {wide->shape[0], channels,       deep->shape[2],
                             block,          deep->shape[3], block};
  const int64_t deep_strides[6] = {deep->strides[0], channel,          deep->strides[2],
                                   block * place,    deep->strides[3], place};
  const int64_t wide_strides[6] = {wide->strides[0],         wide->strides[1],
                                   block * wide->strides[2], wide->strides[2],
                                   block * wide->strides[3], wide->strides[3]};
  move_t move;
  move_begin(&move, call->outputs[0], call->inputs[0]);
  for (int i = 0; i < 6; i++)
    if (to_depth)
      move_axis(&move, extent[i], wide_strides[i], deep_strides[i]);
    else
      move_axis(&move, extent[i], deep_strides[i], wide_strides[i]);
  return run_move(call, &move);
}
static tenon_status_t to_space_run(tenon_call_t *call) {
  return blocks_move(call, call->inputs[0], call->outputs[0], 0);
}
static tenon_status_t to_depth_run(tenon_call_t *call) {
  return blocks_move(call, call->outputs[0], call->inputs[0], 1);
}

static tenon_status_t pad_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *pads = call->inputs[1];
  const tenon_tensor_t *value = call->inputs[2];
  const tenon_tensor_t *axes = call->inputs[3];
  const tenon_tensor_t *out = call->outputs[0];
  uint32_t kernel = 0;
  pad_t p = {.count = tenon_count(out), .rank = out->ndim, .mode = call->attrs[0].as.i};
  int64_t named = axes ? tenon_count(axes) : x->ndim;
  int64_t value_at = value ? 0 : -1;
  if (value && tenon_count(value) != 1)
    return tenon_fail(call, TENON_INVALID, "value has %" PRId64 " elements; expected one",
                      tenon_count(value));
  if (out->ndim > 8) return DECLINE(call, "the source kernel supports at most eight axes");
  TENON_TRY(of_size(call, x, K_pad_8, &kernel));
  p.x_first = below(x);
  p.out_first = below(out);
  for (int32_t i = 0; i < out->ndim; i++) {
    p.shape[i] = out->shape[i];
    p.extents[i] = x->shape[i];
    p.x_strides[i] = x->strides[i];
    p.out_strides[i] = out->strides[i];
  }
  for (int64_t i = 0; i < named; i++) {
    int64_t axis = axes ? tensor_int(axes, i) : i;
    int64_t at = tensor_int(pads, i);
    if (axis < 0) axis += x->ndim;
    p.before[axis] =
        at < TENON_DIM_LEAST ? TENON_DIM_LEAST : at; /* the same limit as in ints_read */
  }
  const tenon_kernel_argument_t arguments[] = {tenon_in(x), tenon_in(value ? value : x),
                                               tenon_out(out), TENON_VALUE(p),
                                               TENON_VALUE(value_at)};
  return tenon_each(call, CODE, kernel, p.count, arguments, 5);
}

static tenon_status_t trilu_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t k = call->inputs[1] ? tensor_int(call->inputs[1], 0) : 0;
  int64_t rows[TENON_RANK_MAX] = {0};
  int64_t columns[TENON_RANK_MAX] = {0};
  int32_t upper = call->attrs[0].as.i != 0;
  uint32_t kernel = 0;
  tenon_tensor_t row = *x;
  tenon_tensor_t column = *x;
  const tenon_tensor_t *const tensors[4] = {x, out, &row, &column};
  tenon_walk_t walk;
  rows[x->ndim - 2] = columns[x->ndim - 1] = 1;
  row.strides = rows;
  column.strides = columns;
  k = int_clamp(k, -INT64_MAX / 4, INT64_MAX / 4); /* so that sums do not overflow */
  TENON_TRY(of_size(call, x, K_trilu_8, &kernel));
  if (!tenon_walk_of(&walk, x->ndim, x->shape, tensors, 4))
    return DECLINE(call, "the source kernel supports at most eight axes that do not merge");
  const tenon_kernel_argument_t arguments[] = {tenon_in(x), tenon_out(out), TENON_VALUE(walk),
                                               TENON_VALUE(k), TENON_VALUE(upper)};
  return tenon_each(call, CODE, kernel, walk.count, arguments, 5);
}

static tenon_status_t where_run(tenon_call_t *call) {
  const tenon_tensor_t *tensors[4] = {call->inputs[0], call->inputs[1], call->inputs[2],
                                      call->outputs[0]};
  uint32_t kernel = 0;
  tenon_walk_t walk;
  TENON_TRY(of_size(call, tensors[3], K_where_8, &kernel));
  TENON_TRY(walk_set(call, tensors, 4, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]), tenon_in(tensors[1]),
                                               tenon_in(tensors[2]), tenon_out(tensors[3]),
                                               TENON_VALUE(walk)};
  return tenon_each(call, CODE, kernel, walk.count, arguments, 5);
}

/* gather */

/* The strides map x and the indices to the axes of the result; along `axis`, the index selects the
 * element of x. */
static tenon_status_t look_up(tenon_call_t *call, const int64_t *x_strides,
                              const int64_t *index_strides, int64_t axis) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  tenon_tensor_t from = *out;
  tenon_tensor_t by = *out;
  const tenon_tensor_t *tensors[3] = {&from, &by, out};
  uint32_t kernel = 0;
  tenon_walk_t walk;
  from.strides = (int64_t *)(uintptr_t)x_strides;
  by.strides = (int64_t *)(uintptr_t)index_strides;
  TENON_TRY(of_size(call, x, indices->dtype.bits == 32 ? K_gather_8_32 : K_gather_8_64, &kernel));
  TENON_TRY(walk_set(call, tensors, 3, &walk));
  walk.first[0] = below(x);
  walk.first[1] = below(indices);
  int64_t extent = x->shape[axis];
  int64_t stride = extent > 1 ? x->strides[axis] : 0;
  const tenon_kernel_argument_t arguments[] = {tenon_in(x),         tenon_in(indices),
                                               tenon_out(out),      TENON_VALUE(walk),
                                               TENON_VALUE(extent), TENON_VALUE(stride)};
  return tenon_each(call, CODE, kernel, walk.count, arguments, 6);
}

static tenon_status_t gather_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *indices = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t axis = call->attrs[0].as.i;
  int64_t x_strides[TENON_RANK_MAX], index_strides[TENON_RANK_MAX];
  axis += axis < 0 ? x->ndim : 0;
  for (int32_t i = 0; i < out->ndim; i++) {
    int is_index = i >= axis && i < axis + indices->ndim;
    int64_t own = i < axis ? i : i - indices->ndim + 1;
    x_strides[i] = is_index ? 0 : x->strides[own];
    index_strides[i] = is_index ? indices->strides[i - axis] : 0;
  }
  return look_up(call, x_strides, index_strides, axis);
}

static tenon_status_t gather_elements_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t axis = call->attrs[0].as.i;
  int64_t x_strides[TENON_RANK_MAX];
  axis += axis < 0 ? x->ndim : 0;
  for (int32_t i = 0; i < x->ndim; i++)
    x_strides[i] = i == axis ? 0 : x->strides[i];
  return look_up(call, x_strides, call->inputs[1]->strides, axis);
}

/* clang-format off */
TENON_ITEMS(core_source_move,
  TENON_EXTEND("core::contiguous", TENON_SOURCE("strided", contiguous_run)),
  TENON_EXTEND("core::concat", TENON_SOURCE("strided", concat_run)),
  TENON_EXTEND("core::tile", TENON_SOURCE("strided", tile_run)),
  TENON_EXTEND("core::depth_to_space", TENON_SOURCE("strided", to_space_run)),
  TENON_EXTEND("core::space_to_depth", TENON_SOURCE("strided", to_depth_run)),
  TENON_EXTEND("core::pad", TENON_SOURCE("strided", pad_run)),
  TENON_EXTEND("core::trilu", TENON_SOURCE("strided", trilu_run)),
  TENON_EXTEND("core::where", TENON_SOURCE("strided", where_run)),
  TENON_EXTEND("core::gather", TENON_SOURCE("strided", gather_run)),
  TENON_EXTEND("core::gather_elements", TENON_SOURCE("strided", gather_elements_run)))
/* clang-format on */
#endif
