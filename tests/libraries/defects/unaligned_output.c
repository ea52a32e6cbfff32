/* twice: 2 x. Defect: it stores four results at once by an instruction that requires 16-byte
 * alignment.
 * Found as: strides.unaligned */
#include "defect.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#define STORE PLANTED(_mm_store_ps, _mm_storeu_ps)
#endif

static tenon_status_t twice_run(tenon_call_t *call) {
  const float *x = f32_in(call, 0);
  float *out = f32_out(call, 0);
  int64_t i = 0;
  int64_t n = count_in(call, 0);
#if defined(__x86_64__)
  for (; i + 4 <= n; i += 4)
    STORE(out + i, _mm_mul_ps(_mm_set1_ps(2), _mm_loadu_ps(x + i)));
#endif
  for (; i < n; i++)
    out[i] = 2 * x[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", twice_run)))
