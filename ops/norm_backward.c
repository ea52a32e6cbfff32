/* Gradients of layer_norm and rms_norm, from x again: composites of pointwise operators and means, so that they have gradients
 * themselves.  Called by the gradient texts in simd/norm.c. */
#include "composite.h"

enum { MEAN, SUB, MUL, ADD, RSQRT, SUM_TO };
#define BACKWARD_USES "core::reduce_mean, core::sub, core::mul, core::add, core::rsqrt, core::sum_to"

static tenon_status_t layer_infer(tenon_infer_t *infer) { return core_gradients_infer(infer, 1, 3); }
static tenon_status_t rms_infer(tenon_infer_t *infer) { return core_gradients_infer(infer, 1, 2); }

static tenon_status_t two(tenon_call_t *call, int use, tenon_tensor_t *a, tenon_tensor_t *b, tenon_tensor_t **out) {
  return INVOKE(call, use, NULL, out, a, b);
}

static tenon_status_t sum_to(tenon_call_t *call, uint32_t output, tenon_tensor_t *t, const tenon_tensor_t *like) {
  tenon_tensor_t *shape = core_ints(call, like->ndim, like->shape);
  if (!shape) return TENON_MEMORY;
  TENON_TRY(two(call, SUM_TO, t, shape, &t));
  return call->host->assign(call, output, t);
}

/* With y = normal * scale + bias and normal = (x - mean) * inverse: dx = inverse * (g - mean(g) - normal * mean(g * normal)),
 * where g = dy * scale; without centring, without mean(g). */
static tenon_status_t backward(tenon_call_t *call, int centres) {
  tenon_tensor_t *dy = call->inputs[0], *x = call->inputs[1], *scale = call->inputs[2], *axes;
  tenon_tensor_t *centred = x, *mean, *inverse, *normal, *g = dy, *dx, *t;
  int64_t at[TENON_RANK_MAX], first = call->attrs[0].as.i < 0 ? call->attrs[0].as.i + x->ndim : call->attrs[0].as.i;
  for (int64_t i = first; i < x->ndim; i++) at[i - first] = i;
  if (!(axes = core_ints(call, x->ndim - first, at))) return TENON_MEMORY;
  if (centres) {
    TENON_TRY(two(call, MEAN, x, axes, &mean));
    TENON_TRY(two(call, SUB, x, mean, &centred));
  }
  TENON_TRY(two(call, MUL, centred, centred, &t));
  TENON_TRY(two(call, MEAN, t, axes, &t));
  TENON_TRY(core_with(call, ADD, t, call->attrs[1].as.f, &t));
  TENON_TRY(two(call, RSQRT, t, NULL, &inverse));
  TENON_TRY(two(call, MUL, centred, inverse, &normal));
  if (call->outputs[1]) {
    TENON_TRY(two(call, MUL, dy, normal, &t));
    TENON_TRY(sum_to(call, 1, t, scale));
  }
  if (centres && call->outputs[2]) TENON_TRY(sum_to(call, 2, dy, call->inputs[3]));
  if (!call->outputs[0]) return TENON_OK;
  if (scale) TENON_TRY(two(call, MUL, dy, scale, &g));
  TENON_TRY(two(call, MUL, g, normal, &t));
  TENON_TRY(two(call, MEAN, t, axes, &t));
  TENON_TRY(two(call, MUL, normal, t, &t));
  TENON_TRY(two(call, SUB, g, t, &dx));
  if (centres) {
    TENON_TRY(two(call, MEAN, g, axes, &mean));
    TENON_TRY(two(call, SUB, dx, mean, &dx));
  }
  TENON_TRY(two(call, MUL, dx, inverse, &dx));
  return call->host->assign(call, 0, dx);
}

static tenon_status_t layer_norm_backward_run(tenon_call_t *call) { return backward(call, 1); }
static tenon_status_t rms_norm_backward_run(tenon_call_t *call) { return backward(call, 0); }

/* clang-format off */
TENON_ITEMS(core_norm_backward,
  TENON_OP("layer_norm_backward(Tensor dy, Tensor x, Tensor? scale=None, Tensor? bias=None, *, int axis=-1, float epsilon=1e-5) -> "
           "(Tensor? dx, Tensor? dscale, Tensor? dbias)",
    TENON_DOC("The gradients of layer_norm."), TENON_TYPES("dy, x, scale, bias: float; dx, dscale, dbias = x"),
    TENON_TRAITS(TENON_PURE), TENON_USES(BACKWARD_USES), TENON_INFER(layer_infer), TENON_COMPOSITE(layer_norm_backward_run)),
  TENON_OP("rms_norm_backward(Tensor dy, Tensor x, Tensor? scale=None, *, int axis=-1, float epsilon=1e-5) -> (Tensor? dx, Tensor? dscale)",
    TENON_DOC("The gradients of rms_norm."), TENON_TYPES("dy, x, scale: float; dx, dscale = x"),
    TENON_TRAITS(TENON_PURE), TENON_USES(BACKWARD_USES), TENON_INFER(rms_infer), TENON_COMPOSITE(rms_norm_backward_run)))
/* clang-format on */
