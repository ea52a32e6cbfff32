/* shifted: element i is x[i + 1], and the last one is 0. Defect: it begins one element before the
 * output.
 * Found as: write.outside */
#include "defect.h"

static tenon_status_t shifted_run(tenon_call_t *call) {
  int64_t n = count_in(call, 0);
  for (int64_t i = PLANTED(0, 1); i < n; i++)
    f32_out(call, 0)[i - 1] = f32_in(call, 0)[i];
  if (n) f32_out(call, 0)[n - 1] = 0;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("shifted(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu", shifted_run)))
