/* Multiply-adds of x86; see fma.h. Twelve chains hide the latency of the instruction on two
 * units. */
#include <immintrin.h>

#include "fma.h"

enum { CHAINS = 12 };

/* Defines one function for an instruction set and a type: V is a vector of LANES numbers. */
#define FMA(name, features, T, V, LANES, set, mul_add, keep)                                       \
  __attribute__((target(features), noinline)) static double name(int64_t rounds) {                 \
    const V a = set((T)0.999);                                                                     \
    const V b = set((T)0.001);                                                                     \
    V x[CHAINS];                                                                                   \
    T out[LANES];                                                                                  \
    for (int i = 0; i < CHAINS; i++)                                                               \
      x[i] = set((T)i);                                                                            \
    for (int64_t r = 0; r < rounds; r++)                                                           \
      for (int i = 0; i < CHAINS; i++)                                                             \
        x[i] = mul_add(x[i], a, b);                                                                \
    for (int i = 1; i < CHAINS; i++)                                                               \
      x[0] = mul_add(x[0], a, x[i]);                                                               \
    keep(out, x[0]);                                                                               \
    volatile T sink = out[0]; /* keeps the loop from being optimised away */                       \
    (void)sink;                                                                                    \
    return 2.0 * LANES * CHAINS * (double)rounds;                                                  \
  }
#define PLAIN_PS(x, a, b) _mm_add_ps(_mm_mul_ps(x, a), b)
#define PLAIN_PD(x, a, b) _mm_add_pd(_mm_mul_pd(x, a), b)
/* clang-format off */
FMA(avx512_f32, "avx512f", float, __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps)
FMA(avx512_f64, "avx512f", double, __m512d, 8, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_storeu_pd)
FMA(avx2_f32, "avx2,fma", float, __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps)
FMA(avx2_f64, "avx2,fma", double, __m256d, 4, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_storeu_pd)
FMA(plain_f32, "sse2", float, __m128, 4, _mm_set1_ps, PLAIN_PS, _mm_storeu_ps)
FMA(plain_f64, "sse2", double, __m128d, 2, _mm_set1_pd, PLAIN_PD, _mm_storeu_pd)
/* clang-format on */

static int has_avx512(void) { return __builtin_cpu_supports("avx512f"); }
static int has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

double fma_run_f32(int64_t rounds) {
  if (has_avx512()) return avx512_f32(rounds);
  return has_avx2() ? avx2_f32(rounds) : plain_f32(rounds);
}
double fma_run_f64(int64_t rounds) {
  if (has_avx512()) return avx512_f64(rounds);
  return has_avx2() ? avx2_f64(rounds) : plain_f64(rounds);
}
const char *fma_name(void) {
  if (has_avx512()) return "avx512";
  return has_avx2() ? "avx2" : "baseline";
}
