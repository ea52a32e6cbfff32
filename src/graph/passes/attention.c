/* Replaces attention that exporters write out by one core::attention node: the product of the
 * queries and the transposed keys, which may be scaled and get a mask, its softmax, and the product
 * with the values. Heads that are part of the last axis stay there: the reshapes and transposes
 * that take them apart are not needed any more.
 * Invariant: a node is replaced only if no other node reads the scores. */
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/pass.h"
#include "graph/passes/rules.h"
#include "operator/names.h"

enum {
  QUERY,
  KEY,
  VALUE,
  MASK,
  OPERANDS_MOST = 8,
  ATTRS_MOST = 8,
  RANK = 4,
};

typedef struct side_t { /* q, k, v or the result */
  tenon_edge_t apart;   /* [batch, heads, length, size] */
  tenon_edge_t flat;    /* [batch, length, heads * size]; -1: there is no such edge */
} side_t;

typedef struct parts_t {
  side_t q;
  side_t k;
  side_t v;
  tenon_edge_t mask; /* -1: none */
  double scale;
  tn_node_t *end;      /* the product with the values */
  bool is_guarded;     /* rows of weights that are NaN are made 0 */
  tn_node_t *flat_end; /* the node whose result has the heads in its last axis; NULL: none */
} parts_t;

static tenon_dim_t axis_extent(const tn_rewrite_t *r, tenon_edge_t edge, int32_t axis) {
  return tn_extents_resolve(r->graph->extents, r->graph->edges[edge].dims[axis]);
}

static int32_t rank_of(const tn_rewrite_t *r, tenon_edge_t edge) {
  return r->graph->edges[edge].ndim;
}

/* Whether axis i of `a` has the extent of axis k of `b`, symbols included. */
static bool same_axis_extent(const tn_rewrite_t *r, tenon_edge_t a, int32_t i, tenon_edge_t b,
                             int32_t k) {
  return axis_extent(r, a, i).value == axis_extent(r, b, k).value;
}

/* Whether the node permutes four axes in this order. */
static bool permutes(const tn_rewrite_t *r, const tn_node_t *node, const int64_t *order) {
  int32_t at = tn_node_is(node, "core::transpose") ? tn_attr(node, "perm") : -1;
  if (at < 0 || rank_of(r, tn_operand(node, 0)) != RANK) return false;
  const tenon_value_t *perm = &node->attrs[at];
  if (perm->kind == TENON_KIND_NONE || perm->count != RANK) return false;
  for (int32_t i = 0; i < RANK; i++)
    if (perm->as.ints[i] != order[i] && perm->as.ints[i] + RANK != order[i]) return false;
  return true;
}

/* Whether `flat` is [batch, length, heads * size] of `apart`, which is [batch, length, heads,
 * size]. */
static bool is_flat(const tn_rewrite_t *r, tenon_edge_t flat, tenon_edge_t apart) {
  if (rank_of(r, flat) != RANK - 1 || rank_of(r, apart) != RANK) return false;
  tenon_dim_t heads = axis_extent(r, apart, 2);
  tenon_dim_t size = axis_extent(r, apart, 3);
  tenon_dim_t all = axis_extent(r, flat, 2);
  return same_axis_extent(r, flat, 0, apart, 0) && same_axis_extent(r, flat, 1, apart, 1) &&
         heads.value > 0 && size.value > 0 && all.value == heads.value * size.value;
}

/* The edge of which this edge, [batch, length, heads, size], is a reshape; -1: it is none. */
static tenon_edge_t flat_of(const tn_rewrite_t *r, tenon_edge_t apart) {
  const tn_node_t *reshape = tn_maker(r, apart, "core::reshape");
  tenon_edge_t flat = reshape ? tn_operand(reshape, 0) : -1;
  return flat >= 0 && is_flat(r, flat, apart) ? flat : -1;
}

