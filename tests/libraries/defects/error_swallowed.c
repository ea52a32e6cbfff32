/* both: x plus y, by core::add. Defect: it ignores the status of the call of core::add.
 * Found as: failure.swallowed */
#include "defect.h"

static tenon_status_t both_run(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  tenon_status_t status = call->host->invoke(call, call->uses[0], 0, call->inputs, &out);
  return PLANTED(status & TENON_OK, status);
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("both(Tensor x, Tensor y) -> Tensor",
    TENON_TYPES("x, y: f32; out = x"), TENON_SHAPES("x, y: [...]; out: [...]"), PURE,
    TENON_USES("core::add"), TENON_KERNEL("cpu", both_run)))
