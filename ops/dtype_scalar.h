/* Reads and writes single numbers of any plain dtype as double, for values that do not justify a
 * loop per dtype. Loops over f16 and bf16 belong in ops/simd/.
 * Invariant: rounding is to nearest, ties to even. */
#ifndef TENON_OPS_DTYPE_SCALAR_H
#define TENON_OPS_DTYPE_SCALAR_H

#include "simd/formats.h"
#include <tenon/op.h>

static inline float float_of_f16(uint16_t code) { return format_decode(&format_F16, code); }
static inline uint16_t f16_of_float(float x) {
  return (uint16_t)format_encode(&format_F16, x, format_F16.infinity);
}
static inline float float_of_bf16(uint16_t code) { return bf16_decode(code); }
static inline uint16_t bf16_of_float(float x) { return (uint16_t)bf16_encode(x); }

/* X(dtype, C type, conversion of a double before the cast). C leaves a cast undefined where the
 * value is out of range of the type. */
/* clang-format off */
#define NUMBERS_(X)                                                                                \
  X(F32, float, )                                                                                  \
  X(F64, double, )                                                                                 \
  X(BOOL, uint8_t, 0 !=)                                                                           \
  X(I8, int8_t, tn_int64)                                                                          \
  X(I16, int16_t, tn_int64)                                                                        \
  X(I32, int32_t, tn_int64)                                                                        \
  X(I64, int64_t, tn_int64)                                                                        \
  X(U8, uint8_t, tn_uint64)                                                                        \
  X(U16, uint16_t, tn_uint64)                                                                      \
  X(U32, uint32_t, tn_uint64)                                                                      \
  X(U64, uint64_t, tn_uint64)
/* clang-format on */

/* Is the dtype in the list above, or f16 or bf16? */
static inline int number_is(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
#define CASE(id, type, whole) case TENON_##id:
    NUMBERS_(CASE)
#undef CASE
  case TENON_F16:
  case TENON_BF16:
    return 1;
  default:
    return 0;
  }
}
/* Reads element i of dense memory as a double; 64-bit integers beyond 2^53 are rounded. Other
 * dtypes read as 0. */
static inline double number_get(tenon_dtype_t dtype, const void *data, int64_t i) {
  switch (tenon_dtype_id(dtype)) {
#define CASE(id, type, whole)                                                                      \
  case TENON_##id:                                                                                 \
    return (double)((const type *)data)[i];
    NUMBERS_(CASE)
#undef CASE
  case TENON_F16:
    return (double)float_of_f16(((const uint16_t *)data)[i]);
  case TENON_BF16:
    return (double)float_of_bf16(((const uint16_t *)data)[i]);
  default:
    return 0.0;
  }
}
/* Writes element i. Integers drop the fraction and keep the low bits; NaN becomes 0, and a value
 * beyond 64 bits becomes the nearest 64-bit number. */
static inline void number_set(tenon_dtype_t dtype, void *data, int64_t i, double value) {
  switch (tenon_dtype_id(dtype)) {
#define CASE(id, type, whole)                                                                      \
  case TENON_##id:                                                                                 \
    ((type *)data)[i] = (type)(whole(value));                                                      \
    break;
    NUMBERS_(CASE)
#undef CASE
  case TENON_F16:
    ((uint16_t *)data)[i] = f16_of_float((float)value);
    break;
  case TENON_BF16:
    ((uint16_t *)data)[i] = bf16_of_float((float)value);
    break;
  default:
    break;
  }
}

#endif