/* The edge of which each head is repeated for some heads in turn; the edge itself if none is. */
static tenon_edge_t skip_repeats(const tn_rewrite_t *r, tenon_edge_t edge) {
  const tn_node_t *reshape = tn_maker(r, edge, "core::reshape");
  const tn_node_t *expand = reshape ? tn_maker(r, tn_operand(reshape, 0), "core::expand") : NULL;
  const tn_node_t *apart = expand ? tn_maker(r, tn_operand(expand, 0), "core::unsqueeze") : NULL;
  if (!apart) return edge;
  const tenon_edge_t x = tn_operand(apart, 0);
  const tenon_edge_t wide = expand->outputs[0];
  const tenon_edge_t once = tn_operand(expand, 0);
  bool is = rank_of(r, edge) == RANK && rank_of(r, x) == RANK && rank_of(r, wide) == RANK + 1 &&
            rank_of(r, once) == RANK + 1 && axis_extent(r, once, 2).value == 1;
  for (int32_t i = 0; is && i < RANK; i++) { /* axis 2 is that of the repetitions */
    const int32_t k = i < 2 ? i : i + 1;
    is = same_axis_extent(r, x, i, wide, k) && same_axis_extent(r, x, i, once, k) &&
         (i == 1 || same_axis_extent(r, x, i, edge, i));
  }
  if (!is || axis_extent(r, x, 1).value <= 0 || axis_extent(r, wide, 2).value <= 0) return edge;
  const int64_t heads = axis_extent(r, x, 1).value * axis_extent(r, wide, 2).value;
  return axis_extent(r, edge, 1).value == heads ? x : edge;
}

/* Finds q, k or v behind the edge [batch, heads, length, size]. */
static side_t find_side(const tn_rewrite_t *r, tenon_edge_t edge) {
  static const int64_t order[] = {0, 2, 1, 3};
  edge = skip_repeats(r, edge);
  side_t side = {edge, -1};
  const tn_node_t *transpose = tn_maker(r, edge, "core::transpose");
  if (transpose && permutes(r, transpose, order)) side.flat = flat_of(r, tn_operand(transpose, 0));
  return side;
}

/* Finds k behind the edge [batch, heads, size, length]. */
static bool find_transposed(const tn_rewrite_t *r, tenon_edge_t edge, side_t *out) {
  static const int64_t exchange[] = {0, 1, 3, 2};
  static const int64_t order[] = {0, 2, 3, 1};
  const tn_node_t *transpose = tn_maker(r, edge, "core::transpose");
  if (!transpose) return false;
  if (permutes(r, transpose, exchange)) {
    *out = find_side(r, tn_operand(transpose, 0));
    return true;
  }
  if (!permutes(r, transpose, order)) return false;
  *out = (side_t){-1, flat_of(r, tn_operand(transpose, 0))};
  return out->flat >= 0;
}

static bool has_flag(const tn_node_t *node, const char *name) {
  int32_t at = tn_attr(node, name);
  return at >= 0 && node->attrs[at].as.i != 0;
}

/* Whether the node is a product of two operands with four axes each, of as many batches and heads,
 * without bias or activation. */
static bool is_product(const tn_rewrite_t *r, const tn_node_t *node) {
  if (!tn_node_is(node, "core::matmul") || has_flag(node, "transpose_a") ||
      has_flag(node, "activation"))
    return false;
  for (uint32_t i = 2; i < node->op->input_count; i++)
    if (node->operands[i].count > 0) return false;
  tenon_edge_t a = tn_operand(node, 0);
  tenon_edge_t b = tn_operand(node, 1);
  return rank_of(r, a) == RANK && rank_of(r, b) == RANK && same_axis_extent(r, a, 0, b, 0) &&
         same_axis_extent(r, a, 1, b, 1) && axis_extent(r, a, 1).value > 0;
}

/* The edge that this edge is a multiple of, by whose factor *scale is multiplied; the edge itself
 * if it is no multiple of another one. */
static tenon_edge_t skip_scale(const tn_rewrite_t *r, tenon_edge_t edge, double *scale) {
  double factor;
  const tn_node_t *mul = tn_maker(r, edge, "core::mul");
  const tn_node_t *div = tn_maker(r, edge, "core::div");
  const tn_node_t *node = mul ? mul : div;
  for (uint32_t i = mul ? 0 : 1; node && i < 2; i++)
    if (tn_scalar(r, tn_operand(node, i), &factor) && factor != 0) {
      *scale *= mul ? factor : 1 / factor;
      return tn_operand(node, 1 - i);
    }
  return edge;
}

