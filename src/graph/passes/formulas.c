/* Rules for formulas that programs write out: one operator computes each.
 * Invariant: a formula is replaced only if no other node reads its large intermediate results,
 * because they would have to be computed as well. */
#include <math.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/rules.h"
#include "operator/names.h"

/* Operands */

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-4 * fabs(b); }

/* The other operand of a node with two. */
static tenon_edge_t beside(const tn_node_t *node, tenon_edge_t edge) {
  return tn_operand(node, 0) == edge ? tn_operand(node, 1) : tn_operand(node, 0);
}

/* The other operand of a node with two, one of which is a constant with one element; -1: neither
 * is. */
static tenon_edge_t beside_constant(const tn_rewrite_t *r, const tn_node_t *node,
                                    double *out_value) {
  for (uint32_t i = 0; i < 2; i++)
    if (tn_scalar(r, tn_operand(node, i), out_value)) return tn_operand(node, 1 - i);
  return -1;
}

/* The node, if it is the only reader of the edge and of operator `op`; else NULL. */
static tn_node_t *only_user_is(const tn_rewrite_t *r, tenon_edge_t edge, const char *op) {
  tn_node_t *node = tn_only_user(r, edge);
  return tn_node_is(node, op) ? node : NULL;
}

/* Turns `end`, whose result has the shape of the first operand, into a node of another operator.
 * Attributes that are not given have their defaults. */
static tenon_status_t replace(tn_rewrite_t *r, tn_node_t *end, const char *name,
                              const tenon_edge_t *operands, uint32_t operand_count,
                              const int64_t *axis, const double *epsilon) {
  enum { MOST_ATTRS = 8 };
  tenon_value_t attrs[MOST_ATTRS];
  const tenon_op_t *op = tn_registry_find(name);
  if (!op || op->input_count != operand_count || op->schema.attr_count > MOST_ATTRS ||
      !tn_same_shape(r, operands[0], end->outputs[0]))
    return TENON_OK;
  memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  int32_t axis_at = tn_schema_attr(&op->schema, "axis", 4);
  int32_t epsilon_at = tn_schema_attr(&op->schema, "epsilon", 7);
  if ((axis && axis_at < 0) || (epsilon && epsilon_at < 0)) return TENON_OK;
  if (axis) attrs[axis_at].as.i = *axis;
  if (epsilon) attrs[epsilon_at].as.f = *epsilon;
  return tn_node_become(r, end, op, attrs, operands);
}

/* Reductions */

static tenon_edge_t skip_unsqueeze(const tn_rewrite_t *r, tenon_edge_t edge) {
  const tn_node_t *node = tn_maker(r, edge, "core::unsqueeze");
  return node ? tn_operand(node, 0) : edge;
}

static bool has_extent(const tn_rewrite_t *r, tenon_dim_t dim, int64_t extent) {
  return tn_extents_resolve(r->graph->extents, dim).value == extent;
}

/* Whether the edge has the shape of x, apart from extents of 1 in the axes [first, end). */
static bool is_reduced(const tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t x, int64_t first,
                       int64_t end) {
  const tn_edge_t *y = &r->graph->edges[edge];
  const tn_edge_t *like = &r->graph->edges[x];
  bool is = y->ndim >= 0 && y->ndim == like->ndim;
  for (int32_t d = 0; is && d < y->ndim; d++) {
    bool is_inside = d >= first && d < end;
    int64_t extent = tn_extents_resolve(r->graph->extents, like->dims[d]).value;
    is = has_extent(r, y->dims[d], is_inside ? 1 : extent);
  }
  return is;
}

/* Reads the axes [first, end) over which a node reduces. False: they are not known, or not
 * adjacent and in order. */
static bool axes_of(const tn_rewrite_t *r, const tn_node_t *reduce, int64_t *out_first,
                    int64_t *out_end) {
  const int32_t ndim = r->graph->edges[tn_operand(reduce, 0)].ndim;
  tenon_edge_t edge = tn_operand(reduce, 1);
  const tenon_tensor_t *axes = edge >= 0 ? r->graph->edges[edge].constant : NULL;
  if (!axes || ndim < 1 || !tn_dtype_is(axes->dtype, TENON_I64) || axes->keys & TN_KEY_STRIDED ||
      tenon_count(axes) < 1)
    return false;
  const int64_t *values = axes->data;
  *out_first = values[0] < 0 ? values[0] + ndim : values[0];
  *out_end = *out_first;
  for (int64_t i = 0; i < tenon_count(axes); i++)
    if ((values[i] < 0 ? values[i] + ndim : values[i]) != (*out_end)++) return false;
  return *out_first >= 0 && *out_end <= ndim;
}

