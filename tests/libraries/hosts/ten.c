/* ten.c: a library with ten kinds of operators, which tests/adapters/jax_hosts_test.py builds once
 * and calls from C, NumPy, PyTorch and JAX: pointwise, of rows, a reduction, with a list, with
 * optional arguments, writing to an argument, with a state, random, with a result whose size
 * depends on data, and composite.
 *
 * Loops and rows compute in f64; the host widens and narrows other dtypes.  All gradient formulas
 * are calls of operators with gradient formulas, so they can be differentiated any number of
 * times. */
#include <math.h>
#include <stdlib.h>
#include <tenon/op.h>

static double read_number(const tenon_tensor_t *t, int64_t i) {
  return t->dtype.bits == 64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void write_number(tenon_tensor_t *t, int64_t i, double value) {
  if (t->dtype.bits == 64)
    ((double *)t->data)[i] = value;
  else
    ((float *)t->data)[i] = (float)value;
}

/* Row r of operand k. */
static double *row_of(const tenon_loop_t *loop, int k, int64_t r) {
  return (double *)(void *)((char *)loop->data[k] + r * loop->stride[k]);
}

/* ---- pointwise: wave, wave_slope ------------------------------------------------------------- */

static tenon_status_t wave_f64(const tenon_loop_t *loop) {
  const double *x = (const double *)loop->data[0];
  const double *amplitude = (const double *)loop->data[1];
  double *out = (double *)loop->data[2];
  const double frequency = loop->attrs[0].as.f;
  for (int64_t i = 0; i < loop->count; i++)
    out[i] = amplitude[i] * sin(frequency * x[i]);
  return TENON_OK;
}

static tenon_status_t wave_slope_f64(const tenon_loop_t *loop) {
  const double *x = (const double *)loop->data[0];
  const double *amplitude = (const double *)loop->data[1];
  double *out = (double *)loop->data[2];
  const double frequency = loop->attrs[0].as.f;
  for (int64_t i = 0; i < loop->count; i++)
    out[i] = amplitude[i] * frequency * cos(frequency * x[i]);
  return TENON_OK;
}

/* ---- of rows: softmax, softmax_backward ------------------------------------------------------ */

static tenon_status_t softmax_f64(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const double *x = row_of(loop, 0, r);
    double *out = row_of(loop, 1, r);
    double most = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < loop->count; i++)
      most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < loop->count; i++)
      sum += out[i] = exp(x[i] - most);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] /= sum;
  }
  return TENON_OK;
}

static double dot_rows(const double *a, const double *b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += a[i] * b[i];
  return sum;
}

/* out = y (g - <g, y>), which is linear in g and has a symmetric matrix. */
static tenon_status_t softmax_backward_f64(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const double *g = row_of(loop, 0, r);
    const double *y = row_of(loop, 1, r);
    double *out = row_of(loop, 2, r);
    const double mean = dot_rows(g, y, loop->count);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = y[i] * (g[i] - mean);
  }
  return TENON_OK;
}

/* ---- a reduction: dot, along ----------------------------------------------------------------- */

/* Extents before, along and after the axis of a reduction. */
typedef struct split_t {
  int64_t outer;
  int64_t count;
  int64_t inner;
} split_t;

static split_t split_at(const tenon_tensor_t *x, int64_t axis) {
  split_t split = {1, 1, 1};
  if (axis < 0) axis += x->ndim;
  for (int32_t d = 0; d < x->ndim; d++) {
    if (d < axis)
      split.outer *= x->shape[d];
    else if (d > axis)
      split.inner *= x->shape[d];
    else
      split.count *= x->shape[d];
  }
  return split;
}

static tenon_status_t check_axis(tenon_infer_t *infer, int32_t ndim, int64_t *axis) {
  *axis = infer->attrs[0].as.i;
  if (*axis < -ndim || *axis >= ndim)
    return tenon_fail(infer, TENON_INVALID, "axis is %d: expected %d to %d", (int)*axis, -ndim,
                      ndim - 1);
  if (*axis < 0) *axis += ndim;
  return TENON_OK;
}

static tenon_status_t dot_infer(tenon_infer_t *infer) {
  const tenon_meta_t *a = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int64_t axis;
  TENON_TRY(check_axis(infer, a->ndim, &axis));
  out->ndim = a->ndim - 1;
  for (int32_t d = 0; d < out->ndim; d++)
    out->dims[d] = a->dims[d < axis ? d : d + 1];
  return TENON_OK;
}

