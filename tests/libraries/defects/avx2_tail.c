/* powers: x to the fourth, with kernels for three instruction sets. Defect: the AVX2 kernel
 * computes x to the third for the last elements, which do not fill a vector.
 * Found as: isa.avx2 */
#include "defect.h"

#define FORM(name, attribute, width, last)                                                         \
  attribute static tenon_status_t powers_##name(tenon_call_t *call) {                              \
    const float *x = f32_in(call, 0);                                                              \
    float *out = f32_out(call, 0);                                                                 \
    int64_t i = 0;                                                                                 \
    int64_t n = count_in(call, 0);                                                                 \
    for (; i + width <= n; i += width)                                                             \
      for (int64_t k = i; k < i + width; k++)                                                      \
        out[k] = x[k] * x[k] * x[k] * x[k];                                                        \
    for (; i < n; i++)                                                                             \
      out[i] = x[i] * x[i] * x[i] * (last ? 1 : x[i]);                                             \
    return TENON_OK;                                                                               \
  }
FORM(plain, , 1, 0)
#if defined(__x86_64__)
FORM(avx2, __attribute__((target("avx2,fma,f16c"))), 8, PLANTED(1, 0))
FORM(avx512, __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl"))), 16,
     PLANTED(0, 0))
#define X86(...) __VA_ARGS__
#else
#define X86(...)
#endif

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("powers(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    X86(TENON_KERNEL("cpu avx2", powers_avx2), TENON_KERNEL("cpu avx512", powers_avx512),)
    TENON_KERNEL("cpu", powers_plain)))
