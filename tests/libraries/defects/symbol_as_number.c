/* flat: all elements on one axis. Defect: infer multiplies the values of the extents as numbers,
 * even if they are symbols.
 * Found as: shapes.symbolic */
#include "defect.h"

static tenon_status_t flat_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_dim_t count = tenon_extent(1);
  for (int32_t d = 0; d < x->ndim; d++)
    count = PLANTED(tenon_extent((int64_t)((uint64_t)count.value * (uint64_t)x->dims[d].value)),
                    tenon_dim(infer, TENON_DIM_MUL, count, x->dims[d]));
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = count;
  return TENON_OK;
}

static tenon_status_t flat_run(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = f32_in(call, 0)[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("flat(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), PURE,
    TENON_INFER(flat_infer), TENON_KERNEL("cpu", flat_run)))
