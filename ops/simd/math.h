/* Elementary functions of f32 without branches, calls or tables, so that compilers vectorise loops
 * over them. Every family in this folder uses them; tests/unit/ops/math_test.c checks the error
 * bounds stated at each function.
 * Invariant: only IEEE operations in a fixed order (the build forbids contraction), so that a
 * result is the same, bit for bit, with every instruction set, in a vector or alone; tn_exp_downf
 * alone is an exception.
 *
 * Coefficients are minimax fits by Sollya 8, fpminimax(f, degree, [|SG...|], range, floating,
 * absolute), with [|D...|] for double; f and the range are stated beside them. Rounding by a magic
 * number and splitting ln 2 are as in Cody and Waite, "Software Manual for the Elementary
 * Functions" (1980), two-step scaling and the correction of log1p as in FreeBSD's msun. */
#ifndef TENON_OPS_MATH_H
#define TENON_OPS_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) /* a call that is not inlined keeps a loop from being vectorised */
#define TN_INLINE static inline __attribute__((always_inline))
#else
#define TN_INLINE static inline
#endif

TN_INLINE uint32_t tn_bits32(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
TN_INLINE float tn_float32(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
TN_INLINE uint64_t tn_bits64(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
TN_INLINE double tn_float64(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* rounding to integers; NaN and infinities are unchanged */

/* Rounds to nearest, ties to even. Adding 2^23 leaves no bits for a fraction. */
TN_INLINE float tn_rintf(float x) {
  float magic = copysignf(0x1p23f, x);
  float r = (x + magic) - magic;
  return copysignf(fabsf(x) < 0x1p23f ? r : x, x);
}
TN_INLINE double tn_rint(double x) {
  double magic = copysign(0x1p52, x);
  double r = (x + magic) - magic;
  return copysign(fabs(x) < 0x1p52 ? r : x, x);
}
TN_INLINE float tn_floorf(float x) {
  float r = tn_rintf(x);
  return copysignf(r > x ? r - 1 : r, x);
}
TN_INLINE double tn_floor(double x) {
  double r = tn_rint(x);
  return copysign(r > x ? r - 1 : r, x);
}
TN_INLINE float tn_ceilf(float x) { return -tn_floorf(-x); }
TN_INLINE double tn_ceil(double x) { return -tn_floor(-x); }
TN_INLINE float tn_truncf(float x) { return copysignf(tn_floorf(fabsf(x)), x); }
TN_INLINE double tn_trunc(double x) { return copysign(tn_floor(fabs(x)), x); }

/* exponential and logarithm */

#define TN_MAGIC32 0x1.8p23f /* x + TN_MAGIC32 holds round(x) in its low bits, for |x| < 2^22 */
#define TN_LN2_HIGH 0x1.63p-1f
#define TN_LN2_LOW -0x1.bd0106p-13f

/* a b + c, rounded once if `is_fused` and the instruction set can. */
TN_INLINE float tn_maddf(int is_fused, float a, float b, float c) {
#ifdef __FMA__
  if (is_fused) return __builtin_fmaf(a, b, c);
#endif
  (void)is_fused;
  return a * b + c;
}
/* Reduces x = n ln 2 + r with |r| <= ln 2 / 2. Returns exp(r) - 1 and gives n in two's complement.
 * |x| < 2^20. */
TN_INLINE float tn_exp_reduced(int is_fused, float x, uint32_t *n) {
  float m = tn_maddf(is_fused, x, 0x1.715476p0f, TN_MAGIC32);
  float k = m - TN_MAGIC32;
  float r = tn_maddf(is_fused, k, -TN_LN2_LOW, tn_maddf(is_fused, k, -TN_LN2_HIGH, x));
  /* (exp(r) - 1 - r) / r^2 on +-0.35; error 2^-25 of exp(r) - 1 */
  float p = tn_maddf(is_fused, r, 0x1.6d542p-10f, 0x1.12108p-7f);
  p = tn_maddf(is_fused, r, p, 0x1.5554e4p-5f);
  p = tn_maddf(is_fused, r, p, 0x1.5554d8p-3f);
  p = tn_maddf(is_fused, r, p, 0x1p-1f);
  *n = tn_bits32(m) - tn_bits32(TN_MAGIC32);
  return tn_maddf(is_fused, r * r, p, r);
}
/* Error 1.1 ulp, for denormal results too. */
TN_INLINE float tn_expf(float x) {
  uint32_t n, half;
  float p;
  x = x < -104 ? -104 : x; /* below, the result rounds to 0; NaN stays */
  x = x > 89 ? 89 : x;     /* above, the result is infinity */
  p = 1 + tn_exp_reduced(0, x, &n);
  half = ((n + 256) >> 1) - 128;
  return p * tn_float32((half + 127) << 23) *
         tn_float32((n - half + 127) << 23); /* only the last multiplication rounds */
}
/* exp(x) for x <= 0, error 1.1 ulp; 0 instead of denormal results. Faster than tn_expf, and with
 * fused multiply-add where there is one, so its last bit depends on the instruction set. */
TN_INLINE float tn_exp_downf(float x) {
  uint32_t n;
  float p = 1 + tn_exp_reduced(1, x, &n);
  p *= tn_float32((n + 127) << 23);
  return x < -0x1.5d589ep6f ? 0 : p; /* -126 log 2 */
}
/* exp(x) - 1, error 2 ulp. Computes half of the result first, because 2^n alone may be infinite
 * where the result is not. */
TN_INLINE float tn_expm1f(float x) {
  uint32_t n;
  float p, s;
  x = x < -25 ? -25 : x;
  x = x > 89 ? 89 : x;
  p = tn_exp_reduced(0, x, &n);
  s = tn_float32((n + 126) << 23);
  return 2 * (s * p + (s - 0.5f));
}
/* Error 1 ulp. */
TN_INLINE float tn_logf(float x) {
  int tiny = x < 0x1p-126f;
  float normal = tiny ? x * 0x1p23f : x;
  float e, f, p, r;
  /* subtracts the bits of sqrt(1/2): the mantissa then lies between that and twice that */
  uint32_t u = tn_bits32(normal) - 0x3f3504f3;
  e = (float)((int32_t)((u + 0x3f800000) >> 23) - (tiny ? 150 : 127));
  f = tn_float32((u & 0x7fffff) + 0x3f3504f3) - 1;
  /* (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]; error 2^-27 of log(1 + f) */
  p = 0x1.dc75e8p-4f + f * (-0x1.ddb2cep-4f + f * 0x1.2cb40ep-4f);
  p = -0x1.556288p-3f + f * (0x1.23de4p-3f + f * (-0x1.fbbf2ep-4f + f * p));
  p = 0x1.555554p-2f + f * (-0x1.ffffe6p-3f + f * (0x1.999d2ap-3f + f * p));
  r = f * f * f * p + e * TN_LN2_LOW;
  r = e * TN_LN2_HIGH + (f - (0.5f * f * f - r));
  r = x < INFINITY ? r : x;
  p = x == 0 ? -INFINITY : NAN;
  return x > 0 ? r : p;
}
/* log(1 + x) for 0 <= x <= 1, error 1.5 ulp: the logarithm of the rounded 1 + x, plus what the
 * rounding lost. */
TN_INLINE float tn_log1pf_unit(float x) {
  float w = 1 + x;
  return tn_logf(w) + (x - (w - 1)) / w;
}

/* functions of neural networks */

/* Error 1.5 ulp. */
TN_INLINE float tn_tanhf(float x) {
  float a = fabsf(x);
  float z = x * x;
  float p;
  float large = 1 - 2 / (tn_expf(2 * a) + 1);
  /* (tanh(x)/x - 1) / x^2 as a polynomial of x^2 on [0, 0.625^2]; error 2^-25 of tanh(x) */
  p = 0x1.110e16p-3f + z * (-0x1.b92674p-5f + z * (0x1.5813cp-6f + z * -0x1.8ff18p-8f));
  p = x + x * (z * (-0x1.555552p-2f + z * p));
  return copysignf(a < 0.625f ? p : large, x); /* p of -0 would be 0 */
}
/* Error 2.5 ulp, for denormal results too. */
TN_INLINE float tn_sigmoidf(float x) {
  float e = tn_expf(-fabsf(x));
  return (x < 0 ? e : 1) / (1 + e);
}
/* Error 1.5 ulp. */
TN_INLINE float tn_erff(float x) {
  float a = fabsf(x);
  float z = x * x;
  float small, q;
  /* erf(x)/x - 1 as a polynomial of x^2 on [0, 0.9]; error 2^-30 of erf(x) */
  small = 0x1.54a912p-8f + z * (-0x1.a92772p-11f + z * 0x1.592406p-14f);
  small = -0x1.812742p-2f + z * (0x1.ce2de2p-4f + z * (-0x1.b80b68p-6f + z * small));
  small = x + x * (0x1.06eba8p-3f + z * small);
  a = a > 4 ? 4 : a; /* from there on the result rounds to 1 */
  /* -log(erfc(x)) on [0.9, 4]; error 2^-28 of erf(x) */
  q = -0x1.35ba0cp-11f + a * (0x1.7c8044p-15f + a * -0x1.ae39b6p-20f);
  q = 0x1.c24222p-4f + a * (-0x1.af7dep-6f + a * (0x1.36046ep-8f + a * q));
  q = -0x1.34cb9ap-12f + a * (0x1.21505ap0f + a * (0x1.4394b8p-1f + a * q));
  return a < 0.9375f ? small : copysignf(1 - tn_expf(-q), x);
}
/* The probability that a normally distributed number is below x. Error 12 ulp from -3 on, 23 ulp
 * down to -8, 2^-24 above 0. Most of it comes from rounding the square of x. */
TN_INLINE float tn_normalf(float x) {
  float a = fabsf(x) > 15 ? 15 : fabsf(x); /* from there on the result rounds to 0 or 1 */
  float t = 1 / (1 + 0.3f * a);
  /* exp(a^2/2) / t times the probability below -a, as a polynomial of t; error 2^-22.7 */
  float p = 0.1285628833f +
            t * (-0.0536861895f + t * (0.2063564328f + t * (-0.1572048572f + t * 0.0356752135f)));
  p = 0.1196292958f + t * (0.1207540074f + t * (0.0999131408f + t * p));
  p = t * p * tn_expf(-0.5f * a * a);
  return x < 0 ? p : 1 - p;
}
TN_INLINE double tn_normal(double x) { return 0.5 * (1 + erf(x * 0.70710678118654752440)); }
/* Error 7 ulp where the result is normal. */
TN_INLINE float tn_erfcf(float x) {
  float a = fabsf(x) > 11 ? 11 : fabsf(x);            /* from there on the result rounds to 0 */
  float high = tn_float32(tn_bits32(a) & 0xfffff000); /* its square is exact */
  float t = 1 / (1 + 0.5f * a);
  /* log(erfc(x) / t) + x^2 as a polynomial of t on [0, 2/3]; error 2^-23 */
  float p = -0.18628806f +
            t * (0.27886807f +
                 t * (-1.13520398f + t * (1.48851587f + t * (-0.82215223f + t * 0.17087277f))));
  p = -1.26551223f + t * (1.00002368f + t * (0.37409196f + t * (0.09678418f + t * p)));
  p = t * tn_expf((high - a) * (high + a) + p) * tn_expf(-high * high);
  return x < 1 ? 1 - tn_erff(x) : p;
}

/* computed in double: sine, cosine, tangent, power */

#define TN_MAGIC64 0x1.8p52
/* The reduction below is exact enough up to this limit; beyond it, loops call libm. */
#define TN_TURN_LIMIT 0x1p20f

/* Reduces x = q pi/2 + r with |r| <= pi/4; the low bits of *q are the quadrant. The product of 33
 * bits of pi/2 and 20 bits of q is exact. */
TN_INLINE double tn_turn(double x, uint64_t *q) {
  double m = x * 0x1.45f306dc9c883p-1 + TN_MAGIC64;
  double k = m - TN_MAGIC64;
  *q = tn_bits64(m);
  return (x - k * 0x1.921fb544p0) - k * 0x1.0b4611a626331p-34;
}
TN_INLINE double
tn_sine(double r) { /* (sin(r)/r - 1) / r^2 as a polynomial of r^2 on [0, (pi/4)^2]; error 2^-35 */
  double z = r * r;
  double p = 0x1.11110deb44788p-7 + z * (-0x1.a013a20e13e7ap-13 + z * 0x1.6dbc30fc5613ep-19);
  return r + r * z * (-0x1.555555545c8dep-3 + z * p);
}
TN_INLINE double
tn_cosine(double r) { /* (cos(r) - 1) / r^2 as a polynomial of r^2 on [0, (pi/4)^2]; error 2^-31 */
  double z = r * r;
  double p = 0x1.55554cb0f9e01p-5 + z * (-0x1.6c0e01297538dp-10 + z * 0x1.9a6cb5c51daecp-16);
  return 1 + z * (-0x1.fffffffaaa2dcp-2 + z * p);
}
/* b if q is odd, otherwise a. Selects by bits, because SSE2 cannot compare 64-bit words. */
TN_INLINE double tn_choose(uint64_t q, double a, double b) {
  uint64_t mask = 0 - (q & 1);
  return tn_float64((tn_bits64(a) & ~mask) | (tn_bits64(b) & mask));
}
/* sin(x + shift pi/2), error 0.6 ulp for |x| <= TN_TURN_LIMIT. */
TN_INLINE float tn_wave(float x, uint64_t shift) {
  uint64_t q;
  double r = tn_turn((double)x, &q);
  double v;
  q += shift;
  v = tn_choose(q, tn_sine(r), tn_cosine(r));
  return (float)tn_float64(tn_bits64(v) ^ (q & 2) << 62);
}
TN_INLINE float tn_sinf(float x) {
  float y = tn_wave(x, 0);
  return x == 0 ? x : y; /* keeps -0 */
}
TN_INLINE float tn_cosf(float x) { return tn_wave(x, 1); }
TN_INLINE float tn_tanf(float x) {
  uint64_t q;
  double r = tn_turn((double)x, &q);
  double s = tn_sine(r);
  double c = tn_cosine(r);
  float y = (float)(tn_choose(q, s, -c) / tn_choose(q, c, s));
  return x == 0 ? x : y;
}

/* x to the power of y, where y is an integer of parity `odd` or, if not `whole`, not an integer.
 * Error 0.6 ulp. */
TN_INLINE float tn_power(float x, double y, int whole, int odd) {
  double a = (double)fabsf(x);
  double s, l, t, m, r, z;
  /* As in tn_logf: 1 minus sqrt(1/2), as bits. */
  uint64_t u = tn_bits64(a) + 0x00095f619980c433;
  /* log2(a): the exponent is converted to double by its bits. The mantissa is (1 + s) / (1 - s);
   * log2 of it is s times a polynomial of s^2 on [0, 0.0296]; error 2^-37. */
  l = tn_float64((u >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
  m = tn_float64((u & 0xfffffffffffff) + 0x3fe6a09e667f3bcd);
  s = (m - 1) / (m + 1);
  z = s * s;
  t = 0x1.ec709d0e49716p-1 +
      z * (0x1.2777836ba2a3ep-1 + z * (0x1.a58bd3c525e14p-2 + z * 0x1.5d08f7fe0aec5p-2));
  l += s * (0x1.71547652bf17bp1 + z * t);
  l = a < INFINITY ? l : a;
  l = a == 0 ? -INFINITY : l;
  t = y * l;
  t = t < -200 ? -200 : t; /* beyond, the result is 0 or infinite as f32; NaN stays */
  t = t > 200 ? 200 : t;
  m = t + TN_MAGIC64;
  r = t - (m - TN_MAGIC64);
  /* (2^r - 1) / r on +-0.501; error 2^-33 of 2^r */
  z = 0x1.5d874b0c0132p-10 + r * (0x1.4441426d64a5bp-13 + r * 0x1.00dd4b33cbec1p-16);
  z = 0x1.ebfbe046e9732p-3 + r * (0x1.c6b08dc6ebf89p-5 + r * (0x1.3b2a1a2d33948p-7 + r * z));
  z = 1 + r * (0x1.62e42fef95b3ap-1 + r * z);
  z = tn_float64(tn_bits64(z) + (tn_bits64(m) << 52));
  z = a == 1 && (x == 1 || y == y) ? 1 : z; /* 1 to any power is 1; so is -1 to an infinite power */
  z = t == t || a == 1 ? z : NAN;
  z = y == 0 ? 1 : z;
  z = x < 0 && x > -INFINITY && !whole ? NAN : z;
  z = odd ? copysign(1.0, (double)x) * z : z;
  /* Loops treat squares and cubes separately because they are common; both ways give the same
   * bits. */
  z = y == 2 ? a * a : z;
  return (float)(y == 3 ? (double)x * x * x : z);
}
/* x to the power of 0.5, which differs from sqrtf at -0 and -infinity. */
TN_INLINE float tn_rootf(float x) { return x == -INFINITY ? INFINITY : sqrtf(x) + 0.0f; }
TN_INLINE float tn_powf(float x, float y) {
  float half = 0.5f * y;
  int whole = tn_rintf(y) == y;
  int odd = whole && tn_rintf(half) != half;
  float z = tn_power(x, (double)y, whole, odd);
  return y == 0.5f ? tn_rootf(x) : z;
}

/* integers from doubles, defined where C leaves the cast undefined */

/* Rounds towards zero. NaN becomes 0; values out of range become the nearest number in range. */
TN_INLINE int64_t tn_int64(double x) {
  if (x >= 0x1p63) return INT64_MAX;
  if (x >= -0x1p63) return (int64_t)x;
  return x < 0 ? INT64_MIN : 0;
}
/* The same, but negative numbers wrap. */
TN_INLINE uint64_t tn_uint64(double x) {
  if (x >= 0x1p64) return UINT64_MAX;
  return x >= 0x1p63 ? (uint64_t)x : (uint64_t)tn_int64(x);
}
/* Like tn_int64, for 32 bits. */
TN_INLINE int32_t tn_int32(float x) {
  float below = x < 0 ? -0x1p31f : 0;
  float y = x >= -0x1p31f ? x : below;
  float inside = y >= 0x1p31f ? 0 : y;
  return y >= 0x1p31f ? INT32_MAX : (int32_t)inside;
}

/* the same names for f32 and f64 */

TN_INLINE double tn_sigmoid(double x) {
  double e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

#define TN_GENERIC(x, of_float, of_double) _Generic((x), float : of_float, double : of_double)
#define ABS(x) TN_GENERIC(x, fabsf, fabs)(x)
#define SQRT(x) TN_GENERIC(x, sqrtf, sqrt)(x)
#define RINT(x) TN_GENERIC(x, tn_rintf, tn_rint)(x)
#define FLOOR(x) TN_GENERIC(x, tn_floorf, tn_floor)(x)
#define CEIL(x) TN_GENERIC(x, tn_ceilf, tn_ceil)(x)
#define EXP(x) TN_GENERIC(x, tn_expf, exp)(x)
#define EXP_DOWN(x) TN_GENERIC(x, tn_exp_downf, exp)(x)
#define EXPM1(x) TN_GENERIC(x, tn_expm1f, expm1)(x)
#define LOG(x) TN_GENERIC(x, tn_logf, log)(x)
#define LOG1P_UNIT(x) TN_GENERIC(x, tn_log1pf_unit, log1p)(x)
#define TANH(x) TN_GENERIC(x, tn_tanhf, tanh)(x)
#define SIGMOID(x) TN_GENERIC(x, tn_sigmoidf, tn_sigmoid)(x)
#define ERF(x) TN_GENERIC(x, tn_erff, erf)(x)
#define NORMAL_CDF(x) TN_GENERIC(x, tn_normalf, tn_normal)(x)
#define ERFC(x) TN_GENERIC(x, tn_erfcf, erfc)(x)
#define ASIN(x) TN_GENERIC(x, asinf, asin)(x)
#define ACOS(x) TN_GENERIC(x, acosf, acos)(x)
#define ATAN(x) TN_GENERIC(x, atanf, atan)(x)
#define SINH(x) TN_GENERIC(x, sinhf, sinh)(x)
#define COSH(x) TN_GENERIC(x, coshf, cosh)(x)
#define ASINH(x) TN_GENERIC(x, asinhf, asinh)(x)
#define ACOSH(x) TN_GENERIC(x, acoshf, acosh)(x)
#define ATANH(x) TN_GENERIC(x, atanhf, atanh)(x)
#define FMOD(x, y) TN_GENERIC(x, fmodf, fmod)(x, y)
/* NaN if either operand is NaN, unlike C's fmin and fmax. */
#define LEAST(x, y) ((((x) < (y)) | ((x) != (x))) ? (x) : (y))
#define GREATEST(x, y) ((((x) > (y)) | ((x) != (x))) ? (x) : (y))

#endif