static tenon_status_t dot_run(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0];
  const tenon_tensor_t *b = call->inputs[1];
  const split_t split = split_at(a, call->attrs[0].as.i);
  for (int64_t o = 0; o < split.outer; o++) {
    for (int64_t i = 0; i < split.inner; i++) {
      double sum = 0;
      for (int64_t k = 0; k < split.count; k++) {
        const int64_t at = (o * split.count + k) * split.inner + i;
        sum += read_number(a, at) * read_number(b, at);
      }
      write_number(call->outputs[0], o * split.inner + i, sum);
    }
  }
  return TENON_OK;
}

static tenon_status_t along_infer(tenon_infer_t *infer) {
  const tenon_meta_t *g = infer->inputs[0];
  const tenon_meta_t *x = infer->inputs[1];
  int64_t axis;
  TENON_TRY(check_axis(infer, x->ndim, &axis));
  if (g->ndim != x->ndim - 1)
    return tenon_fail(infer, TENON_INVALID, "g has rank %d: expected %d", (int)g->ndim,
                      (int)x->ndim - 1);
  for (int32_t d = 0; d < g->ndim; d++)
    tenon_dim(infer, TENON_DIM_EQUAL, g->dims[d], x->dims[d < axis ? d : d + 1]);
  return TENON_OK;
}

static tenon_status_t along_run(tenon_call_t *call) {
  const tenon_tensor_t *g = call->inputs[0];
  const tenon_tensor_t *x = call->inputs[1];
  const split_t split = split_at(x, call->attrs[0].as.i);
  for (int64_t i = 0; i < tenon_count(x); i++) {
    const int64_t at = i / split.inner / split.count * split.inner + i % split.inner;
    write_number(call->outputs[0], i, read_number(g, at) * read_number(x, i));
  }
  return TENON_OK;
}

/* ---- a list: blend, parts, shares ------------------------------------------------------------ */

static tenon_status_t check_items(tenon_infer_t *infer, const tenon_meta_t *xs,
                                  const tenon_meta_t *first) {
  if (!xs->count) return tenon_fail(infer, TENON_INVALID, "xs is empty: expected a tensor or more");
  for (uint32_t k = 0; k < xs->count; k++) {
    const tenon_meta_t *x = xs->items[k];
    if (x->ndim != first->ndim)
      return tenon_fail(infer, TENON_INVALID, "item %u of xs has rank %d: expected %d", (unsigned)k,
                        (int)x->ndim, (int)first->ndim);
    for (int32_t d = 0; d < x->ndim; d++)
      tenon_dim(infer, TENON_DIM_EQUAL, x->dims[d], first->dims[d]);
  }
  return TENON_OK;
}

static tenon_status_t blend_infer(tenon_infer_t *infer) {
  const tenon_meta_t *xs = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (!xs->count) return tenon_fail(infer, TENON_INVALID, "xs is empty: expected a tensor or more");
  const tenon_meta_t *first = xs->items[0];
  TENON_TRY(check_items(infer, xs, first));
  tenon_dim(infer, TENON_DIM_EQUAL, infer->inputs[1]->dims[0], tenon_extent(xs->count));
  out->ndim = first->ndim;
  for (int32_t d = 0; d < first->ndim; d++)
    out->dims[d] = first->dims[d];
  return TENON_OK;
}

static tenon_status_t blend_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  for (int64_t i = 0; i < tenon_count(out); i++) {
    double sum = 0;
    for (int64_t k = 0; k < xs->shape[0]; k++)
      sum += read_number(call->inputs[1], k) * read_number(tenon_item(xs, k), i);
    write_number(out, i, sum);
  }
  return TENON_OK;
}

static tenon_status_t parts_infer(tenon_infer_t *infer) {
  const tenon_meta_t *g = infer->inputs[0];
  const tenon_dim_t count = infer->inputs[1]->dims[0];
  if (!tenon_is_known(count) || count.value > 1000)
    return tenon_fail(infer, TENON_UNIMPLEMENTED,
                      "the number of weights must be known, and at most 1000");
  TENON_TRY(infer->host->list(infer, 0, (uint32_t)count.value));
  for (int64_t k = 0; k < count.value; k++) {
    tenon_meta_t *item = infer->outputs[0]->items[k];
    item->ndim = g->ndim;
    for (int32_t d = 0; d < g->ndim; d++)
      item->dims[d] = g->dims[d];
  }
  return TENON_OK;
}

