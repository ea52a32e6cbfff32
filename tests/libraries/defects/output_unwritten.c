/* swapped: swaps neighbours in pairs, and copies the last element if their number is odd. Defect:
 * it does not write that last element.
 * Found as: write.unwritten */
#include "defect.h"

static tenon_status_t swapped_run(tenon_call_t *call) {
  const float *x = f32_in(call, 0);
  int64_t n = count_in(call, 0);
  for (int64_t i = 0; i + 1 < n; i += 2) {
    f32_out(call, 0)[i] = x[i + 1];
    f32_out(call, 0)[i + 1] = x[i];
  }
  if (PLANTED(0, n % 2)) f32_out(call, 0)[n - 1] = x[n - 1];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("swapped(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_SAMPLES("x: [3, 5]"),
    TENON_KERNEL("cpu", swapped_run)))