/* softmax */

/* Whether the edge is the largest element of x along the axis; JAX takes the larger one of that and
 * minus infinity. */
static bool is_largest(const tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t x, int64_t axis) {
  double value;
  int64_t first, end;
  if (!is_reduced(r, edge, x, axis, axis + 1)) return false;
  edge = skip_unsqueeze(r, edge);
  const tn_node_t *max = tn_maker(r, edge, "core::max");
  if (max) {
    edge = beside_constant(r, max, &value);
    if (edge < 0 || value != -INFINITY) return false;
    edge = skip_unsqueeze(r, edge);
  }
  const tn_node_t *reduce = tn_maker(r, edge, "core::reduce_max");
  return reduce && tn_operand(reduce, 0) == x && axes_of(r, reduce, &first, &end) &&
         first == axis && end == axis + 1;
}

static tenon_status_t replace_softmax(tn_rewrite_t *r, tn_node_t *div) {
  int64_t axis, end;
  tenon_edge_t powers = tn_operand(div, 0);
  tenon_edge_t sums = tn_operand(div, 1);
  const tn_node_t *exp = tn_maker(r, powers, "core::exp");
  const tn_node_t *reduce = tn_maker(r, skip_unsqueeze(r, sums), "core::reduce_sum");
  if (!exp || !reduce || tn_operand(reduce, 0) != powers || r->uses[powers] != 2 ||
      !axes_of(r, reduce, &axis, &end) || end != axis + 1 ||
      !is_reduced(r, sums, powers, axis, end))
    return TENON_OK;
  const tn_node_t *sub = tn_maker(r, tn_operand(exp, 0), "core::sub");
  if (!sub || r->uses[sub->outputs[0]] != 1) return TENON_OK;
  tenon_edge_t x = tn_operand(sub, 0);
  if (x < 0 || tn_operand(sub, 1) < 0 || !is_largest(r, tn_operand(sub, 1), x, axis))
    return TENON_OK;
  return replace(r, div, "core::softmax", &x, 1, &axis, NULL);
}

/* layer_norm */

typedef struct norm_t { /* The parts of the formula. */
  tenon_edge_t x;
  tenon_edge_t mean;
  int64_t axis; /* the first of those over which it normalises; they are the last ones */
  double epsilon;
  tenon_edge_t scale; /* -1: none */
  tenon_edge_t bias;
} norm_t;

static double extents_from(const tn_rewrite_t *r, tenon_edge_t edge, int64_t axis) {
  double product = 1;
  const tn_edge_t *x = &r->graph->edges[edge];
  for (int64_t d = axis; d < x->ndim; d++)
    product *= (double)tn_extents_resolve(r->graph->extents, x->dims[d]).value;
  return product;
}

/* Finds x of a mean over the last axes, written as a sum by their extents or as reduce_mean. */
static bool find_mean(const tn_rewrite_t *r, tenon_edge_t mean, tenon_edge_t *out_x,
                      int64_t *out_axis) {
  double scale = 1;
  int64_t end;
  tenon_edge_t edge = skip_unsqueeze(r, mean);
  const tn_node_t *reduce = tn_maker(r, edge, "core::reduce_mean");
  if (!reduce) {
    const tn_node_t *div = tn_maker(r, edge, "core::div");
    const tn_node_t *mul = tn_maker(r, edge, "core::mul");
    if (div && tn_scalar(r, tn_operand(div, 1), &scale))
      edge = tn_operand(div, 0);
    else if (mul && (edge = beside_constant(r, mul, &scale)) >= 0)
      scale = 1 / scale;
    else
      return false;
    reduce = tn_maker(r, skip_unsqueeze(r, edge), "core::reduce_sum");
  }
  if (!reduce || !axes_of(r, reduce, out_axis, &end)) return false;
  *out_x = tn_operand(reduce, 0);
  bool is_sum = tn_node_is(reduce, "core::reduce_sum");
  return end == r->graph->edges[*out_x].ndim && is_reduced(r, mean, *out_x, *out_axis, end) &&
         (!is_sum || is_near(extents_from(r, *out_x, *out_axis), scale));
}

