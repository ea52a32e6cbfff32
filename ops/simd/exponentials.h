/* Exponentials of a dense row of f32 and its greatest number, in vectors that are written out: gcc
 * keeps the sums of such a loop in memory, and computes what is left over one by one.
 * Invariant: the results are the bits that ../softmax_kernel.h computes for the same instruction
 * set with tn_exp_downf, whose steps these are. */
#ifndef TENON_OPS_EXPONENTIALS_H
#define TENON_OPS_EXPONENTIALS_H

#include "math.h"
#include <immintrin.h>

#if defined(__AVX512F__)
typedef __m512 floats;
typedef __m512i whole_numbers;
#define FLOATS(op) _mm512_##op
#else
typedef __m256 floats;
typedef __m256i whole_numbers;
#define FLOATS(op) _mm256_##op
#endif
enum {
  EACH = sizeof(floats) / sizeof(float), /* numbers of a vector */
  SIDE = 32,                             /* numbers that are computed at once */
  VECTORS = SIDE / EACH,
};

/* tn_exp_downf of each number. */
TN_INLINE floats exp_down_floats(floats x) {
  const floats magic = FLOATS(set1_ps)(TN_MAGIC32);
  const floats one = FLOATS(set1_ps)(1);
  floats m = FLOATS(fmadd_ps)(x, FLOATS(set1_ps)(0x1.715476p0f), magic);
  floats k = FLOATS(sub_ps)(m, magic);
  floats r = FLOATS(fmadd_ps)(k, FLOATS(set1_ps)(-TN_LN2_HIGH), x);
  r = FLOATS(fmadd_ps)(k, FLOATS(set1_ps)(-TN_LN2_LOW), r);
  floats p = FLOATS(fmadd_ps)(r, FLOATS(set1_ps)(0x1.6d542p-10f), FLOATS(set1_ps)(0x1.12108p-7f));
  p = FLOATS(fmadd_ps)(r, p, FLOATS(set1_ps)(0x1.5554e4p-5f));
  p = FLOATS(fmadd_ps)(r, p, FLOATS(set1_ps)(0x1.5554d8p-3f));
  p = FLOATS(fmadd_ps)(r, p, FLOATS(set1_ps)(0x1p-1f));
  p = FLOATS(add_ps)(one, FLOATS(fmadd_ps)(FLOATS(mul_ps)(r, r), p, r));
#if defined(__AVX512F__)
  const whole_numbers bias = _mm512_set1_epi32(127 - (int)tn_bits32(TN_MAGIC32));
  whole_numbers n = _mm512_add_epi32(_mm512_castps_si512(m), bias);
  floats power = _mm512_castsi512_ps(_mm512_slli_epi32(n, 23));
  __mmask16 is_normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-0x1.5d589ep6f), _CMP_NLT_UQ);
  return _mm512_maskz_mul_ps(is_normal, p, power);
#else
  const whole_numbers bias = _mm256_set1_epi32(127 - (int)tn_bits32(TN_MAGIC32));
  whole_numbers n = _mm256_add_epi32(_mm256_castps_si256(m), bias);
  floats power = _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
  floats is_normal = _mm256_cmp_ps(x, _mm256_set1_ps(-0x1.5d589ep6f), _CMP_NLT_UQ);
  return _mm256_and_ps(is_normal, _mm256_mul_ps(p, power));
#endif
}

/* Loads and stores n < SIDE numbers. Those that are missing are minus infinity. */
#if defined(__AVX512F__)
TN_INLINE void load_few(const float *x, int64_t n, floats *v) {
  const uint32_t which = (UINT32_C(1) << n) - 1;
  for (int k = 0; k < VECTORS; k++)
    v[k] = _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), (__mmask16)(which >> k * EACH),
                                x + k * EACH);
}

