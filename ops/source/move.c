/* Operators that move elements, or change their dtype, for devices that compile: copies between any strides, of which concat,
 * tile, pad and the blocks are made, where, gather, cast.
 * Invariant: elements are moved as words of their size; an index is checked before it is used. */
#ifndef TENON_ON_DEVICE
#include "../copy.h"
#include "launch.h"
#include <string.h>
#endif

#define SIZES(X) X(8) X(16) X(32) X(64)

#define DEFINE_COPY(n)                                                                                                 \
  TENON_SOURCE_3(copy_##n, IN, uint##n##_t, x, OUT, uint##n##_t, out, VALUE, tenon_walk_t, walk) {                     \
    int64_t at[4];                                                                                                     \
    TENON_EACH(i, walk.count) {                                                                                        \
      tenon_walk(&walk, i, at);                                                                                        \
      out[at[1]] = x[at[0]];                                                                                           \
    }                                                                                                                  \
  }
#define DEFINE_FILL(n)                                                                                                 \
  TENON_SOURCE_3(fill_##n, OUT, uint##n##_t, out, VALUE, tenon_walk_t, walk, VALUE, uint##n##_t, value) {              \
    int64_t at[4];                                                                                                     \
    TENON_EACH(i, walk.count) {                                                                                        \
      tenon_walk(&walk, i, at);                                                                                        \
      out[at[0]] = value;                                                                                              \
    }                                                                                                                  \
  }
#define DEFINE_WHERE(n)                                                                                                \
  TENON_SOURCE_5(where_##n, IN, uint8_t, condition, IN, uint##n##_t, a, IN, uint##n##_t, b, OUT, uint##n##_t, out,     \
                 VALUE, tenon_walk_t, walk) {                                                                          \
    int64_t at[4];                                                                                                     \
    TENON_EACH(i, walk.count) {                                                                                        \
      tenon_walk(&walk, i, at);                                                                                        \
      uint##n##_t yes = a[at[1]], no = b[at[2]];                                                                       \
      out[at[3]] = condition[at[0]] ? yes : no;                                                                        \
    }                                                                                                                  \
  }
/* The element of x that is `stride` times an index further; 0 where the index is outside [-extent, extent). */
#define DEFINE_GATHER(n) DEFINE_GATHER_BY(n, 32) DEFINE_GATHER_BY(n, 64)
#define DEFINE_GATHER_BY(n, m)                                                                                         \
  TENON_SOURCE_6(gather_##n##_##m, IN, uint##n##_t, x, IN, int##m##_t, indices, OUT, uint##n##_t, out, VALUE,          \
                 tenon_walk_t, walk, VALUE, int64_t, extent, VALUE, int64_t, stride) {                                 \
    int64_t at[4];                                                                                                     \
    TENON_EACH(i, walk.count) {                                                                                        \
      tenon_walk(&walk, i, at);                                                                                        \
      int64_t index = indices[at[1]];                                                                                  \
      index += index < 0 ? extent : 0;                                                                                 \
      uint##n##_t found = 0;                                                                                           \
      if (index >= 0 && index < extent) found = x[at[0] + index * stride];                                             \
      out[at[2]] = found;                                                                                              \
    }                                                                                                                  \
  }
SIZES(DEFINE_COPY)
SIZES(DEFINE_FILL)
SIZES(DEFINE_WHERE)
SIZES(DEFINE_GATHER)

/* ---- cast: by way of int64 or float ------------------------------------------------------------------------------- */

#define C_BOOL 0
#define C_U8 1
#define C_I8 2
#define C_U16 3
#define C_I16 4
#define C_U32 5
#define C_I32 6
#define C_I64 7
#define C_F32 8 /* the floats from here on */
#define C_F16 9
#define C_BF16 10

