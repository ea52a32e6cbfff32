/* recur.c: a library with the operator of the network's custom layer, and its gradient.
 *
 * The layer is a recurrence over time, which a program in JAX writes as a scan.  Here it is a loop
 * over each signal, and the host runs the signals on several threads. */
#include <tenon/op.h>

/* One signal: `steps` times `channels` numbers. */
typedef struct extents_t {
  int64_t signals;
  int64_t steps;
  int64_t channels;
} extents_t;

static extents_t extents_of(const tenon_tensor_t *x) {
  const extents_t extents = {x->shape[0], x->shape[1], x->shape[2]};
  return extents;
}

static tenon_status_t ema_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const extents_t *e = (const extents_t *)argument;
  const float *decay = (const float *)call->inputs[1]->data;
  for (int64_t s = begin; s < end; s++) {
    const float *x = (const float *)call->inputs[0]->data + s * e->steps * e->channels;
    float *y = (float *)call->outputs[0]->data + s * e->steps * e->channels;
    for (int64_t i = 0; i < e->steps * e->channels; i++) {
      const float d = decay[i % e->channels];
      y[i] = (1 - d) * x[i] + (i < e->channels ? 0 : d * y[i - e->channels]);
    }
  }
  return TENON_OK;
}

static tenon_status_t ema_run(tenon_call_t *call) {
  extents_t e = extents_of(call->inputs[0]);
  return call->host->parallel(call, e.signals, 1, ema_part, &e);
}

/* Runs backwards in time: h is the gradient of y[i], also through all later results. The inputs are
 * grad, x, decay and y, the results dx and ddecay. */
static tenon_status_t ema_backward_run(tenon_call_t *call) {
  const extents_t e = extents_of(call->inputs[0]);
  const float *decay = (const float *)call->inputs[2]->data;
  float *ddecay = (float *)call->outputs[1]->data;
  for (int64_t c = 0; c < e.channels; c++)
    ddecay[c] = 0;
  for (int64_t s = 0; s < e.signals; s++) {
    const int64_t first = s * e.steps * e.channels;
    const float *grad = (const float *)call->inputs[0]->data + first;
    const float *x = (const float *)call->inputs[1]->data + first;
    const float *y = (const float *)call->inputs[3]->data + first;
    float *dx = (float *)call->outputs[0]->data + first;
    for (int64_t c = 0; c < e.channels; c++) {
      float h = 0;
      for (int64_t i = (e.steps - 1) * e.channels + c; i >= 0; i -= e.channels) {
        h = grad[i] + decay[c] * h;
        dx[i] = (1 - decay[c]) * h;
        ddecay[c] += h * ((i < e.channels ? 0 : y[i - e.channels]) - x[i]);
      }
    }
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(recur, "1.0.0",
  TENON_OP("ema(Tensor x, Tensor decay) -> Tensor",
    TENON_DOC("Moving average over time: y[t] = decay * y[t - 1] + (1 - decay) * x[t]."),
    TENON_TYPES("x, decay: f32; out = x"),
    TENON_SHAPES("x: [signals, steps, channels]; decay: [channels];"
                 "out: [signals, steps, channels]"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x, decay: ema_backward(grad, x, decay, out)"),
    TENON_SHARDING("x: [signals, _, channels]; decay: [channels]; out: [signals, _, channels]"),
    TENON_KERNEL("cpu", ema_run)),
  TENON_OP("ema_backward(Tensor grad, Tensor x, Tensor decay, Tensor y) -> "
           "(Tensor dx, Tensor ddecay)",
    TENON_DOC("Gradients of ema."),
    TENON_TYPES("grad, x, decay, y: f32; dx = x; ddecay = x"),
    TENON_SHAPES("grad: [signals, steps, channels]; x = grad; decay: [channels]; y = grad;"
                 "dx: [signals, steps, channels]; ddecay: [channels]"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", ema_backward_run)))
/* clang-format on */
