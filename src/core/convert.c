/* Conversions between float formats. The conversions of f16 and bf16 are branch-free so that
 * compilers vectorise them; the 8-bit formats share one pair of functions driven by a table of
 * layouts. Called by the loop and row drivers. */
#include "core/convert.h"

#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/half.h"

static inline uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static inline float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

/* Shifts the bits into place and scales the exponent by a multiplication. */
static inline float from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
  float scaled = float_of(rest) * 0x1p112f;
  uint32_t special = rest >= 0x0f800000u ? 0x7f800000u : 0;
  uint32_t quiet = rest > 0x0f800000u ? 0x00400000u : 0; /* as instructions do with a NaN */
  return float_of(sign | bits_of(scaled) | special | quiet);
}

static inline uint16_t to_f16(float f) {
  uint32_t u = bits_of(f);
  uint32_t sign = u >> 16 & 0x8000;
  uint32_t m = u & 0x7fffffffu;
  uint32_t normal = (m - 0x38000000u + 0xfffu + (m >> 13 & 1)) >> 13;
  uint32_t tiny = bits_of(float_of(m < 0x38800000u ? m : 0) + 0.5f) - 0x3f000000u;
  uint32_t wide = m > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t value = m < 0x38800000u ? tiny : normal;
  value = m >= 0x477ff000u ? wide : value;
  return (uint16_t)(sign | value);
}

/* Converts a double to a float with rounding to odd. Rounding that float once more to a narrower
 * format gives the same result as rounding the double directly. */
static inline float to_odd(double d) {
  float f = (float)d;
  if ((double)f == d || d != d) return f;
  uint32_t u = bits_of(f);
  if (fabs((double)f) > fabs(d)) u--;
  return float_of(u | 1);
}

static inline float from_bf16(uint16_t h) { return float_of((uint32_t)h << 16); }

