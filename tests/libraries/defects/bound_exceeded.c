/* nonzero: positions of elements that are not 0.  Defect: infer bounds their number by half of the
 * elements. Found as: shapes.bound */
#include "defect.h"

static tenon_status_t nonzero_infer(tenon_infer_t *infer) {
  tenon_dim_t count = tenon_extent(1);
  for (int32_t d = 0; d < infer->inputs[0]->ndim; d++)
    count = tenon_dim(infer, TENON_DIM_MUL, count, infer->inputs[0]->dims[d]);
  if (PLANTED(1, 0)) count = tenon_dim(infer, TENON_DIM_DIV, count, tenon_extent(2));
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, count, tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t nonzero_run(tenon_call_t *call) {
  int64_t found = 0;
  int64_t n = count_in(call, 0);
  int64_t *out;
  for (int64_t i = 0; i < n; i++)
    found += f32_in(call, 0)[i] != 0;
  TENON_TRY(call->host->resize(call, 0, 1, &found));
  out = (int64_t *)call->outputs[0]->data;
  for (int64_t i = 0; i < n; i++)
    if (f32_in(call, 0)[i] != 0) *out++ = i;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("nonzero(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = i64"), PURE,
    TENON_INFER(nonzero_infer), TENON_KERNEL("cpu", nonzero_run)))
