/* Replaces operators between dequantize_linear and quantize_linear by operators of 8-bit numbers:
 * convolutions and matrix products, which are computed in integers, sums, operators that only move
 * or compare elements, and pointwise operators, which become tables (tabulate.c). Runs before
 * constants are folded, while weights are still 8-bit numbers.
 * Invariant: a node is replaced only if no other node reads the floats that it computes. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/pass.h"
#include "graph/passes/rules.h"
#include "operator/names.h"

enum { MOST_ATTRS = 64, MOST_OPERANDS = 8 };

typedef struct numbers_t { /* the operands of a dequantize_linear or quantize_linear node */
  tenon_edge_t x;
  tenon_edge_t scale;
  tenon_edge_t zero; /* -1: absent */
} numbers_t;

static const tn_edge_t *edge_of(const tn_rewrite_t *r, tenon_edge_t edge) {
  return &r->graph->edges[edge];
}

static bool is_eight_bits(const tn_rewrite_t *r, tenon_edge_t edge) {
  tenon_dtype_t dtype = edge_of(r, edge)->dtype;
  return tn_dtype_is(dtype, TENON_I8) || tn_dtype_is(dtype, TENON_U8);
}

/* The elements of a constant of f32; NULL: it is not one, or not a number or a vector. */
static const float *floats_of(const tn_rewrite_t *r, tenon_edge_t edge, int64_t *out_count) {
  const tenon_tensor_t *t = edge >= 0 ? edge_of(r, edge)->constant : NULL;
  if (!t || !tn_dtype_is(t->dtype, TENON_F32) || t->ndim > 1 || t->keys & TN_KEY_STRIDED)
    return NULL;
  *out_count = tenon_count(t);
  return t->data;
}

/* Reads a constant zero point with one element. */
static bool read_zero(const tn_rewrite_t *r, tenon_edge_t edge, int64_t *out_zero) {
  const tenon_tensor_t *t = edge >= 0 ? edge_of(r, edge)->constant : NULL;
  if (!t || tenon_count(t) != 1) return false;
  if (tn_dtype_is(t->dtype, TENON_I8))
    *out_zero = *(const int8_t *)t->data;
  else if (tn_dtype_is(t->dtype, TENON_U8))
    *out_zero = *(const uint8_t *)t->data;
  else
    return false;
  return true;
}

static bool has_int(const tn_node_t *node, const char *name, int64_t value) {
  int32_t at = tn_attr(node, name);
  return at >= 0 && node->attrs[at].as.i == value;
}

/* Whether the maker of the edge is dequantize_linear to f32, without blocks. */
static bool find_dequantised(const tn_rewrite_t *r, tenon_edge_t edge, numbers_t *out) {
  const tn_node_t *node = tn_maker(r, edge, "core::dequantize_linear");
  if (!node || node->group || !has_int(node, "block_size", 0) ||
      !tn_dtype_is(edge_of(r, edge)->dtype, TENON_F32))
    return false;
  *out = (numbers_t){tn_operand(node, 0), tn_operand(node, 1), tn_operand(node, 2)};
  return out->x >= 0 && out->scale >= 0;
}

/* The same for numbers of 8 bits with one scale and one zero point. */
static bool find_values(const tn_rewrite_t *r, tenon_edge_t edge, numbers_t *out) {
  int64_t count, zero;
  return find_dequantised(r, edge, out) && is_eight_bits(r, out->x) &&
         floats_of(r, out->scale, &count) && count == 1 && read_zero(r, out->zero, &zero);
}

/* The same for weights, which may have a scale and a zero point for each index of `axis`. */
static bool find_weights(const tn_rewrite_t *r, tenon_edge_t edge, int32_t axis, numbers_t *out) {
  int64_t count;
  const tn_node_t *node = tn_maker(r, edge, "core::dequantize_linear");
  if (!find_dequantised(r, edge, out) || !is_eight_bits(r, out->x) || out->zero < 0 ||
      !edge_of(r, out->x)->constant || !floats_of(r, out->scale, &count))
    return false;
  int32_t rank = edge_of(r, out->x)->ndim;
  return count == 1 || has_int(node, "axis", axis) || has_int(node, "axis", axis - rank);
}

