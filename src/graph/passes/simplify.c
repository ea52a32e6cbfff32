/* Rules that simplify: nodes that do nothing are removed, several moves of elements become one,
 * zero padding becomes part of the convolution that follows, and transposed matrices are multiplied
 * where a product is transposed. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/rules.h"

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
  if (at < 0 || automatic < 0) return TENON_OK;
  enum { EXPLICIT = 0, VALID = 3 };
  const bool is_valid = conv->attrs[automatic].as.i == VALID;
  if (!is_valid && conv->attrs[automatic].as.i != EXPLICIT) return TENON_OK;
  const bool has_pads = !is_valid && conv->attrs[at].count > 0;
  int64_t merged[2 * TENON_RANK_MAX];
  for (int32_t i = 0; i < rank; i++)
    for (int32_t side = 0; side < 2; side++) {
      int64_t p = pads[side * rank + i];
      if (p < 0 || (i < 2 && p != 0)) return TENON_OK;
      if (i < 2) continue;
      int32_t k = side * spatial + i - 2;
      merged[k] = p + (has_pads ? conv->attrs[at].as.ints[k] : 0);
    }
  tenon_value_t attrs[64];
  if (conv->op->schema.attr_count > 64) return TENON_OK;
  memcpy(attrs, conv->attrs, conv->op->schema.attr_count * sizeof *attrs);
  attrs[at] = (tenon_value_t){TENON_KIND_INTS, (uint32_t)(2 * spatial), {.ints = merged}};
  attrs[automatic].as.i = EXPLICIT;
  tenon_edge_t operands[] = {tn_operand(pad, 0), tn_operand(conv, 1), tn_operand(conv, 2),
                             tn_operand(conv, 3)};
  TN_TRY(tn_node_become(r, conv, conv->op, attrs, operands));
  tn_node_remove(r, pad);
  return TENON_OK;
}

/* Nodes that do nothing */

static tenon_status_t remove_identity(tn_rewrite_t *r, tn_node_t *node) {
  const tenon_edge_t x = tn_operand(node, 0);
  if (node->output_count < 1 || x < 0 || !tn_same_shape(r, x, node->outputs[0])) return TENON_OK;
  tn_redirect(r, node->outputs[0], x);
  tn_node_remove(r, node);
  return TENON_OK;
}

static tenon_status_t skip_node(tn_rewrite_t *r, tn_node_t *node, tenon_edge_t x) {
  tn_redirect(r, node->outputs[0], x);
  tn_node_remove(r, node);
  return TENON_OK;
}

/* Removes a concat of one value, and a split into one part. */
static tenon_status_t skip_single(tn_rewrite_t *r, tn_node_t *node) {
  if (node->operands[0].count != 1 || node->output_count != 1) return TENON_OK;
  const tenon_edge_t x = node->operands[0].edges[0];
  return tn_same_shape(r, x, node->outputs[0]) ? skip_node(r, node, x) : TENON_OK;
}

/* Removes a slice that has all elements, in their order. */
static tenon_status_t skip_slice(tn_rewrite_t *r, tn_node_t *node) {
  int64_t count = 0;
  const tenon_edge_t x = tn_operand(node, 0);
  const tenon_edge_t steps = tn_operand(node, 4);
  const int64_t *by = ints_of(r, steps, &count);
  if (x < 0 || (steps >= 0 && !by) || !tn_same_shape(r, x, node->outputs[0])) return TENON_OK;
  for (int64_t i = 0; i < count; i++)
    if (by[i] < 0) return TENON_OK;
  return skip_node(r, node, x);
}

/* Removes a gather of all slices, in their order. */
static tenon_status_t skip_gather(tn_rewrite_t *r, tn_node_t *node) {
  int64_t count;
  const tenon_edge_t x = tn_operand(node, 0);
  const int64_t *indices = ints_of(r, tn_operand(node, 1), &count);
  if (x < 0 || !indices || !tn_same_shape(r, x, node->outputs[0])) return TENON_OK;
  for (int64_t i = 0; i < count; i++)
    if (indices[i] != i && indices[i] != i - count) return TENON_OK;
  return skip_node(r, node, x);
}

