/* Fuses epilogues: a bias, a residual and an activation that follow a matmul or a convolution
 * become part of that node. The operator's schema tells what it can take: an attribute `activation`
 * with choices, inputs `bias` and `residual`. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/rules.h"

enum {
  MOST_INPUTS = 8,
  MOST_ATTRS = 64,
};

static int32_t input_named(const tn_node_t *node, const char *name) {
  return tn_schema_input(&node->op->schema, name, strlen(name));
}

static bool is_core(const tn_node_t *node) { return strcmp(node->op->schema.ns, "core") == 0; }

/* Turns `last` into `node` with one more operand or other attributes, and removes `node`. */
static tenon_status_t absorb_node(tn_rewrite_t *r, tn_node_t *node, tn_node_t *last, int32_t input,
                                  tenon_edge_t edge, const tenon_value_t *attrs) {
  tenon_edge_t operands[MOST_INPUTS];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    operands[i] = tn_operand(node, i);
  if (input >= 0) operands[input] = edge;
  const char *name = node->name;
  TN_TRY(tn_node_become(r, last, node->op, attrs ? attrs : node->attrs, operands));
  last->name = name;
  tn_node_remove(r, node);
  return TENON_OK;
}

static bool fits_bias(const tn_rewrite_t *r, tenon_edge_t bias, tenon_edge_t result) {
  const tn_edge_t *b = &r->graph->edges[bias];
  const tn_edge_t *y = &r->graph->edges[result];
  if (b->ndim < 1 || y->ndim < b->ndim || !tn_dtype_same(b->dtype, y->dtype)) return false;
  for (int32_t d = 0; d + 1 < b->ndim; d++)
    if (b->dims[d].value != 1) return false;
  tenon_dim_t last = tn_extents_resolve(r->graph->extents, y->dims[y->ndim - 1]);
  return b->dims[b->ndim - 1].value == last.value;
}

/* Whether products and convolutions compute this dtype in f32, so that a node whose result they
 * also compute is exact before the result is rounded. f16 and bf16 are then rounded once instead of
 * after each node. */
static bool is_computed_in_f32(tenon_dtype_t dtype) {
  return tn_dtype_is(dtype, TENON_F32) || tn_dtype_is(dtype, TENON_F16) ||
         tn_dtype_is(dtype, TENON_BF16);
}

/* The only node that reads the result of a product or convolution without an activation; NULL:
 * there is none. */
static tn_node_t *find_next(const tn_rewrite_t *r, const tn_node_t *node) {
  const int32_t at = tn_attr(node, "activation");
  if (at < 0 || !is_core(node) || node->output_count != 1 || node->op->input_count > MOST_INPUTS ||
      node->op->schema.attr_count > MOST_ATTRS || node->attrs[at].as.i != 0)
    return NULL;
  tn_node_t *last = tn_only_user(r, node->outputs[0]);
  const tenon_dtype_t dtype = r->graph->edges[node->outputs[0]].dtype;
  return last && last->output_count == 1 && is_computed_in_f32(dtype) ? last : NULL;
}

/* The other term of a sum that is the next node; -1: there is none. */
static tenon_edge_t find_term(const tn_rewrite_t *r, const tn_node_t *node, const tn_node_t *sum) {
  const tenon_edge_t y = node->outputs[0];
  if (!tn_node_is(sum, "core::add")) return -1;
  const tenon_edge_t other = tn_operand(sum, 0) == y ? tn_operand(sum, 1) : tn_operand(sum, 0);
  return other != y && tn_same_shape(r, y, sum->outputs[0]) ? other : -1;
}

static tenon_status_t fuse_bias(tn_rewrite_t *r, tn_node_t *node) {
  tn_node_t *sum = find_next(r, node);
  const tenon_edge_t other = sum ? find_term(r, node, sum) : -1;
  const int32_t bias = input_named(node, "bias");
  if (other < 0 || bias < 0 || tn_operand(node, (uint32_t)bias) >= 0 ||
      !fits_bias(r, other, node->outputs[0]))
    return TENON_OK;
  return absorb_node(r, node, sum, bias, other, NULL);
}

