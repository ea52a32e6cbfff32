/* Simplification: removes nodes that do nothing, moves zero padding into the convolution that
 * follows, multiplies transposed matrices where a product is transposed, and replaces formulas
 * that exporters write out (formulas.c) by one node. Called by the compiler after folding. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/formulas.h"
#include "graph/passes/pass.h"
#include "graph/passes/rewrite.h"

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

/* Replaces the formula that is recognised by this node, if there is one. */
static tenon_status_t replace_formula(tn_rewrite_t *r, tn_node_t *node) {
  if (tn_node_is(node, "core::erf") || tn_node_is(node, "core::erfc"))
    return tn_formula_gelu(r, node);
  if (tn_node_is(node, "core::div")) {
    TN_TRY(tn_formula_softmax(r, node));
    TN_TRY(tn_formula_sigmoid(r, node));
  }
  if (tn_node_is(node, "core::sigmoid")) return tn_formula_silu(r, node);
  if (tn_node_is(node, "core::clip")) return tn_formula_hard_swish(r, node);
  if (tn_node_is(node, "core::rsqrt")) return tn_formula_layer_norm(r, node);
  return TENON_OK;
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
  }
  for (size_t n = 0; n < graph->node_count && status == TENON_OK; n++)
    if (graph->nodes[n].op) status = replace_formula(&r, &graph->nodes[n]);
  tn_rewrite_end(&r);
  return status;
}
