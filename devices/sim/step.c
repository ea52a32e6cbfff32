/* One operator of a compiled group: built from a node, checked, and computed. The check covers
 * everything that the computation relies on, so a compiled group may come from an untrusted source.
 *
 * Invariant: sim_step_run stays within the bounds of the values if the check has passed. */
#include "step.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "matmul.h"

/* shapes */

static const char *count_of(sim_value_t *value) {
  value->count = 1;
  if (value->ndim < 0 || value->ndim > SIM_RANK) return "sim computes with ranks up to 8";
  for (int32_t d = 0; d < value->ndim; d++) {
    if (value->shape[d] < 0) return "an extent is negative";
    if (value->shape[d] && value->count > ((uint64_t)1 << 40) / (uint64_t)value->shape[d])
      return "a value is too large";
    value->count *= (uint64_t)value->shape[d];
  }
  return NULL;
}

const char *sim_value_of(const tenon_meta_t *edge, sim_value_t *out) {
  *out = (sim_value_t){.ndim = edge->ndim};
  if (tenon_dtype_id(edge->dtype) != TENON_F32) return "sim compiles groups of f32 only";
  if (edge->ndim < 0 || edge->ndim > SIM_RANK)
    return "sim compiles groups only for known ranks up to 8";
  for (int32_t d = 0; d < edge->ndim; d++) {
    if (!tenon_is_known(edge->dims[d])) return "sim compiles groups only for known shapes";
    out->shape[d] = edge->dims[d].value;
  }
  return count_of(out);
}

static bool same(const sim_value_t *a, const sim_value_t *b) {
  return a->ndim == b->ndim && !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape);
}

/* The extent of axis d of `of` when it is broadcast to a shape of `ndim` axes. */
static int64_t under(const sim_value_t *of, int32_t ndim, int32_t d) {
  int32_t at = d - ndim + of->ndim;
  return at < 0 ? 1 : of->shape[at];
}

static bool fits_under(const sim_value_t *a, const sim_value_t *out) {
  for (int32_t d = 0; d < out->ndim; d++)
    if (under(a, out->ndim, d) != 1 && under(a, out->ndim, d) != out->shape[d]) return false;
  return a->ndim <= out->ndim;
}

/* Tells whether a and b broadcast to out. */
static bool broadcast(const sim_value_t *a, const sim_value_t *b, const sim_value_t *out) {
  for (int32_t d = 0; d < out->ndim; d++)
    if (under(a, out->ndim, d) != out->shape[d] && under(b, out->ndim, d) != out->shape[d])
      return false;
  return fits_under(a, out) && fits_under(b, out);
}

static const char *matmul_check(const sim_step_t *step, const sim_value_t *a, const sim_value_t *b,
                                const sim_value_t *bias, const sim_value_t *out) {
  int rows = a->ndim > 1;
  int columns = b->ndim > 1;
  int turn_a = rows && step->numbers[0] & 1;
  int turn_b = columns && step->numbers[0] & 2;
  if (a->ndim < 1 || b->ndim < 1) return "a factor of a product has no axes";
  int32_t batch_a = a->ndim - 1 - rows;
  int32_t batch_b = b->ndim - 1 - columns;
  int32_t rank = batch_a > batch_b ? batch_a : batch_b;
  int64_t k = a->shape[a->ndim - (turn_a ? 2 : 1)];
  int64_t m = 1;
  int64_t n = 1;
  if (rows) m = a->shape[a->ndim - (turn_a ? 1 : 2)];
  if (columns) n = b->shape[b->ndim - (turn_b ? 2 : 1)];
  int64_t other = b->shape[b->ndim - (columns && !turn_b ? 2 : 1)];
  if (k != other || out->ndim != rank + rows + columns)
    return "the shapes of a product do not match";
  sim_value_t x = {.ndim = batch_a};
  sim_value_t y = {.ndim = batch_b};
  sim_value_t z = {.ndim = rank};
  memcpy(x.shape, a->shape, (size_t)batch_a * sizeof *x.shape);
  memcpy(y.shape, b->shape, (size_t)batch_b * sizeof *x.shape);
  memcpy(z.shape, out->shape, (size_t)rank * sizeof *x.shape);
  if (!broadcast(&x, &y, &z) || (rows && out->shape[rank] != m) ||
      (columns && out->shape[out->ndim - 1] != n))
    return "the shapes of a product do not match";
  return bias && !fits_under(bias, out) ? "the bias does not broadcast to the result" : NULL;
}

static const char *norm_check(const sim_step_t *step, const sim_value_t *x,
                              const sim_value_t *scale, const sim_value_t *bias,
                              const sim_value_t *out) {
  uint64_t inner = 1;
  if (!same(x, out) || step->numbers[0] < 0 || step->numbers[0] >= x->ndim)
    return "an axis is out of range";
  for (int32_t d = (int32_t)step->numbers[0]; d < x->ndim; d++)
    inner *= (uint64_t)x->shape[d];
  if ((scale && scale->count != inner) || (bias && bias->count != inner))
    return "sim computes layer_norm with a scale and a bias of the normalised shape";
  return NULL;
}

