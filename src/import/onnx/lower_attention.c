/* Operators of language models that core has in parts: attention with graphs in it, linear attention (a scan over
 * positions), causal convolution that carries its last inputs along. */
#include <string.h>

#include "base/status.h"
#include "import/onnx/lower.h"

static tn_ref_t *input(const tn_lower_t *lower, int32_t index) {
  return index < lower->input_count ? lower->inputs[index] : NULL;
}

/* ---- causal convolution ------------------------------------------------------------------------------------------ */

static void lower_causal_conv(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0], *w = lower->inputs[1], *past = input(lower, 3);
  const char *activation = tn_lower_text(lower, "activation", "none");
  long long channels = tn_lower_extent(lower, w, 0), kept = tn_lower_extent(lower, w, 2) - 1;
  bool silu = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;
  if (!silu && strcmp(activation, "none") != 0)
    tn_lower_fail(lower, "attribute 'activation': expected silu, swish or none, found '%.40s'", activation);
  if (!past) past = tn_lower_run(lower, TN_REFS(x), "expand(0:a, concat([shape(a, end=2), [%lld]:i64], axis=0))", kept);
  tn_ref_t *all = kept ? tn_lower_run(lower, TN_REFS(past, x), "concat([a, b], axis=2)") : x;
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(all, w, input(lower, 2)), "conv(a, b, c, group=%lld)", channels);
  lower->outputs[0] = silu ? tn_lower_run(lower, TN_REFS(y), "silu(a)") : y;
  if (lower->output_count > 1)
    lower->outputs[1] =
        kept ? tn_lower_run(lower, TN_REFS(all), "slice(a, [-%lld]:i64, [9223372036854775807]:i64, [2]:i64)", kept)
             : past;
}

/* ---- attention with graphs ----------------------------------------------------------------------------------------
 */

/* The scores after a graph of the node, if it has that. */
static tn_ref_t *modified(tn_lower_t *lower, const char *name, tn_ref_t *scores) {
  tn_attr_t *attr = tn_lower_attr(lower, name);
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_GRAPH);
  tn_ref_t *result = NULL;
  if (!proto || lower->status != TENON_OK || lower->is_missing) return scores;
  if (!proto->g || proto->g->outputs.count != 1) {
    tn_lower_fail(lower, "attribute '%s': expected a graph with one output", name);
    return NULL;
  }
  lower->status = tn_graph_inline(lower->import, attr->scope, lower->scope->site, lower->scope->prefix, proto->g,
                                  &scores, 1, &result);
  return result;
}

/* Query heads that share a key head are one more axis while products are taken. */
static void lower_flex(tn_lower_t *lower) {
  tn_ref_t *q = lower->inputs[0], *k = lower->inputs[1], *v = lower->inputs[2], *like = q;
  const tn_onnx_attribute_t *scale = tn_lower_typed(lower, "scale", TN_ATTRIBUTE_FLOAT);
  tenon_dtype_t dtype = tn_lower_dtype(lower, q), wide = tenon_dtype(TENON_F32);
  int64_t precision = tn_lower_int(lower, "softmax_precision", tenon_dtype_id(dtype) == TENON_F64 ? 11 : 1);
  if (!tn_onnx_dtype(precision, &wide))
    tn_lower_fail(lower, "attribute 'softmax_precision': no type %lld", (long long)precision);
  tn_ref_t *type = tn_lower_scalar(lower, wide, 1);
  q = tn_lower_run(lower, TN_REFS(q, type), "cast(a, to=:b)");
  k = tn_lower_run(lower, TN_REFS(k, type), "cast(a, to=:b)");
  v = tn_lower_run(lower, TN_REFS(v, type), "cast(a, to=:b)");
  if (scale)
    q = tn_lower_run(lower, TN_REFS(q), "mul(a, %.17g:a)", scale->f);
  else
    q = tn_lower_run(lower, TN_REFS(q, type), "div(a, sqrt(cast(shape(a, start=3), to=:b)))");
  tn_ref_t *scores = tn_lower_run(lower, TN_REFS(q, k),
                                  "s = shape(a); n = shape(b);"
                                  "grouped = concat([slice(s, [0]:i64, [1]:i64), slice(n, [1]:i64, [2]:i64), [-1]:i64, "
                                  "slice(s, [2]:i64, [4]:i64)], axis=0);"
                                  "turned = unsqueeze(transpose(b, perm=[0, 1, 3, 2]), [2]:i64);"
                                  "reshape(matmul(reshape(a, grouped), turned), concat([slice(s, [0]:i64, [3]:i64), "
                                  "slice(n, [2]:i64, [3]:i64)], axis=0))");
  tn_ref_t *probs = tn_lower_run(lower, TN_REFS(modified(lower, "score_mod", scores)), "softmax(a, axis=-1)");
  lower->outputs[0] = tn_lower_run(
      lower, TN_REFS(modified(lower, "prob_mod", probs), v, like),
      "s = shape(a); n = shape(b);"
      "grouped = concat([slice(s, [0]:i64, [1]:i64), slice(n, [1]:i64, [2]:i64), [-1]:i64, slice(s, [2]:i64, "
      "[4]:i64)], axis=0);"
      "y = matmul(reshape(a, grouped), unsqueeze(b, [2]:i64));"
      "cast_like(reshape(y, concat([slice(s, [0]:i64, [3]:i64), slice(n, [3]:i64, [4]:i64)], axis=0)), c)");
}

