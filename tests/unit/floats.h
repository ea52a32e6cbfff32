/* The meaning of the narrow floats, straight from their definitions (IEEE 754 for f16, its upper
 * half for bf16, the OCP and FNUZ papers for 8 bits). Tests compare conversions with this
 * reference, which is slow and plain on purpose. */
#ifndef TENON_TESTS_FLOATS_H
#define TENON_TESTS_FLOATS_H

#include <math.h>
#include <tenon/op.h>

enum float_style {
  FLOAT_IEEE,
  FLOAT_FN,
  FLOAT_FNUZ,
  FLOAT_SCALE,
}; /* how the largest patterns are interpreted */

typedef struct float_kind_t {
  uint32_t id;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  enum float_style style;
} float_kind_t;

static const float_kind_t float_kinds[] = {
    {TENON_F16, 5, 10, 15, FLOAT_IEEE},       {TENON_BF16, 8, 7, 127, FLOAT_IEEE},
    {TENON_F8E3M4, 3, 4, 3, FLOAT_IEEE},      {TENON_F8E4M3, 4, 3, 7, FLOAT_IEEE},
    {TENON_F8E5M2, 5, 2, 15, FLOAT_IEEE},     {TENON_F8E4M3FN, 4, 3, 7, FLOAT_FN},
    {TENON_F8E4M3FNUZ, 4, 3, 8, FLOAT_FNUZ},  {TENON_F8E4M3B11FNUZ, 4, 3, 11, FLOAT_FNUZ},
    {TENON_F8E5M2FNUZ, 5, 2, 16, FLOAT_FNUZ}, {TENON_F8E8M0, 8, 0, 127, FLOAT_SCALE},
};
enum { FLOAT_KINDS = sizeof float_kinds / sizeof *float_kinds };

static inline const float_kind_t *float_kind(tenon_dtype_t dtype) {
  for (int i = 0; i < FLOAT_KINDS; i++)
    if (float_kinds[i].id == tenon_dtype_id(dtype)) return &float_kinds[i];
  return NULL;
}

static inline double float_decode(const float_kind_t *kind, uint32_t bits) {
  uint32_t exponent = bits >> kind->mantissa_bits & ((1u << kind->exponent_bits) - 1);
  uint32_t mantissa = bits & ((1u << kind->mantissa_bits) - 1);
  uint32_t ones = (1u << kind->exponent_bits) - 1;
  int negative =
      kind->style != FLOAT_SCALE && bits >> (kind->exponent_bits + kind->mantissa_bits) & 1;
  double value;
  if (kind->style == FLOAT_SCALE)
    return exponent == ones ? (double)NAN : ldexp(1, (int)exponent - kind->bias);
  if (kind->style == FLOAT_FNUZ && negative && !exponent && !mantissa) return (double)NAN;
  if (kind->style == FLOAT_FN && exponent == ones && mantissa == (1u << kind->mantissa_bits) - 1)
    return (double)NAN;
  if (kind->style == FLOAT_IEEE && exponent == ones)
    value = mantissa ? (double)NAN : (double)INFINITY;
  else if (exponent == 0)
    value = ldexp(mantissa, 1 - kind->bias - kind->mantissa_bits);
  else
    value = ldexp(mantissa + (1u << kind->mantissa_bits),
                  (int)exponent - kind->bias - kind->mantissa_bits);
  return negative ? -value : value;
}

/* Returns the pattern of a number that the dtype represents exactly, or -1 if it cannot. NaN gives
 * some NaN. */
static inline int32_t float_encode(const float_kind_t *kind, double value) {
  uint32_t count = 1u << (kind->exponent_bits + kind->mantissa_bits + (kind->style != FLOAT_SCALE));
  for (uint32_t bits = 0; bits < count; bits++) {
    double has = float_decode(kind, bits);
    if (isnan(value) ? isnan(has) : has == value && !signbit(has) == !signbit(value))
      return (int32_t)bits;
  }
  return value == 0 ? 0 : -1;
}

#endif
