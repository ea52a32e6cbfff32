/* Gradients of matmul and gemm, as other products: composites, so that they have gradients
 * themselves. The gradient formulas in matmul.c call them.
 * Invariant: a vector is first made a matrix, so that the code handles matrices only. */
#include "composite.h"
#include "epilogue.h"
#include "matmul.h"
#include <tenon/check.h>

enum {
  MATMUL,
  UNSQUEEZE,
  SUM_TO,
  RESHAPE,
  MUL,
  FINISH,
};
#define BACKWARD_USES                                                                              \
  "core::matmul, core::unsqueeze, core::sum_to, core::reshape, core::mul, core::finish_backward"

static tenon_status_t matmul_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 3, 1, core_matmul_result_infer);
}
static tenon_status_t gemm_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 3, 1, core_gemm_infer);
}

static tenon_status_t invoke_matmul(tenon_call_t *call, tenon_tensor_t *a, int transpose_a,
                                    tenon_tensor_t *b, int transpose_b, tenon_tensor_t **out) {
  tenon_value_t attrs[5] = {value_flag(transpose_a), value_flag(transpose_b),
                            value_choice(FINISH_none), value_float(0), value_float(0)};
  return INVOKE(call, MATMUL, attrs, out, a, b);
}

static tenon_status_t unsqueeze_axis(tenon_call_t *call, tenon_tensor_t *t, int64_t axis,
                                     tenon_tensor_t **out) {
  tenon_tensor_t *axes = core_ints(call, 1, &axis);
  return axes ? INVOKE(call, UNSQUEEZE, NULL, out, t, axes) : TENON_MEMORY;
}

static tenon_status_t scale_by(tenon_call_t *call, tenon_tensor_t **t, double by) {
  return by == 1 ? TENON_OK : core_with(call, MUL, *t, by, t);
}

static int has_shape_of(const tenon_tensor_t *t, const tenon_tensor_t *like) {
  if (t->ndim != like->ndim) return 0;
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] != like->shape[i]) return 0;
  return 1;
}

/* Makes one matrix of a batch of matrices, by their rows. */
static tenon_status_t join_rows(tenon_call_t *call, tenon_tensor_t **t) {
  const int64_t columns = (*t)->shape[(*t)->ndim - 1];
  const int64_t rows = columns ? tenon_count(*t) / columns : 0;
  return core_reshape(call, RESHAPE, *t, 2, (const int64_t[]){rows, columns}, t);
}

/* Whether all matrices of a, which are not transposed, are multiplied by one matrix b: the gradient
 * of b is then one product, instead of a sum of many. */
static int has_one_matrix(const tenon_tensor_t *dy, const tenon_tensor_t *a, int transpose_a,
                          const tenon_tensor_t *b) {
  return b->ndim == 2 && a->ndim > 2 && !transpose_a && dy->ndim == a->ndim &&
         tenon_count(dy) > 0 && tenon_count(a) > 0;
}

/* Gives output `output` from t, the gradient of `matrix`. `matrix` is `like` with its vector (if it
 * is one) made a matrix, and may have been broadcast. */
static tenon_status_t assign_reduced_gradient(tenon_call_t *call, uint32_t output,
                                              tenon_tensor_t *t, const tenon_tensor_t *matrix,
                                              const tenon_tensor_t *like) {
  if (!has_shape_of(t, matrix)) {
    tenon_tensor_t *shape = core_ints(call, matrix->ndim, matrix->shape);
    if (!shape) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, SUM_TO, NULL, &t, t, shape));
  }
  if (like->ndim != matrix->ndim)
    TENON_TRY(core_reshape(call, RESHAPE, t, like->ndim, like->shape, &t));
  return call->host->assign(call, output, t);
}