const char *sim_step_check(const sim_step_t *step, const sim_value_t *values,
                           uint32_t value_count) {
  static const int least[SIM_STEP_KINDS] = {2, 2, 1, 1, 2, 1};
  static const int most[SIM_STEP_KINDS] = {2, 2, 1, 1, 3, 3};
  const sim_value_t *in[SIM_STEP_INPUTS] = {NULL};
  const sim_value_t *out;
  if (step->kind >= SIM_STEP_KINDS || step->output < 0 || (uint32_t)step->output >= value_count)
    return "a step is of a kind that sim does not have";
  out = &values[step->output];
  for (int i = 0; i < SIM_STEP_INPUTS; i++) {
    int32_t at = step->inputs[i];
    if (at >= 0 && ((uint32_t)at >= value_count || i >= most[step->kind]))
      return "an argument refers to a value that does not exist";
    if (at < 0 && i < least[step->kind]) return "a required argument is missing";
    in[i] = at < 0 ? NULL : &values[at];
  }
  switch (step->kind) {
  case SIM_ADD:
  case SIM_MUL:
    return broadcast(in[0], in[1], out) ? NULL : "the shapes of the operands do not match";
  case SIM_MATMUL:
    return matmul_check(step, in[0], in[1], in[2], out);
  case SIM_LAYER_NORM:
    return norm_check(step, in[0], in[1], in[2], out);
  default:
    return same(in[0], out) ? NULL : "the shapes of the operands do not match";
  }
}

/* nodes */

static bool is_used(const tenon_graph_view_t *view, uint32_t edge) {
  for (uint32_t i = 0; i < view->output_count; i++)
    if (view->outputs[i] == edge) return true;
  for (uint32_t n = 0; n < view->node_count; n++)
    for (uint32_t k = 0; k < view->nodes[n]->starts[view->nodes[n]->argument_count]; k++)
      if (view->nodes[n]->inputs[k] == edge) return true;
  return false;
}

static void numbers_of(const tenon_graph_node_t *node, int32_t ndim, sim_step_t *step) {
  const tenon_value_t *attrs = node->attrs;
  if (step->kind == SIM_GELU) step->numbers[0] = attrs[0].as.i;
  if (step->kind == SIM_LAYER_NORM) {
    step->numbers[0] = attrs[0].as.i < 0 ? attrs[0].as.i + ndim : attrs[0].as.i;
    step->reals[0] = attrs[1].as.f;
  }
  if (step->kind != SIM_MATMUL) return;
  step->numbers[0] = (attrs[0].as.i != 0) + 2 * (attrs[1].as.i != 0);
  step->numbers[1] = attrs[2].as.i;
  step->reals[0] = attrs[3].as.f;
  step->reals[1] = attrs[4].as.f;
}

const char *sim_step_of(const tenon_graph_node_t *node, const tenon_graph_view_t *view,
                        sim_step_t *step) {
  static const char *const names[SIM_STEP_KINDS] = {
      "core::add", "core::mul", "core::relu", "core::gelu", "core::matmul", "core::layer_norm"};
  static const uint32_t attrs[SIM_STEP_KINDS] = {0, 0, 0, 1, 5, 2};
  sim_value_t values[SIM_STEP_INPUTS + 1];
  const char *why = NULL;
  *step = (sim_step_t){.inputs = {-1, -1, -1}, .output = SIM_STEP_INPUTS};
  while (step->kind < SIM_STEP_KINDS && strcmp(names[step->kind], node->op))
    step->kind++;
  if (node->taken) return "another device has taken it";
  if (step->kind == SIM_STEP_KINDS || node->version != 1) return "sim has no such operator";
  if (node->argument_count > SIM_STEP_INPUTS || node->attr_count < attrs[step->kind] ||
      !node->output_count)
    return "sim has no such operator";
  for (uint32_t i = 0; i < node->argument_count; i++)
    if (node->starts[i] < node->starts[i + 1]) {
      if ((why = sim_value_of(view->edges[node->inputs[node->starts[i]]], &values[i]))) return why;
      step->inputs[i] = (int32_t)i;
    }
  if ((why = sim_value_of(view->edges[node->outputs[0]], &values[SIM_STEP_INPUTS]))) return why;
  for (uint32_t o = 1; o < node->output_count; o++)
    if (is_used(view, node->outputs[o])) return "sim computes only the first of its results";
  numbers_of(node, step->inputs[0] >= 0 ? values[0].ndim : 0, step);
  if ((why = sim_step_check(step, values, SIM_STEP_INPUTS + 1))) return why;
  for (uint32_t i = 0; i < node->argument_count; i++)
    if (step->inputs[i] >= 0) step->inputs[i] = (int32_t)node->inputs[node->starts[i]];
  step->output = (int32_t)node->outputs[0];
  return NULL;
}

