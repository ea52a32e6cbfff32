/* Lowerings of the domain ai.onnx.preview: attention whose scores and probabilities can be modified
 * by graphs of the node. */
#include "import/onnx/lower.h"

/* The scores after the graph in attribute `name` was applied, or unchanged if there is none. */
static tn_ref_t *apply_modifier(tn_lower_t *lower, const char *name, tn_ref_t *scores) {
  tn_attr_t *attr = tn_lower_attr(lower, name);
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, name, TN_ATTRIBUTE_GRAPH);
  tn_ref_t *result = NULL;
  if (!proto || lower->status != TENON_OK || lower->is_missing) return scores;
  if (!proto->g || proto->g->outputs.count != 1) {
    tn_lower_fail(lower, "attribute '%s': expected a graph with one output", name);
    return NULL;
  }
  lower->status = tn_graph_inline(lower->import, attr->scope, lower->scope->site,
                                  lower->scope->prefix, proto->g, &scores, 1, &result);
  return result;
}

/* Query heads that share a key head are a further axis of the matrix products. */
static void lower_flex(tn_lower_t *lower) {
  tn_ref_t *q = lower->inputs[0];
  tn_ref_t *k = lower->inputs[1];
  tn_ref_t *v = lower->inputs[2];
  tn_ref_t *like = q;
  const tn_onnx_attribute_t *scale = tn_lower_typed(lower, "scale", TN_ATTRIBUTE_FLOAT);
  tenon_dtype_t dtype = tn_lower_dtype(lower, q);
  tenon_dtype_t wide = tenon_dtype(TENON_F32);
  int64_t precision =
      tn_lower_int(lower, "softmax_precision", tenon_dtype_id(dtype) == TENON_F64 ? 11 : 1);
  if (!tn_onnx_dtype(precision, &wide))
    tn_lower_fail(lower, "attribute 'softmax_precision': %lld is not an element type",
                  (long long)precision);
  tn_ref_t *type = tn_lower_scalar(lower, wide, 1);
  q = tn_lower_run(lower, TN_REFS(q, type), "cast(a, to=:b)");
  k = tn_lower_run(lower, TN_REFS(k, type), "cast(a, to=:b)");
  v = tn_lower_run(lower, TN_REFS(v, type), "cast(a, to=:b)");
  if (scale)
    q = tn_lower_run(lower, TN_REFS(q), "mul(a, %.17g:a)", scale->f);
  else
    q = tn_lower_run(lower, TN_REFS(q, type), "div(a, sqrt(cast(shape(a, start=3), to=:b)))");
  tn_ref_t *scores = tn_lower_run(
      lower, TN_REFS(q, k),
      "s = shape(a); n = shape(b);"
      "grouped = concat([slice(s, [0]:i64, [1]:i64), slice(n, [1]:i64, [2]:i64), [-1]:i64, "
      "slice(s, [2]:i64, [4]:i64)], axis=0);"
      "turned = unsqueeze(transpose(b, perm=[0, 1, 3, 2]), [2]:i64);"
      "reshape(matmul(reshape(a, grouped), turned), concat([slice(s, [0]:i64, [3]:i64), "
      "slice(n, [2]:i64, [3]:i64)], axis=0))");
  tn_ref_t *probs = tn_lower_run(lower, TN_REFS(apply_modifier(lower, "score_mod", scores)),
                                 "softmax(a, axis=-1)");
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(apply_modifier(lower, "prob_mod", probs), v, like),
                   "s = shape(a); n = shape(b);"
                   "grouped = concat([slice(s, [0]:i64, [1]:i64), slice(n, [1]:i64, [2]:i64), "
                   "[-1]:i64, slice(s, [2]:i64, [4]:i64)], axis=0);"
                   "y = matmul(reshape(a, grouped), unsqueeze(b, [2]:i64));"
                   "cast_like(reshape(y, concat([slice(s, [0]:i64, [3]:i64), slice(n, [3]:i64, "
                   "[4]:i64)], axis=0)), c)");
}

static const tn_lowering_t lowerings[] = {
    {"FlexAttention(q, k, v)", 1, lower_flex},
};

TN_LOWERINGS(tn_lowerings_preview, "ai.onnx.preview");
