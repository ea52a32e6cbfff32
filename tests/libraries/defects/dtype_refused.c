/* flipped: -x. Defect: TYPES allows i64, which the kernel does not support.
 * Found as: types.each */
#include "defect.h"

static tenon_status_t flipped_run(tenon_call_t *call) {
  const void *x = call->inputs[0]->data;
  void *out = call->outputs[0]->data;
  uint32_t dtype = tenon_dtype_id(call->inputs[0]->dtype);
  if (PLANTED(dtype == TENON_I64, 0))
    return tenon_fail(call, TENON_UNIMPLEMENTED, "no kernel for this dtype");
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    if (dtype == TENON_F32)
      ((float *)out)[i] = -((const float *)x)[i];
    else if (dtype == TENON_I32)
      ((uint32_t *)out)[i] = 0 - ((const uint32_t *)x)[i];
    else
      ((uint64_t *)out)[i] = 0 - ((const uint64_t *)x)[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("flipped(Tensor x) -> Tensor",
    TENON_TYPES("x: f32|i32|i64; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu", flipped_run)))
