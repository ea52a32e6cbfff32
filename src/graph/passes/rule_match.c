/* Finds what the text of a rewriting rule says, and replaces it (rules.h). The search tries both
 * orders of operands of sums and products, and all alternatives.
 * Invariant: nodes are replaced only if no other node reads their results, and only by an operator
 * whose result has the dtype and the shape that the result had. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/value.h"
#include "graph/passes/pass.h"
#include "graph/passes/rules.h"
#include "operator/attrs.h"
#include "operator/names.h"

enum {
  NODES_MOST = 64, /* of a match */
  OPERANDS_MOST = 16,
  ATTRS_MOST = 64,
  STEPS_MOST = 4096, /* of a search: few are needed unless a rule is all alternatives */
};

/* A term that an edge must be, and what else must be found. */
typedef struct goal_t {
  const tn_term_t *term;
  tenon_edge_t edge; /* -1: absent */
  const struct goal_t *next;
} goal_t;

/* What a name stands for: an edge, or the value of an attribute. */
typedef struct binding_t {
  bool is_edge;
  tenon_edge_t edge; /* -1: absent */
  tenon_value_t value;
} binding_t;

typedef struct match_t {
  const tn_rewrite_t *r;
  uint32_t bound; /* bit i: bindings[i] is set */
  binding_t bindings[TN_REWRITE_NAMES];
  const tn_node_t *nodes[NODES_MOST]; /* the root comes first */
  uint32_t node_count;
  int32_t steps;
} match_t;

/* Names */

static bool bind(match_t *m, int32_t index, const binding_t *to) {
  binding_t *own = &m->bindings[index];
  const uint32_t bit = 1u << index;
  if (m->bound & bit)
    return own->is_edge == to->is_edge &&
           (to->is_edge ? own->edge == to->edge : tn_value_equal(&own->value, &to->value));
  *own = *to;
  m->bound |= bit;
  return true;
}

static bool bind_edge(match_t *m, const tn_term_t *term, tenon_edge_t edge) {
  const binding_t to = {.is_edge = true, .edge = edge};
  return (edge >= 0 || term->is_optional) && bind(m, term->index, &to);
}

static bool bind_scalar(match_t *m, const tn_term_t *term, tenon_edge_t edge) {
  binding_t to = {.value = {TENON_KIND_FLOAT, 0, {.f = 0}}};
  return tn_scalar(m->r, edge, &to.value.as.f) && bind(m, term->index, &to);
}

/* Literals */

/* Models store numbers that are no integers with few digits, or rounded to 16 bits. */
static bool is_scalar_near(const match_t *m, double number, tenon_edge_t edge) {
  double found;
  if (!tn_scalar(m->r, edge, &found)) return false;
  const tenon_dtype_t dtype = m->r->graph->edges[edge].dtype;
  double share = 1e-4;
  if (tn_dtype_is(dtype, TENON_F16)) share = 0x1p-11;
  if (tn_dtype_is(dtype, TENON_BF16)) share = 0x1p-8;
  if (number == rint(number)) share = 0;
  return fabs(found - number) <= share * fabs(number);
}

/* Whether the edge is a constant list of these axes; negative ones count from `rank`. */
static bool is_axes(const match_t *m, const tenon_value_t *axes, tenon_edge_t edge, int32_t rank) {
  const tenon_tensor_t *t = edge >= 0 ? m->r->graph->edges[edge].constant : NULL;
  if (!t || !tn_dtype_is(t->dtype, TENON_I64) || t->keys & TN_KEY_STRIDED || rank < 0 ||
      tenon_count(t) != (int64_t)axes->count)
    return false;
  const int64_t *found = t->data;
  for (uint32_t i = 0; i < axes->count; i++) {
    const int64_t axis = found[i] < 0 ? found[i] + rank : found[i];
    const int64_t expected = axes->as.ints[i] < 0 ? axes->as.ints[i] + rank : axes->as.ints[i];
    if (axis != expected) return false;
  }
  return true;
}

/* Attributes */

static bool match_attribute(match_t *m, const tn_node_t *node, uint32_t at,
                            const tn_term_attr_t *term) {
  tenon_value_t expected;
  const tn_argument_t *attr = &node->op->schema.attrs[at];
  if (term->index >= 0) {
    const binding_t to = {.value = node->attrs[at]};
    return bind(m, term->index, &to);
  }
  if (attr->kind == TENON_KIND_FLOAT && term->literal.kind == TENON_KIND_FLOAT)
    return fabs(node->attrs[at].as.f - term->literal.as.f) <= 1e-4 * fabs(term->literal.as.f);
  return tn_value_fit(attr, &term->literal, &m->r->graph->arena, &expected) == TENON_OK &&
         tn_value_equal(&expected, &node->attrs[at]);
}