/* f32 with its last bit set where it is not exact, which rounds rightly to what has fewer bits. */
FUNCTION float odd_of_integer(int64_t x) {
  float f = (float)x;
  uint32_t bits = bits_of_float(f);
  int64_t back = fabs(f) < 9223372036854775808.0f ? (int64_t)f : 0;
  if (back == x) return f;
  if (fabs(f) >= 9223372036854775808.0f || (x < 0 ? back < x : back > x)) bits--;
  return float_of_bits(bits | 1);
}
FUNCTION int64_t integer_of_float(float x, int32_t to) { /* towards zero; NaN is 0 */
  float limit = to == C_I64 || to == C_U32 ? 9223372036854775808.0f : 2147483648.0f;
  int64_t most = to == C_I64 || to == C_U32 ? 9223372036854775807 : 2147483647;
  return x >= limit ? most : x >= -limit ? (int64_t)x : x < 0 ? -most - 1 : 0;
}
TENON_SOURCE_5(cast_any, IN, uint8_t, x, OUT, uint8_t, out, VALUE, tenon_walk_t, walk, VALUE, int32_t, from, VALUE,
               int32_t, to) {
  int64_t at[4];
  TENON_EACH(i, walk.count) {
    tenon_walk(&walk, i, at);
    int64_t a = at[0], b = at[1], whole = 0;
    float real = 0;
    switch (from) {
    case C_BOOL: whole = x[a] != 0; break;
    case C_U8: whole = x[a]; break;
    case C_I8: whole = ((GLOBAL const int8_t *)x)[a]; break;
    case C_U16: whole = ((GLOBAL const uint16_t *)x)[a]; break;
    case C_I16: whole = ((GLOBAL const int16_t *)x)[a]; break;
    case C_U32: whole = ((GLOBAL const uint32_t *)x)[a]; break;
    case C_I32: whole = ((GLOBAL const int32_t *)x)[a]; break;
    case C_I64: whole = ((GLOBAL const int64_t *)x)[a]; break;
    case C_F32: real = ((GLOBAL const float *)x)[a]; break;
    case C_F16: real = load_f16((GLOBAL const uint16_t *)x, a); break;
    default: real = load_bf16((GLOBAL const uint16_t *)x, a); break;
    }
    if (to == C_BOOL) whole = from >= C_F32 ? real != 0 : whole != 0;
    else if (to < C_F32) whole = from >= C_F32 ? integer_of_float(real, to) : whole;
    else if (from < C_F32) real = to == C_F32 ? (float)whole : odd_of_integer(whole);
    switch (to) {
    case C_BOOL:
    case C_U8:
    case C_I8: out[b] = (uint8_t)whole; break;
    case C_U16:
    case C_I16: ((GLOBAL uint16_t *)out)[b] = (uint16_t)whole; break;
    case C_U32:
    case C_I32: ((GLOBAL uint32_t *)out)[b] = (uint32_t)whole; break;
    case C_I64: ((GLOBAL int64_t *)out)[b] = whole; break;
    case C_F32: ((GLOBAL float *)out)[b] = real; break;
    case C_F16: store_f16((GLOBAL uint16_t *)out, b, real); break;
    default: store_bf16((GLOBAL uint16_t *)out, b, real); break;
    }
  }
}