/* ---- linear attention ---------------------------------------------------------------------------------------------
 */

typedef struct linear_t {
  tn_ref_t *state, *q, *k, *v, *decay, *beta; /* decay, beta: NULL when the rule has none */
  long long heads;
} linear_t;

/* One position: the state moves on, the query reads it.  Everything is f32. */
static tn_ref_t *step(tn_lower_t *lower, const linear_t *l, tn_ref_t **out_state) {
  tn_ref_t *state = l->state, *v = l->v;
  if (l->decay) state = tn_lower_run(lower, TN_REFS(state, l->decay), "mul(a, unsqueeze(exp(b), [-1]:i64))");
  if (l->beta)
    v = tn_lower_run(lower, TN_REFS(state, l->k, v, l->beta),
                     "mul(sub(c, squeeze(matmul(unsqueeze(b, [2]:i64), a), [2]:i64)), unsqueeze(d, [-1]:i64))");
  *out_state =
      tn_lower_run(lower, TN_REFS(state, l->k, v), "add(a, mul(unsqueeze(b, [-1]:i64), unsqueeze(c, [-2]:i64)))");
  return tn_lower_run(lower, TN_REFS(l->q, *out_state),
                      "s = shape(a); reshape(matmul(reshape(a, concat([slice(s, [0]:i64, [1]:i64), [%lld, -1]:i64, "
                      "slice(s, [2]:i64, [3]:i64)], axis=0)), b), [0, -1]:i64)",
                      l->heads);
}

static tn_ref_t *body_input(tn_lower_t *lower, tn_site_t *site, const tn_ref_t *outer, int32_t ndim) {
  tenon_axis_t axes[4] = {{-1, NULL}, {-1, NULL}, {-1, NULL}, {-1, NULL}};
  tn_ref_t *edge = outer ? tn_ref_new(lower->import, site, outer->name) : NULL;
  if (!edge || lower->status != TENON_OK) return NULL;
  edge->dtype = tenon_dtype(TENON_F32), edge->ndim = ndim;
  lower->status = tenon_builder_input(site->builder, NULL, edge->dtype, ndim, axes, &edge->id);
  return edge;
}

static void body_graph(tn_lower_t *lower, const linear_t *outer, tn_site_t *site, tenon_graph_t **out_graph) {
  tn_scope_t scope = *lower->scope;
  tn_ref_t *state = NULL;
  scope.site = site;
  if (lower->status == TENON_OK) lower->status = tenon_builder_create(&site->builder);
  linear_t l = {.heads = outer->heads};
  l.state = body_input(lower, site, outer->state, 4);
  l.q = body_input(lower, site, outer->q, 3), l.k = body_input(lower, site, outer->k, 3);
  l.v = body_input(lower, site, outer->v, 3), l.decay = body_input(lower, site, outer->decay, 3);
  l.beta = body_input(lower, site, outer->beta, 2);
  tn_scope_t *around = lower->scope;
  lower->scope = &scope;
  tn_ref_t *y = step(lower, &l, &state);
  lower->scope = around;
  if (!y || !state || lower->status != TENON_OK) return;
  lower->status = tenon_builder_output(site->builder, "state", state->id);
  if (lower->status == TENON_OK) lower->status = tenon_builder_output(site->builder, "y", y->id);
  if (lower->status == TENON_OK) lower->status = tenon_builder_finish(site->builder, out_graph);
}

