/* halves: the first half of each row.  Defect: infer rounds the other way for f64.
 * Found as: shapes.infer */
#include "defect.h"

static tenon_status_t halves_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  uint32_t up = PLANTED(tenon_dtype_id(x->dtype) == TENON_F64, 0);
  if (x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "x is a scalar: expected at least one axis");
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[d] = x->dims[d];
  out->dims[x->ndim - 1] = tenon_dim(infer, up ? TENON_DIM_CEIL_DIV : TENON_DIM_DIV,
                                     x->dims[x->ndim - 1], tenon_extent(2));
  return TENON_OK;
}

static tenon_status_t halves_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t size = x->dtype.bits / 8;
  int64_t from = width_of(x);
  int64_t to = width_of(out);
  for (int64_t r = 0; r < rows_of(out); r++)
    for (int64_t b = 0; b < to * size; b++)
      ((char *)out->data)[r * to * size + b] = ((char *)x->data)[r * from * size + b];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("halves(Tensor x) -> Tensor",
    TENON_TYPES("x: f32|f64; out = x"), PURE, TENON_SAMPLES("x: [2, 7]; x: [5]"),
    TENON_INFER(halves_infer), TENON_KERNEL("cpu", halves_run)))