static tenon_status_t parts_run(tenon_call_t *call) {
  const tenon_tensor_t *g = call->inputs[0];
  for (int64_t k = 0; k < call->outputs[0]->shape[0]; k++) {
    const double weight = read_number(call->inputs[1], k);
    for (int64_t i = 0; i < tenon_count(g); i++)
      write_number(tenon_item(call->outputs[0], k), i, weight * read_number(g, i));
  }
  return TENON_OK;
}

static tenon_status_t shares_infer(tenon_infer_t *infer) {
  TENON_TRY(check_items(infer, infer->inputs[1], infer->inputs[0]));
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_extent(infer->inputs[1]->count);
  return TENON_OK;
}

static tenon_status_t shares_run(tenon_call_t *call) {
  const tenon_tensor_t *g = call->inputs[0];
  for (int64_t k = 0; k < call->inputs[1]->shape[0]; k++) {
    const tenon_tensor_t *x = tenon_item(call->inputs[1], k);
    double sum = 0;
    for (int64_t i = 0; i < tenon_count(g); i++)
      sum += read_number(g, i) * read_number(x, i);
    write_number(call->outputs[0], k, sum);
  }
  return TENON_OK;
}

/* ---- optional arguments: affine -------------------------------------------------------------- */

static tenon_status_t affine_f64(const tenon_loop_t *loop) {
  const double *x = (const double *)loop->data[0];
  const double *gain = (const double *)loop->data[1];
  const double *bias = (const double *)loop->data[2];
  double *out = (double *)loop->data[3];
  const double extra = loop->attrs[0].kind == TENON_KIND_NONE ? 0 : loop->attrs[0].as.f;
  for (int64_t i = 0; i < loop->count; i++) {
    const double scaled = gain ? x[i] * gain[i] : x[i];
    const double moved = bias ? scaled + bias[i] : scaled;
    out[i] = moved + extra;
  }
  return TENON_OK;
}

/* ---- writing to an argument: accumulate_ ----------------------------------------------------- */

static tenon_status_t accumulate_run(tenon_call_t *call) {
  tenon_tensor_t *total = call->inputs[0];
  const double decay = call->attrs[0].as.f;
  for (int64_t i = 0; i < tenon_count(total); i++)
    write_number(total, i, decay * read_number(total, i) + read_number(call->inputs[1], i));
  return TENON_OK;
}

/* ---- with a state: smooth -------------------------------------------------------------------- */

/* Binomial coefficients, whose sum is 1. */
typedef struct smooth_state_t {
  int64_t width;
  double weights[];
} smooth_state_t;

static tenon_status_t smooth_validate(tenon_node_t *node) {
  const int64_t width = node->attrs[0].as.i;
  if (width >= 1 && width <= 63 && width % 2) return TENON_OK;
  return tenon_fail(node, TENON_INVALID, "width is %d: expected an odd number from 1 to 63",
                    (int)width);
}

static tenon_status_t smooth_create(tenon_node_t *node) {
  const int64_t width = node->attrs[0].as.i;
  smooth_state_t *state =
      (smooth_state_t *)malloc(sizeof *state + (size_t)width * sizeof *state->weights);
  if (!state) return TENON_MEMORY;
  state->width = width;
  state->weights[0] = pow(0.5, (double)(width - 1));
  for (int64_t k = 1; k < width; k++)
    state->weights[k] = state->weights[k - 1] * (double)(width - k) / (double)k;
  node->state = state;
  return TENON_OK;
}

static tenon_status_t smooth_f64(const tenon_loop_t *loop) {
  const smooth_state_t *state = (const smooth_state_t *)loop->state;
  const int64_t half = state->width / 2;
  for (int64_t r = 0; r < loop->rows; r++) {
    const double *x = row_of(loop, 0, r);
    double *out = row_of(loop, 1, r);
    for (int64_t i = 0; i < loop->count; i++) {
      double sum = 0;
      for (int64_t k = -half; k <= half; k++)
        if (i + k >= 0 && i + k < loop->count) sum += state->weights[k + half] * x[i + k];
      out[i] = sum;
    }
  }
  return TENON_OK;
}

/* ---- random: jitter -------------------------------------------------------------------------- */

