/* Floats of 16 bits and fewer: conversion to f32, and back by rounding to nearest, ties to even.
 * conversion.c calls these functions in loops, which are vectorised because there are no branches.
 * A code has the sign above exponent and mantissa, whatever their widths.
 * Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0;
 * for the `fnuz` formats Noune et al., "8-bit numerical formats for deep neural networks" (2022).
 * Invariant: a code that is not NaN is unchanged by conversion to f32 and back. */
#ifndef TENON_OPS_FORMATS_H
#define TENON_OPS_FORMATS_H

#include "math.h"

typedef struct format_t {
  uint32_t bits;
  uint32_t mantissa;
  uint32_t bias;
  uint32_t largest;  /* code of the largest finite number */
  uint32_t infinity; /* NO_CODE: the format has none */
  uint32_t nan; /* the code for NaN; codes above the largest number (or infinity) are read as NaN */
  uint32_t is_fnuz; /* zero has no sign; the code of -0 is the only NaN */
} format_t;

#define NO_CODE 0xffffffffu

/* clang-format off */
/* X(dtype, bits, mantissa, bias, largest, infinity, nan, fnuz) */
#define FORMATS(X)                                                                                 \
  X(F16, 16, 10, 15, 0x7bff, 0x7c00, 0x7e00, 0)                                                    \
  X(F8E3M4, 8, 4, 3, 0x6f, 0x70, 0x78, 0)                                                          \
  X(F8E4M3, 8, 3, 7, 0x77, 0x78, 0x7c, 0)                                                          \
  X(F8E4M3B11FNUZ, 8, 3, 11, 0x7f, NO_CODE, 0x80, 1)                                               \
  X(F8E4M3FN, 8, 3, 7, 0x7e, NO_CODE, 0x7f, 0)                                                     \
  X(F8E4M3FNUZ, 8, 3, 8, 0x7f, NO_CODE, 0x80, 1)                                                   \
  X(F8E5M2, 8, 2, 15, 0x7b, 0x7c, 0x7e, 0)                                                         \
  X(F8E5M2FNUZ, 8, 2, 16, 0x7f, NO_CODE, 0x80, 1)                                                  \
  X(F4E2M1, 4, 1, 1, 0x7, NO_CODE, 0x8, 0)
/* clang-format on */

#define DEFINE_FORMAT(name, bits, mantissa, bias, largest, infinity, nan, fnuz)                    \
  static const format_t format_##name = {bits, mantissa, bias, largest, infinity, nan, fnuz};
FORMATS(DEFINE_FORMAT)

TN_INLINE float format_decode(const format_t *f, uint32_t code) {
  uint32_t half = 1u << (f->bits - 1);
  uint32_t a = code & (half - 1);
  uint32_t sign = (code & half) << (32 - f->bits);
  /* value of the last place of a subnormal code */
  uint32_t scale = (128 - f->bias - f->mantissa) << 23;
  float normal = tn_float32((a << (23 - f->mantissa)) + ((127 - f->bias) << 23));
  float subnormal = (float)(int32_t)a * tn_float32(scale);
  float x = a >> f->mantissa ? normal : subnormal;
  x = a > f->largest ? NAN : x;
  x = a == f->infinity ? INFINITY : x;
  x = (f->is_fnuz & (code == half)) ? NAN : x;
  return tn_float32(tn_bits32(x) | sign);
}

/* `overflow` is the code, without sign, for numbers that are too large. */
TN_INLINE uint32_t format_encode(const format_t *f, float x, uint32_t overflow) {
  uint32_t u = tn_bits32(x);
  uint32_t a = u & 0x7fffffff;
  uint32_t m = 23 - f->mantissa;
  uint32_t code, subnormal;
  float magic = tn_float32((151 - f->bias - f->mantissa)
                           << 23); /* its last place is the least subnormal number */
  subnormal = tn_bits32(tn_float32(a) + magic) - tn_bits32(magic);
  code = ((a + (1u << (m - 1)) - 1 + ((a >> m) & 1)) >> m) - ((127 - f->bias) << f->mantissa);
  code = a < (128 - f->bias) << 23 ? subnormal : code;
  code = code > f->largest ? overflow : code;
  code = a > 0x7f800000 ? f->nan : code;
  return code | ((f->is_fnuz & (code == 0)) ? 0 : (u >> 31) << (f->bits - 1));
}

TN_INLINE float bf16_decode(uint32_t code) { return tn_float32(code << 16); }
TN_INLINE uint32_t bf16_encode(float x) {
  uint32_t u = tn_bits32(x);
  uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return x != x ? u >> 16 | 0x40 : rounded; /* quiet NaN */
}

/* A power of two from 2^-127 on, or NaN (255). */
TN_INLINE float e8m0_decode(uint32_t code) {
  uint32_t bits = code == 255 ? 0x7fc00000 : code << 23;
  return tn_float32(code == 0 ? 0x400000 : bits);
}
enum {
  ROUND_UP,
  ROUND_DOWN,
  ROUND_NEAREST,
}; /* as in the schema of cast */
/* Encodes the magnitude of x. 1.5 times a power of two rounds up. With `saturate`, numbers out of
 * range and zero become the end of the range, otherwise NaN. */
TN_INLINE uint32_t e8m0_encode(float x, int saturate, int64_t rounding) {
  uint32_t a = tn_bits32(x) & 0x7fffffff;
  uint32_t code = a >> 23;
  uint32_t fraction = a & 0x7fffff;
  fraction = code ? fraction : fraction << 1 & 0x7fffff;
  uint32_t most = saturate ? 254 : 255;
  uint32_t least = saturate ? 0 : 255;
  uint32_t nearest = rounding == ROUND_NEAREST ? fraction >> 22 : 0;
  code += rounding == ROUND_UP ? fraction != 0 : nearest;
  code = code > 254 ? most : code;
  code = a < 0x400000 ? least : code;
  return a > 0x7f800000 ? 255 : code;
}

/* Rounds to f32 such that rounding again, to a narrower format, equals rounding once: an inexact
 * number becomes the neighbour whose last bit is 1 (Boldo and Melquiond, "Emulation of FMA and
 * correctly rounded sums", 2008). */
TN_INLINE float f32_odd(double x) {
  float f = (float)x;
  uint32_t u = tn_bits32(f);
  int inexact = ((double)f != x) & (x == x);
  u -= (uint32_t)(inexact & (fabs((double)f) > fabs(x)));
  return tn_float32(u | (uint32_t)inexact);
}
TN_INLINE float f32_odd_of_integer(uint64_t magnitude, int negative) {
  uint64_t lost = magnitude & 0x7ff;
  double x = magnitude >> 53 ? (double)(magnitude >> 11 | (lost != 0)) * 0x1p11 : (double)magnitude;
  return f32_odd(negative ? -x : x);
}

#endif
