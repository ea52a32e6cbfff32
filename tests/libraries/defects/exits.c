/* twice: 2 x. Defect: it ends the process if a number is below 0.
 * Found as: crash.exit */
#include <stdlib.h>

#include "defect.h"

static tenon_status_t twice_run(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++) {
    float x = f32_in(call, 0)[i];
    if (PLANTED(x < 0, 0)) exit(3);
    f32_out(call, 0)[i] = 2 * x;
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", twice_run)))
