/* Gradients of layer_norm, rms_norm, group_norm and instance_norm, recomputed from x. They are
 * composites of pointwise operators and means, so that they have gradients themselves; the gradient
 * formulas in simd/norm.c call them. */
#include "axes.h"
#include "composite.h"
#include <tenon/check.h>

enum {
  MEAN,
  SUB,
  MUL,
  ADD,
  RSQRT,
  SUM_TO,
  RESHAPE,
  CAST_LIKE,
};
/* inputs of layer_norm_backward */
enum {
  DMEAN = 4,
  DINV_STD,
};
#define BACKWARD_USES                                                                              \
  "core::reduce_mean, core::sub, core::mul, core::add, core::rsqrt, core::sum_to, "                \
  "core::reshape, core::cast_like"

static tenon_status_t rows_infer(tenon_infer_t *infer, uint32_t count) {
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, infer->inputs[1]->ndim, &axis));
  return core_backward_infer(infer, count, 0, NULL);
}

/* The gradients of mean and inv_std have the shape of x, with 1 for the normalised axes. */
static tenon_status_t layer_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[1];
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  for (uint32_t i = DMEAN; i <= DINV_STD; i++) {
    const tenon_meta_t *t = infer->inputs[i];
    int differs = t && t->ndim != x->ndim;
    for (int32_t d = 0; t && !differs && d < x->ndim; d++)
      differs = d < axis ? dim_differ(t->dims[d], x->dims[d])
                         : tenon_is_known(t->dims[d]) && t->dims[d].value != 1;
    if (differs)
      return tenon_fail(infer, TENON_INVALID,
                        "input %u has shape %s; expected that of x %s with 1 from axis %d on", i,
                        dims_text(t->dims, t->ndim).text, dims_text(x->dims, x->ndim).text, axis);
  }
  return rows_infer(infer, 3);
}
static tenon_status_t rms_infer(tenon_infer_t *infer) { return rows_infer(infer, 2); }
static tenon_status_t group_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 3, 2, NULL);
}

static tenon_status_t invoke_binary(tenon_call_t *call, int use, tenon_tensor_t *a,
                                    tenon_tensor_t *b, tenon_tensor_t **out) {
  return INVOKE(call, use, NULL, out, a, b);
}

static tenon_status_t sum_to(tenon_call_t *call, uint32_t output, tenon_tensor_t *t,
                             const tenon_tensor_t *like) {
  tenon_tensor_t *shape = core_ints(call, like->ndim, like->shape);
  if (!shape) return TENON_MEMORY;
  TENON_TRY(invoke_binary(call, SUM_TO, t, shape, &t));
  return call->host->assign(call, output, t);
}

/* Normalises x over these axes to mean square 1 and, if it is centred, mean 0. *inverse is the
 * factor that x (or x - mean) was multiplied by. */
static tenon_status_t normalise_rows(tenon_call_t *call, tenon_tensor_t *x, tenon_tensor_t *axes,
                                     double epsilon, int centres, tenon_tensor_t **normal,
                                     tenon_tensor_t **inverse) {
  tenon_tensor_t *centred = x;
  tenon_tensor_t *t;
  if (centres) {
    TENON_TRY(invoke_binary(call, MEAN, x, axes, &t));
    TENON_TRY(invoke_binary(call, SUB, x, t, &centred));
  }
  TENON_TRY(invoke_binary(call, MUL, centred, centred, &t));
  TENON_TRY(invoke_binary(call, MEAN, t, axes, &t));
  TENON_TRY(core_with(call, ADD, t, epsilon, &t));
  TENON_TRY(invoke_binary(call, RSQRT, t, NULL, inverse));
  return invoke_binary(call, MUL, centred, *inverse, normal);
}

/* With g the gradient of normal = (x - mean) * inverse: dx = inverse * (g - mean(g) - normal *
 * mean(g * normal)). Without centring, mean(g) is left out. */
