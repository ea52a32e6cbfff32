/* The LU factorisation with partial pivoting, column by column, for the calls that JAX makes to
 * LAPACK for det, inv and solve. Called by lower_call.c. Each step works on the whole matrix, and
 * masks keep what is done. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/linear.h"

enum { EXTENT_MAX = 128 };

typedef struct lu_t {
  int32_t ndim;
  int64_t rows;
  int64_t columns;
  tenon_edge_t row;    /* The numbers of rows, [rows, 1]. */
  tenon_edge_t column; /* The numbers of columns, [1, columns]. */
} lu_t;

static bool read_matrix(hlo_lower_t *lower, tenon_edge_t a, lu_t *lu) {
  lu->ndim = hlo_rank(lower, a);
  if (!hlo_stopped(lower) && lu->ndim < 2) hlo_wrong(lower, "expected matrices");
  if (hlo_stopped(lower)) return false;
  lu->rows = hlo_extent(lower, a, lu->ndim - 2);
  lu->columns = hlo_extent(lower, a, lu->ndim - 1);
  if (lu->rows < 1 || lu->columns < 1 || lu->rows > EXTENT_MAX || lu->columns > EXTENT_MAX)
    hlo_missing(lower, "LU of matrices without rows, or of more than %d rows or columns",
                EXTENT_MAX);
  if (!hlo_stopped(lower) && !hlo_is_float(hlo_dtype(lower, a)))
    hlo_missing(lower, "LU of matrices that are not of floats");
  if (hlo_stopped(lower)) return false;
  lu->row = hlo_iota(lower, lu->rows, 0, 2);
  lu->column = hlo_iota(lower, lu->columns, 1, 2);
  return true;
}

/* One row and one column of the matrix, with their axes. */
static tenon_edge_t take_row(hlo_lower_t *lower, tenon_edge_t a, int64_t j) {
  return hlo_run(lower, EDGES(a), "slice(a, [%lld], [%lld], [-2])", (long long)j, (long long)j + 1);
}

static tenon_edge_t take_column(hlo_lower_t *lower, tenon_edge_t a, int64_t j) {
  return hlo_run(lower, EDGES(a), "slice(a, [%lld], [%lld], [-1])", (long long)j, (long long)j + 1);
}

/* Exchanges row j with the row below whose element in column j is the greatest. *out_pivot: the
 * number of this row, [..., 1, 1]. */
static tenon_edge_t exchange_rows(hlo_lower_t *lower, const lu_t *lu, tenon_edge_t a, int64_t j,
                                  tenon_edge_t *out_pivot) {
  tenon_edge_t sizes = hlo_run(lower, EDGES(take_column(lower, a, j), lu->row),
                               "where(less(b, %lld:i64), -1:a, abs(a))", (long long)j);
  *out_pivot = hlo_run(lower, EDGES(sizes), "arg_max(a, axis=-2)");
  tenon_edge_t order = hlo_run(lower, EDGES(lu->row, *out_pivot),
                               "where(equal(a, %lld:i64), b, where(equal(a, b), %lld:i64, a))",
                               (long long)j, (long long)j);
  order = hlo_run(lower, EDGES(order, a), "expand(a, shape(b))");
  return hlo_run(lower, EDGES(a, order), "gather_elements(a, b, axis=-2)");
}

/* Subtracts multiples of row j from the rows below, and keeps the factors in column j. */
static tenon_edge_t eliminate(hlo_lower_t *lower, const lu_t *lu, tenon_edge_t a, int64_t j) {
  tenon_edge_t pivot_row = take_row(lower, a, j);
  tenon_edge_t pivot = take_column(lower, pivot_row, j);
  tenon_edge_t factors = hlo_run(lower, EDGES(take_column(lower, a, j), pivot, lu->row),
                                 "where(greater(c, %lld:i64), div(a, where(equal(b, 0:b), 1:b, "
                                 "b)), 0:a)",
                                 (long long)j);
  tenon_edge_t rest = hlo_run(lower, EDGES(pivot_row, lu->column),
                              "where(greater(b, %lld:i64), a, 0:a)", (long long)j);
  a = hlo_run(lower, EDGES(a, factors, rest), "sub(a, mul(b, c))");
  return hlo_run(lower, EDGES(a, factors, lu->row, lu->column),
                 "where(and(greater(c, %lld:i64), equal(d, %lld:i64)), b, a)", (long long)j,
                 (long long)j);
}

tenon_edge_t hlo_lu(hlo_lower_t *lower, tenon_edge_t a, tenon_edge_t *out_pivots) {
  lu_t lu = {0};
  tenon_edge_t pivots[EXTENT_MAX];
  *out_pivots = EDGE_NONE;
  if (!read_matrix(lower, a, &lu)) return EDGE_NONE;
  int64_t steps = lu.rows < lu.columns ? lu.rows : lu.columns;
  for (int64_t j = 0; j < steps && !hlo_stopped(lower); j++) {
    a = exchange_rows(lower, &lu, a, j, &pivots[j]);
    a = eliminate(lower, &lu, a, j);
    pivots[j] = hlo_run(lower, EDGES(pivots[j]), "squeeze(a, [-1])");
  }
  if (hlo_stopped(lower)) return EDGE_NONE;
  tenon_edge_t all = hlo_concat(lower, pivots, (int32_t)steps, lu.ndim - 2);
  /* LAPACK counts from 1. */
  *out_pivots = hlo_run(lower, EDGES(all), "cast(add(a, 1:i64), to=i32)");
  return a;
}
