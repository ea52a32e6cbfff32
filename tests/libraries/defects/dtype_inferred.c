/* ratio: x over 3, as a float of the same width.  Defect: infer says f32 for i64 too, where the
 * kernel writes f64. Found as: types.infer */
#include "defect.h"

static tenon_status_t ratio_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->dtype = tenon_dtype(PLANTED(TENON_F32, x->dtype.bits == 64 ? TENON_F64 : TENON_F32));
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[d] = x->dims[d];
  return TENON_OK;
}

static tenon_status_t ratio_run(tenon_call_t *call) {
  const void *x = call->inputs[0]->data;
  void *out = call->outputs[0]->data;
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    if (call->inputs[0]->dtype.bits == 64)
      ((double *)out)[i] = (double)((const int64_t *)x)[i] / 3;
    else
      ((float *)out)[i] = (float)((const int32_t *)x)[i] / 3;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("ratio(Tensor x) -> Tensor", TENON_TYPES("x: i32|i64; out = ?"), PURE,
    TENON_INFER(ratio_infer), TENON_KERNEL("cpu", ratio_run)))
