/* full: a tensor of the given shape. Defect: infer reads the shape's data before they are known.
 * Found as: shapes.unknown */
#include "defect.h"

static tenon_status_t full_infer(tenon_infer_t *infer) {
  const tenon_meta_t *shape = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  if (shape->ndim != 1)
    return tenon_fail(infer, TENON_INVALID, "shape has rank %d: expected 1", (int)shape->ndim);
#ifdef DEFECT
  out->ndim = (int32_t)shape->value->shape[0];
  for (int32_t d = 0; d < out->ndim; d++)
    out->dims[d] = tenon_extent(((const int64_t *)shape->value->data)[d]);
#else
  out->ndim = -1;
  if (!shape->values) return TENON_OK;
  out->ndim = (int32_t)shape->value_count;
  for (int32_t d = 0; d < out->ndim; d++)
    out->dims[d] = shape->values[d];
#endif
  return TENON_OK;
}

static tenon_status_t full_run(tenon_call_t *call) {
#ifndef DEFECT
  const tenon_tensor_t *shape = call->inputs[1];
  TENON_TRY(call->host->resize(call, 0, (int32_t)shape->shape[0], (const int64_t *)shape->data));
#endif
  for (int64_t i = 0, n = count_out(call, 0); i < n; i++)
    f32_out(call, 0)[i] = *f32_in(call, 0);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("full(Tensor x, Tensor @host shape) -> Tensor",
    TENON_TYPES("x: f32; shape: i64; out = x"), TENON_WHERE("shape: known"), PURE,
    TENON_SAMPLES("x: [], shape: [2] [3, 4]; x: [], shape: [1] [6]"), TENON_INFER(full_infer),
    TENON_KERNEL("cpu", full_run)))