/* Attributes that the rule does not mention have their defaults. */
static bool match_attributes(match_t *m, const tn_node_t *node, const tn_term_t *term) {
  const tn_schema_t *schema = &node->op->schema;
  for (uint32_t at = 0; at < schema->attr_count; at++) {
    uint32_t i = 0;
    while (i < term->attr_count && strcmp(term->attrs[i].name, schema->attrs[at].name) != 0)
      i++;
    if (i < term->attr_count ? !match_attribute(m, node, at, &term->attrs[i])
                             : !tn_value_equal(&node->attrs[at], &schema->defaults[at]))
      return false;
  }
  return true;
}

/* Terms */

static bool find(match_t *m, const goal_t *goal);

static bool is_commutative(const tn_node_t *node) {
  return tn_node_is(node, "core::add") || tn_node_is(node, "core::mul") ||
         tn_node_is(node, "core::max") || tn_node_is(node, "core::min");
}

static bool find_operands(match_t *m, const tn_node_t *node, const goal_t *goal, bool is_swapped) {
  goal_t goals[OPERANDS_MOST];
  const tn_term_t *term = goal->term;
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    if (node->operands[i].count > (i < term->count)) return false;
    if (i >= term->count) continue;
    const tn_term_t *operand = &term->terms[is_swapped ? 1 - i : i];
    const goal_t *next = i + 1 < term->count ? &goals[i + 1] : goal->next;
    goals[i] = (goal_t){operand, tn_operand(node, i), next};
    if (operand->kind == TN_TERM_AXES &&
        !is_axes(m, &operand->literal, goals[i].edge, m->r->graph->edges[tn_operand(node, 0)].ndim))
      return false;
  }
  return find(m, term->count ? goals : goal->next);
}

/* Whether nothing reads other results than the first one. */
static bool has_one_result(const tn_rewrite_t *r, const tn_node_t *node) {
  for (int32_t o = 1; o < node->output_count; o++)
    if ((size_t)node->outputs[o] < r->edge_count && r->uses[node->outputs[o]]) return false;
  return node->output_count > 0;
}

static bool find_call(match_t *m, const tn_node_t *node, const goal_t *goal) {
  const tn_term_t *term = goal->term;
  if (!tn_node_is(node, term->op) || node->group || !has_one_result(m->r, node) ||
      term->count > node->op->input_count || term->count > OPERANDS_MOST ||
      m->node_count == NODES_MOST || !match_attributes(m, node, term))
    return false;
  uint32_t i = 0;
  while (i < m->node_count && m->nodes[i] != node)
    i++;
  if (i == m->node_count) m->nodes[m->node_count++] = node;
  if (find_operands(m, node, goal, false)) return true;
  return term->count == 2 && is_commutative(node) && find_operands(m, node, goal, true);
}

static bool find_choice(match_t *m, const goal_t *goal) {
  for (uint32_t i = 0; i < goal->term->count; i++) {
    const goal_t one = {&goal->term->terms[i], goal->edge, goal->next};
    if (find(m, &one)) return true;
  }
  return false;
}

/* Whether only nodes of the match read the results of those that are replaced. */
static bool is_closed(const match_t *m) {
  for (uint32_t n = 1; n < m->node_count; n++) {
    const tenon_edge_t edge = m->nodes[n]->outputs[0];
    int32_t reads = 0;
    for (uint32_t k = 0; k < m->node_count; k++)
      for (uint32_t i = 0; i < m->nodes[k]->op->input_count; i++)
        reads += tn_operand(m->nodes[k], i) == edge;
    if (reads != m->r->uses[edge]) return false;
  }
  return true;
}

static bool find_term(match_t *m, const goal_t *goal) {
  const tn_term_t *term = goal->term;
  switch (term->kind) {
  case TN_TERM_VALUE:
    return bind_edge(m, term, goal->edge) && find(m, goal->next);
  case TN_TERM_SCALAR:
    return bind_scalar(m, term, goal->edge) && find(m, goal->next);
  case TN_TERM_NUMBER:
    return is_scalar_near(m, term->literal.as.f, goal->edge) && find(m, goal->next);
  case TN_TERM_AXES: /* find_operands has compared them */
    return find(m, goal->next);
  case TN_TERM_ABSENT:
    return goal->edge < 0 && find(m, goal->next);
  case TN_TERM_CHOICE:
    return find_choice(m, goal);
  default:
    return find_call(m, tn_maker(m->r, goal->edge, term->op), goal);
  }
}

/* Finds the goal and those after it; what it binds is forgotten if it fails. */
static bool find(match_t *m, const goal_t *goal) {
  const uint32_t bound = m->bound;
  const uint32_t node_count = m->node_count;
  if (!goal) return is_closed(m);
  if (--m->steps < 0) return false;
  if (find_term(m, goal)) return true;
  m->bound = bound;
  m->node_count = node_count;
  return false;
}

