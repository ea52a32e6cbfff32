/* outer: each element times each element. Defect: infer keeps a pointer to the extents, which run
 * reads.
 * Found as: pointer.infer */
#include "defect.h"

typedef struct kept_t {
  const tenon_dim_t *dims;
} kept_t;
static kept_t kept;

static tenon_status_t outer_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim != 1)
    return tenon_fail(infer, TENON_INVALID, "x has rank %d: expected 1", (int)x->ndim);
  infer->outputs[0]->ndim = 2;
  infer->outputs[0]->dims[0] = infer->outputs[0]->dims[1] = x->dims[0];
  if (PLANTED(1, 0)) kept.dims = x->dims;
  return TENON_OK;
}

static tenon_status_t outer_run(tenon_call_t *call) {
  int64_t n = kept.dims ? kept.dims[0].value : call->inputs[0]->shape[0];
  for (int64_t r = 0; r < n; r++)
    for (int64_t c = 0; c < n; c++)
      f32_out(call, 0)[r * n + c] = f32_in(call, 0)[r] * f32_in(call, 0)[c];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("outer(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), PURE, TENON_SAMPLES("x: [5]; x: [3]"), TENON_INFER(outer_infer),
    TENON_KERNEL("cpu", outer_run)))
