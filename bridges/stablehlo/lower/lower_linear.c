/* Lowers cholesky and triangular_solve, row by row: the nodes grow with the extent of the matrix,
 * so large matrices are refused. */
#include "lower/linear.h"

#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"

enum { EXTENT_MAX = 256 };

/* Returns the extent of square matrices; 0: they are not supported, which was reported. */
static int64_t square_extent(hlo_lower_t *lower, tenon_edge_t a) {
  int32_t ndim = hlo_rank(lower, a);
  if (!hlo_stopped(lower) && ndim < 2) hlo_wrong(lower, "expected matrices");
  if (hlo_stopped(lower)) return 0;
  int64_t extent = hlo_extent(lower, a, ndim - 1);
  if (extent != hlo_extent(lower, a, ndim - 2)) hlo_wrong(lower, "expected square matrices");
  if (extent < 0 || extent > EXTENT_MAX)
    hlo_missing(lower, "matrices of more than %d rows, or of an unknown extent", EXTENT_MAX);
  if (!hlo_is_float(hlo_dtype(lower, a))) hlo_missing(lower, "matrices that are not of floats");
  return hlo_stopped(lower) ? 0 : extent;
}

static tenon_edge_t transpose_matrix(hlo_lower_t *lower, tenon_edge_t a) {
  int64_t perm[TENON_RANK_MAX];
  int32_t ndim = hlo_rank(lower, a);
  for (int32_t i = 0; i < ndim; i++)
    perm[i] = i;
  if (hlo_stopped(lower) || ndim < 2) return EDGE_NONE;
  perm[ndim - 1] = ndim - 2;
  perm[ndim - 2] = ndim - 1;
  return hlo_transpose(lower, a, perm, ndim);
}

/* The block [first row, last row) x [first column, last column). */
static tenon_edge_t block(hlo_lower_t *lower, tenon_edge_t a, int64_t top, int64_t bottom,
                          int64_t left, int64_t right) {
  return hlo_run(lower, EDGES(a), "slice(a, [%lld, %lld], [%lld, %lld], [-2, -1])", (long long)top,
                 (long long)left, (long long)bottom, (long long)right);
}

tenon_edge_t hlo_cholesky(hlo_lower_t *lower, tenon_edge_t a, bool is_lower) {
  int64_t extent = square_extent(lower, a);
  tenon_edge_t factor = EDGE_NONE;
  if (!is_lower) a = transpose_matrix(lower, a);
  if (!extent) return a;
  for (int64_t j = 0; j < extent && !hlo_stopped(lower); j++) {
    char pads[HLO_JOIN_MAX];
    int64_t numbers[2 * TENON_RANK_MAX] = {0};
    int32_t ndim = hlo_rank(lower, a);
    tenon_edge_t column = block(lower, a, j, extent, j, j + 1);
    if (j) {
      tenon_edge_t rows = block(lower, factor, j, extent, 0, j);
      tenon_edge_t own = block(lower, factor, j, j + 1, 0, j);
      column = hlo_run(lower, EDGES(column, rows, own), "sub(a, matmul(b, c, transpose_b=True))");
    }
    column = hlo_run(lower, EDGES(column, block(lower, column, 0, 1, 0, 1)), "div(a, sqrt(b))");
    numbers[ndim - 2] = j;
    column = hlo_run(lower, EDGES(column), "pad(a, [%s], 0:a)",
                     hlo_join(numbers, 2 * ndim, pads, sizeof pads));
    factor = j ? hlo_concat(lower, (tenon_edge_t[]){factor, column}, 2, ndim - 1) : column;
  }
  return is_lower ? factor : transpose_matrix(lower, factor);
}

/* Solves A x = b. Rows are solved from the first to the last, or backwards if A is upper. */
static tenon_edge_t substitute(hlo_lower_t *lower, tenon_edge_t a, tenon_edge_t b, bool is_lower,
                               bool is_unit, int64_t extent) {
  tenon_edge_t solved = EDGE_NONE;
  int32_t ndim = hlo_rank(lower, b);
  int64_t width = hlo_extent(lower, b, ndim - 1);
  if (width < 0) hlo_missing(lower, "right sides of an unknown extent");
  for (int64_t k = 0; k < extent && !hlo_stopped(lower); k++) {
    int64_t i = is_lower ? k : extent - 1 - k;
    tenon_edge_t row = block(lower, b, i, i + 1, 0, width);
    if (k) {
      tenon_edge_t known =
          is_lower ? block(lower, a, i, i + 1, 0, i) : block(lower, a, i, i + 1, i + 1, extent);
      row = hlo_run(lower, EDGES(row, known, solved), "sub(a, matmul(b, c))");
    }
    if (!is_unit)
      row = hlo_run(lower, EDGES(row, block(lower, a, i, i + 1, i, i + 1)), "div(a, b)");
    if (!k)
      solved = row;
    else if (is_lower)
      solved = hlo_concat(lower, (tenon_edge_t[]){solved, row}, 2, ndim - 2);
    else
      solved = hlo_concat(lower, (tenon_edge_t[]){row, solved}, 2, ndim - 2);
  }
  return solved;
}

tenon_edge_t hlo_triangular_solve(hlo_lower_t *lower, tenon_edge_t a, tenon_edge_t b,
                                  const hlo_solve_t *solve) {
  int64_t extent = square_extent(lower, a);
  bool is_lower = solve->is_lower;
  if (!extent) return b;
  /* x A = b is A' x' = b'. */
  if (solve->is_transposed == solve->is_left) {
    a = transpose_matrix(lower, a);
    is_lower = !is_lower;
  }
  if (!solve->is_left) b = transpose_matrix(lower, b);
  tenon_edge_t x = substitute(lower, a, b, is_lower, solve->is_unit, extent);
  return solve->is_left ? x : transpose_matrix(lower, x);
}

static void lower_cholesky(hlo_lower_t *lower) {
  bool is_lower = hlo_attr_int(lower, "lower", NULL, 0) != 0;
  hlo_give(lower, 0, hlo_cholesky(lower, hlo_edge(lower, 0), is_lower));
}

static void lower_solve(hlo_lower_t *lower) {
  const char *transpose = hlo_attr_word(lower, "transpose_a", NULL, "NO_TRANSPOSE");
  const hlo_solve_t solve = {.is_left = hlo_attr_int(lower, "left_side", NULL, 1) != 0,
                             .is_lower = hlo_attr_int(lower, "lower", NULL, 0) != 0,
                             .is_unit = hlo_attr_int(lower, "unit_diagonal", NULL, 0) != 0,
                             .is_transposed = strcmp(transpose, "NO_TRANSPOSE") != 0};
  tenon_edge_t a = hlo_edge(lower, 0);
  hlo_give(lower, 0, hlo_triangular_solve(lower, a, hlo_edge(lower, 1), &solve));
}

static const hlo_row_t rows[] = {
    {"stablehlo.cholesky", NULL, NULL, NULL, lower_cholesky, 0, NULL},
    {"stablehlo.triangular_solve", NULL, NULL, NULL, lower_solve, 0, NULL},
};

HLO_ROWS(hlo_rows_linear);