/* computing */

static void pointwise(const sim_step_t *step, const sim_value_t *values, float *const *at) {
  const sim_value_t *out = &values[step->output];
  int64_t strides[2][SIM_RANK] = {{0}};
  for (int i = 0; i < 2; i++) {
    const sim_value_t *in = &values[step->inputs[i]];
    int64_t stride = 1;
    for (int32_t d = in->ndim - 1; d >= 0; stride *= in->shape[d--])
      strides[i][d + out->ndim - in->ndim] = in->shape[d] == 1 ? 0 : stride;
  }
  for (uint64_t n = 0; n < out->count; n++) {
    int64_t a = 0;
    int64_t b = 0;
    int64_t rest = (int64_t)n;
    for (int32_t d = out->ndim - 1; d >= 0; rest /= out->shape[d--]) {
      a += rest % out->shape[d] * strides[0][d];
      b += rest % out->shape[d] * strides[1][d];
    }
    float x = at[step->inputs[0]][a];
    float y = at[step->inputs[1]][b];
    at[step->output][n] = step->kind == SIM_ADD ? x + y : x * y;
  }
}

static void layer_norm(const sim_step_t *step, const sim_value_t *values, float *const *at) {
  const sim_value_t *x = &values[step->inputs[0]];
  const float *scale = step->inputs[1] < 0 ? NULL : at[step->inputs[1]];
  const float *bias = step->inputs[2] < 0 ? NULL : at[step->inputs[2]];
  uint64_t inner = 1;
  for (int32_t d = (int32_t)step->numbers[0]; d < x->ndim; d++)
    inner *= (uint64_t)x->shape[d];
  for (uint64_t row = 0; inner && row < x->count / inner; row++) {
    const float *from = at[step->inputs[0]] + row * inner;
    float *to = at[step->output] + row * inner;
    double sum = 0;
    double squares = 0;
    for (uint64_t i = 0; i < inner; i++)
      sum += from[i];
    double mean = sum / (double)inner;
    for (uint64_t i = 0; i < inner; i++)
      squares += (from[i] - mean) * (from[i] - mean);
    double factor = 1 / sqrt(squares / (double)inner + step->reals[0]);
    for (uint64_t i = 0; i < inner; i++) {
      float times = scale ? scale[i] : 1;
      float plus = bias ? bias[i] : 0;
      to[i] = (float)((from[i] - mean) * factor) * times + plus;
    }
  }
}

typedef struct dense_t {
  tenon_tensor_t tensor;
  int64_t strides[SIM_RANK];
} dense_t;

static const tenon_tensor_t *dense(const sim_value_t *value, dense_t *room) {
  int64_t stride = 1;
  for (int32_t d = value->ndim - 1; d >= 0; stride *= value->shape[d--])
    room->strides[d] = stride;
  room->tensor = (tenon_tensor_t){
      .ndim = value->ndim, .shape = (int64_t *)(uintptr_t)value->shape, .strides = room->strides};
  return &room->tensor;
}

static void matmul(const sim_step_t *step, const sim_value_t *values, float *const *at) {
  const tenon_value_t attrs[5] = {{.as.i = step->numbers[0] & 1},
                                  {.as.i = step->numbers[0] & 2},
                                  {.as.i = step->numbers[1]},
                                  {.as.f = step->reals[0]},
                                  {.as.f = step->reals[1]}};
  dense_t a, b, c, out;
  sim_matmul_t p;
  bool has_bias = step->inputs[2] >= 0;
  sim_matmul_make(dense(&values[step->inputs[0]], &a), dense(&values[step->inputs[1]], &b),
                  has_bias ? dense(&values[step->inputs[2]], &c) : NULL,
                  dense(&values[step->output], &out), attrs, &p);
  if (values[step->output].count)
    sim_matmul(&p, at[step->inputs[0]], at[step->inputs[1]], has_bias ? at[step->inputs[2]] : NULL,
               at[step->output]);
}

void sim_step_run(const sim_step_t *step, const sim_value_t *values, float *const *at) {
  uint32_t activation = 5; /* the numbers are those of sim_activate: gelu, tanh gelu, relu */
  if (step->kind == SIM_RELU)
    activation = 1;
  else if (step->numbers[0] == 1)
    activation = 6;
  switch (step->kind) {
  case SIM_ADD:
  case SIM_MUL:
    pointwise(step, values, at);
    return;
  case SIM_MATMUL:
    matmul(step, values, at);
    return;
  case SIM_LAYER_NORM:
    layer_norm(step, values, at);
    return;
  default:
    for (uint64_t n = 0; n < values[step->output].count; n++)
      at[step->output][n] = sim_activate(activation, at[step->inputs[0]][n], 0, 0);
  }
}
