/* row: x as one axis, a copy.  Defect: infer makes it a view of x, which the schema does not say.
 * Found as: alias.undeclared */
#include "defect.h"

static tenon_status_t row_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = 1;
  out->dims[0] = tenon_extent(1);
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[0] = tenon_dim(infer, TENON_DIM_MUL, out->dims[0], x->dims[d]);
  if (PLANTED(1, 0)) out->alias = 1;
  return TENON_OK;
}

static tenon_status_t row_run(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = f32_in(call, 0)[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("row(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), PURE, TENON_INFER(row_infer), TENON_KERNEL("cpu", row_run)))
