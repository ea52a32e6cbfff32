/* twice: 2 x. Defect: it loads four elements of x at once by an instruction that requires 16-byte
 * alignment.
 * Found as: strides.unaligned */
#include "defect.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#define LOAD PLANTED(_mm_load_ps, _mm_loadu_ps)
#endif

static tenon_status_t twice_run(tenon_call_t *call) {
  const float *x = f32_in(call, 0);
  float *out = f32_out(call, 0);
  int64_t i = 0;
  int64_t n = count_in(call, 0);
#if defined(__x86_64__)
  for (; i + 4 <= n; i += 4)
    _mm_storeu_ps(out + i, _mm_mul_ps(_mm_set1_ps(2), LOAD(x + i)));
#endif
  for (; i < n; i++)
    out[i] = 2 * x[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", twice_run)))