#ifndef TENON_ON_DEVICE
#define NUMBERS(n) K_copy_##n, K_fill_##n, K_where_##n, K_gather_##n##_32, K_gather_##n##_64,
enum { SIZES(NUMBERS) K_cast, PER_SIZE = 5 };
#define KERNELS(n)                                                                                                     \
  {"copy_" #n, copy_##n}, {"fill_" #n, fill_##n}, {"where_" #n, where_##n}, {"gather_" #n "_32", gather_##n##_32},     \
      {"gather_" #n "_64", gather_##n##_64},
TENON_CODE(core_source_move_code, SIZES(KERNELS){"cast_any", cast_any})
#define CODE &core_source_move_code

/* The kernel for elements like these, of those that stand where K_..._8 does. */
static tenon_status_t of_size(tenon_call_t *call, const tenon_tensor_t *t, uint32_t kernel_8, uint32_t *out_kernel) {
  uint32_t bits = (uint32_t)(t->dtype.bits * t->dtype.lanes);
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return DECLINE(call, "its source kernel moves elements of 1, 2, 4 or 8 bytes");
  *out_kernel = kernel_8 + PER_SIZE * (bits == 8 ? 0u : bits == 16 ? 1u : bits == 32 ? 2u : 3u);
  return TENON_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------- */

/* Elements further, or back: on devices with addresses the offset is 0. */
static void shift(tenon_tensor_t *t, int64_t elements) {
  int64_t bytes = elements * element_size(t);
  if (bytes >= 0) t->byte_offset += (uint64_t)bytes;
  else if (t->byte_offset >= (uint64_t)-bytes) t->byte_offset -= (uint64_t)-bytes;
  else t->data = (char *)t->data + bytes;
}

/* A move of copy.h, on the device. */
static tenon_status_t run_move(tenon_call_t *call, move_t *move) {
  tenon_tensor_t from = *move->from, to = *move->to;
  const tenon_tensor_t *tensors[2] = {&from, &to};
  uint32_t kernel = 0;
  tenon_walk_t walk;
  TENON_TRY(of_size(call, &to, K_copy_8, &kernel));
  from.ndim = to.ndim = move->ndim, from.shape = to.shape = move->shape;
  from.strides = move->from_strides, to.strides = move->to_strides;
  shift(&from, move->from_offset);
  shift(&to, move->to_offset);
  TENON_TRY(walk_set(call, tensors, 2, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(&from), tenon_out(&to), TENON_VALUE(walk)};
  return tenon_each(call, CODE, kernel, walk.count, arguments, 3);
}

tenon_status_t core_source_copy(tenon_call_t *call, const tenon_tensor_t *from, tenon_tensor_t *to) {
  move_t move;
  move_begin(&move, to, from);
  for (int32_t i = 0; i < to->ndim; i++) move_axis(&move, to->shape[i], from->strides[i], to->strides[i]);
  return run_move(call, &move);
}

static tenon_status_t contiguous_run(tenon_call_t *call) {
  return core_source_copy(call, call->inputs[0], call->outputs[0]);
}

static tenon_status_t concat_run(tenon_call_t *call) {
  const tenon_tensor_t *list = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int64_t axis = call->attrs[0].as.i, begin = 0;
  axis += axis < 0 ? out->ndim : 0;
  for (int64_t n = 0; n < list->shape[0]; n++) {
    const tenon_tensor_t *x = tenon_item(list, n);
    move_t move;
    move_begin(&move, out, x);
    move.to_offset = begin * out->strides[axis];
    for (int32_t i = 0; i < x->ndim; i++) move_axis(&move, x->shape[i], x->strides[i], out->strides[i]);
    TENON_TRY(run_move(call, &move));
    begin += x->shape[axis];
  }
  return TENON_OK;
}

static tenon_status_t where_run(tenon_call_t *call) {
  const tenon_tensor_t *tensors[4] = {call->inputs[0], call->inputs[1], call->inputs[2], call->outputs[0]};
  uint32_t kernel = 0;
  tenon_walk_t walk;
  TENON_TRY(of_size(call, tensors[3], K_where_8, &kernel));
  TENON_TRY(walk_set(call, tensors, 4, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]), tenon_in(tensors[1]), tenon_in(tensors[2]),
                                               tenon_out(tensors[3]), TENON_VALUE(walk)};
  return tenon_each(call, CODE, kernel, walk.count, arguments, 5);
}

/* ---- gather ------------------------------------------------------------------------------------------------------- */

/* x and the indices as they lie along the result's axes; along `axis` x is looked up in. */
static tenon_status_t look_up(tenon_call_t *call, const int64_t *x_strides, const int64_t *index_strides,
                              int64_t axis) {
  const tenon_tensor_t *x = call->inputs[0], *indices = call->inputs[1], *out = call->outputs[0];
  tenon_tensor_t from = *out, by = *out;
  const tenon_tensor_t *tensors[3] = {&from, &by, out};
  uint32_t kernel = 0;
  tenon_walk_t walk;
  from.strides = (int64_t *)(uintptr_t)x_strides, by.strides = (int64_t *)(uintptr_t)index_strides;
  TENON_TRY(of_size(call, x, indices->dtype.bits == 32 ? K_gather_8_32 : K_gather_8_64, &kernel));
  TENON_TRY(walk_set(call, tensors, 3, &walk));
  walk.first[0] = below(x), walk.first[1] = below(indices);
  int64_t extent = x->shape[axis], stride = extent > 1 ? x->strides[axis] : 0;
  const tenon_kernel_argument_t arguments[] = {tenon_in(x),       tenon_in(indices),   tenon_out(out),
                                               TENON_VALUE(walk), TENON_VALUE(extent), TENON_VALUE(stride)};
  return tenon_each(call, CODE, kernel, walk.count, arguments, 6);
}

static tenon_status_t gather_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0], *indices = call->inputs[1], *out = call->outputs[0];
  int64_t axis = call->attrs[0].as.i, x_strides[TENON_RANK_MAX], index_strides[TENON_RANK_MAX];
  axis += axis < 0 ? x->ndim : 0;
  for (int32_t i = 0; i < out->ndim; i++) {
    int is_index = i >= axis && i < axis + indices->ndim;
    x_strides[i] = is_index ? 0 : x->strides[i < axis ? i : i - indices->ndim + 1];
    index_strides[i] = is_index ? indices->strides[i - axis] : 0;
  }
  return look_up(call, x_strides, index_strides, axis);
}

static tenon_status_t gather_elements_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t axis = call->attrs[0].as.i, x_strides[TENON_RANK_MAX];
  axis += axis < 0 ? x->ndim : 0;
  for (int32_t i = 0; i < x->ndim; i++) x_strides[i] = i == axis ? 0 : x->strides[i];
  return look_up(call, x_strides, call->inputs[1]->strides, axis);
}

