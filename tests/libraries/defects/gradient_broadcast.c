/* plus: a + b with two axes, where extents of 1 are broadcast. Defect: the gradient keeps the last
 * broadcast element instead of the sum.
 * Found as: gradient.broadcast */
#include "defect.h"

/* Returns the element of t that is broadcast to element i of `whole`; each extent of t is 1 or that
 * of `whole`. */
static int64_t under(const tenon_tensor_t *t, const tenon_tensor_t *whole, int64_t i) {
  int64_t rows = t->shape[0];
  int64_t columns = t->shape[1];
  int64_t r = i / whole->shape[1];
  int64_t c = i % whole->shape[1];
  return (rows == 1 ? 0 : r) * columns + (columns == 1 ? 0 : c);
}

static tenon_status_t plus_infer(tenon_infer_t *infer) {
  const tenon_meta_t *a = infer->inputs[0];
  const tenon_meta_t *b = infer->inputs[1];
  infer->outputs[0]->ndim = 2;
  if (a->ndim != 2 || b->ndim != 2)
    return tenon_fail(infer, TENON_INVALID, "a and b have two axes");
  for (int32_t d = 0; d < 2; d++)
    infer->outputs[0]->dims[d] = tenon_dim(infer, TENON_DIM_BROADCAST, a->dims[d], b->dims[d]);
  return TENON_OK;
}

static tenon_status_t plus_run(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0];
  const tenon_tensor_t *b = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  for (int64_t i = 0, n = tenon_count(out); i < n; i++)
    ((double *)out->data)[i] =
        ((double *)a->data)[under(a, out, i)] + ((double *)b->data)[under(b, out, i)];
  return TENON_OK;
}

/* Sums the gradients of the elements to which each element is broadcast. */
static tenon_status_t fold_run(tenon_call_t *call) {
  const tenon_tensor_t *grad = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  double *sums = (double *)out->data;
  int64_t n = tenon_count(out) ? tenon_count(grad) : 0;
  for (int64_t i = 0; i < tenon_count(out); i++)
    sums[i] = 0;
  for (int64_t i = 0; i < n; i++) {
    double *sum = &sums[under(out, grad, i)];
    *sum = ((double *)grad->data)[i] + PLANTED(0, *sum);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("plus(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f64; out = a"), PURE, TENON_SAMPLES("a: [3, 4], b: [3, 4]"),
    TENON_GRADIENT("a: fold(grad, a); b: fold(grad, b)"), TENON_INFER(plus_infer),
    TENON_KERNEL("cpu", plus_run)),
  TENON_OP("fold(Tensor grad, Tensor like) -> Tensor",
    TENON_TYPES("grad, like: f64; out = like"),
    TENON_SHAPES("grad: [_, _]; like: [r, c]; out: [r, c]"), PURE,
    TENON_SAMPLES("grad: [3, 4], like: [3, 4]"), TENON_KERNEL("cpu", fold_run)))
