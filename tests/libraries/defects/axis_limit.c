/* sum_over: sums over one axis.  Defect: infer accepts the axis behind the last one.
 * Found as: attrs.limits */
#include "defect.h"

static tenon_status_t sum_over_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int64_t axis = infer->attrs[0].as.i;
  if (axis < 0 || axis >= x->ndim + PLANTED(1, 0))
    return tenon_fail(infer, TENON_INVALID, "axis %lld: expected 0 to %d", (long long)axis,
                      (int)x->ndim - 1);
  out->ndim = 0;
  for (int32_t d = 0; d < x->ndim; d++)
    if (d != axis) out->dims[out->ndim++] = x->dims[d];
  return TENON_OK;
}

static tenon_status_t sum_over_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t axis = call->attrs[0].as.i;
  int64_t outer = 1;
  int64_t inner = 1;
  int64_t extent = x->shape[axis];
  for (int64_t d = 0; d < axis; d++)
    outer *= x->shape[d];
  for (int64_t d = axis + 1; d < x->ndim; d++)
    inner *= x->shape[d];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      float sum = 0;
      for (int64_t k = 0; k < extent; k++)
        sum += f32_in(call, 0)[(o * extent + k) * inner + i];
      f32_out(call, 0)[o * inner + i] = sum;
    }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("sum_over(Tensor x, *, int axis=0) -> Tensor",
    TENON_TYPES("x: f32; out = x"), PURE,
    TENON_SAMPLES("x: [3, 4], axis = 1; x: [2, 3, 2], axis = 0"), TENON_INFER(sum_over_infer),
    TENON_KERNEL("cpu", sum_over_run)))