static tenon_status_t jitter_f64(const tenon_loop_t *loop) {
  const double *x = (const double *)loop->data[0];
  double *out = (double *)loop->data[1];
  const double by = loop->attrs[0].as.f;
  for (int64_t i = 0; i < loop->count; i++) {
    const uint32_t bits = tenon_random(loop->seed, loop->offset + loop->first + (uint64_t)i);
    out[i] = x[i] + by * (double)bits / 4294967296.0;
  }
  return TENON_OK;
}

/* ---- a size that depends on data: above ------------------------------------------------------ */

static tenon_status_t above_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] =
      tenon_dim(infer, TENON_DIM_BOUND, infer->inputs[0]->dims[0], tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t above_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t count = 0;
  for (int64_t i = 0; i < x->shape[0]; i++)
    if (read_number(x, i) > call->attrs[0].as.f)
      write_number(call->outputs[0], count++, read_number(x, i));
  return call->host->resize(call, 0, 1, &count);
}

/* ---- composite: layer ------------------------------------------------------------------------ */

static tenon_status_t layer_run(tenon_call_t *call) {
  tenon_tensor_t *sum = NULL;
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, call->inputs, &sum));
  tenon_tensor_t *outputs[1] = {call->outputs[0]};
  return call->host->invoke(call, call->uses[1], NULL, &sum, outputs);
}

