/* tail: a view of x without its first row.  Defect: infer does not say that it is a view.
 * Found as: alias.declared */
#include "defect.h"

static tenon_status_t tail_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "x is a scalar: expected at least one axis");
  if (tenon_is_known(x->dims[0]) && x->dims[0].value < 1)
    return tenon_fail(infer, TENON_INVALID, "x has no first row");
  out->ndim = x->ndim;
  out->strided = 1;
  for (int32_t d = 0; d < x->ndim; d++) {
    out->dims[d] = x->dims[d];
    out->strides[d] = tenon_stride(infer, x, d);
  }
  out->dims[0] = tenon_dim(infer, TENON_DIM_SUB, x->dims[0], tenon_extent(1));
  out->offset = out->strides[0];
  if (PLANTED(0, 1)) out->alias = 1;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("tail(Tensor(a) x) -> Tensor(a)",
    TENON_TYPES("x: any; out = x"), TENON_WHERE("x: strided"), TENON_SAMPLES("x: [3, 4]; x: [5]"),
    TENON_INFER(tail_infer)))