/* Finds q, k and the scale behind the edge of the scores, of which any part may be scaled. */
static bool find_scaled(const tn_rewrite_t *r, tenon_edge_t scores, parts_t *out) {
  out->scale = 1;
  const tenon_edge_t unscaled = skip_scale(r, scores, &out->scale);
  const tn_node_t *product = tn_maker(r, unscaled, "core::matmul");
  if (!product || r->uses[scores] != 1 || r->uses[unscaled] != 1 || !is_product(r, product))
    return false;
  const tenon_edge_t k = skip_scale(r, tn_operand(product, 1), &out->scale);
  out->q = find_side(r, skip_scale(r, tn_operand(product, 0), &out->scale));
  if (!has_flag(product, "transpose_b")) return find_transposed(r, k, &out->k);
  out->k = find_side(r, k);
  return true;
}

/* Whether the edge can be the mask of these scores: each of its axes has their extent or 1, the
 * last one theirs. */
static bool is_mask(const tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t scores) {
  int32_t rank = edge < 0 ? -1 : rank_of(r, edge);
  if (rank < 1 || rank > RANK ||
      !tn_dtype_same(r->graph->edges[edge].dtype, r->graph->edges[scores].dtype))
    return false;
  for (int32_t i = 0; i < rank; i++) {
    bool is_one = i + 1 < rank && axis_extent(r, edge, i).value == 1;
    if (!is_one && !same_axis_extent(r, edge, i, scores, RANK - rank + i)) return false;
  }
  return true;
}

/* Finds everything behind the operand of the softmax. */
static bool find_scores(const tn_rewrite_t *r, tenon_edge_t scores, parts_t *out) {
  out->mask = -1;
  if (find_scaled(r, scores, out)) return true;
  const tn_node_t *add = tn_maker(r, scores, "core::add");
  if (!add || r->uses[scores] != 1) return false;
  for (uint32_t i = 0; i < 2; i++) {
    out->mask = tn_operand(add, i);
    if (is_mask(r, out->mask, scores) && find_scaled(r, tn_operand(add, 1 - i), out)) return true;
  }
  return false;
}

/* The edge of the weights in which rows that are masked throughout are 0, if it is made of these
 * weights and nothing else reads them; else the edge itself. */
static tenon_edge_t skip_guard(const tn_rewrite_t *r, tenon_edge_t weights) {
  double zero;
  if (r->uses[weights] != 2) return weights;
  for (int32_t i = r->first_reader[weights]; i >= 0; i = r->readers[i].next) {
    const tn_node_t *where = &r->graph->nodes[r->readers[i].node];
    if (!tn_node_is(where, "core::where") || tn_operand(where, 2) != weights) continue;
    const tenon_edge_t which = tn_operand(where, 0);
    const tn_node_t *is_nan = tn_maker(r, which, "core::is_nan");
    if (is_nan && tn_operand(is_nan, 0) == weights && r->uses[which] == 1 &&
        tn_scalar(r, tn_operand(where, 1), &zero) && zero == 0)
      return where->outputs[0];
  }
  return weights;
}

/* Finds the nodes that move the heads of the result to its last axis. */
static void find_flat_end(const tn_rewrite_t *r, parts_t *parts) {
  static const int64_t order[] = {0, 2, 1, 3};
  const tn_node_t *transpose = tn_only_user(r, parts->end->outputs[0]);
  parts->flat_end = NULL;
  if (!transpose || !permutes(r, transpose, order)) return;
  tn_node_t *reshape = tn_only_user(r, transpose->outputs[0]);
  if (tn_node_is(reshape, "core::reshape") && tn_operand(reshape, 0) == transpose->outputs[0] &&
      is_flat(r, reshape->outputs[0], transpose->outputs[0]))
    parts->flat_end = reshape;
}

