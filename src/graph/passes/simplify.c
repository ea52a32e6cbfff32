/* Simplification: removes nodes that do nothing, moves zero padding into the convolution that
 * follows, multiplies transposed matrices where a product is transposed, and replaces pointwise
 * formulas that exporters write out (gelu by erf, silu) by one node. Called by the compiler after
 * folding. */
#include <math.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewrite.h"
#include "operator/names.h"

static const int64_t *ints_of(const tn_rewrite_t *r, tenon_edge_t edge, int64_t *out_count) {
  const tenon_tensor_t *t = edge >= 0 ? r->graph->edges[edge].constant : NULL;
  if (!t || !tn_dtype_is(t->dtype, TENON_I64) || t->keys & TN_KEY_STRIDED) return NULL;
  *out_count = tenon_count(t);
  return t->data;
}

/* Padding */

static const int64_t *zero_pads(const tn_rewrite_t *r, const tn_node_t *pad, int32_t *out_rank) {
  int64_t count;
  double value = 0;
  const int64_t *pads = ints_of(r, tn_operand(pad, 1), &count);
  int32_t mode = tn_attr(pad, "mode");
  tenon_edge_t fill = tn_operand(pad, 2);
  *out_rank = r->graph->edges[tn_operand(pad, 0)].ndim;
  if (!pads || *out_rank < 0 || count != 2 * (int64_t)*out_rank || tn_operand(pad, 3) >= 0)
    return NULL;
  if (mode < 0 || pad->attrs[mode].as.i != 0 ||
      (fill >= 0 && (!tn_scalar(r, fill, &value) || value != 0)))
    return NULL;
  return pads;
}

static tenon_status_t merge_pad(tn_rewrite_t *r, tn_node_t *pad) {
  int32_t rank;
  const int64_t *pads = zero_pads(r, pad, &rank);
  if (!pads) return TENON_OK;
  bool nothing = true;
  for (int32_t i = 0; i < 2 * rank; i++)
    nothing &= pads[i] == 0;
  if (nothing) {
    tn_redirect(r, pad->outputs[0], tn_operand(pad, 0));
    tn_node_remove(r, pad);
    return TENON_OK;
  }
  tn_node_t *conv = tn_only_user(r, pad->outputs[0]);
  if (!tn_node_is(conv, "core::conv") || tn_operand(conv, 0) != pad->outputs[0] || rank < 3)
    return TENON_OK;
  int32_t spatial = rank - 2;
  int32_t at = tn_attr(conv, "pads");
  int32_t automatic = tn_attr(conv, "auto_pad");
  if (at < 0 || automatic < 0 || conv->attrs[automatic].as.i != 0) return TENON_OK;
  int64_t merged[2 * TENON_RANK_MAX];
  for (int32_t i = 0; i < rank; i++)
    for (int32_t side = 0; side < 2; side++) {
      int64_t p = pads[side * rank + i];
      if (p < 0 || (i < 2 && p != 0)) return TENON_OK;
      if (i < 2) continue;
      int32_t k = side * spatial + i - 2;
      merged[k] = p + (conv->attrs[at].count ? conv->attrs[at].as.ints[k] : 0);
    }
  tenon_value_t attrs[64];
  if (conv->op->schema.attr_count > 64) return TENON_OK;
  memcpy(attrs, conv->attrs, conv->op->schema.attr_count * sizeof *attrs);
  attrs[at] = (tenon_value_t){TENON_KIND_INTS, (uint32_t)(2 * spatial), {.ints = merged}};
  tenon_edge_t operands[] = {tn_operand(pad, 0), tn_operand(conv, 1), tn_operand(conv, 2),
                             tn_operand(conv, 3)};
  TN_TRY(tn_node_become(r, conv, conv->op, attrs, operands));
  tn_node_remove(r, pad);
  return TENON_OK;
}

/* Nodes that do nothing */

