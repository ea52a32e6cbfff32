/* Multiply-adds by the compiler's 16-byte vectors, for processors without a file of their own; see
 * fma.h. */
#include "fma.h"

enum { CHAINS = 12 };
typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x2 __attribute__((vector_size(16)));

#define FMA(name, V, T, LANES)                                                                     \
  double name(int64_t rounds) {                                                                    \
    V x[CHAINS];                                                                                   \
    V a = (V){0} + (T)0.999;                                                                       \
    V b = (V){0} + (T)0.001;                                                                       \
    for (int i = 0; i < CHAINS; i++)                                                               \
      x[i] = (V){0} + (T)i;                                                                        \
    for (int64_t r = 0; r < rounds; r++)                                                           \
      for (int i = 0; i < CHAINS; i++)                                                             \
        x[i] = x[i] * a + b;                                                                       \
    for (int i = 1; i < CHAINS; i++)                                                               \
      x[0] += x[i];                                                                                \
    volatile T sink = x[0][0];                                                                     \
    (void)sink;                                                                                    \
    return 2.0 * LANES * CHAINS * (double)rounds;                                                  \
  }
/* clang-format off */
FMA(fma_run_f32, f32x4, float, 4)
FMA(fma_run_f64, f64x2, double, 2)
/* clang-format on */
const char *fma_name(void) { return "baseline"; }