static tenon_status_t normalise_gradient(tenon_call_t *call, tenon_tensor_t *g,
                                         tenon_tensor_t *normal, tenon_tensor_t *inverse,
                                         tenon_tensor_t *axes, int centres, tenon_tensor_t **dx) {
  tenon_tensor_t *t;
  TENON_TRY(invoke_binary(call, MUL, g, normal, &t));
  TENON_TRY(invoke_binary(call, MEAN, t, axes, &t));
  TENON_TRY(invoke_binary(call, MUL, normal, t, &t));
  TENON_TRY(invoke_binary(call, SUB, g, t, dx));
  if (centres) {
    TENON_TRY(invoke_binary(call, MEAN, g, axes, &t));
    TENON_TRY(invoke_binary(call, SUB, *dx, t, dx));
  }
  return invoke_binary(call, MUL, *dx, inverse, dx);
}

/* Adds the gradients of mean and inv_std to dx. With n the number of elements of a row,
 * dmean / dx = 1 / n and dinv_std / dx = -inverse^2 * normal / n. */
static tenon_status_t add_statistics(tenon_call_t *call, tenon_tensor_t *normal,
                                     tenon_tensor_t *inverse, int64_t n, tenon_tensor_t **dx) {
  tenon_tensor_t *t;
  if (call->inputs[DMEAN]) {
    TENON_TRY(invoke_binary(call, CAST_LIKE, call->inputs[DMEAN], *dx, &t));
    TENON_TRY(core_with(call, MUL, t, 1.0 / (double)n, &t));
    TENON_TRY(invoke_binary(call, ADD, *dx, t, dx));
  }
  if (call->inputs[DINV_STD]) {
    TENON_TRY(invoke_binary(call, CAST_LIKE, call->inputs[DINV_STD], *dx, &t));
    TENON_TRY(core_with(call, MUL, t, 1.0 / (double)n, &t));
    TENON_TRY(invoke_binary(call, MUL, t, inverse, &t));
    TENON_TRY(invoke_binary(call, MUL, t, inverse, &t));
    TENON_TRY(invoke_binary(call, MUL, t, normal, &t));
    TENON_TRY(invoke_binary(call, SUB, *dx, t, dx));
  }
  return TENON_OK;
}

static tenon_status_t row_norm_backward(tenon_call_t *call, int centres) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *scale = call->inputs[2];
  tenon_tensor_t *axes, *inverse, *normal, *t;
  int64_t at[TENON_RANK_MAX];
  int64_t count = 1;
  int64_t first = call->attrs[0].as.i < 0 ? call->attrs[0].as.i + x->ndim : call->attrs[0].as.i;
  for (int64_t i = first; i < x->ndim; i++) {
    at[i - first] = i;
    count *= x->shape[i];
  }
  if (!(axes = core_ints(call, x->ndim - first, at))) return TENON_MEMORY;
  TENON_TRY(normalise_rows(call, x, axes, call->attrs[1].as.f, centres, &normal, &inverse));
  if (call->outputs[1]) {
    TENON_TRY(invoke_binary(call, MUL, dy, normal, &t));
    TENON_TRY(sum_to(call, 1, t, scale));
  }
  if (centres && call->outputs[2]) TENON_TRY(sum_to(call, 2, dy, call->inputs[3]));
  if (!call->outputs[0]) return TENON_OK;
  if (scale) TENON_TRY(invoke_binary(call, MUL, dy, scale, &dy));
  TENON_TRY(normalise_gradient(call, dy, normal, inverse, axes, centres, &t));
  if (centres && count) TENON_TRY(add_statistics(call, normal, inverse, count, &t));
  return call->host->assign(call, 0, t);
}

/* The sum over all axes except channels, [C]. */
static tenon_status_t sum_to_channels(tenon_call_t *call, uint32_t output, tenon_tensor_t *t,
                                      const int64_t *channels) {
  tenon_tensor_t *shape = core_ints(call, t->ndim - 1, channels);
  if (!shape) return TENON_MEMORY;
  TENON_TRY(invoke_binary(call, SUM_TO, t, shape, &t));
  TENON_TRY(core_reshape(call, RESHAPE, t, 1, channels, &t));
  return call->host->assign(call, output, t);
}