/* Replacements */

static bool set_attributes(const match_t *m, const tn_term_t *term, const tenon_op_t *op,
                           tenon_value_t *attrs) {
  memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  for (uint32_t i = 0; i < term->attr_count; i++) {
    const tn_term_attr_t *from = &term->attrs[i];
    const int32_t at = tn_schema_attr(&op->schema, from->name, strlen(from->name));
    const binding_t *bound = from->index >= 0 ? &m->bindings[from->index] : NULL;
    if (at < 0 || (bound && (bound->is_edge || !(m->bound >> from->index & 1)))) return false;
    const tenon_value_t *value = bound ? &bound->value : &from->literal;
    if (bound && op->schema.attrs[at].kind == value->kind)
      attrs[at] = *value;
    else if (tn_value_fit(&op->schema.attrs[at], value, &m->r->graph->arena, &attrs[at]) !=
             TENON_OK)
      return false;
  }
  return tn_attrs_check(op, attrs) == TENON_OK;
}

/* Sets the operands of the replacement; false: a name stands for no value. */
static bool set_operands(const match_t *m, const tn_term_t *term, const tenon_op_t *op,
                         tenon_edge_t *operands) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tn_term_t *operand = i < term->count ? &term->terms[i] : NULL;
    operands[i] = -1;
    if (!operand || operand->kind == TN_TERM_ABSENT) continue;
    if (operand->kind != TN_TERM_VALUE) return false;
    const binding_t *bound = &m->bindings[operand->index];
    const bool is_bound = m->bound >> operand->index & 1;
    if (is_bound ? !bound->is_edge : !operand->is_optional) return false;
    if (is_bound) operands[i] = bound->edge;
  }
  return true;
}

/* Whether the operator's result has the dtype and the shape of the node's result. */
static bool has_result(const tn_rewrite_t *r, const tn_node_t *node, const tenon_op_t *op,
                       const tenon_value_t *attrs, tenon_edge_t *operands) {
  tenon_operand_t own[OPERANDS_MOST];
  tn_node_t trial = *node;
  const tenon_edge_t result = node->outputs[0];
  const tn_edge_t known = r->graph->edges[result];
  for (uint32_t i = 0; i < op->input_count; i++)
    own[i] = (tenon_operand_t){operands[i] >= 0, &operands[i]};
  trial.op = op;
  trial.attrs = attrs;
  trial.operands = own;
  r->graph->edges[result].ndim = -1;
  bool is_same = tn_node_infer(r->graph, &trial) == TENON_OK;
  const tn_edge_t made = r->graph->edges[result];
  r->graph->edges[result] = known;
  is_same = is_same && made.ndim >= 0 && made.ndim == known.ndim &&
            tn_dtype_same(made.dtype, known.dtype);
  for (int32_t d = 0; is_same && d < made.ndim; d++)
    is_same = tn_extents_resolve(r->graph->extents, made.dims[d]).value ==
              tn_extents_resolve(r->graph->extents, known.dims[d]).value;
  return is_same;
}

static tenon_status_t replace_match(tn_rewrite_t *r, tn_node_t *root, const match_t *m,
                                    const tn_term_t *after) {
  tenon_edge_t operands[OPERANDS_MOST];
  tenon_value_t attrs[ATTRS_MOST];
  if (after->kind == TN_TERM_VALUE) {
    const tenon_edge_t edge = m->bound >> after->index & 1 ? m->bindings[after->index].edge : -1;
    if (edge < 0 || !tn_same_shape(r, edge, root->outputs[0])) return TENON_OK;
    tn_redirect(r, root->outputs[0], edge);
    tn_node_remove(r, root);
    return TENON_OK;
  }
  const tenon_op_t *op = tn_registry_find(after->op);
  if (!op || tn_op_has_ended(op) || op->input_count > OPERANDS_MOST ||
      op->schema.attr_count > ATTRS_MOST || !set_attributes(m, after, op, attrs) ||
      !set_operands(m, after, op, operands) || !has_result(r, root, op, attrs, operands))
    return TENON_OK;
  TN_TRY(tn_graph_use_op(r->graph, op));
  return tn_node_become(r, root, op, attrs, operands);
}

tenon_status_t tn_rewrite_apply_text(tn_rewrite_t *r, tn_node_t *node,
                                     const tn_rewrite_text_t *text) {
  match_t m = {.r = r, .steps = STEPS_MOST};
  const tn_term_t *before = &text->before;
  const bool is_call = before->kind == TN_TERM_CALL;
  const tenon_edge_t result = has_one_result(r, node) ? node->outputs[0] : -1;
  const goal_t goal = {before, result, NULL};
  if (result < 0 || (is_call && !tn_node_is(node, before->op)) || !find(&m, &goal)) return TENON_OK;
  return replace_match(r, node, &m, &text->after);
}