static inline uint16_t to_bf16(float f) {
  uint32_t u = bits_of(f);
  uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  uint32_t nan = (u >> 16) | 64;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* Layout of an 8-bit float format. */
typedef struct layout_t {
  uint8_t code;
  uint8_t mantissa;
  uint8_t bias;
  uint8_t max; /* largest finite magnitude */
  /* 0 if the format has no NaN; with is_fnuz the pattern of negative zero is the NaN */
  uint8_t nan;
  bool has_infinity;
  bool is_fnuz;
  bool is_unsigned;
} layout_t;

static const layout_t layouts[] = {
    {7, 4, 3, 0x6f, 0x7f, true, false, false},   {8, 3, 7, 0x77, 0x7f, true, false, false},
    {9, 3, 11, 0x7f, 0x80, false, true, false},  {10, 3, 7, 0x7e, 0x7f, false, false, false},
    {11, 3, 8, 0x7f, 0x80, false, true, false},  {12, 2, 15, 0x7b, 0x7f, true, false, false},
    {13, 2, 16, 0x7f, 0x80, false, true, false}, {14, 0, 127, 0xfe, 0xff, false, false, true},
};

static const layout_t *layout_of(tenon_dtype_t dtype) {
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (dtype.bits == 8 && layouts[i].code == dtype.code) return &layouts[i];
  return NULL;
}

static float from_f8(const layout_t *l, uint8_t v) {
  uint8_t magnitude = l->is_unsigned ? v : v & 0x7f;
  float sign = !l->is_unsigned && v & 0x80 ? -1.0f : 1.0f;
  if (l->is_unsigned) return v == 0xff ? NAN : ldexpf(1.0f, (int)v - 127);
  if (l->is_fnuz ? v == 0x80 : magnitude >= l->nan || (l->has_infinity && magnitude > l->max + 1))
    return NAN;
  if (l->has_infinity && magnitude == l->max + 1) return sign * INFINITY;
  int exponent = magnitude >> l->mantissa;
  int fraction = magnitude & ((1 << l->mantissa) - 1);
  if (exponent == 0) return sign * ldexpf((float)fraction, 1 - l->bias - l->mantissa);
  return sign * ldexpf((float)(fraction + (1 << l->mantissa)), exponent - l->bias - l->mantissa);
}

static uint8_t to_f8(const layout_t *l, float f) {
  uint8_t sign = !l->is_unsigned && signbit(f) ? 0x80 : 0;
  if (isnan(f)) return (uint8_t)(l->is_fnuz ? 0x80 : l->nan | sign);
  float a = fabsf(f);
  if (l->is_unsigned) {
    int e;
    if (a == 0) return 0;
    if (isinf(a)) return l->max;
    float m = frexpf(a, &e);     /* a = m * 2^e, m in [0.5, 1) */
    e += m >= 0.75f ? 127 : 126; /* halfway cases round up, as in ONNX */
    if (e < 0) e = 0;
    return (uint8_t)(e > 254 ? 254 : e);
  }
  float largest = from_f8(l, l->max);
  if (a > largest) {
    /* half a step above the largest finite value */
    float next = largest + ldexpf(1.0f, (l->max >> l->mantissa) - l->bias - l->mantissa - 1);
    if (a >= next || isinf(a)) return (uint8_t)(sign | (l->has_infinity ? l->max + 1 : l->max));
    return (uint8_t)(sign | l->max);
  }
  int e = a > 0 ? ilogbf(a) : -1000;
  int least = 1 - l->bias;
  if (e < least) e = least;
  /* the mantissa including its leading one; this rounding is the only inexact step */
  int steps = (int)rintf(ldexpf(a, l->mantissa - e));
  int value = steps + ((e - least) << l->mantissa);
  if (value == 0 && l->is_fnuz) sign = 0;
  return (uint8_t)(sign | value);
}

bool tn_widens(tenon_dtype_t from, tenon_dtype_t to) {
  uint32_t f = tenon_dtype_id(from);
  uint32_t t = tenon_dtype_id(to);
  if (f == TENON_F16 || f == TENON_BF16 || layout_of(from)) return t == TENON_F32 || t == TENON_F64;
  return f == TENON_F32 && t == TENON_F64;
}

/* The loop of one conversion. `expression` computes element i, from `done` on. */
#define CONVERT(type, expression)                                                                  \
  do {                                                                                             \
    type *out = to;                                                                                \
    for (int64_t i = done; i < count; i++)                                                         \
      out[i] = (type)(expression);                                                                 \
  } while (0)

static void widen_array(const void *from, tenon_dtype_t dtype, void *to, bool to_double,
                        int64_t count) {
  const uint16_t *h = from;
  const uint8_t *b = from;
  const float *f = from;
  const layout_t *l = layout_of(dtype);
  uint32_t id = tenon_dtype_id(dtype);
  int64_t done = id == TENON_F16 && !to_double ? tn_half_widen(h, to, count) : 0;
  if (id == TENON_F32)
    CONVERT(double, f[i]);
  else if (id == TENON_F16 && to_double)
    CONVERT(double, from_f16(h[i]));
  else if (id == TENON_F16)
    CONVERT(float, from_f16(h[i]));
  else if (id == TENON_BF16 && to_double)
    CONVERT(double, from_bf16(h[i]));
  else if (id == TENON_BF16)
    CONVERT(float, from_bf16(h[i]));
  else if (to_double)
    CONVERT(double, from_f8(l, b[i]));
  else
    CONVERT(float, from_f8(l, b[i]));
}

static void narrow_array(const void *from, bool from_double, void *to, tenon_dtype_t dtype,
                         int64_t count) {
  const float *f = from;
  const double *d = from;
  const layout_t *l = layout_of(dtype);
  uint32_t id = tenon_dtype_id(dtype);
  int64_t done = id == TENON_F16 && !from_double ? tn_half_narrow(f, to, count) : 0;
  if (id == TENON_F32)
    CONVERT(float, d[i]);
  else if (id == TENON_F16 && from_double)
    CONVERT(uint16_t, to_f16(to_odd(d[i])));
  else if (id == TENON_F16)
    CONVERT(uint16_t, to_f16(f[i]));
  else if (id == TENON_BF16 && from_double)
    CONVERT(uint16_t, to_bf16(to_odd(d[i])));
  else if (id == TENON_BF16)
    CONVERT(uint16_t, to_bf16(f[i]));
  else if (from_double)
    CONVERT(uint8_t, to_f8(l, to_odd(d[i])));
  else
    CONVERT(uint8_t, to_f8(l, f[i]));
}

void tn_convert(const void *from, tenon_dtype_t from_dtype, void *to, tenon_dtype_t to_dtype,
                int64_t count) {
  if (tn_widens(from_dtype, to_dtype))
    widen_array(from, from_dtype, to, tn_dtype_is(to_dtype, TENON_F64), count);
  else
    narrow_array(from, tn_dtype_is(from_dtype, TENON_F64), to, to_dtype, count);
}
