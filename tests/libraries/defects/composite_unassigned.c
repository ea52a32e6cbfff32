/* pair: x + x, and x * x if that is wanted.  Defect: the composite makes the second result and does
 * not assign it. Found as: write.unwritten */
#include "defect.h"

static tenon_status_t pair_run(tenon_call_t *call) {
  tenon_tensor_t *const twice[2] = {call->inputs[0], call->inputs[0]};
  tenon_tensor_t *sum = 0;
  tenon_tensor_t *product = 0;
  TENON_TRY(call->host->invoke(call, call->uses[0], 0, twice, &sum));
  TENON_TRY(call->host->assign(call, 0, sum));
  TENON_TRY(call->host->invoke(call, call->uses[1], 0, twice, &product));
  return PLANTED(TENON_OK, call->host->assign(call, 1, product));
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("pair(Tensor x) -> (Tensor sum, Tensor product)",
    TENON_TYPES("x: f32; sum, product = x"), TENON_SHAPES("sum = x; product = x"), PURE,
    TENON_USES("core::add, core::mul"), TENON_COMPOSITE(pair_run)))
