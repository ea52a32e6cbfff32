/* twice: 2 x. Defect: it looks up a number below 0 in a table that does not exist.
 * Found as: crash.signal */
#include "defect.h"

static tenon_status_t twice_run(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++) {
    float x = f32_in(call, 0)[i];
    if (PLANTED(x < 0, 0)) x = *(const volatile float *)(uintptr_t)(64 + 4 * i);
    f32_out(call, 0)[i] = 2 * x;
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", twice_run)))
