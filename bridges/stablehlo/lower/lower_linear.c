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

/* A matrix, or the real and the imaginary part of one; EDGE_NONE: it is real. */
typedef struct matrix_t {
  tenon_edge_t real;
  tenon_edge_t imaginary;
} matrix_t;

static matrix_t matrix_transpose(hlo_lower_t *lower, matrix_t a) {
  a.real = transpose_matrix(lower, a.real);
  if (a.imaginary != EDGE_NONE) a.imaginary = transpose_matrix(lower, a.imaginary);
  return a;
}

static matrix_t matrix_block(hlo_lower_t *lower, matrix_t a, int64_t top, int64_t bottom,
                             int64_t left, int64_t right) {
  a.real = block(lower, a.real, top, bottom, left, right);
  if (a.imaginary != EDGE_NONE) a.imaginary = block(lower, a.imaginary, top, bottom, left, right);
  return a;
}

/* row - known * solved */
static matrix_t matrix_eliminate(hlo_lower_t *lower, matrix_t row, matrix_t known,
                                 matrix_t solved) {
  if (row.imaginary == EDGE_NONE) {
    row.real = hlo_run(lower, EDGES(row.real, known.real, solved.real), "sub(a, matmul(b, c))");
    return row;
  }
  const tenon_edge_t real[] = {row.real, known.real, known.imaginary, solved.real,
                               solved.imaginary};
  const tenon_edge_t imaginary[] = {row.imaginary, known.real, known.imaginary, solved.real,
                                    solved.imaginary};
  row.real = hlo_run(lower, real, 5, "add(sub(a, matmul(b, d)), matmul(c, e))");
  row.imaginary = hlo_run(lower, imaginary, 5, "sub(sub(a, matmul(b, e)), matmul(c, d))");
  return row;
}

static matrix_t matrix_divide(hlo_lower_t *lower, matrix_t a, matrix_t b) {
  if (a.imaginary == EDGE_NONE) {
    a.real = hlo_run(lower, EDGES(a.real, b.real), "div(a, b)");
    return a;
  }
  const tenon_edge_t parts[] = {a.real, a.imaginary, b.real, b.imaginary};
  a.real = hlo_run(lower, parts, 4, "div(add(mul(a, c), mul(b, d)), add(mul(c, c), mul(d, d)))");
  a.imaginary =
      hlo_run(lower, parts, 4, "div(sub(mul(b, c), mul(a, d)), add(mul(c, c), mul(d, d)))");
  return a;
}

static matrix_t matrix_stack(hlo_lower_t *lower, matrix_t a, matrix_t b, int32_t axis) {
  a.real = hlo_concat(lower, (tenon_edge_t[]){a.real, b.real}, 2, axis);
  if (a.imaginary != EDGE_NONE)
    a.imaginary = hlo_concat(lower, (tenon_edge_t[]){a.imaginary, b.imaginary}, 2, axis);
  return a;
}

/* Solves A x = b. Rows are solved from the first to the last, or backwards if A is upper. */
static matrix_t substitute(hlo_lower_t *lower, matrix_t a, matrix_t b, bool is_lower, bool is_unit,
                           int64_t extent) {
  matrix_t solved = {EDGE_NONE, EDGE_NONE};
  int32_t ndim = hlo_rank(lower, b.real);
  int64_t width = hlo_extent(lower, b.real, ndim - 1);
  if (width < 0) hlo_missing(lower, "right sides of an unknown extent");
  for (int64_t k = 0; k < extent && !hlo_stopped(lower); k++) {
    int64_t i = is_lower ? k : extent - 1 - k;
    matrix_t row = matrix_block(lower, b, i, i + 1, 0, width);
    if (k) {
      matrix_t known = is_lower ? matrix_block(lower, a, i, i + 1, 0, i)
                                : matrix_block(lower, a, i, i + 1, i + 1, extent);
      row = matrix_eliminate(lower, row, known, solved);
    }
    if (!is_unit) row = matrix_divide(lower, row, matrix_block(lower, a, i, i + 1, i, i + 1));
    if (!k)
      solved = row;
    else if (is_lower)
      solved = matrix_stack(lower, solved, row, ndim - 2);
    else
      solved = matrix_stack(lower, row, solved, ndim - 2);
  }
  return solved;
}

static matrix_t solve_triangular(hlo_lower_t *lower, matrix_t a, matrix_t b,
                                 const hlo_solve_t *solve) {
  int64_t extent = square_extent(lower, a.real);
  bool is_lower = solve->is_lower;
  if (!extent) return b;
  /* x A = b is A' x' = b'. */
  if (solve->is_transposed == solve->is_left) {
    a = matrix_transpose(lower, a);
    is_lower = !is_lower;
  }
  if (!solve->is_left) b = matrix_transpose(lower, b);
  matrix_t x = substitute(lower, a, b, is_lower, solve->is_unit, extent);
  return solve->is_left ? x : matrix_transpose(lower, x);
}

tenon_edge_t hlo_triangular_solve(hlo_lower_t *lower, tenon_edge_t a, tenon_edge_t b,
                                  const hlo_solve_t *solve) {
  return solve_triangular(lower, (matrix_t){a, EDGE_NONE}, (matrix_t){b, EDGE_NONE}, solve).real;
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
  const hlo_bound_t *left = hlo_operand(lower, 0);
  const hlo_bound_t *right = hlo_operand(lower, 1);
  matrix_t a = {left->edge, left->imaginary};
  matrix_t b = {right->edge, right->imaginary};
  if (a.real == EDGE_NONE || b.real == EDGE_NONE) hlo_wrong(lower, "expected tensors");
  if ((a.imaginary == EDGE_NONE) != (b.imaginary == EDGE_NONE))
    hlo_wrong(lower, "only one operand is complex");
  if (strcmp(transpose, "ADJOINT") == 0 && a.imaginary != EDGE_NONE)
    a.imaginary = hlo_run(lower, EDGES(a.imaginary), "neg(a)");
  if (hlo_stopped(lower)) return;
  matrix_t x = solve_triangular(lower, a, b, &solve);
  hlo_give_bound(lower, 0, hlo_complex(x.real, x.imaginary));
}

static const hlo_row_t rows[] = {
    {"stablehlo.cholesky", NULL, NULL, NULL, lower_cholesky, 0, NULL},
    {"stablehlo.triangular_solve", NULL, NULL, NULL, lower_solve, 0, NULL},
};

HLO_ROWS(hlo_rows_linear);