static bool does_nothing(const tn_rewrite_t *r, const tn_node_t *node) {
  if (node->output_count < 1 || tn_operand(node, 0) < 0) return false;
  if (tn_node_is(node, "core::cast") || tn_node_is(node, "core::expand") ||
      tn_node_is(node, "core::reshape"))
    return tn_same_shape(r, tn_operand(node, 0), node->outputs[0]);
  return false;
}

/* Formulas */

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-4 * fabs(b); }

/* The other operand of a product or a sum with the constant `scalar`; -1: it is not such a node. */
static tenon_edge_t beside_scalar(const tn_rewrite_t *r, const tn_node_t *node, double scalar) {
  double value;
  for (uint32_t i = 0; i < 2; i++)
    if (tn_scalar(r, tn_operand(node, i), &value) && is_near(value, scalar))
      return tn_operand(node, 1 - i);
  return -1;
}

static bool is_half_of(const tn_rewrite_t *r, tenon_edge_t edge, tenon_edge_t x) {
  const tn_node_t *half = tn_maker(r, edge, "core::mul");
  return half && beside_scalar(r, half, 0.5) == x;
}

/* The edge x if this edge is x / sqrt(2), else -1. */
static tenon_edge_t scaled_by_root(const tn_rewrite_t *r, tenon_edge_t edge) {
  double value;
  const tn_node_t *node = tn_maker(r, edge, "core::div");
  if (node && tn_scalar(r, tn_operand(node, 1), &value) && is_near(value, 1.4142135623730951))
    return tn_operand(node, 0);
  node = tn_maker(r, edge, "core::mul");
  return node ? beside_scalar(r, node, 0.70710678118654752) : -1;
}

/* The node whose result is x * (1 + erf(x / sqrt(2))) / 2, in any of the three orders in which
 * exporters write it; NULL: there is none. */
static tn_node_t *gelu_end(const tn_rewrite_t *r, const tn_node_t *erf, tenon_edge_t x) {
  const tn_node_t *sum = tn_only_user(r, erf->outputs[0]);
  if (!tn_node_is(sum, "core::add") || beside_scalar(r, sum, 1.0) != erf->outputs[0]) return NULL;
  tn_node_t *first = tn_only_user(r, sum->outputs[0]);
  if (!tn_node_is(first, "core::mul")) return NULL;
  tenon_edge_t other =
      tn_operand(first, 0) == sum->outputs[0] ? tn_operand(first, 1) : tn_operand(first, 0);
  if (is_half_of(r, other, x)) return first;
  tn_node_t *second = tn_only_user(r, first->outputs[0]);
  if (!tn_node_is(second, "core::mul")) return NULL;
  if (other == x) return beside_scalar(r, second, 0.5) == first->outputs[0] ? second : NULL;
  double value;
  tenon_edge_t last =
      tn_operand(second, 0) == first->outputs[0] ? tn_operand(second, 1) : tn_operand(second, 0);
  return tn_scalar(r, other, &value) && is_near(value, 0.5) && last == x ? second : NULL;
}

static tenon_status_t find_gelu(tn_rewrite_t *r, const tn_node_t *erf) {
  static const char name[] = "core::gelu";
  tenon_edge_t x = scaled_by_root(r, tn_operand(erf, 0));
  const tenon_op_t *gelu = tn_registry_find(name);
  if (x < 0 || !gelu || gelu->input_count != 1) return TENON_OK;
  tn_node_t *end = gelu_end(r, erf, x);
  return end && tn_same_shape(r, x, end->outputs[0]) ? tn_node_become(r, end, gelu, NULL, &x)
                                                     : TENON_OK;
}

