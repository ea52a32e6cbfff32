/* Lowers matrix products, and attention in the form of MXNet's BERT, where queries, keys and values
 * are interleaved by head. */
#include <stdio.h>
#include <string.h>

#include "attribute.h"
#include "lowering.h"

/* Multiplies along the last axis of a and the first axis of b, for any ranks. If an operand is
 * transposed, this is the first axis of a or the last axis of b. */
static void lower_dot(lower_t *lower) {
  tenon_edge_t a = lower->inputs[0];
  tenon_edge_t b = lower->inputs[1];
  bool flip_a = attr_bool(lower, "transpose_a", false);
  bool flip_b = attr_bool(lower, "transpose_b", false);
  int32_t rank_a = lower_rank_of(lower, a);
  int32_t rank_b = lower_rank_of(lower, b);
  const char *flag_a = flip_a ? "True" : "False";
  const char *flag_b = flip_b ? "True" : "False";
  if (rank_a == 1 && rank_b == 1) {
    lower_give(lower, lower_run(lower, EDGES(a, b), "reshape(reduce_sum(mul(a, b)), [1]:i64)"));
  } else if (rank_a == 2 && rank_b == 2) {
    lower_give(lower, lower_run(lower, EDGES(a, b), "matmul(a, b, transpose_a=%s, transpose_b=%s)",
                                flag_a, flag_b));
  } else {
    const char *const rest_a = flip_a ? "shape(a, start=1)" : "shape(a, end=-1)";
    const char *const rest_b = flip_b ? "shape(b, end=-1)" : "shape(b, start=1)";
    tenon_edge_t left =
        flip_a ? lower_run(lower, EDGES(a), "transpose(flatten(a, axis=1))")
               : lower_run(lower, EDGES(a),
                           "reshape(a, concat([[-1]:i64, shape(a, start=-1)], axis=0))");
    tenon_edge_t right =
        flip_b ? lower_run(lower, EDGES(b),
                           "transpose(reshape(a, concat([[-1]:i64, shape(a, start=-1)], axis=0)))")
               : lower_run(lower, EDGES(b), "flatten(a, axis=1)");
    lower_give(lower, lower_run(lower, EDGES(a, b, left, right),
                                "reshape(matmul(c, d), concat([%s, %s], axis=0))", rest_a, rest_b));
  }
}

static const char *flag(lower_t *lower, const char *name) {
  return attr_bool(lower, name, false) ? "True" : "False";
}

static void lower_batch_dot(lower_t *lower) {
  lower_give(lower,
             lower_run(lower, lower->inputs, 2, "matmul(a, b, transpose_a=%s, transpose_b=%s)",
                       flag(lower, "transpose_a"), flag(lower, "transpose_b")));
}

static void lower_gemm(lower_t *lower) {
  double alpha = attr_float(lower, "alpha", 1);
  double beta = attr_float(lower, "beta", 1);
  if (attr_int(lower, "axis", -2) != -2) lower_missing(lower, "its attribute axis");
  tenon_edge_t y =
      lower_run(lower, lower->inputs, 2, "matmul(a, b, transpose_a=%s, transpose_b=%s)",
                flag(lower, "transpose_a"), flag(lower, "transpose_b"));
  if (alpha != 1) y = lower_run(lower, EDGES(y), "mul(a, %.17g:a)", alpha);
  if (lower_input(lower, 2) != EDGE_NONE)
    y = lower_run(lower, EDGES(y, lower->inputs[2]), "add(a, mul(b, %.17g:b))", beta);
  lower_give(lower, y);
}

static void lower_syrk(lower_t *lower) {
  bool flip = attr_bool(lower, "transpose", false);
  lower_give(lower,
             lower_run(lower, lower->inputs, 1, "mul(matmul(a, a, transpose_%s=True), %.17g:a)",
                       flip ? "a" : "b", attr_float(lower, "alpha", 1)));
}

/* attention: [steps, batch, heads * parts * width] */

/* Returns one of `parts` with the shape [batch * heads, steps, width]. */
static tenon_edge_t head_part(lower_t *lower, tenon_edge_t x, long long heads, int parts,
                              int part) {
  x = lower_run(lower, EDGES(x), "reshape(a, [0, 0, %lld, %d, -1]:i64)", heads, parts);
  x = lower_run(
      lower, EDGES(x),
      "transpose(squeeze(slice(a, [%d]:i64, [%d]:i64, [3]:i64), [3]:i64), perm=[1, 2, 0, 3])", part,
      part + 1);
  return lower_run(lower, EDGES(x), "reshape(a, concat([[-1]:i64, shape(a, start=2)], axis=0))");
}

static void give_scores(lower_t *lower, tenon_edge_t q, tenon_edge_t k) {
  lower_give(
      lower,
      lower_run(lower, EDGES(q, k),
                "matmul(div(a, sqrt(cast(shape(a, start=-1), to=:a))), b, transpose_b=True)"));
}

static void give_mixed(lower_t *lower, tenon_edge_t v, tenon_edge_t scores, long long heads) {
  tenon_edge_t y = lower_run(lower, EDGES(scores, v), "matmul(a, b)");
  y = lower_run(lower, EDGES(y), "reshape(a, concat([[-1, %lld]:i64, shape(a, start=1)], axis=0))",
                heads);
  lower_give(lower, lower_run(lower, EDGES(y),
                              "reshape(transpose(a, perm=[2, 0, 1, 3]), [0, 0, -1]:i64)"));
}

static void lower_self_scores(lower_t *lower) {
  long long heads = attr_int(lower, "heads", 1);
  tenon_edge_t x = lower->inputs[0];
  give_scores(lower, head_part(lower, x, heads, 3, 0), head_part(lower, x, heads, 3, 1));
}

static void lower_self_mixed(lower_t *lower) {
  long long heads = attr_int(lower, "heads", 1);
  give_mixed(lower, head_part(lower, lower->inputs[0], heads, 3, 2), lower->inputs[1], heads);
}

static void lower_cross_scores(lower_t *lower) {
  long long heads = attr_int(lower, "heads", 1);
  give_scores(lower, head_part(lower, lower->inputs[0], heads, 1, 0),
              head_part(lower, lower->inputs[1], heads, 2, 0));
}

static void lower_cross_mixed(lower_t *lower) {
  long long heads = attr_int(lower, "heads", 1);
  give_mixed(lower, head_part(lower, lower->inputs[0], heads, 2, 1), lower->inputs[1], heads);
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
static const lowering_t lowerings[] = {
  {"dot(a, b, -forward_stype)", lower_dot},
  {"batch_dot(a, b, -forward_stype)", lower_batch_dot},
  {"_npi_matmul(a, b) = matmul(a, b)", NULL},
  {"_linalg_gemm|linalg_gemm(a, b, c)", lower_gemm},
  {"_linalg_gemm2|linalg_gemm2(a, b)", lower_gemm},
  {"_linalg_syrk|linalg_syrk(a)", lower_syrk},
  {"_linalg_det|linalg_det(a) = det(a)", NULL},
  {"_contrib_div_sqrt_dim(x=) = div(x, sqrt(cast(shape(x, start=-1), to=:x)))", NULL},
  {"_contrib_interleaved_matmul_selfatt_qk(x%)", lower_self_scores},
  {"_contrib_interleaved_matmul_selfatt_valatt(x%, scores)", lower_self_mixed},
  {"_contrib_interleaved_matmul_encdec_qk(q%, kv%)", lower_cross_scores},
  {"_contrib_interleaved_matmul_encdec_valatt(kv%, scores)", lower_cross_mixed},
};
/* clang-format on */

LOWERINGS(lowerings_matrix);
