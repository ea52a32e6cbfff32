/* Gradients of batch_norm, lrn, lp_norm and mean_variance_norm. They are composites of other
 * operators, so that they have gradients themselves. The gradient formulas in simd/channel.c call
 * them. */
#include "axes.h"
#include "composite.h"
#include "dense.h"
#include "window.h"
#include <tenon/check.h>

enum {
  MUL,
  ADD,
  SUB,
  RSQRT,
  SUM_TO,
  RESHAPE,
  CAST_LIKE,
  POW,
  AVERAGE_POOL,
  MEAN,
  SQRT,
  EQUAL,
  WHERE,
  DIV,
  L1,
  L2,
  SIGN,
};
#define BACKWARD_USES                                                                              \
  "core::mul, core::add, core::sub, core::rsqrt, core::sum_to, core::reshape, core::cast_like, "   \
  "core::pow, "                                                                                    \
  "core::average_pool, core::reduce_mean, core::sqrt, core::equal, core::where, core::div, "       \
  "core::reduce_l1, "                                                                              \
  "core::reduce_l2, core::sign"

static tenon_status_t invoke_binary(tenon_call_t *call, int use, tenon_tensor_t *a,
                                    tenon_tensor_t *b, tenon_tensor_t **out) {
  return INVOKE(call, use, NULL, out, a, b);
}

static tenon_status_t cast_as(tenon_call_t *call, tenon_tensor_t *t, tenon_tensor_t *like,
                              tenon_tensor_t **out) {
  *out = t;
  return core_is(t, tenon_dtype_id(like->dtype)) ? TENON_OK
                                                 : invoke_binary(call, CAST_LIKE, t, like, out);
}

/* Replaces zeros in t by 1; *is_zero marks them. */
static tenon_status_t not_zero(tenon_call_t *call, tenon_tensor_t *t, tenon_tensor_t **is_zero,
                               tenon_tensor_t **out) {
  tenon_tensor_t *one = core_number(call, t->dtype, 1);
  if (!one) return TENON_MEMORY;
  TENON_TRY(core_with(call, EQUAL, t, 0, is_zero));
  return INVOKE(call, WHERE, NULL, out, *is_zero, one, t);
}

/* batch_norm */

enum {
  DY,
  X,
  SCALE,
  BIAS,
  MEAN_OF,
  VAR,
  BATCH_INPUTS,
};

/* Gives an input with one number per channel the dtype of x and a shape that broadcasts to x. */
static tenon_status_t by_channel(tenon_call_t *call, int input, tenon_tensor_t **out) {
  tenon_tensor_t *x = call->inputs[X];
  int64_t shape[TENON_RANK_MAX] = {x->shape[1]};
  for (int32_t i = 2; i < x->ndim; i++)
    shape[i - 1] = 1;
  TENON_TRY(cast_as(call, call->inputs[input], x, out));
  return core_reshape(call, RESHAPE, *out, x->ndim - 1, shape, out);
}

/* Gives the gradient of a per-channel input: the sum of t over all other axes. */
static tenon_status_t give_sum(tenon_call_t *call, int input, tenon_tensor_t *t) {
  tenon_tensor_t *x = call->inputs[X];
  tenon_tensor_t *to;
  int64_t shape[TENON_RANK_MAX] = {x->shape[1]};
  for (int32_t i = 2; i < x->ndim; i++)
    shape[i - 1] = 1;
  if (!(to = core_ints(call, x->ndim - 1, shape))) return TENON_MEMORY;
  TENON_TRY(invoke_binary(call, SUM_TO, t, to, &t));
  TENON_TRY(core_reshape(call, RESHAPE, t, 1, shape, &t));
  TENON_TRY(cast_as(call, t, call->inputs[input], &t));
  return call->host->assign(call, (uint32_t)(input - X), t);
}

/* y = (x - mean) * inverse * scale + bias, with inverse = (var + epsilon)^(-1/2), whose derivative
 * is -inverse^3 / 2. */