/* Whether a zero point of i32 is absent, or 0 throughout. */
static bool is_zero(const tn_rewrite_t *r, tenon_edge_t edge) {
  const tenon_tensor_t *t = edge >= 0 ? edge_of(r, edge)->constant : NULL;
  if (edge < 0) return true;
  if (!t || !tn_dtype_is(t->dtype, TENON_I32) || t->keys & TN_KEY_STRIDED) return false;
  for (int64_t i = 0; i < tenon_count(t); i++)
    if (((const int32_t *)t->data)[i] != 0) return false;
  return true;
}

/* Finds the numbers of a bias, whose scale must be the product of those of x and w, because it is
 * added to sums. */
static bool find_bias(const tn_rewrite_t *r, tenon_edge_t edge, const numbers_t *x,
                      const numbers_t *w, tenon_edge_t *out) {
  numbers_t bias;
  int64_t counts[3];
  *out = -1;
  if (edge < 0) return true;
  if (!find_dequantised(r, edge, &bias) || !is_zero(r, bias.zero)) return false;
  const float *own = floats_of(r, bias.scale, &counts[0]);
  const float *first = floats_of(r, x->scale, &counts[1]);
  const float *second = floats_of(r, w->scale, &counts[2]);
  if (!own || !first || !second || !tn_dtype_is(edge_of(r, bias.x)->dtype, TENON_I32) ||
      edge_of(r, bias.x)->ndim != 1 || (counts[0] != 1 && counts[0] != counts[2]))
    return false;
  for (int64_t i = 0; i < counts[2]; i++) {
    double expected = (double)first[0] * second[i];
    double found = own[counts[0] == 1 ? 0 : i];
    if (!(fabs(found - expected) <= 1e-6 * fabs(expected))) return false;
  }
  *out = bias.x;
  return true;
}

/* Reads what a quantize_linear node makes: 8-bit numbers with one scale and one zero point. */
static bool find_quantised(const tn_rewrite_t *r, const tn_node_t *node, numbers_t *out) {
  int64_t count, zero;
  int32_t precision = tn_attr(node, "precision");
  *out = (numbers_t){tn_operand(node, 0), tn_operand(node, 1), tn_operand(node, 2)};
  return tn_node_is(node, "core::quantize_linear") && out->x >= 0 && out->zero >= 0 &&
         has_int(node, "block_size", 0) && precision >= 0 &&
         node->attrs[precision].kind == TENON_KIND_NONE && is_eight_bits(r, node->outputs[0]) &&
         floats_of(r, out->scale, &count) && count == 1 && read_zero(r, out->zero, &zero);
}

/* Whether numbers of 8 bits cannot represent what a clip to [low, high] would change. */
static bool is_saturated(const tn_rewrite_t *r, const numbers_t *y, double low, double high) {
  int64_t count, zero = 0;
  double least = tn_dtype_is(edge_of(r, y->zero)->dtype, TENON_I8) ? -128 : 0;
  const float *scale = floats_of(r, y->scale, &count);
  if (!scale || !read_zero(r, y->zero, &zero)) return false;
  return rint(low / *scale) + (double)zero <= least &&
         rint(high / *scale) + (double)zero >= least + 255;
}

/* Skips a relu or clip before quantize_linear that saturation makes superfluous. Returns the node
 * whose result only `last` reads; NULL: there is none. */
static tn_node_t *find_product(const tn_rewrite_t *r, const numbers_t *y, tn_node_t *last) {
  double low = 0;
  double high = INFINITY;
  tenon_edge_t edge = y->x;
  const tn_edge_t *value = edge_of(r, edge);
  if (value->producer < 0 || tn_only_user(r, edge) != last) return NULL;
  tn_node_t *node = &r->graph->nodes[value->producer];
  if (tn_node_is(node, "core::clip")) {
    low = -INFINITY;
    if (tn_operand(node, 1) >= 0 && !tn_scalar(r, tn_operand(node, 1), &low)) return NULL;
    if (tn_operand(node, 2) >= 0 && !tn_scalar(r, tn_operand(node, 2), &high)) return NULL;
  } else if (!tn_node_is(node, "core::relu")) {
    return node;
  }
  edge = tn_operand(node, 0);
  if (edge < 0 || !is_saturated(r, y, low, high) || tn_only_user(r, edge) != node ||
      edge_of(r, edge)->producer < 0)
    return NULL;
  return &r->graph->nodes[edge_of(r, edge)->producer];
}

/* Finds the node before a quantize_linear node that may be replaced, and the numbers that the
 * latter makes; NULL: there is none. */