/* Whether the edge is x - mean. */
static bool is_centred(const tn_rewrite_t *r, tenon_edge_t edge, const norm_t *norm) {
  const tn_node_t *sub = tn_maker(r, edge, "core::sub");
  return sub && tn_operand(sub, 0) == norm->x && tn_operand(sub, 1) == norm->mean;
}

/* Finds x, the mean and epsilon of 1 / sqrt(mean((x - mean(x))^2) + epsilon). */
static bool find_deviation(const tn_rewrite_t *r, const tn_node_t *rsqrt, norm_t *out) {
  int64_t axis;
  tenon_edge_t square, x;
  const tn_node_t *sum = tn_maker(r, tn_operand(rsqrt, 0), "core::add");
  tenon_edge_t variance = sum ? beside_constant(r, sum, &out->epsilon) : -1;
  if (variance < 0 || !find_mean(r, variance, &square, &out->axis)) return false;
  const tn_node_t *mul = tn_maker(r, square, "core::mul");
  if (!mul || r->uses[square] != 1 || tn_operand(mul, 0) != tn_operand(mul, 1)) return false;
  const tn_node_t *sub = tn_maker(r, tn_operand(mul, 0), "core::sub");
  if (!sub || r->uses[sub->outputs[0]] > 3) return false;
  out->x = tn_operand(sub, 0);
  out->mean = tn_operand(sub, 1);
  return out->x >= 0 && out->mean >= 0 && find_mean(r, out->mean, &x, &axis) && x == out->x &&
         axis == out->axis;
}

/* Whether the edge can be the scale or the bias of layer_norm: it has no extents but 1 before the
 * axis, and those of x from there on. */
static bool is_parameter(const tn_rewrite_t *r, tenon_edge_t edge, const norm_t *norm) {
  if (edge < 0) return false;
  const tn_edge_t *parameter = &r->graph->edges[edge];
  const tn_edge_t *x = &r->graph->edges[norm->x];
  int32_t skip = x->ndim - parameter->ndim;
  bool fits = parameter->ndim >= 0 && skip >= 0 && skip <= norm->axis &&
              tn_dtype_same(parameter->dtype, x->dtype);
  for (int32_t d = 0; fits && d < parameter->ndim; d++) {
    int64_t extent = tn_extents_resolve(r->graph->extents, x->dims[skip + d]).value;
    fits = has_extent(r, parameter->dims[d], skip + d < norm->axis ? 1 : extent);
  }
  return fits;
}

/* Finds the product of x - mean and 1 / deviation, which may be scaled before. */
static tn_node_t *find_product(const tn_rewrite_t *r, tenon_edge_t deviation, norm_t *norm) {
  tn_node_t *first = only_user_is(r, deviation, "core::mul");
  if (!first) return NULL;
  tenon_edge_t other = beside(first, deviation);
  if (is_centred(r, other, norm)) return first;
  if (!is_parameter(r, other, norm)) return NULL;
  norm->scale = other;
  tn_node_t *second = only_user_is(r, first->outputs[0], "core::mul");
  return second && is_centred(r, beside(second, first->outputs[0]), norm) ? second : NULL;
}

/* The product of `factor` and `edge` among the readers of `factor`; NULL: there is none. */
static tn_node_t *find_reader(const tn_rewrite_t *r, tenon_edge_t factor, tenon_edge_t edge) {
  for (int32_t i = r->first_reader[factor]; i >= 0; i = r->readers[i].next) {
    tn_node_t *node = &r->graph->nodes[r->readers[i].node];
    if (!tn_node_is(node, "core::mul")) continue;
    bool reads = tn_operand(node, 0) == factor || tn_operand(node, 1) == factor;
    if (reads && beside(node, factor) == edge) return node;
  }
  return NULL;
}

/* The negative mean, from which the other reader of the scaled deviation makes the shift; -1: there
 * is none. */
static tenon_edge_t find_negative_mean(const tn_rewrite_t *r, tenon_edge_t mean) {
  for (int32_t i = r->first_reader[mean]; i >= 0; i = r->readers[i].next) {
    const tn_node_t *node = &r->graph->nodes[r->readers[i].node];
    if (tn_node_is(node, "core::neg") && tn_operand(node, 0) == mean) return node->outputs[0];
  }
  return -1;
}

/* Finds the end of x * s + (-mean * s + bias), where s is the scaled deviation: Keras writes the
 * formula so. */
