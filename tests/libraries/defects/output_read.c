/* total: the sum of x. Defect: it adds to the previous content of the output.
 * Found as: read.output */
#include "defect.h"

static tenon_status_t total_run(tenon_call_t *call) {
  float *out = f32_out(call, 0);
  if (PLANTED(0, 1)) *out = 0;
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    *out += f32_in(call, 0)[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("total(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out: []"), PURE, TENON_KERNEL("cpu", total_run)))