TN_INLINE void store_few(float *y, int64_t n, const floats *v) {
  const uint32_t which = (UINT32_C(1) << n) - 1;
  for (int k = 0; k < VECTORS; k++)
    _mm512_mask_storeu_ps(y + k * EACH, (__mmask16)(which >> k * EACH), v[k]);
}
#else
TN_INLINE void load_few(const float *x, int64_t n, floats *v) {
  float rest[SIDE];
  for (int k = 0; k < VECTORS; k++)
    _mm256_storeu_ps(rest + k * EACH, _mm256_set1_ps(-INFINITY));
  memcpy(rest, x, (size_t)n * sizeof *rest);
  for (int k = 0; k < VECTORS; k++)
    v[k] = _mm256_loadu_ps(rest + k * EACH);
}

TN_INLINE void store_few(float *y, int64_t n, const floats *v) {
  float rest[SIDE];
  for (int k = 0; k < VECTORS; k++)
    _mm256_storeu_ps(rest + k * EACH, v[k]);
  memcpy(y, rest, (size_t)n * sizeof *rest);
}
#endif

/* One number of SIDE: the two halves are joined, then those of the result, and so on. `op` is add,
 * or max, which gives the later operand if one of the two is NaN. */
#if defined(__AVX512F__)
#define EIGHT_OF(op, v)                                                                            \
  floats both = _mm512_##op##_ps((v)[1], (v)[0]);                                                  \
  __m256 eight = _mm256_##op##_ps(_mm512_extractf32x8_ps(both, 1), _mm512_castps512_ps256(both))
#else
#define EIGHT_OF(op, v)                                                                            \
  floats low = _mm256_##op##_ps((v)[2], (v)[0]);                                                   \
  __m256 eight = _mm256_##op##_ps(_mm256_##op##_ps((v)[3], (v)[1]), low)
#endif
#define JOIN_FLOATS(op)                                                                            \
  TN_INLINE float op##_of_floats(const floats *v) {                                                \
    EIGHT_OF(op, v);                                                                               \
    __m128 four = _mm_##op##_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight));   \
    four = _mm_##op##_ps(_mm_movehl_ps(four, four), four);                                         \
    return _mm_cvtss_f32(_mm_##op##_ss(_mm_movehdup_ps(four), four));                              \
  }
JOIN_FLOATS(add)
JOIN_FLOATS(max)

/* Writes exp(x - top) to y, which may be x, and returns the sum. */
static float f32_exponentials_chunk(float *y, const float *x, int64_t n, float top) {
  const floats shift = FLOATS(set1_ps)(top);
  floats sum[VECTORS], v[VECTORS];
  int64_t i = 0;
#pragma GCC unroll 4
  for (int k = 0; k < VECTORS; k++)
    sum[k] = FLOATS(setzero_ps)();
  for (; i + SIDE <= n; i += SIDE) {
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++)
      v[k] = exp_down_floats(FLOATS(sub_ps)(FLOATS(loadu_ps)(x + i + k * EACH), shift));
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++) {
      FLOATS(storeu_ps)(y + i + k * EACH, v[k]);
      sum[k] = FLOATS(add_ps)(sum[k], v[k]);
    }
  }
  if (i < n) { /* The exponentials of the numbers that are missing are 0. */
    load_few(x + i, n - i, v);
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++) {
      v[k] = exp_down_floats(FLOATS(sub_ps)(v[k], shift));
      sum[k] = FLOATS(add_ps)(sum[k], v[k]);
    }
    store_few(y + i, n - i, v);
  }
  return add_of_floats(sum);
}

/* The greatest of n numbers, leaving out NaN. */
static float f32_top(const float *x, int64_t n) {
  floats most[VECTORS], v[VECTORS];
  int64_t i = 0;
#pragma GCC unroll 4
  for (int k = 0; k < VECTORS; k++)
    most[k] = FLOATS(set1_ps)(-INFINITY);
  for (; i + SIDE <= n; i += SIDE)
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++)
      most[k] = FLOATS(max_ps)(FLOATS(loadu_ps)(x + i + k * EACH), most[k]);
  if (i < n) {
    load_few(x + i, n - i, v);
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++)
      most[k] = FLOATS(max_ps)(v[k], most[k]);
  }
  return max_of_floats(most);
}

#endif