static tn_node_t *find_replaced(const tn_rewrite_t *r, tn_node_t *last, numbers_t *out) {
  tn_node_t *node = find_quantised(r, last, out) ? find_product(r, out, last) : NULL;
  return node && !node->group ? node : NULL;
}

static tenon_status_t become(tn_rewrite_t *r, tn_node_t *last, const char *name,
                             const tenon_value_t *attrs, const tenon_edge_t *operands) {
  const tenon_op_t *op = tn_registry_find(name);
  return op ? tn_node_become(r, last, op, attrs, operands) : TENON_OK;
}

static tenon_status_t replace_conv(tn_rewrite_t *r, tn_node_t *last) {
  enum { ATTRS = 5 }; /* those of the window, and group, come first in both operators */
  numbers_t x, w, y;
  tenon_edge_t bias;
  const tn_node_t *conv = find_replaced(r, last, &y);
  if (!tn_node_is(conv, "core::conv") || !find_values(r, tn_operand(conv, 0), &x) ||
      !find_weights(r, tn_operand(conv, 1), 0, &w) ||
      !find_bias(r, tn_operand(conv, 2), &x, &w, &bias) || tn_operand(conv, 3) >= 0 ||
      !has_int(conv, "activation", 0))
    return TENON_OK;
  const tenon_edge_t operands[] = {x.x,    x.scale, x.zero, w.x, w.scale,
                                   w.zero, y.scale, y.zero, bias};
  tenon_value_t attrs[ATTRS];
  memcpy(attrs, conv->attrs, sizeof attrs);
  return become(r, last, "core::qlinear_conv", attrs, operands);
}

/* Turns the dequantize_linear node of weights into a transpose of the weights. */
static tenon_status_t transpose_weights(tn_rewrite_t *r, tenon_edge_t edge, numbers_t *w) {
  tn_node_t *node = &r->graph->nodes[r->graph->edges[edge].producer];
  tn_edge_t *result = &r->graph->edges[edge];
  const tenon_edge_t operands[] = {w->x};
  TN_TRY(become(r, node, "core::transpose", NULL, operands));
  if (!tn_node_is(node, "core::transpose")) return TENON_OK;
  tenon_dim_t first = result->dims[0];
  result->dims[0] = result->dims[1];
  result->dims[1] = first;
  result->dtype = edge_of(r, w->x)->dtype;
  w->x = edge;
  return TENON_OK;
}

static tenon_status_t replace_product(tn_rewrite_t *r, tn_node_t *last) {
  numbers_t a, b, y;
  tenon_edge_t bias;
  const tn_node_t *product = find_replaced(r, last, &y);
  if (!tn_node_is(product, "core::matmul") && !tn_node_is(product, "core::gemm")) return TENON_OK;
  const bool is_gemm = tn_node_is(product, "core::gemm");
  const char *names[] = {is_gemm ? "trans_a" : "transpose_a", is_gemm ? "trans_b" : "transpose_b"};
  const tenon_edge_t second = tn_operand(product, 1);
  const bool is_transposed = has_int(product, names[1], 1);
  if (!has_int(product, names[0], 0) || !find_values(r, tn_operand(product, 0), &a) || second < 0)
    return TENON_OK;
  const int32_t rank = edge_of(r, second)->ndim;
  if (is_gemm) {
    int32_t alpha = tn_attr(product, "alpha");
    int32_t beta = tn_attr(product, "beta");
    if (alpha < 0 || beta < 0 || product->attrs[alpha].as.f != 1 || product->attrs[beta].as.f != 1)
      return TENON_OK;
  } else if (!has_int(product, "activation", 0)) {
    return TENON_OK;
  }
  bool is_constant = find_weights(r, second, is_transposed ? 0 : 1, &b) && rank == 2;
  if (!is_constant && (is_transposed || !find_values(r, second, &b))) return TENON_OK;
  if (!find_bias(r, tn_operand(product, 2), &a, &b, &bias)) return TENON_OK;
  if (is_transposed) {
    if (tn_only_user(r, second) != product) return TENON_OK;
    TN_TRY(transpose_weights(r, second, &b));
  }
  const tenon_edge_t operands[] = {a.x,    a.scale, a.zero, b.x, b.scale,
                                   b.zero, y.scale, y.zero, bias};
  return become(r, last, "core::qlinear_matmul", NULL, operands);
}