static tenon_status_t find_silu(tn_rewrite_t *r, tn_node_t *sigmoid) {
  tenon_edge_t x = tn_operand(sigmoid, 0);
  tn_node_t *product = tn_only_user(r, sigmoid->outputs[0]);
  const tenon_op_t *silu = tn_registry_find("core::silu");
  if (!tn_node_is(product, "core::mul") || !silu || silu->input_count != 1) return TENON_OK;
  bool is_x = tn_operand(product, 0) == x || tn_operand(product, 1) == x;
  return is_x ? tn_node_become(r, product, silu, NULL, &x) : TENON_OK;
}

/* Transposed products */

/* Whether the node exchanges the last two axes, and leaves the others in their places. */
static bool is_exchange(const tn_rewrite_t *r, const tn_node_t *node) {
  int32_t at = tn_node_is(node, "core::transpose") ? tn_attr(node, "perm") : -1;
  if (at < 0) return false;
  int32_t rank = r->graph->edges[tn_operand(node, 0)].ndim;
  const tenon_value_t *perm = &node->attrs[at];
  if (perm->kind == TENON_KIND_NONE) return rank == 2;
  if (rank < 2 || (int64_t)perm->count != rank) return false;
  for (int32_t i = 0; i < rank; i++) {
    int64_t expected = i < rank - 2 ? i : 2 * rank - 3 - i;
    int64_t axis = perm->as.ints[i];
    if ((axis < 0 ? axis + rank : axis) != expected) return false;
  }
  return true;
}

/* Replaces transpose(a @ b) by transpose(b) @ transpose(a), so that the result is written in the
 * order in which it is read. Frameworks write the gradients of weights in the first form. */
static tenon_status_t transpose_factors(tn_rewrite_t *r, tn_node_t *transpose) {
  tn_node_t *product = tn_maker(r, tn_operand(transpose, 0), "core::matmul");
  if (!product || product->op->schema.attr_count > 64 || product->op->input_count > 8 ||
      tn_only_user(r, product->outputs[0]) != transpose || !is_exchange(r, transpose))
    return TENON_OK;
  int32_t first = tn_attr(product, "transpose_a");
  int32_t second = tn_attr(product, "transpose_b");
  int32_t activation = tn_attr(product, "activation");
  if (first < 0 || second < 0 || activation < 0 || product->attrs[activation].as.i != 0)
    return TENON_OK;
  tenon_edge_t operands[8];
  for (uint32_t i = 0; i < product->op->input_count; i++) {
    operands[i] = tn_operand(product, i);
    if (i < 2 ? r->graph->edges[operands[i]].ndim < 2 : product->operands[i].count > 0)
      return TENON_OK;
  }
  tenon_value_t attrs[64];
  memcpy(attrs, product->attrs, product->op->schema.attr_count * sizeof *attrs);
  attrs[first].as.i = !product->attrs[second].as.i;
  attrs[second].as.i = !product->attrs[first].as.i;
  tenon_edge_t a = operands[0];
  operands[0] = operands[1];
  operands[1] = a;
  TN_TRY(tn_node_become(r, transpose, product->op, attrs, operands));
  tn_node_remove(r, product);
  return TENON_OK;
}

tenon_status_t tn_pass_simplify(tenon_graph_t *graph) {
  tn_rewrite_t r;
  TN_TRY(tn_rewrite_begin(&r, graph));
  tenon_status_t status = TENON_OK;
  for (size_t n = 0; n < graph->node_count && status == TENON_OK; n++) {
    tn_node_t *node = &graph->nodes[n];
    if (!node->op) continue;
    if (does_nothing(&r, node)) {
      tn_redirect(&r, node->outputs[0], tn_operand(node, 0));
      tn_node_remove(&r, node);
    } else if (tn_node_is(node, "core::pad"))
      status = merge_pad(&r, node);
    else if (tn_node_is(node, "core::transpose"))
      status = transpose_factors(&r, node);
    else if (tn_node_is(node, "core::erf"))
      status = find_gelu(&r, node);
    else if (tn_node_is(node, "core::sigmoid"))
      status = find_silu(&r, node);
  }
  tn_rewrite_end(&r);
  return status;
}