/* Whether each number of dtype `narrow` is one of `wide`, too. */
static bool is_widened(tenon_dtype_t narrow, tenon_dtype_t wide) {
  static const uint32_t pairs[][2] = {
      {TENON_F16, TENON_F32},  {TENON_F16, TENON_F64}, {TENON_BF16, TENON_F32},
      {TENON_BF16, TENON_F64}, {TENON_F32, TENON_F64}, {TENON_I32, TENON_I64},
      {TENON_I16, TENON_I64},  {TENON_I16, TENON_I32}, {TENON_I8, TENON_I64},
      {TENON_I8, TENON_I32},   {TENON_U8, TENON_I64},  {TENON_U8, TENON_I32}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (tn_dtype_is(narrow, pairs[i][0]) && tn_dtype_is(wide, pairs[i][1])) return true;
  return false;
}

/* Removes two casts that give the numbers that were there. */
static tenon_status_t skip_casts(tn_rewrite_t *r, tn_node_t *node) {
  const tenon_edge_t wide = tn_operand(node, 0);
  const tn_node_t *before = tn_maker(r, wide, "core::cast");
  const tenon_edge_t x = before ? tn_operand(before, 0) : -1;
  if (x < 0 || !is_widened(r->graph->edges[x].dtype, r->graph->edges[wide].dtype) ||
      !tn_same_shape(r, x, node->outputs[0]))
    return TENON_OK;
  return skip_node(r, node, x);
}

/* Moves of elements */

static bool is_reshape(const tn_node_t *node) {
  return tn_node_is(node, "core::reshape") || tn_node_is(node, "core::squeeze") ||
         tn_node_is(node, "core::unsqueeze") || tn_node_is(node, "core::flatten");
}

/* Removes a node that takes axes apart or joins them as they were before the node before it. */
static tenon_status_t skip_reshapes(tn_rewrite_t *r, tn_node_t *node) {
  const tenon_edge_t between = tn_operand(node, 0);
  const int32_t producer = between >= 0 ? r->graph->edges[between].producer : -1;
  const tn_node_t *before = producer >= 0 ? &r->graph->nodes[producer] : NULL;
  if (!is_reshape(node) || !is_reshape(before)) return TENON_OK;
  const tenon_edge_t x = tn_operand(before, 0);
  return x >= 0 && tn_same_shape(r, x, node->outputs[0]) ? skip_node(r, node, x) : TENON_OK;
}

/* Reads the order of axes; false: it is not known. */
static bool read_order(const tn_rewrite_t *r, const tn_node_t *transpose, int32_t *out_rank,
                       int64_t *out_order) {
  const int32_t at = tn_attr(transpose, "perm");
  const int32_t rank = r->graph->edges[tn_operand(transpose, 0)].ndim;
  if (at < 0 || rank < 0 || rank > TENON_RANK_MAX) return false;
  const tenon_value_t *order = &transpose->attrs[at];
  const bool is_reversed = order->kind == TENON_KIND_NONE;
  if (!is_reversed && (int64_t)order->count != rank) return false;
  for (int32_t i = 0; i < rank; i++) {
    const int64_t axis = is_reversed ? rank - 1 - i : order->as.ints[i];
    out_order[i] = axis < 0 ? axis + rank : axis;
  }
  *out_rank = rank;
  return true;
}

/* Removes a transpose that leaves all axes in their places. */
static tenon_status_t skip_transpose(tn_rewrite_t *r, tn_node_t *node) {
  int32_t rank;
  int64_t order[TENON_RANK_MAX];
  if (!read_order(r, node, &rank, order)) return TENON_OK;
  for (int32_t i = 0; i < rank; i++)
    if (order[i] != i) return TENON_OK;
  return skip_node(r, node, tn_operand(node, 0));
}

/* Makes two transposes one, or none if the second one undoes the first one. */
static tenon_status_t join_transposes(tn_rewrite_t *r, tn_node_t *node) {
  int32_t rank;
  int64_t first[TENON_RANK_MAX], second[TENON_RANK_MAX], both[TENON_RANK_MAX];
  bool is_identity = true;
  const tn_node_t *before = tn_maker(r, tn_operand(node, 0), "core::transpose");
  if (!before || !read_order(r, before, &rank, first) || !read_order(r, node, &rank, second))
    return TENON_OK;
  for (int32_t i = 0; i < rank; i++) {
    both[i] = first[second[i]];
    is_identity &= both[i] == i;
  }
  const tenon_edge_t x = tn_operand(before, 0);
  if (is_identity) {
    tn_redirect(r, node->outputs[0], x);
    tn_node_remove(r, node);
    return TENON_OK;
  }
  tenon_value_t order = {TENON_KIND_INTS, (uint32_t)rank, {.ints = both}};
  return node->op->schema.attr_count == 1 ? tn_node_become(r, node, node->op, &order, &x)
                                          : TENON_OK;
}

/* Makes the later one of two reshapes read what the first one reads, unless it takes an extent from
 * its operand. */
static tenon_status_t join_reshapes(tn_rewrite_t *r, tn_node_t *node) {
  int64_t count;
  const tn_node_t *before = tn_maker(r, tn_operand(node, 0), "core::reshape");
  const int64_t *extents = ints_of(r, tn_operand(node, 1), &count);
  if (!before || !extents || node->op->input_count != 2) return TENON_OK;
  for (int64_t i = 0; i < count; i++)
    if (extents[i] == 0) return TENON_OK;
  const tenon_edge_t operands[] = {tn_operand(before, 0), tn_operand(node, 1)};
  return tn_node_become(r, node, node->op, node->attrs, operands);
}

/* Whether `between`, a reshape of x, has its last two axes behind a joined one, and `edge` is x
 * with these two exchanged. */
static bool exchanges_last(const tn_rewrite_t *r, tenon_edge_t x, tenon_edge_t between,
                           tenon_edge_t edge) {
  enum { RANK = 3 };
  const tn_edge_t *from = &r->graph->edges[x];
  const tn_edge_t *flat = &r->graph->edges[between];
  const tn_edge_t *to = &r->graph->edges[edge];
  const int32_t rank = from->ndim;
  if (flat->ndim != RANK || rank < RANK || to->ndim != rank) return false;
  for (int32_t i = 0; i < rank; i++) {
    const int32_t other = i < rank - 2 ? i : 2 * rank - 3 - i;
    const int64_t extent = tn_extents_resolve(r->graph->extents, from->dims[i]).value;
    if (tn_extents_resolve(r->graph->extents, to->dims[other]).value != extent) return false;
    if (i >= rank - 2 &&
        tn_extents_resolve(r->graph->extents, flat->dims[i - rank + RANK]).value != extent)
      return false;
  }
  return true;
}

/* Makes a reshape give the extents that `edge` has, with the last two exchanged. Returns whether it
 * could: they must be known, and only the transpose reads the result. */
static tenon_status_t reshape_apart(tn_rewrite_t *r, tn_node_t *reshape, tenon_edge_t edge,
                                    bool *out_done) {
  const tn_edge_t like = r->graph->edges[edge];
  const tenon_edge_t result = reshape->outputs[0];
  const int64_t length[1] = {like.ndim};
  tenon_tensor_t *extents = NULL;
  tenon_edge_t operands[2] = {tn_operand(reshape, 0), -1};
  tenon_dim_t *dims = tn_arena_array(&r->graph->arena, (size_t)like.ndim, sizeof *dims);
  *out_done = false;
  if (!dims) return tn_no_memory("a rewrite", 0);
  for (int32_t i = 0; i < like.ndim; i++) {
    const int32_t from = i < like.ndim - 2 ? i : 2 * like.ndim - 3 - i;
    dims[i] = tn_extents_resolve(r->graph->extents, like.dims[from]);
    if (dims[i].value <= 0) return TENON_OK;
  }
  if (r->uses[result] != 1 || reshape->op->input_count != 2) return TENON_OK;
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_I64), 1, length, &extents));
  for (int32_t i = 0; i < like.ndim; i++)
    ((int64_t *)extents->data)[i] = dims[i].value;
  const tenon_status_t status = tn_rewrite_constant(r, extents, &operands[1]);
  tenon_tensor_release(extents);
  TN_TRY(status);
  TN_TRY(tn_node_become(r, reshape, reshape->op, reshape->attrs, operands));
  r->graph->edges[result].ndim = like.ndim;
  r->graph->edges[result].dims = dims;
  *out_done = true;
  return TENON_OK;
}