static void scan(tn_lower_t *lower, const linear_t *l, tn_ref_t *like, tn_ref_t *state_like) {
  static const int64_t dtypes[] = {TENON_F32, TENON_F32}, ranks[] = {4, 3}, axes[] = {1, 1, 1, 1, 1};
  const tenon_op_t *op = tn_lower_op(lower, "core::scan");
  tenon_attrs_t *attrs = NULL;
  tenon_graph_t *graph = NULL;
  tn_site_t site = {.outer = lower->scope->site};
  tn_ref_t *scans[5] = {l->q, l->k, l->v};
  int32_t scan_count = 3, count = 0;
  if (!op) return;
  if (l->decay) scans[scan_count++] = l->decay;
  if (l->beta) scans[scan_count++] = l->beta;
  body_graph(lower, l, &site, &graph);
  tenon_value_t body = {TENON_KIND_GRAPH, 0, {0}};
  body.as.graph = graph;
  if (lower->status == TENON_OK) lower->status = tenon_attrs_create(op, &attrs);
  if (lower->status == TENON_OK && graph) lower->status = tenon_attrs_set(attrs, "body", &body);
  if (lower->status == TENON_OK) lower->status = tenon_attrs_int(attrs, "count", 2);
  if (lower->status == TENON_OK) lower->status = tenon_attrs_ints(attrs, "dtypes", dtypes, 2);
  if (lower->status == TENON_OK) lower->status = tenon_attrs_ints(attrs, "ranks", ranks, 2);
  if (lower->status == TENON_OK) lower->status = tenon_attrs_ints(attrs, "input_axes", axes, (uint32_t)scan_count);
  if (lower->status == TENON_OK) lower->status = tenon_attrs_ints(attrs, "output_axes", axes, 1);
  tn_operand_t operands[] = {{&l->state, 1, true}, {scans, scan_count, true}, {NULL, 0, true}};
  tn_ref_t **results = lower->status == TENON_OK ? tn_lower_call(lower, op, attrs, operands, 3, &count) : NULL;
  for (int32_t i = 0; results && i < count; i++) results[i]->dtype = tenon_dtype(TENON_F32);
  if (results) lower->outputs[0] = tn_lower_run(lower, TN_REFS(results[1], like), "cast_like(a, b)");
  if (results && lower->output_count > 1)
    lower->outputs[1] = tn_lower_run(lower, TN_REFS(results[0], state_like), "cast_like(a, b)");
  tenon_attrs_release(attrs);
  tenon_graph_release(graph);
  tenon_builder_release(site.builder);
  tn_map_clear(&site.local);
}

static void lower_linear(tn_lower_t *lower) {
  const char *rule = tn_lower_text(lower, "update_rule", "gated_delta");
  const tn_onnx_attribute_t *scale = tn_lower_typed(lower, "scale", TN_ATTRIBUTE_FLOAT);
  long long q_heads = tn_lower_int(lower, "q_num_heads", 0), heads = tn_lower_int(lower, "kv_num_heads", 0);
  bool gated = strncmp(rule, "gated", 5) == 0, delta = strstr(rule, "delta") != NULL;
  tn_ref_t *past = input(lower, 3), *decay = input(lower, 4), *beta = input(lower, 5), *q = lower->inputs[0];
  linear_t l = {.state = past, .heads = heads};
  if (q_heads < 1 || heads < 1 || q_heads % heads)
    tn_lower_fail(lower, "%lld query heads and %lld key heads; the first is a multiple of the second", q_heads, heads);
  if ((gated && !decay) || (delta && !beta))
    tn_lower_fail(lower, "rule '%.40s' needs decay (input 4) or beta (input 5)", rule);
  l.q = tn_lower_run(lower, TN_REFS(q), "reshape(cast(a, to='f32'), [0, 0, %lld, -1]:i64)", q_heads);
  l.k = tn_lower_run(lower, TN_REFS(lower->inputs[1]), "reshape(cast(a, to='f32'), [0, 0, %lld, -1]:i64)", heads);
  l.v = tn_lower_run(lower, TN_REFS(lower->inputs[2]), "reshape(cast(a, to='f32'), [0, 0, %lld, -1]:i64)", heads);
  if (gated) l.decay = tn_lower_run(lower, TN_REFS(decay), "reshape(cast(a, to='f32'), [0, 0, %lld, -1]:i64)", heads);
  if (delta) l.beta = tn_lower_run(lower, TN_REFS(beta), "cast(a, to='f32')");
  if (past)
    l.state = tn_lower_run(lower, TN_REFS(past), "cast(a, to='f32')");
  else
    l.state = tn_lower_run(lower, TN_REFS(l.k, l.v),
                           "expand(0:f32, concat([shape(a, end=1), shape(a, start=2), shape(b, start=3)], axis=0))");
  if (scale && scale->f != 0)
    l.q = tn_lower_run(lower, TN_REFS(l.q), "mul(a, %.17g:a)", scale->f);
  else
    l.q = tn_lower_run(lower, TN_REFS(l.q), "div(a, sqrt(cast(shape(a, start=3), to='f32')))");
  if (lower->status == TENON_OK && !lower->is_missing) scan(lower, &l, q, past ? past : q);
}

/* clang-format off */
static const tn_rule_t rules[] = {
  {"CausalConvWithState(x, w, b?, past?)", 27, lower_causal_conv},
  {"LinearAttention(q, k, v, past?, decay?, beta?, -chunk_size)", 27, lower_linear},
};
static const tn_rule_t preview_rules[] = {
  {"FlexAttention(q, k, v)", 1, lower_flex},
};
/* clang-format on */

TN_RULES(tn_rules_attention, "");
const tn_rules_t tn_rules_preview = {"ai.onnx.preview", preview_rules, sizeof preview_rules / sizeof *preview_rules};
