/* Converts runs of f16 and bf16 to f32 and back, for kernels that compute rows of f32 or f64.
 * Invariant: f32 and f64 are never converted, so only the two narrow dtypes need memory for wide
 * rows. */
#ifndef TENON_OPS_WIDE_H
#define TENON_OPS_WIDE_H

#include "../dtype_scalar.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

static inline int is_narrow(tenon_dtype_t dtype) {
  return tenon_dtype_id(dtype) == TENON_F16 || tenon_dtype_id(dtype) == TENON_BF16;
}
static inline void widen_run(tenon_dtype_t dtype, float *restrict to, const void *from, int64_t n) {
  const uint16_t *restrict x = (const uint16_t *)from;
  int64_t i = 0;
  if (tenon_dtype_id(dtype) == TENON_BF16) {
    for (; i < n; i++)
      to[i] = float_of_bf16(x[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
#endif
  for (; i < n; i++)
    to[i] = float_of_f16(x[i]);
}
static inline void narrow_run(tenon_dtype_t dtype, void *to, const float *restrict from,
                              int64_t n) {
  uint16_t *restrict y = (uint16_t *)to;
  int64_t i = 0;
  if (tenon_dtype_id(dtype) == TENON_BF16) {
    for (; i < n; i++)
      y[i] = bf16_of_float(from[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(
        (__m128i *)(void *)(y + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < n; i++)
    y[i] = f16_of_float(from[i]);
}

#endif
