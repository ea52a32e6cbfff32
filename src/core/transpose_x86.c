/* Transposes by AVX: squares of eight by eight elements, in registers. */
#include <immintrin.h>

#include "base/cpu.h"
#include "core/transpose.h"

enum { SIDE = TN_TRANSPOSE_SIDE, LINE = 16 /* elements of a cache line */ };

static bool has_avx2(void) {
  static int known; /* 1: no, 2: yes. The race is benign: every thread computes the same value. */
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == 0) {
    answer = tn_cpu_has(tn_cpu_rank("avx2", 4)) ? 2 : 1;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == 2;
}

/* Transposes in halves of registers at first, then exchanges the halves. */
__attribute__((target("avx2"))) static inline void
transpose_square(const char *from, int64_t from_stride, char *to, int64_t to_stride) {
  __m256 columns[SIDE], pairs[SIDE], quads[SIDE];
#pragma GCC unroll 8
  for (int i = 0; i < SIDE; i++)
    columns[i] = _mm256_loadu_ps((const float *)(const void *)(from + i * from_stride));
#pragma GCC unroll 4
  for (int i = 0; i < SIDE; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(columns[i], columns[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(columns[i], columns[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < SIDE; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < SIDE / 2; i++) {
    float *upper = (float *)(void *)(to + i * to_stride);
    float *lower = (float *)(void *)(to + (i + SIDE / 2) * to_stride);
    _mm256_storeu_ps(upper, _mm256_permute2f128_ps(quads[i], quads[i + SIDE / 2], 0x20));
    _mm256_storeu_ps(lower, _mm256_permute2f128_ps(quads[i], quads[i + SIDE / 2], 0x31));
  }
}

__attribute__((target("avx2"))) static void transpose_plane(const char *from, int64_t from_stride,
                                                            char *to, int64_t to_stride,
                                                            int64_t rows, int64_t columns) {
  const int64_t size = sizeof(float);
  for (int64_t line = 0; line < rows; line += LINE) {
    const int64_t end = line + LINE < rows ? line + LINE : rows;
    for (int64_t c = 0; c < columns; c += SIDE)
      for (int64_t r = line; r < end; r += SIDE)
        transpose_square(from + c * from_stride + r * size, from_stride,
                         to + r * to_stride + c * size, to_stride);
  }
}

bool tn_transpose_words(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                        int64_t rows, int64_t columns) {
  if (!has_avx2()) return false;
  transpose_plane(from, from_stride, to, to_stride, rows, columns);
  return true;
}
