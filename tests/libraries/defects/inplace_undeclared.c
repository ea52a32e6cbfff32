/* running: cumulative sums along the whole tensor. Defect: it computes them in x, then copies them.
 * Found as: alias.inplace */
#include "defect.h"

static tenon_status_t running_run(tenon_call_t *call) {
  const float *x = f32_in(call, 0);
  float *out = f32_out(call, 0);
  float *sums = PLANTED((float *)call->inputs[0]->data, out);
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    out[i] = sums[i] = x[i] + (i ? sums[i - 1] : 0);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("running(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu", running_run)))
