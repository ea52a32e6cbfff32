/* doubled: each row twice, one copy behind the other. Defect: infer computes a known extent in 32
 * bits.
 * Found as: shapes.huge */
#include "defect.h"

static tenon_status_t doubled_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "x is a scalar: expected at least one axis");
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[d] = x->dims[d];
  tenon_dim_t width = x->dims[x->ndim - 1];
  if (PLANTED(tenon_is_known(width), 0)) width = tenon_extent((int32_t)width.value);
  out->dims[x->ndim - 1] = tenon_dim(infer, TENON_DIM_MUL, width, tenon_extent(2));
  return TENON_OK;
}

static tenon_status_t doubled_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t width = width_of(x);
  for (int64_t r = 0; r < rows_of(x); r++)
    for (int64_t i = 0; i < 2 * width; i++)
      f32_out(call, 0)[r * 2 * width + i] = f32_in(call, 0)[r * width + i % width];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("doubled(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), PURE, TENON_INFER(doubled_infer),
    TENON_KERNEL("cpu", doubled_run)))