static tenon_status_t fuse_residual(tn_rewrite_t *r, tn_node_t *node) {
  tn_node_t *sum = find_next(r, node);
  const tenon_edge_t other = sum ? find_term(r, node, sum) : -1;
  const int32_t residual = input_named(node, "residual");
  if (other < 0 || residual < 0 || tn_operand(node, (uint32_t)residual) >= 0 ||
      !tn_same_shape(r, other, node->outputs[0]) || r->graph->edges[other].constant)
    return TENON_OK;
  return absorb_node(r, node, sum, residual, other, NULL);
}

/* Finds the choice of `activation` that computes the same as `node`, with its parameters. False:
 * there is none. */
static bool activation_of(const tn_rewrite_t *r, const tn_node_t *node, const tn_argument_t *attr,
                          int64_t *out_choice, double *out_alpha, double *out_beta) {
  const char *name = node->op->schema.name;
  int32_t alpha = tn_attr(node, "alpha");
  int32_t beta = tn_attr(node, "beta");
  int32_t approximate = tn_attr(node, "approximate");
  if (!is_core(node) || !(node->op->traits & TENON_POINTWISE)) return false;
  *out_alpha = alpha >= 0 ? node->attrs[alpha].as.f : 0;
  *out_beta = beta >= 0 ? node->attrs[beta].as.f : 0;
  if (strcmp(name, "clip") == 0) {
    *out_alpha = -INFINITY;
    *out_beta = INFINITY;
    for (uint32_t i = 1; i < 3; i++)
      if (tn_operand(node, i) >= 0 &&
          !tn_scalar(r, tn_operand(node, i), i == 1 ? out_alpha : out_beta))
        return false;
  } else if (node->op->input_count != 1) {
    return false;
  }
  if (strcmp(name, "gelu") == 0 && approximate >= 0 && node->attrs[approximate].as.i == 1)
    name = "gelu_tanh";
  if (strcmp(name, "silu") == 0 && *out_alpha != 1.0) return false;
  for (uint32_t c = 1; c < attr->choice_count; c++)
    if (strcmp(attr->choices[c], name) == 0) {
      *out_choice = c;
      return true;
    }
  return false;
}

static tenon_status_t fuse_activation(tn_rewrite_t *r, tn_node_t *node) {
  int64_t choice = 0;
  double alpha, beta;
  tenon_value_t attrs[MOST_ATTRS];
  const int32_t at = tn_attr(node, "activation");
  const int32_t alpha_at = tn_attr(node, "alpha");
  const int32_t beta_at = tn_attr(node, "beta");
  tn_node_t *last = find_next(r, node);
  if (!last || alpha_at < 0 || beta_at < 0 || tn_operand(last, 0) != node->outputs[0] ||
      !activation_of(r, last, &node->op->schema.attrs[at], &choice, &alpha, &beta))
    return TENON_OK;
  memcpy(attrs, node->attrs, node->op->schema.attr_count * sizeof *attrs);
  attrs[at].as.i = choice;
  attrs[alpha_at].as.f = alpha;
  attrs[beta_at].as.f = beta;
  return absorb_node(r, node, last, -1, -1, attrs);
}

const tn_rewrite_rule_t tn_rules_fuse[] = {
    {"bias: add(matmul(a, b), bias) -> matmul(a, b, bias)",
     "The bias has one axis, the last one of the result.",
     {"core::matmul"},
     fuse_bias},
    {"residual: add(conv(x, w), y) -> conv(x, w, residual=y)",
     "y is no constant, and has the shape of the result.",
     {NULL},
     fuse_residual},
    {"activation: relu(matmul(a, b)) -> matmul(a, b, activation='relu')",
     "Likewise for convolutions, and for each activation that the operator knows.",
     {NULL},
     fuse_activation},
    {NULL, NULL, {NULL}, NULL}};