/* ---- cast --------------------------------------------------------------------------------------------------------- */

static int32_t code_of(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_BOOL: return C_BOOL;
  case TENON_U8: return C_U8;
  case TENON_I8: return C_I8;
  case TENON_U16: return C_U16;
  case TENON_I16: return C_I16;
  case TENON_U32: return C_U32;
  case TENON_I32: return C_I32;
  case TENON_I64: return C_I64;
  case TENON_F32: return C_F32;
  case TENON_F16: return C_F16;
  case TENON_BF16: return C_BF16;
  default: return -1;
  }
}

static tenon_status_t cast_run(tenon_call_t *call) {
  const tenon_tensor_t *tensors[2] = {call->inputs[0], call->outputs[0]};
  int32_t from = code_of(tensors[0]->dtype), to = code_of(tensors[1]->dtype);
  tenon_walk_t walk;
  if (from < 0 || to < 0) return DECLINE(call, "its source kernel has no such dtypes");
  TENON_TRY(walk_set(call, tensors, 2, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]), tenon_out(tensors[1]), TENON_VALUE(walk),
                                               TENON_VALUE(from), TENON_VALUE(to)};
  return tenon_each(call, CODE, K_cast, walk.count, arguments, 5);
}

/* clang-format off */
TENON_ITEMS(core_source_move,
  TENON_EXTEND("core::contiguous", TENON_SOURCE("strided", contiguous_run)),
  TENON_EXTEND("core::concat", TENON_SOURCE("strided", concat_run)),
  TENON_EXTEND("core::where", TENON_SOURCE("strided", where_run)),
  TENON_EXTEND("core::gather", TENON_SOURCE("strided", gather_run)),
  TENON_EXTEND("core::gather_elements", TENON_SOURCE("strided", gather_elements_run)),
  TENON_EXTEND("core::cast", TENON_SOURCE("strided", cast_run)),
  TENON_EXTEND("core::cast_like", TENON_SOURCE("strided", cast_run)))
/* clang-format on */
#endif