static tn_node_t *find_shifted(const tn_rewrite_t *r, tenon_edge_t deviation, norm_t *norm) {
  tenon_edge_t factor = deviation;
  const tn_node_t *scaling = only_user_is(r, deviation, "core::mul");
  if (scaling && is_parameter(r, beside(scaling, deviation), norm)) {
    norm->scale = beside(scaling, deviation);
    factor = scaling->outputs[0];
  }
  if (r->uses[factor] != 2) return NULL;
  tenon_edge_t negative = find_negative_mean(r, norm->mean);
  const tn_node_t *scaled = find_reader(r, factor, norm->x);
  const tn_node_t *shift = negative >= 0 ? find_reader(r, factor, negative) : NULL;
  tn_node_t *end = scaled ? only_user_is(r, scaled->outputs[0], "core::add") : NULL;
  if (!end || !shift || r->uses[shift->outputs[0]] != 1) return NULL;
  tenon_edge_t other = beside(end, scaled->outputs[0]);
  if (other == shift->outputs[0]) return end;
  const tn_node_t *sum = tn_maker(r, other, "core::add");
  if (!sum || r->uses[other] != 1) return NULL;
  bool is_sum = tn_operand(sum, 0) == shift->outputs[0] || tn_operand(sum, 1) == shift->outputs[0];
  if (!is_sum || !is_parameter(r, beside(sum, shift->outputs[0]), norm)) return NULL;
  norm->bias = beside(sum, shift->outputs[0]);
  return end;
}

/* Finds the end of (x - mean) * deviation, which may be scaled and moved. */
static tn_node_t *find_centred(const tn_rewrite_t *r, tenon_edge_t deviation, norm_t *norm) {
  tn_node_t *end = find_product(r, deviation, norm);
  if (!end) return NULL;
  tn_node_t *scaled = only_user_is(r, end->outputs[0], "core::mul");
  if (norm->scale < 0 && scaled && is_parameter(r, beside(scaled, end->outputs[0]), norm)) {
    norm->scale = beside(scaled, end->outputs[0]);
    end = scaled;
  }
  tn_node_t *moved = only_user_is(r, end->outputs[0], "core::add");
  if (!moved || !is_parameter(r, beside(moved, end->outputs[0]), norm)) return end;
  norm->bias = beside(moved, end->outputs[0]);
  return moved;
}

static tenon_status_t replace_layer_norm(tn_rewrite_t *r, tn_node_t *rsqrt) {
  norm_t norm = {.scale = -1, .bias = -1};
  if (!find_deviation(r, rsqrt, &norm)) return TENON_OK;
  norm_t parts = norm;
  tn_node_t *end = find_centred(r, rsqrt->outputs[0], &parts);
  if (!end) {
    parts = norm;
    end = find_shifted(r, rsqrt->outputs[0], &parts);
  }
  if (!end) return TENON_OK;
  const tenon_edge_t operands[] = {parts.x, parts.scale, parts.bias};
  return replace(r, end, "core::layer_norm", operands, 3, &parts.axis, &parts.epsilon);
}

/* The rules */

/* x * gate / 2, in the three orders in which exporters write it. */
#define HALF(gate)                                                                                 \
  "(mul(" gate ", mul(x, 0.5)) | mul(mul(" gate ", x), 0.5) | mul(mul(" gate ", 0.5), x))"
/* a / b, where `inverse` is 1 / b */
#define OVER(a, b, inverse) "(div(" a ", " b ") | mul(" a ", " inverse "))"
#define ROOT(a) OVER(a, "1.4142135623730951", "0.7071067811865476")
#define CUBE "(pow(x, 3) | mul(mul(x, x), x))"
#define TANH_GELU                                                                                  \
  "tanh((mul(add(x, mul(" CUBE ", 0.044715)), 0.7978845608028654) | "                              \
  "mul(mul(x, 0.7978845608028654), add(mul(mul(x, x), 0.044715), 1))))"
#define MEAN_SQUARE "reduce_mean((mul(x, x) | pow(x, 2)), [-1])"
#define ROOT_MEAN "sqrt(add(" MEAN_SQUARE ", $e))"
#define INVERSE_ROOT_MEAN                                                                          \
  "(rsqrt(add(" MEAN_SQUARE ", $e)) | reciprocal(" ROOT_MEAN ") | div(1, " ROOT_MEAN ") | "        \
  "pow(add(" MEAN_SQUARE ", $e), -0.5))"
