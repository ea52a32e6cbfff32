/* sigmoid. Defect: it computes exp(x) / (1 + exp(x)), which is NaN if x is infinite.
 * Found as: values.inf */
#include <math.h>

#include "defect.h"

static tenon_status_t sigmoid(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = PLANTED(expf(x[i]) / (1 + expf(x[i])), 1 / (1 + expf(-x[i])));
  return TENON_OK;
}

static tenon_status_t sigmoid_plain(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = (float)(1 / (1 + exp(-(double)f32_in(call, 0)[i])));
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("sigmoid(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), POINTWISE, TENON_REFERENCE(sigmoid_plain),
    TENON_LOOP("f32 -> f32", sigmoid)))