/* Whether `edge` has the last two extents of `between`, exchanged. */
static bool ends_exchanged(const tn_rewrite_t *r, tenon_edge_t between, tenon_edge_t edge) {
  const tn_edge_t *flat = &r->graph->edges[between];
  const tn_edge_t *to = &r->graph->edges[edge];
  if (flat->ndim != 3 || to->ndim < 3) return false;
  for (int32_t i = 1; i <= 2; i++)
    if (tn_extents_resolve(r->graph->extents, flat->dims[3 - i]).value !=
        tn_extents_resolve(r->graph->extents, to->dims[to->ndim - 3 + i]).value)
      return false;
  return true;
}

/* Replaces a transpose between two reshapes that join all axes but the last two, and take them
 * apart again. */
static tenon_status_t skip_joined_axes(tn_rewrite_t *r, tn_node_t *node) {
  static const int64_t exchange[] = {0, 2, 1};
  int32_t rank;
  int64_t order[TENON_RANK_MAX];
  const tn_node_t *transpose = tn_maker(r, tn_operand(node, 0), "core::transpose");
  tn_node_t *first = transpose ? tn_maker(r, tn_operand(transpose, 0), "core::reshape") : NULL;
  if (!first || !read_order(r, transpose, &rank, order) || rank != 3 ||
      memcmp(order, exchange, sizeof exchange) != 0 || transpose->op->schema.attr_count != 1)
    return TENON_OK;
  tenon_edge_t x = tn_operand(first, 0);
  const tenon_op_t *op = transpose->op;
  if (!exchanges_last(r, x, tn_operand(transpose, 0), node->outputs[0])) {
    bool is_done;
    x = tn_operand(transpose, 0);
    /* The transpose would no longer fit what it reads. */
    if (r->uses[transpose->outputs[0]] != 1 || !ends_exchanged(r, x, node->outputs[0]))
      return TENON_OK;
    TN_TRY(reshape_apart(r, first, node->outputs[0], &is_done));
    if (!is_done) return TENON_OK;
  }
  rank = r->graph->edges[node->outputs[0]].ndim;
  for (int32_t i = 0; i < rank; i++)
    order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
  tenon_value_t perm = {TENON_KIND_INTS, (uint32_t)rank, {.ints = order}};
  return tn_node_become(r, node, op, &perm, &x);
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

const tn_rewrite_rule_t tn_rules_simplify[] = {
    {"added_zero: (add(x, 0) | sub(x, 0)) -> x", NULL, {NULL}, NULL},
    {"factor_of_one: (mul(x, 1) | div(x, 1) | pow(x, 1)) -> x", NULL, {NULL}, NULL},
    {"negated_twice: neg(neg(x)) -> x", NULL, {NULL}, NULL},
    {"inverted_twice: not(not(x)) -> x", NULL, {NULL}, NULL},
    {"rectified_twice: relu(relu(x)) -> relu(x)", NULL, {NULL}, NULL},
    {"identity: cast(x) -> x",
     "The dtype and the shape stay the same; likewise for expand and reshape.",
     {"core::cast", "core::expand", "core::reshape"},
     remove_identity},
    {"cast_back: cast(cast(x, to=wide), to=narrow) -> x",
     "x has the dtype of the result, and the dtype between has all its numbers.",
     {"core::cast"},
     skip_casts},
    {"single_part: concat(x) -> x",
     "There is one value; likewise for a split into one part.",
     {"core::concat", "core::split"},
     skip_single},
    {"whole_slice: slice(x, starts, ends) -> x",
     "The slice has the shape of x, and no negative steps.",
     {"core::slice"},
     skip_slice},
    {"whole_gather: gather(x, indices) -> x",
     "The indices are constant, and those of all slices in order.",
     {"core::gather"},
     skip_gather},
    {"transposed_in_order: transpose(x, perm=[0,1,2]) -> x",
     "All axes stay in their places.",
     {"core::transpose"},
     skip_transpose},
    {"reshaped_back: reshape(reshape(x, a), b) -> x",
     "The shape is that of x; likewise for squeeze, unsqueeze and flatten.",
     {NULL},
     skip_reshapes},
    {"transposed_twice: transpose(transpose(x, perm=p), perm=q) -> transpose(x, perm=r)",
     "Nothing is left if the second one undoes the first one.",
     {"core::transpose"},
     join_transposes},
    {"reshaped_twice: reshape(reshape(x, a), b) -> reshape(x, b)",
     "b is constant and takes no extent from its operand.",
     {"core::reshape"},
     join_reshapes},
    {"joined_axes: reshape(transpose(reshape(x, a), perm=[0,2,1]), b) -> transpose(x, perm=p)",
     "The first reshape joins all axes but the last two, and the second one takes them apart. If x "
     "has other axes, it is reshaped first.",
     {"core::reshape"},
     skip_joined_axes},
    {"padding: conv(pad(x, pads), w) -> conv(x, w)",
     "It pads with zeros, and positions only.",
     {"core::pad"},
     merge_pad},
    {"transposed_product: transpose(matmul(a, b)) -> matmul(transpose(b), transpose(a))",
     "The last two axes are exchanged, and nothing else reads the product.",
     {"core::transpose"},
     transpose_factors},
    {NULL, NULL, {NULL}, NULL}};