static tenon_status_t batch_norm_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[DY];
  tenon_tensor_t *scale, *mean, *inverse, *dx, *t;
  TENON_TRY(by_channel(call, SCALE, &scale));
  TENON_TRY(by_channel(call, VAR, &t));
  TENON_TRY(core_with(call, ADD, t, call->attrs[0].as.f, &t));
  TENON_TRY(invoke_binary(call, RSQRT, t, NULL, &inverse));
  TENON_TRY(invoke_binary(call, MUL, scale, inverse, &t));
  TENON_TRY(invoke_binary(call, MUL, dy, t, &dx));
  if (call->outputs[BIAS - X]) TENON_TRY(give_sum(call, BIAS, dy));
  if (call->outputs[MEAN_OF - X]) {
    TENON_TRY(core_with(call, MUL, dx, -1, &t));
    TENON_TRY(give_sum(call, MEAN_OF, t));
  }
  if (call->outputs[SCALE - X] || call->outputs[VAR - X]) {
    tenon_tensor_t *normal, *square;
    TENON_TRY(by_channel(call, MEAN_OF, &mean));
    TENON_TRY(invoke_binary(call, SUB, call->inputs[X], mean, &normal));
    TENON_TRY(invoke_binary(call, MUL, normal, inverse, &normal));
    if (call->outputs[SCALE - X]) {
      TENON_TRY(invoke_binary(call, MUL, dy, normal, &t));
      TENON_TRY(give_sum(call, SCALE, t));
    }
    if (call->outputs[VAR - X]) {
      TENON_TRY(invoke_binary(call, MUL, inverse, inverse, &square));
      TENON_TRY(invoke_binary(call, MUL, scale, square, &t));
      TENON_TRY(core_with(call, MUL, t, -0.5, &t));
      TENON_TRY(invoke_binary(call, MUL, normal, t, &t));
      TENON_TRY(invoke_binary(call, MUL, dy, t, &t));
      TENON_TRY(give_sum(call, VAR, t));
    }
  }
  return call->outputs[0] ? call->host->assign(call, 0, dx) : TENON_OK;
}

/* lrn */

/* Means over windows of `size` channels, `before` of them before the center, of a tensor [N, 1, C,
 * rest]. Channels outside the tensor count as 0. */
static tenon_status_t channel_means(tenon_call_t *call, tenon_tensor_t *t, int64_t size,
                                    int64_t before, tenon_tensor_t **out) {
  int64_t kernel[2] = {size, 1};
  int64_t pads[4] = {before, 0, size - 1 - before, 0};
  tenon_value_t attrs[] = {
      value_ints(2, kernel),         value_ints(0, NULL), value_ints(4, pads), value_ints(0, NULL),
      value_choice(WINDOW_EXPLICIT), value_flag(0),       value_flag(1)};
  return INVOKE(call, AVERAGE_POOL, attrs, out, t);
}

/* y = x d^-beta with d = bias + alpha * means(x^2). So dx = dy d^-beta - 2 alpha beta x * means(dy
 * x d^(-beta - 1)), over the channels whose windows contain x. */