/* A sum of one tensor with itself becomes a table. */
static tenon_status_t replace_sum(tn_rewrite_t *r, tn_node_t *last) {
  numbers_t a, b, y;
  const tn_node_t *sum = find_replaced(r, last, &y);
  if (!tn_node_is(sum, "core::add") || !find_values(r, tn_operand(sum, 0), &a) ||
      !find_values(r, tn_operand(sum, 1), &b) || a.x == b.x ||
      !tn_same_shape(r, a.x, last->outputs[0]) || !tn_same_shape(r, b.x, last->outputs[0]))
    return TENON_OK;
  const tenon_edge_t operands[] = {a.x, a.scale, a.zero, b.x, b.scale, b.zero, y.scale, y.zero};
  return become(r, last, "core::qlinear_add", NULL, operands);
}

/* Operators whose first operand may have any dtype and that compute no other elements. */
static bool moves_elements(const tn_node_t *node) {
  static const char *const names[] = {"core::reshape", "core::transpose", "core::flatten",
                                      "core::squeeze", "core::unsqueeze", "core::expand",
                                      "core::slice",   "core::max_pool",  "core::gather"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tn_node_is(node, names[i])) return true;
  return false;
}

static bool same_numbers(const tn_rewrite_t *r, const numbers_t *a, const numbers_t *b) {
  int64_t count, first = 0, second = 0;
  const float *x = floats_of(r, a->scale, &count);
  const float *y = floats_of(r, b->scale, &count);
  return x && y && *x == *y && read_zero(r, a->zero, &first) && read_zero(r, b->zero, &second) &&
         first == second && tn_dtype_same(edge_of(r, a->zero)->dtype, edge_of(r, b->zero)->dtype);
}

static tenon_status_t replace_move(tn_rewrite_t *r, tn_node_t *last) {
  numbers_t x, y;
  tenon_edge_t operands[MOST_OPERANDS];
  const tn_node_t *node = find_replaced(r, last, &y);
  if (!node || !moves_elements(node) || node->op->input_count > MOST_OPERANDS ||
      !find_values(r, tn_operand(node, 0), &x) || !same_numbers(r, &x, &y))
    return TENON_OK;
  for (int32_t o = 1; o < node->output_count; o++)
    if (r->uses[node->outputs[o]]) return TENON_OK;
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    if (node->operands[i].count > 1) return TENON_OK;
    operands[i] = tn_operand(node, i);
  }
  operands[0] = x.x;
  return tn_node_become(r, last, node->op, node->attrs, operands);
}

/* The rules */

/* Numbers that are dequantised and quantised with the same scale stay. */
static tenon_status_t keep_numbers(tn_rewrite_t *r, tn_node_t *last) {
  numbers_t y, x;
  if (!find_quantised(r, last, &y) || !find_values(r, y.x, &x) || !same_numbers(r, &x, &y))
    return TENON_OK;
  tn_redirect(r, last->outputs[0], x.x);
  tn_node_remove(r, last);
  return TENON_OK;
}

#define LAST                                                                                       \
  { "core::quantize_linear" }

const tn_rewrite_rule_t tn_rules_quantise[] = {
    {"same_numbers: quantize_linear(dequantize_linear(x, scale, zero), scale, zero) -> x", NULL,
     LAST, keep_numbers},
    {"quantised_conv: quantize_linear(conv(dequantize_linear(x), dequantize_linear(w))) -> "
     "qlinear_conv(x, w)",
     "The weights are constant; relu and clip between may be implied by the range of the result.",
     LAST, replace_conv},
    {"quantised_product: quantize_linear(matmul(dequantize_linear(a), dequantize_linear(b))) -> "
     "qlinear_matmul(a, b)",
     "Likewise for gemm; relu and clip between may be implied by the range of the result.", LAST,
     replace_product},
    {"quantised_sum: quantize_linear(add(dequantize_linear(a), dequantize_linear(b))) -> "
     "qlinear_add(a, b)",
     "Both terms have the shape and the dtype of the result; relu and clip between may be implied "
     "by its range.",
     LAST, replace_sum},
    {"quantised_move: quantize_linear(transpose(dequantize_linear(x, scale, zero)), scale, zero) "
     "-> transpose(x)",
     "Likewise for other operators that compute no elements, and for max_pool.", LAST,
     replace_move},
    {"table_of_numbers: quantize_linear(erf(dequantize_linear(x))) -> map_bytes(table, x)",
     "Likewise for all pointwise operators whose other operands are constants with one element.",
     LAST, tn_tabulate},
    {NULL, NULL, {NULL}, NULL}};