/* clang-format off */
TENON_LIBRARY(ten, "1.0.0",
  TENON_OP("wave(Tensor x, Tensor amplitude, *, float frequency=1.0) -> Tensor",
    TENON_DOC("A sine: amplitude * sin(frequency * x)."),
    TENON_TYPES("x, amplitude: float; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: core::mul(grad, wave_slope(x, amplitude, frequency=frequency));"
                   "amplitude: core::mul(grad, wave(x, 1.0, frequency=frequency))"),
    TENON_LOOP("f64, f64 -> f64", wave_f64)),
  TENON_OP("wave_slope(Tensor x, Tensor amplitude, *, float frequency=1.0) -> Tensor",
    TENON_DOC("The derivative of wave: amplitude * frequency * cos(frequency * x)."),
    TENON_TYPES("x, amplitude: float; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: core::neg(core::mul(grad, core::mul(core::mul("
                   "     wave(x, amplitude, frequency=frequency), frequency), frequency)));"
                   "amplitude: core::mul(grad, wave_slope(x, 1.0, frequency=frequency))"),
    TENON_LOOP("f64, f64 -> f64", wave_slope_f64)),
  TENON_OP("softmax(Tensor x) -> Tensor",
    TENON_DOC("Exponentials along the last axis, divided by their sum."),
    TENON_TYPES("x: float; out = x"),
    TENON_SHAPES("x: [..., k]; out: [..., k]"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: softmax_backward(grad, out)"),
    TENON_BATCHING("x -> out"),
    TENON_SHARDING("x: [..., _]; out: [..., _]"),
    TENON_ROW("f64 -> f64", softmax_f64)),
  TENON_OP("softmax_backward(Tensor g, Tensor y) -> Tensor",
    TENON_DOC("Gradient of softmax, from its result."),
    TENON_TYPES("g, y: float; out = g"),
    TENON_SHAPES("g: [..., k]; y = g; out: [..., k]"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("g: softmax_backward(grad, y); y: core::sub(core::sub(core::mul(grad, g),"
                   "along(dot(g, y), grad)), along(dot(grad, y), g))"),
    TENON_BATCHING("g, y -> out"),
    TENON_SHARDING("g, y: [..., _]; out: [..., _]"),
    TENON_ROW("f64, f64 -> f64", softmax_backward_f64)),
  TENON_OP("dot(Tensor a, Tensor b, *, int axis=-1) -> Tensor",
    TENON_DOC("Sums of products along an axis."),
    TENON_TYPES("a, b: f32|f64; out = a"),
    TENON_SHAPES("b = a"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(dot_infer),
    TENON_GRADIENT("a: along(grad, b, axis=axis); b: along(grad, a, axis=axis)"),
    TENON_BATCHING("a, b -> out; shift axis"),
    TENON_KERNEL("cpu", dot_run)),
  TENON_OP("along(Tensor g, Tensor x, *, int axis=-1) -> Tensor",
    TENON_DOC("Multiplies x by g, which lacks the axis."),
    TENON_TYPES("g, x: f32|f64; out = g"),
    TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(along_infer),
    TENON_GRADIENT("g: dot(grad, x, axis=axis); x: along(g, grad, axis=axis)"),
    TENON_BATCHING("g, x -> out; shift axis"),
    TENON_KERNEL("cpu", along_run)),
  TENON_OP("blend(Tensor[] xs, Tensor weights) -> Tensor",
    TENON_DOC("The sum of tensors of one shape, each times its weight."),
    TENON_TYPES("xs: f32|f64; weights = xs; out = xs"),
    TENON_SHAPES("weights: [_]"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(blend_infer),
    TENON_GRADIENT("xs: parts(grad, weights); weights: shares(grad, xs)"),
    TENON_KERNEL("cpu", blend_run)),
  TENON_OP("parts(Tensor g, Tensor weights) -> Tensor[]",
    TENON_DOC("A tensor times each weight."),
    TENON_TYPES("g, weights: f32|f64; out = g"),
    TENON_SHAPES("weights: [_]"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(parts_infer),
    TENON_GRADIENT("g: blend(grad, weights); weights: shares(g, grad)"),
    TENON_KERNEL("cpu", parts_run)),
  TENON_OP("shares(Tensor g, Tensor[] xs) -> Tensor",
    TENON_DOC("The sum of the products of a tensor and each item of a list."),
    TENON_TYPES("g, xs: f32|f64; out = g"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(shares_infer),
    TENON_GRADIENT("g: blend(xs, grad); xs: parts(g, grad)"),
    TENON_KERNEL("cpu", shares_run)),
  TENON_OP("affine(Tensor x, Tensor? gain=None, Tensor? bias=None, *, float? extra=None) -> Tensor",
    TENON_DOC("x * gain + bias + extra, without the arguments that are absent."),
    TENON_TYPES("x, gain, bias: float; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: affine(grad, gain); gain: core::mul(grad, x); bias: core::identity(grad)"),
    TENON_LOOP("f64, f64, f64 -> f64", affine_f64)),
  TENON_OP("accumulate_(Tensor(a!) total, Tensor x, *, float decay=0.5) -> Tensor(a!)",
    TENON_DOC("Sets total to decay * total + x."),
    TENON_TYPES("total, x: f32|f64; out = total"),
    TENON_SHAPES("x = total; out = total"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", accumulate_run)),
  TENON_OP("smooth(Tensor x, *, int width=3) -> Tensor",
    TENON_DOC("Weighs neighbours along the last axis by binomial coefficients."),
    TENON_TYPES("x: float; out = x"),
    TENON_SHAPES("x: [..., k]; out: [..., k]"),
    TENON_TRAITS(TENON_PURE),
    TENON_VALIDATE(smooth_validate),
    TENON_STATE(smooth_create, free),
    TENON_GRADIENT("x: smooth(grad, width=width)"),
    TENON_BATCHING("x -> out"),
    TENON_SHARDING("x: [..., _]; out: [..., _]"),
    TENON_ROW("f64 -> f64", smooth_f64)),
  TENON_OP("jitter(Tensor x, *, float by=1.0) -> Tensor",
    TENON_DOC("Adds random numbers from 0 to `by`."),
    TENON_TYPES("x: float; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE | TENON_RANDOM),
    TENON_GRADIENT("x: core::identity(grad)"),
    TENON_LOOP("f64 -> f64", jitter_f64)),
  TENON_OP("above(Tensor x, *, float threshold=0.0) -> Tensor",
    TENON_DOC("The elements that are greater than a threshold."),
    TENON_TYPES("x: f32|f64; out = x"),
    TENON_SHAPES("x: [_]"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(above_infer),
    TENON_KERNEL("cpu", above_run)),
  TENON_OP("layer(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor",
    TENON_DOC("tanh(x @ weight + bias)."),
    TENON_TYPES("x, weight, bias: f32|f64; out = x"),
    TENON_SHAPES("x: [..., k]; weight: [k, n]; bias: [n]; out: [..., n]"),
    TENON_TRAITS(TENON_PURE),
    TENON_BATCHING("x -> out"),
    TENON_SHARDING("x: [..., _]; weight: [_, n]; bias: [n]; out: [..., n]"),
    TENON_USES("core::matmul, core::tanh"),
    TENON_COMPOSITE(layer_run)))
/* clang-format on */
