/* Gradients of conv and conv_transpose: composites of each other's forward operators and
 * conv_weight_backward, so that they have gradients themselves. The gradient formulas in conv.c
 * call them.
 * Invariant: paddings are made explicit first, so that all extents match the forward call. */
#include "axes.h"
#include "composite.h"
#include "conv_im2col.h"
#include <tenon/check.h>

enum {
  CONV,
  CONV_TRANSPOSE,
  WEIGHT,
  REDUCE_SUM,
  FINISH,
};
#define BACKWARD_USES                                                                              \
  "core::conv, core::conv_transpose, core::conv_weight_backward, core::reduce_sum, "               \
  "core::finish_backward"
enum { ATTRS = CONV_BETA + 1 };

/* The attributes of a convolution, with explicit pads. */
typedef struct stated_t {
  int64_t strides[SPATIAL_MAX];
  int64_t dilations[SPATIAL_MAX];
  int64_t pads[2 * SPATIAL_MAX];
  int64_t more[SPATIAL_MAX];
  tenon_value_t attrs[ATTRS];
} stated_t;

static void state_window(stated_t *s, const window_t *w, int64_t group) {
  uint32_t rank = (uint32_t)w->rank;
  for (uint32_t i = 0; i < rank; i++) {
    s->strides[i] = w->stride[i];
    s->dilations[i] = w->dilation[i];
    s->pads[i] = w->before[i];
    s->pads[i + rank] = w->after[i];
  }
  s->attrs[0] = value_ints(rank, s->strides);
  s->attrs[1] = value_ints(2 * rank, s->pads);
  s->attrs[2] = value_ints(rank, s->dilations);
  s->attrs[3] = value_choice(WINDOW_EXPLICIT);
  s->attrs[CONV_GROUP] = value_int(group);
  s->attrs[CONV_ACTIVATION] = value_choice(FINISH_none);
  s->attrs[CONV_ALPHA] = s->attrs[CONV_BETA] = value_float(0);
}

static tenon_status_t assign_gradient(tenon_call_t *call, uint32_t output, int use,
                                      const stated_t *s, tenon_tensor_t *a, tenon_tensor_t *b,
                                      tenon_tensor_t *c) {
  tenon_tensor_t *t;
  TENON_TRY(INVOKE(call, use, s->attrs, &t, a, b, c));
  return call->host->assign(call, output, t);
}

static tenon_status_t assign_weight_gradient(tenon_call_t *call, const stated_t *s,
                                             tenon_tensor_t *dy, tenon_tensor_t *x) {
  const tenon_tensor_t *w = call->inputs[2];
  tenon_tensor_t *kernel = core_ints(call, w->ndim - 2, w->shape + 2);
  return kernel ? assign_gradient(call, 1, WEIGHT, s, dy, x, kernel) : TENON_MEMORY;
}

/* Sums over all axes except channels. */
static tenon_status_t assign_bias_gradient(tenon_call_t *call, tenon_tensor_t *dy) {
  tenon_value_t attrs[2] = {value_flag(0), value_flag(0)};
  int64_t at[TENON_RANK_MAX] = {0};
  tenon_tensor_t *axes, *t;
  for (int32_t i = 2; i < dy->ndim; i++)
    at[i - 1] = i;
  if (!(axes = core_ints(call, dy->ndim - 1, at))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, REDUCE_SUM, attrs, &t, dy, axes));
  return call->host->assign(call, 2, t);
}