/* x as [N, groups, n] is normalised over its last axis. */
static tenon_status_t group_norm_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *scale = call->inputs[2];
  tenon_tensor_t *axes, *normal, *inverse, *t;
  int64_t groups = call->attrs[0].as.i > 0 ? call->attrs[0].as.i : x->shape[1];
  int64_t last = 2;
  int64_t n = x->shape[1];
  /* shape of per-channel numbers that broadcast to what follows the batch */
  int64_t channels[TENON_RANK_MAX] = {n};
  for (int32_t i = 2; i < x->ndim; i++) {
    n *= x->shape[i];
    channels[i - 1] = 1;
  }
  int64_t grouped[3] = {x->shape[0], groups, groups ? n / groups : 0};
  if (!(axes = core_ints(call, 1, &last))) return TENON_MEMORY;
  TENON_TRY(core_reshape(call, RESHAPE, x, 3, grouped, &t));
  TENON_TRY(normalise_rows(call, t, axes, call->attrs[1].as.f, 1, &normal, &inverse));
  if (call->outputs[1]) {
    TENON_TRY(core_reshape(call, RESHAPE, normal, x->ndim, x->shape, &t));
    TENON_TRY(invoke_binary(call, MUL, dy, t, &t));
    TENON_TRY(sum_to_channels(call, 1, t, channels));
  }
  if (call->outputs[2]) TENON_TRY(sum_to_channels(call, 2, dy, channels));
  if (!call->outputs[0]) return TENON_OK;
  if (scale) {
    TENON_TRY(core_reshape(call, RESHAPE, scale, x->ndim - 1, channels, &t));
    TENON_TRY(invoke_binary(call, MUL, dy, t, &dy));
  }
  TENON_TRY(core_reshape(call, RESHAPE, dy, 3, grouped, &t));
  TENON_TRY(normalise_gradient(call, t, normal, inverse, axes, 1, &t));
  TENON_TRY(core_reshape(call, RESHAPE, t, x->ndim, x->shape, &t));
  return call->host->assign(call, 0, t);
}

static tenon_status_t layer_norm_backward_run(tenon_call_t *call) {
  return row_norm_backward(call, 1);
}
static tenon_status_t rms_norm_backward_run(tenon_call_t *call) {
  return row_norm_backward(call, 0);
}

/* clang-format off */
TENON_ITEMS(core_norm_backward,
  TENON_OP("layer_norm_backward(Tensor dy, Tensor x, Tensor? scale=None, Tensor? bias=None, "
           "Tensor? dmean=None, Tensor? dinv_std=None, *, int axis=-1, float epsilon=1e-5) -> "
           "(Tensor? dx, Tensor? dscale, Tensor? dbias)",
    TENON_DOC("The gradients of layer_norm; dmean and dinv_std are those of its statistics."),
    TENON_SAMPLES("dy: [n, w], x: [n, w], scale: [w], bias: [w], dmean: [n, 1], dinv_std: [n, 1]"),
    TENON_TYPES("dy, x, scale, bias: float; dmean, dinv_std: float; dx, dscale, dbias = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_INFER(layer_infer),
    TENON_COMPOSITE(layer_norm_backward_run)),
  TENON_OP("rms_norm_backward(Tensor dy, Tensor x, Tensor? scale=None, *, int axis=-1, "
           "float epsilon=1e-5) -> (Tensor? dx, Tensor? dscale)",
    TENON_DOC("The gradients of rms_norm."),
    TENON_SAMPLES("dy: [n, w], x: [n, w], scale: [w]"),
    TENON_TYPES("dy, x, scale: float; dx, dscale = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_INFER(rms_infer),
    TENON_COMPOSITE(rms_norm_backward_run)),
  TENON_OP("group_norm_backward(Tensor dy, Tensor x, Tensor? scale=None, Tensor? bias=None, *, "
           "int groups=0, float epsilon=1e-5) -> (Tensor? dx, Tensor? dscale, Tensor? dbias)",
    TENON_DOC("The gradients of group_norm; with groups=0, of instance_norm."),
    TENON_SAMPLES("dy: [n, 6, w], x: [n, 6, w], scale: [6], bias: [6], groups = 2"),
    TENON_TYPES("dy, x, scale, bias: float; dx, dscale, dbias = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_INFER(group_infer),
    TENON_COMPOSITE(group_norm_backward_run)))
/* clang-format on */