static tenon_status_t operand_gradients(tenon_call_t *call, tenon_tensor_t *dy, int transpose_a,
                                        int transpose_b, double alpha) {
  tenon_tensor_t *a = call->inputs[1];
  tenon_tensor_t *b = call->inputs[2];
  tenon_tensor_t *t;
  if (call->inputs[2]->ndim == 1) {
    transpose_b = 0;
    TENON_TRY(unsqueeze_axis(call, b, 1, &b));
    TENON_TRY(unsqueeze_axis(call, dy, -1, &dy));
  }
  if (call->inputs[1]->ndim == 1) {
    transpose_a = 0;
    TENON_TRY(unsqueeze_axis(call, a, 0, &a));
    TENON_TRY(unsqueeze_axis(call, dy, -2, &dy));
  }
  if (call->outputs[0]) {
    TENON_TRY(transpose_a ? invoke_matmul(call, b, transpose_b, dy, 1, &t)
                          : invoke_matmul(call, dy, 0, b, !transpose_b, &t));
    TENON_TRY(scale_by(call, &t, alpha));
    TENON_TRY(assign_reduced_gradient(call, 0, t, a, call->inputs[1]));
  }
  if (call->outputs[1]) {
    if (has_one_matrix(dy, a, transpose_a, b)) {
      TENON_TRY(join_rows(call, &a));
      TENON_TRY(join_rows(call, &dy));
    }
    TENON_TRY(transpose_b ? invoke_matmul(call, dy, 1, a, transpose_a, &t)
                          : invoke_matmul(call, a, !transpose_a, dy, 0, &t));
    TENON_TRY(scale_by(call, &t, alpha));
    TENON_TRY(assign_reduced_gradient(call, 1, t, b, call->inputs[2]));
  }
  return TENON_OK;
}

static tenon_status_t matmul_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *y;
  if (call->attrs[2].as.i != FINISH_none) {
    tenon_value_t attrs[5] = {call->attrs[0], call->attrs[1], value_choice(FINISH_none),
                              value_float(0), value_float(0)};
    TENON_TRY(INVOKE(call, MATMUL, attrs, &y, call->inputs[1], call->inputs[2], call->inputs[3]));
    TENON_TRY(INVOKE(call, FINISH, call->attrs + 2, &dy, dy, y));
  }
  TENON_TRY(operand_gradients(call, dy, call->attrs[0].as.i != 0, call->attrs[1].as.i != 0, 1));
  return call->outputs[2] ? assign_reduced_gradient(call, 2, dy, call->inputs[3], call->inputs[3])
                          : TENON_OK;
}

static tenon_status_t gemm_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dc = call->inputs[0];
  TENON_TRY(operand_gradients(call, dc, call->attrs[2].as.i != 0, call->attrs[3].as.i != 0,
                              call->attrs[0].as.f));
  if (!call->outputs[2]) return TENON_OK;
  TENON_TRY(scale_by(call, &dc, call->attrs[1].as.f));
  return assign_reduced_gradient(call, 2, dc, call->inputs[3], call->inputs[3]);
}

/* clang-format off */
TENON_ITEMS(core_matmul_backward,
  TENON_OP("matmul_backward(Tensor dy, Tensor a, Tensor b, Tensor? bias=None, *, "
           "bool transpose_a=False, bool transpose_b=False, " FINISH_ARGUMENTS
           ") -> (Tensor? da, Tensor? db, Tensor? dbias)",
    TENON_DOC("The gradients of matmul."),
    TENON_SAMPLES("dy: [n, m], a: [n, k], b: [k, m], bias: [m]"),
    TENON_TYPES("dy: float; a, b, bias = dy; da, db, dbias = dy"),
    TENON_INFER(matmul_infer),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_COMPOSITE(matmul_backward_run)),
  TENON_OP("gemm_backward(Tensor dy, Tensor a, Tensor b, Tensor? c=None, *, float alpha=1.0, "
           "float beta=1.0, bool trans_a=False, bool trans_b=False) -> (Tensor? da, Tensor? db, "
           "Tensor? dc)",
    TENON_DOC("The gradients of gemm."),
    TENON_SAMPLES("dy: [n, m], a: [n, k], b: [k, m], c: [m]"),
    TENON_TYPES("dy: float; a, b, c = dy; da, db, dc = dy"),
    TENON_INFER(gemm_infer),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_COMPOSITE(gemm_backward_run)))
/* clang-format on */