static tenon_status_t conv_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *w = call->inputs[2];
  const tenon_value_t *attrs = call->attrs;
  window_args_t args = window_args(attrs, 0);
  window_t window;
  stated_t s;
  core_window_set(&window, &args, x->ndim - 2, x->shape + 2, w->shape + 2, dy->shape + 2);
  state_window(&s, &window, attrs[CONV_GROUP].as.i);
  if (attrs[CONV_ACTIVATION].as.i != FINISH_none) {
    tenon_tensor_t *y;
    TENON_TRY(INVOKE(call, CONV, s.attrs, &y, x, w, call->inputs[3], call->inputs[4]));
    TENON_TRY(INVOKE(call, FINISH, attrs + CONV_ACTIVATION, &dy, dy, y));
  }
  if (call->outputs[0]) {
    stated_t t;
    state_window(&t, &window, attrs[CONV_GROUP].as.i);
    for (int32_t i = 0; i < window.rank; i++) /* pixels that no window reached */
      t.more[i] = window.in[i] + window.before[i] + window.after[i] -
                  (window.kernel[i] - 1) * window.dilation[i] - 1 -
                  (window.out[i] - 1) * window.stride[i];
    t.attrs[CONV_GROUP + 1] = value_ints((uint32_t)window.rank, t.more);
    t.attrs[CONV_GROUP + 2] = value_ints(0, 0);
    TENON_TRY(assign_gradient(call, 0, CONV_TRANSPOSE, &t, dy, w, 0));
  }
  if (call->outputs[1]) TENON_TRY(assign_weight_gradient(call, &s, dy, x));
  if (call->outputs[2]) TENON_TRY(assign_bias_gradient(call, dy));
  return call->outputs[3] ? call->host->assign(call, 3, dy) : TENON_OK;
}

static tenon_status_t conv_transpose_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *w = call->inputs[2];
  window_t window;
  stated_t s;
  core_conv_transpose_window(call->attrs, x, w, dy, &window);
  for (int32_t i = 0; i < window.rank;
       i++) /* fewer pixels than one stride may stay unread; padding them away would cost more */
    if (window.after[i] < 0 && -window.after[i] < window.stride[i]) window.after[i] = 0;
  state_window(&s, &window, call->attrs[CONV_GROUP].as.i);
  if (call->outputs[0]) TENON_TRY(assign_gradient(call, 0, CONV, &s, dy, w, 0));
  if (call->outputs[1]) TENON_TRY(assign_weight_gradient(call, &s, x, dy));
  return call->outputs[2] ? assign_bias_gradient(call, dy) : TENON_OK;
}

static tenon_status_t conv_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 4, 3, core_conv_infer);
}
static tenon_status_t conv_transpose_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 3, 3, core_conv_transpose_infer);
}

/* clang-format off */
TENON_ITEMS(core_conv_backward,
  TENON_OP("conv_backward(Tensor dy, Tensor x, Tensor w, Tensor? bias=None, Tensor? residual=None, "
           "*, " WINDOW_ARGUMENTS ", int group=1, " FINISH_ARGUMENTS
           ") -> (Tensor? dx, Tensor? dw, Tensor? dbias, Tensor? dresidual)",
    TENON_DOC("The gradients of conv."),
    TENON_SAMPLES("dy: [n, 3, 5], x: [n, c, 6], w: [3, c, 2], bias: [3], residual: [n, 3, 5]; "
                  "dy: [n, 4, 4, 5], x: [n, 4, 4, 5], w: [4, 2, 3, 3], bias: [4], residual: [n, 4, "
                  "4, 5], pads = [1, 1, 1, 1], group = 2"),
    TENON_TYPES("dy: float; x, w, bias, residual = dy; dx, dw, dbias, dresidual = dy"),
    TENON_INFER(conv_infer),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_COMPOSITE(conv_backward_run)),
  TENON_OP("conv_transpose_backward(Tensor dy, Tensor x, Tensor w, Tensor? bias=None, *, "
           WINDOW_ARGUMENTS
           ", int group=1, int[] output_padding=[], int[] output_shape=[]) -> (Tensor? dx, "
           "Tensor? dw, Tensor? dbias)",
    TENON_DOC("The gradients of conv_transpose."),
    TENON_SAMPLES("dy: [n, 3, 7], x: [n, c, 6], w: [c, 3, 2], bias: [3]"),
    TENON_TYPES("dy: float; x, w, bias = dy; dx, dw, dbias = dy"),
    TENON_INFER(conv_transpose_infer),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_COMPOSITE(conv_transpose_backward_run)))
/* clang-format on */