static tenon_status_t lrn_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *d, *power, *t;
  int64_t size = call->attrs[0].as.i;
  int64_t before = (size - 1) / 2;
  int64_t rest = 1;
  double alpha = call->attrs[1].as.f;
  double beta = call->attrs[2].as.f;
  if (tenon_count(x) == 0) return call->host->assign(call, 0, dy);
  for (int32_t i = 2; i < x->ndim; i++)
    rest *= x->shape[i];
  int64_t shape[4] = {x->shape[0], 1, x->shape[1], rest};
  TENON_TRY(core_reshape(call, RESHAPE, x, 4, shape, &x));
  TENON_TRY(core_reshape(call, RESHAPE, dy, 4, shape, &dy));
  TENON_TRY(invoke_binary(call, MUL, x, x, &t));
  TENON_TRY(channel_means(call, t, size, before, &t));
  TENON_TRY(core_with(call, MUL, t, alpha, &t));
  TENON_TRY(core_with(call, ADD, t, call->attrs[3].as.f, &d));
  TENON_TRY(core_with(call, POW, d, -beta, &power));
  TENON_TRY(invoke_binary(call, MUL, dy, power, &dy));
  TENON_TRY(invoke_binary(call, MUL, dy, x, &t));
  TENON_TRY(invoke_binary(call, DIV, t, d, &t));
  TENON_TRY(channel_means(call, t, size, size - 1 - before, &t));
  TENON_TRY(invoke_binary(call, MUL, t, x, &t));
  TENON_TRY(core_with(call, MUL, t, 2 * alpha * beta, &t));
  TENON_TRY(invoke_binary(call, SUB, dy, t, &t));
  x = call->inputs[1];
  TENON_TRY(core_reshape(call, RESHAPE, t, x->ndim, x->shape, &t));
  return call->host->assign(call, 0, t);
}

/* lp_norm, mean_variance_norm */

/* y = x / n, so dx = (dy - dn sum(dy y)) / n, where dn, the derivative of n with respect to x, is
 * sign(x) or y. Where n is 0, dx is 0. */
static tenon_status_t lp_norm_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *axes, *shape, *n, *zero, *is_zero, *y, *dn, *t;
  int64_t axis = call->attrs[0].as.i < 0 ? call->attrs[0].as.i + x->ndim : call->attrs[0].as.i;
  int64_t sums[TENON_RANK_MAX];
  for (int32_t i = 0; i < x->ndim; i++)
    sums[i] = i == axis ? 1 : x->shape[i];
  if (!(axes = core_ints(call, 1, &axis)) || !(shape = core_ints(call, x->ndim, sums)))
    return TENON_MEMORY;
  if (!(zero = core_number(call, x->dtype, 0))) return TENON_MEMORY;
  TENON_TRY(invoke_binary(call, call->attrs[1].as.i == 1 ? L1 : L2, x, axes, &n));
  TENON_TRY(not_zero(call, n, &is_zero, &n));
  TENON_TRY(invoke_binary(call, DIV, x, n, &y));
  dn = y;
  if (call->attrs[1].as.i == 1) TENON_TRY(invoke_binary(call, SIGN, x, NULL, &dn));
  TENON_TRY(invoke_binary(call, MUL, dy, y, &t));
  TENON_TRY(invoke_binary(call, SUM_TO, t, shape, &t));
  TENON_TRY(invoke_binary(call, MUL, dn, t, &t));
  TENON_TRY(invoke_binary(call, SUB, dy, t, &t));
  TENON_TRY(invoke_binary(call, DIV, t, n, &t));
  TENON_TRY(INVOKE(call, WHERE, NULL, &t, is_zero, zero, t));
  return call->host->assign(call, 0, t);
}

/* y = d r with d = x - mean(x), s = sqrt(mean(d^2)), r = 1 / (s + 1e-9). So dx = (dy - mean(dy)) r
 * - d mean(dy d) r^2 / s. Where s is 0, d is 0 too. */