/* Whether core::attention computes numbers of this dtype as the nodes do. */
static bool is_same_arithmetic(const tn_rewrite_t *r, const parts_t *parts) {
  tenon_dtype_t dtype = r->graph->edges[parts->q.apart].dtype;
  return tn_dtype_is(dtype, TENON_F32) || tn_dtype_is(dtype, TENON_F64);
}

/* The heads of k or v. */
static int64_t heads_of(const tn_rewrite_t *r, const side_t *side, int64_t heads) {
  return side->apart >= 0 ? axis_extent(r, side->apart, 1).value : heads;
}

static tenon_edge_t side_operand(const side_t *side, bool wants_flat) {
  return side->flat >= 0 && (wants_flat || side->apart < 0) ? side->flat : side->apart;
}

static void set_int(tenon_value_t *attrs, const tenon_op_t *op, const char *name, int64_t value) {
  attrs[tn_schema_attr(&op->schema, name, strlen(name))].as.i = value;
}

/* Turns the last node of the parts into attention. */
static tenon_status_t replace_parts(tn_rewrite_t *r, const parts_t *parts, int64_t heads) {
  const tenon_op_t *op = tn_registry_find("core::attention");
  tenon_value_t attrs[ATTRS_MOST];
  if (!op || op->schema.attr_count > ATTRS_MOST || op->input_count > OPERANDS_MOST) return TENON_OK;
  bool is_flat_result = parts->flat_end && parts->q.flat >= 0;
  tenon_edge_t operands[OPERANDS_MOST] = {
      [QUERY] = is_flat_result ? parts->q.flat : parts->q.apart,
      [KEY] = side_operand(&parts->k, true),
      [VALUE] = side_operand(&parts->v, true),
      [MASK] = parts->mask,
  };
  for (uint32_t i = MASK + 1; i < op->input_count; i++)
    operands[i] = -1;
  memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  attrs[tn_schema_attr(&op->schema, "scale", 5)] =
      (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = parts->scale}};
  set_int(attrs, op, "nan_is_zero", parts->is_guarded);
  set_int(attrs, op, "q_num_heads", heads);
  set_int(attrs, op, "kv_num_heads", heads_of(r, &parts->k, heads));
  return tn_node_become(r, is_flat_result ? parts->flat_end : parts->end, op, attrs, operands);
}

static tenon_status_t replace_attention(tn_rewrite_t *r, tn_node_t *softmax) {
  parts_t parts;
  tenon_edge_t scores = tn_operand(softmax, 0);
  int32_t at = tn_attr(softmax, "axis");
  if (scores < 0 || rank_of(r, scores) != RANK || at < 0) return TENON_OK;
  int64_t axis = softmax->attrs[at].as.i;
  const tenon_edge_t weights = skip_guard(r, softmax->outputs[0]);
  parts.is_guarded = weights != softmax->outputs[0];
  parts.end = tn_only_user(r, weights);
  if ((axis != RANK - 1 && axis != -1) || !parts.end || !is_product(r, parts.end) ||
      has_flag(parts.end, "transpose_b") || tn_operand(parts.end, 0) != weights ||
      !find_scores(r, scores, &parts))
    return TENON_OK;
  parts.v = find_side(r, tn_operand(parts.end, 1));
  const int64_t heads = axis_extent(r, scores, 1).value;
  if (!is_same_arithmetic(r, &parts) ||
      heads_of(r, &parts.k, heads) != heads_of(r, &parts.v, heads))
    return TENON_OK;
  find_flat_end(r, &parts);
  return replace_parts(r, &parts, heads);
}

const tn_rewrite_rule_t tn_rules_attention[] = {
    {"attention: matmul(softmax(add(mul(matmul(q, transpose(k)), scale), mask)), v) -> "
     "attention(q, k, v, mask, scale=scale)",
     "There are four axes; the mask may be absent, the scale too, or that of q and k, the weights "
     "may "
     "be 0 where they are NaN, and the heads may be split off by reshape and transpose.",
     {"core::softmax"},
     replace_attention},
    {NULL, NULL, {NULL}, NULL}};
