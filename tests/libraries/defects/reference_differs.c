/* gelu, by the error function. Defect: it uses a similar curve, which differs by 0.02.
 * Found as: reference.values */
#include <math.h>

#include "defect.h"

static tenon_status_t gelu(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] =
        PLANTED(x[i] / (1 + expf(-1.702f * x[i])), 0.5f * x[i] * (1 + erff(0.70710678f * x[i])));
  return TENON_OK;
}

static tenon_status_t gelu_plain(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++) {
    double x = f32_in(call, 0)[i];
    f32_out(call, 0)[i] = (float)(0.5 * x * (1 + erf(x / sqrt(2))));
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("gelu(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), POINTWISE, TENON_REFERENCE(gelu_plain),
    TENON_LOOP("f32 -> f32", gelu)))