static tenon_status_t mean_variance_norm_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *axes, *one, *d, *s, *r, *dx, *is_zero, *t;
  tenon_value_t attrs[2] = {value_flag(1), value_flag(1)};
  if (!(axes = core_ints(call, call->attrs[0].count, call->attrs[0].as.ints))) return TENON_MEMORY;
  if (!(one = core_number(call, x->dtype, 1))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, MEAN, attrs, &t, x, axes));
  TENON_TRY(invoke_binary(call, SUB, x, t, &d));
  TENON_TRY(invoke_binary(call, MUL, d, d, &t));
  TENON_TRY(INVOKE(call, MEAN, attrs, &t, t, axes));
  TENON_TRY(invoke_binary(call, SQRT, t, NULL, &s));
  TENON_TRY(core_with(call, ADD, s, 1e-9, &t));
  TENON_TRY(invoke_binary(call, DIV, one, t, &r));
  TENON_TRY(INVOKE(call, MEAN, attrs, &t, dy, axes));
  TENON_TRY(invoke_binary(call, SUB, dy, t, &t));
  TENON_TRY(invoke_binary(call, MUL, t, r, &dx));
  TENON_TRY(invoke_binary(call, MUL, dy, d, &t));
  TENON_TRY(INVOKE(call, MEAN, attrs, &t, t, axes));
  TENON_TRY(invoke_binary(call, MUL, t, r, &t));
  TENON_TRY(invoke_binary(call, MUL, t, r, &t));
  TENON_TRY(not_zero(call, s, &is_zero, &s));
  TENON_TRY(invoke_binary(call, DIV, t, s, &t));
  TENON_TRY(invoke_binary(call, MUL, d, t, &t));
  TENON_TRY(invoke_binary(call, SUB, dx, t, &dx));
  return call->host->assign(call, 0, dx);
}

static tenon_status_t batch_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, BATCH_INPUTS - X, 2, NULL);
}
static tenon_status_t lrn_infer(tenon_infer_t *infer) {
  if (infer->attrs[0].as.i < 1)
    return tenon_fail(infer, TENON_INVALID, "size is %" PRId64, infer->attrs[0].as.i);
  return core_backward_infer(infer, 1, 2, NULL);
}
static tenon_status_t lp_infer(tenon_infer_t *infer) {
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, infer->inputs[X]->ndim, &axis));
  return core_backward_infer(infer, 1, 0, NULL);
}
static tenon_status_t like_x(tenon_infer_t *infer) {
  return core_backward_infer(infer, 1, 0, NULL);
}

/* clang-format off */
#define FACTS(name, infer, run)                                                                    \
  TENON_DOC("The gradients of " name "."),                                                         \
  TENON_TRAITS(TENON_PURE),                                                                        \
  TENON_USES(BACKWARD_USES),                                                                       \
  TENON_INFER(infer),                                                                              \
  TENON_COMPOSITE(run)
TENON_ITEMS(core_channel_backward,
  TENON_OP("batch_norm_backward(Tensor dy, Tensor x, Tensor scale, Tensor bias, Tensor mean, "
           "Tensor var, *, float epsilon=1e-5) -> (Tensor? dx, Tensor? dscale, Tensor? dbias, "
           "Tensor? dmean, Tensor? dvar)",
    FACTS("batch_norm", batch_infer, batch_norm_backward_run),
    TENON_SAMPLES("dy: [n, c, w], x: [n, c, w], scale: [c], bias: [c], mean: [c], "
                  "var: [c] uniform(0.5, 2)"),
    TENON_TYPES("dy, x: float; scale, bias: float; mean, var: float; dx = x; "
                "dscale, dbias = scale; dmean, dvar = mean")),
  TENON_OP("lrn_backward(Tensor dy, Tensor x, *, int size, float alpha=0.0001, float beta=0.75, "
           "float bias=1.0) -> Tensor",
    FACTS("lrn", lrn_infer, lrn_backward_run),
    TENON_TYPES("dy, x: float; out = x")),
  TENON_OP("lp_norm_backward(Tensor dy, Tensor x, *, int axis=-1, int p=2) -> Tensor",
    FACTS("lp_norm", lp_infer, lp_norm_backward_run),
    TENON_TYPES("dy, x: float; out = x")),
  TENON_OP("mean_variance_norm_backward(Tensor dy, Tensor x, *, int[] axes=[0, 2, 3]) -> Tensor",
    FACTS("mean_variance_norm", like_x, mean_variance_norm_backward_run),
    TENON_SAMPLES("dy: [n, c, h, w], x: [n, c, h, w]"),
    TENON_TYPES("dy, x: float; out = x")))
/* clang-format on */
