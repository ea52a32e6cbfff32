/* twice: 2 x. Defect: it assumes that every tensor begins at a multiple of 64 bytes.
 * Found as: strides.offset */
#include "defect.h"

static tenon_status_t twice_run(tenon_call_t *call) {
  const float *x = (const float *)((uintptr_t)call->inputs[0]->data & ~(uintptr_t)PLANTED(63, 0));
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = 2 * x[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", twice_run)))
