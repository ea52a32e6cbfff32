/* Conversions of f16 by the instructions F16C, which every processor with AVX2 has. */
#include "core/half.h"

#include <immintrin.h>
#include <stdbool.h>

#include "base/cpu.h"

enum { LANES = 8 };

static bool has_f16c(void) {
  static int known; /* 1: no, 2: yes. The race is benign: every thread computes the same value. */
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == 0) {
    answer = tn_cpu_has(tn_cpu_rank("avx2", 4)) ? 2 : 1;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == 2;
}

__attribute__((target("avx2,f16c"))) static void widen_vectors(const uint16_t *from, float *to,
                                                               int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    __m128i narrow = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(narrow));
  }
}

/* The instruction keeps some bits of a NaN; convert.c makes the same NaN of all. */
__attribute__((target("avx2,f16c"))) static void narrow_vectors(const float *from, uint16_t *to,
                                                                int64_t count) {
  const __m128i sign = _mm_set1_epi16((short)0x8000);
  const __m128i nan = _mm_set1_epi16(0x7e00);
  for (int64_t i = 0; i < count; i += LANES) {
    __m256 wide = _mm256_loadu_ps(from + i);
    __m128i narrow = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i unordered = _mm256_castps_si256(_mm256_cmp_ps(wide, wide, _CMP_UNORD_Q));
    __m128i is_nan =
        _mm_packs_epi32(_mm256_castsi256_si128(unordered), _mm256_extracti128_si256(unordered, 1));
    __m128i signed_nan = _mm_or_si128(_mm_and_si128(narrow, sign), nan);
    narrow = _mm_blendv_epi8(narrow, signed_nan, is_nan);
    _mm_storeu_si128((__m128i *)(void *)(to + i), narrow);
  }
}

int64_t tn_half_widen(const uint16_t *from, float *to, int64_t count) {
  if (count < LANES || !has_f16c()) return 0;
  widen_vectors(from, to, count - count % LANES);
  return count - count % LANES;
}

int64_t tn_half_narrow(const float *from, uint16_t *to, int64_t count) {
  if (count < LANES || !has_f16c()) return 0;
  narrow_vectors(from, to, count - count % LANES);
  return count - count % LANES;
}
