/* plus: a + b with leading axes broadcast.  Defect: the gradient of b is right only where b has all of a's rows.
 * Found as: gradient.broadcast */
#include "defect.h"

static tenon_status_t plus_run(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0], *b = call->inputs[1];
  int64_t n = count_out(call, 0), na = tenon_count(a), nb = tenon_count(b);
  for (int64_t i = 0; i < n; i++)
    ((double *)call->outputs[0]->data)[i] = ((double *)a->data)[i % na] + ((double *)b->data)[i % nb];
  return TENON_OK;
}

static tenon_status_t fold_run(tenon_call_t *call) { /* sums what lies over b */
  const double *grad = (const double *)call->inputs[0]->data;
  double *out = (double *)call->outputs[0]->data;
  int64_t n = count_in(call, 0), nb = count_out(call, 0);
  for (int64_t i = 0; i < nb; i++) out[i] = 0;
  for (int64_t i = 0; i < n; i++) out[i % nb] = grad[i] + PLANTED(0, out[i % nb]);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("plus(Tensor a, Tensor b) -> Tensor", TENON_TYPES("a, b: f64; out = a"), TENON_SHAPES("a: [..., k]; b: [k]; out: [..., k]"), PURE,
    TENON_SAMPLES("a: [1, k], b: [k]; a: [3, k], b: [k]"), TENON_GRADIENT("a: core::mul(grad, 1.0); b: fold(grad, b)"), TENON_KERNEL("cpu", plus_run)),
  TENON_OP("fold(Tensor grad, Tensor b) -> Tensor", TENON_TYPES("grad, b: f64; out = b"), TENON_SHAPES("grad: [..., k]; b: [k]; out = b"), PURE,
    TENON_SAMPLES("grad: [1, k], b: [k]"), TENON_KERNEL("cpu", fold_run)))