#define NORMALISED "(mul(x, " INVERSE_ROOT_MEAN ") | div(x, " ROOT_MEAN "))"
#define CLIPPED "clip(add(x, 3), 0, 6)"

const tn_rewrite_rule_t tn_rules_formulas[] = {
    {"gelu: " HALF("add(erf(" ROOT("x") "), 1)") " -> gelu(x)", NULL, {NULL}, NULL},
    {"gelu_of_erfc: " HALF("erfc((" ROOT("neg(x)") " | neg(" ROOT("x") ") | " OVER(
         "x", "-1.4142135623730951", "-0.7071067811865476") "))") " -> gelu(x)",
     NULL,
     {NULL},
     NULL},
    {"gelu_tanh_of_sigmoid: mul(x, sigmoid((mul(add(x, mul(" CUBE ", 0.044715)), "
     "1.5957691216057308) | mul(mul(x, 1.5957691216057308), add(mul(mul(x, x), 0.044715), 1))))) "
     "-> gelu(x, approximate='tanh')",
     NULL,
     {NULL},
     NULL},
    {"gelu_tanh: " HALF("add(" TANH_GELU ", 1)") " -> gelu(x, approximate='tanh')",
     NULL,
     {NULL},
     NULL},
    {"sigmoid: (div(1, add(exp(neg(x)), 1)) | reciprocal(add(exp(neg(x)), 1)) | "
     "mul(add(tanh(mul(x, 0.5)), 1), 0.5)) -> sigmoid(x)",
     NULL,
     {NULL},
     NULL},
    {"silu_divided: div(x, add(exp(neg(x)), 1)) -> silu(x)", NULL, {NULL}, NULL},
    {"relu: (max(x, 0) | clip(x, 0)) -> relu(x)", NULL, {NULL}, NULL},
    {"softplus: log(add(exp(x), 1)) -> softplus(x)", NULL, {NULL}, NULL},
    {"softsign: div(x, add(abs(x), 1)) -> softsign(x)", NULL, {NULL}, NULL},
    {"hard_sigmoid: clip(add(mul(x, $a), $b), 0, 1) -> hard_sigmoid(x, alpha=a, beta=b)",
     NULL,
     {NULL},
     NULL},
    {"silu: mul(x, sigmoid(x)) -> silu(x)", NULL, {NULL}, NULL},
    {"silu_scaled: mul(x, sigmoid(mul(x, $a))) -> silu(x, alpha=a)", NULL, {NULL}, NULL},
    {"hard_swish: (mul(x, " OVER(CLIPPED, "6", "0.16666666666666666") ") | " OVER(
         "mul(x, " CLIPPED ")", "6",
         "0.16666666666666666") " | "
                                "mul(x, hard_sigmoid(x, alpha=0.16666666666666666, beta=0.5))) -> "
                                "hard_swish(x)",
     NULL,
     {NULL},
     NULL},
    {"mish: mul(x, tanh(softplus(x))) -> mish(x)", NULL, {NULL}, NULL},
    {"log_softmax: log(softmax(x, axis=axis)) -> log_softmax(x, axis=axis)", NULL, {NULL}, NULL},
    {"log_softmax_of_sum: (sub(x, reduce_log_sum_exp(x, [-1])) | sub(sub(x, reduce_max(x, [-1])), "
     "log(reduce_sum(exp(sub(x, reduce_max(x, [-1]))), [-1])))) -> log_softmax(x, axis=-1)",
     NULL,
     {NULL},
     NULL},
    {"rms_norm: " NORMALISED " -> rms_norm(x, epsilon=e)", NULL, {NULL}, NULL},
    {"rms_norm_scaled: mul(rms_norm(x, epsilon=e), scale) -> rms_norm(x, scale, epsilon=e)",
     NULL,
     {NULL},
     NULL},
    {"softmax: div(exp(sub(x, reduce_max(x, axis))), reduce_sum(exp(sub(x, reduce_max(x, axis))), "
     "axis)) -> softmax(x, axis)",
     "There is one axis, and both powers are the same node.",
     {"core::div"},
     replace_softmax},
    {"layer_norm: add(mul(mul(sub(x, mean), rsqrt(add(variance, e))), scale), bias) -> "
     "layer_norm(x, scale, bias, epsilon=e)",
     "The mean and the variance are those over the last axes of x; scale and bias may be absent, "
     "and the order of the products may be another one.",
     {"core::rsqrt"},
     replace_layer_norm},
    {NULL, NULL, {NULL}, NULL}};
