/* cast, for devices that compile: through int64 or float, between the dtypes that device languages
 * have.
 * Invariant: every number is rounded once. */
#ifndef TENON_ON_DEVICE
#include "launch.h"
#endif

#define C_BOOL 0
#define C_U8 1
#define C_I8 2
#define C_U16 3
#define C_I16 4
#define C_U32 5
#define C_I32 6
#define C_I64 7
#define C_F32 8 /* from here on floats */
#define C_F16 9
#define C_BF16 10

/* f32 with its last bit set if it is inexact, which then rounds correctly to narrower formats. */
FUNCTION float odd_of_integer(int64_t x) {
  float f = (float)x;
  uint32_t bits = bits_of_float(f);
  int64_t back = fabs(f) < 9223372036854775808.0f ? (int64_t)f : 0;
  if (back == x) return f;
  if (fabs(f) >= 9223372036854775808.0f || (x < 0 ? back < x : back > x)) bits--;
  return float_of_bits(bits | 1);
}
FUNCTION int64_t integer_of_float(float x, int32_t to) { /* rounds towards zero; NaN becomes 0 */
  float limit = to == C_I64 || to == C_U32 ? 9223372036854775808.0f : 2147483648.0f;
  int64_t most = to == C_I64 || to == C_U32 ? 9223372036854775807 : 2147483647;
  if (x >= limit) return most;
  if (x >= -limit) return (int64_t)x;
  return x < 0 ? -most - 1 : 0;
}
TENON_SOURCE_5(cast_any, IN, uint8_t, x, OUT, uint8_t, out, VALUE, tenon_walk_t, walk, VALUE,
               int32_t, from, VALUE, int32_t, to) {
  int64_t at[4];
  TENON_EACH(i, walk.count) {
    tenon_walk(&walk, i, at);
    int64_t a = at[0];
    int64_t b = at[1];
    int64_t whole = 0;
    float real = 0;
    switch (from) {
    case C_BOOL:
      whole = x[a] != 0;
      break;
    case C_U8:
      whole = x[a];
      break;
    case C_I8:
      whole = ((GLOBAL const int8_t *)x)[a];
      break;
    case C_U16:
      whole = ((GLOBAL const uint16_t *)x)[a];
      break;
    case C_I16:
      whole = ((GLOBAL const int16_t *)x)[a];
      break;
    case C_U32:
      whole = ((GLOBAL const uint32_t *)x)[a];
      break;
    case C_I32:
      whole = ((GLOBAL const int32_t *)x)[a];
      break;
    case C_I64:
      whole = ((GLOBAL const int64_t *)x)[a];
      break;
    case C_F32:
      real = ((GLOBAL const float *)x)[a];
      break;
    case C_F16:
      real = load_f16((GLOBAL const uint16_t *)x, a);
      break;
    default:
      real = load_bf16((GLOBAL const uint16_t *)x, a);
      break;
    }
    if (to == C_BOOL)
      whole = from >= C_F32 ? real != 0 : whole != 0;
    else if (to < C_F32)
      whole = from >= C_F32 ? integer_of_float(real, to) : whole;
    else if (from < C_F32)
      real = to == C_F32 ? (float)whole : odd_of_integer(whole);
    switch (to) {
    case C_BOOL:
    case C_U8:
    case C_I8:
      out[b] = (uint8_t)whole;
      break;
    case C_U16:
    case C_I16:
      ((GLOBAL uint16_t *)out)[b] = (uint16_t)whole;
      break;
    case C_U32:
    case C_I32:
      ((GLOBAL uint32_t *)out)[b] = (uint32_t)whole;
      break;
    case C_I64:
      ((GLOBAL int64_t *)out)[b] = whole;
      break;
    case C_F32:
      ((GLOBAL float *)out)[b] = real;
      break;
    case C_F16:
      store_f16((GLOBAL uint16_t *)out, b, real);
      break;
    default:
      store_bf16((GLOBAL uint16_t *)out, b, real);
      break;
    }
  }
}

#ifndef TENON_ON_DEVICE
TENON_CODE(core_source_cast_code, {"cast_any", cast_any})

static int32_t code_of(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_BOOL:
    return C_BOOL;
  case TENON_U8:
    return C_U8;
  case TENON_I8:
    return C_I8;
  case TENON_U16:
    return C_U16;
  case TENON_I16:
    return C_I16;
  case TENON_U32:
    return C_U32;
  case TENON_I32:
    return C_I32;
  case TENON_I64:
    return C_I64;
  case TENON_F32:
    return C_F32;
  case TENON_F16:
    return C_F16;
  case TENON_BF16:
    return C_BF16;
  default:
    return -1;
  }
}

static tenon_status_t cast_run(tenon_call_t *call) {
  const tenon_tensor_t *tensors[2] = {call->inputs[0], call->outputs[0]};
  int32_t from = code_of(tensors[0]->dtype);
  int32_t to = code_of(tensors[1]->dtype);
  tenon_walk_t walk;
  if (from < 0 || to < 0)
    return DECLINE(call, "the source kernel supports bool, integers except u64, f16, bf16 and f32");
  TENON_TRY(walk_set(call, tensors, 2, &walk));
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]), tenon_out(tensors[1]),
                                               TENON_VALUE(walk), TENON_VALUE(from),
                                               TENON_VALUE(to)};
  return tenon_each(call, &core_source_cast_code, 0, walk.count, arguments, 5);
}

/* clang-format off */
TENON_ITEMS(core_source_cast,
  TENON_EXTEND("core::cast", TENON_SOURCE("strided", cast_run)),
  TENON_EXTEND("core::cast_like", TENON_SOURCE("strided", cast_run)))
/* clang-format on */
#endif
