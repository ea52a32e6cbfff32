/* bump: adds 1 to y. Defect: it adds to a copy of y, which is dropped.
 * Found as: alias.declared */
#include "defect.h"

static tenon_status_t bump_run(tenon_call_t *call) {
  tenon_tensor_t *y = call->inputs[0];
  if (PLANTED(1, 0)) y = call->host->temporary(call, y->dtype, y->ndim, y->shape);
  if (!y) return TENON_MEMORY;
  for (int64_t i = 0, n = tenon_count(y); i < n; i++)
    ((float *)y->data)[i] = f32_in(call, 0)[i] + 1;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("bump(Tensor(a!) y) -> ()", TENON_TYPES("y: f32"), TENON_KERNEL("cpu", bump_run)))
