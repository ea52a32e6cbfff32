/* Writes products of matrices. */
#include <string.h>

#include "write/formula.h"

/* Swaps the last two axes. */
static hlo_val_t swapped(hlo_write_t *w, hlo_val_t a) {
  int64_t perm[TENON_RANK_MAX];
  if (hlo_write_stopped(w) || a.ndim < 2) return a;
  for (int32_t i = 0; i < a.ndim; i++)
    perm[i] = i;
  perm[a.ndim - 1] = a.ndim - 2;
  perm[a.ndim - 2] = a.ndim - 1;
  return hlo_permute(w, a, perm);
}

/* Makes a vector a matrix: its axis becomes the last axis of a, or the last but one of b. */
static hlo_val_t as_matrix(hlo_write_t *w, hlo_val_t a, bool is_left) {
  int64_t dims[] = {is_left ? 1 : a.dims[0], is_left ? a.dims[0] : 1};
  return a.ndim == 1 ? hlo_to_shape(w, a, 2, dims) : a;
}

/* Gives both operands the same axes before the last two. */
static void align(hlo_write_t *w, hlo_val_t *a, hlo_val_t *b) {
  int32_t ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  hlo_val_t wide_a = hlo_type_of(a->dtype, ndim, a->dims);
  hlo_val_t wide_b = hlo_type_of(b->dtype, ndim, b->dims);
  for (int32_t i = 0; i < ndim; i++) {
    int32_t from_a = i - (ndim - a->ndim);
    int32_t from_b = i - (ndim - b->ndim);
    int64_t extent_a = from_a < 0 ? 1 : a->dims[from_a];
    int64_t extent_b = from_b < 0 ? 1 : b->dims[from_b];
    bool is_batch = i < ndim - 2;
    wide_a.dims[i] = is_batch && extent_a == 1 ? extent_b : extent_a;
    wide_b.dims[i] = is_batch && extent_b == 1 ? extent_a : extent_b;
  }
  *a = hlo_broadcast_to(w, *a, &wide_a);
  *b = hlo_broadcast_to(w, *b, &wide_b);
}

static void write_matmul(hlo_write_t *w) {
  hlo_val_t type = hlo_result(w, 0);
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t b = hlo_in(w, 1);
  if (strcmp(hlo_write_choice(w, "activation"), "none") != 0)
    hlo_write_missing(w, "an activation inside of a product");
  if (!hlo_write_stopped(w) && (!a.ndim || !b.ndim))
    hlo_write_missing(w, "an operand without axes");
  if (hlo_write_stopped(w)) return;
  if (hlo_write_int(w, "transpose_a")) a = swapped(w, a);
  if (hlo_write_int(w, "transpose_b")) b = swapped(w, b);
  a = as_matrix(w, a, true);
  b = as_matrix(w, b, false);
  if (hlo_write_stopped(w)) return;
  align(w, &a, &b);
  hlo_val_t value = hlo_to_shape(w, hlo_product(w, a, b), type.ndim, type.dims);
  if (hlo_operand_count(w, 2)) {
    const hlo_val_t values[] = {value, hlo_in(w, 2)};
    value = hlo_formula(w, "add(a, b)", values, 2, &type);
  }
  hlo_give_val(w, 0, value);
}

static void write_gemm(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t b = hlo_in(w, 1);
  if (hlo_write_int(w, "trans_a")) a = swapped(w, a);
  if (hlo_write_int(w, "trans_b")) b = swapped(w, b);
  hlo_val_t value = hlo_product(w, a, b);
  double alpha = hlo_write_number(w, "alpha");
  double beta = hlo_write_number(w, "beta");
  if (alpha < 1 || alpha > 1) value = hlo_formula(w, "multiply(a, $alpha)", &value, 1, &value);
  if (hlo_operand_count(w, 2)) {
    const hlo_val_t values[] = {value, hlo_in(w, 2)};
    bool is_scaled = beta < 1 || beta > 1;
    value = hlo_formula(w, is_scaled ? "add(a, multiply(b, $beta))" : "add(a, b)", values, 2,
                        &values[0]);
  }
  hlo_give_val(w, 0, value);
}

static const hlo_write_row_t rows[] = {
    {"matmul", NULL, write_matmul},
    {"gemm", NULL, write_gemm},
};

HLO_WRITE_ROWS(hlo_write_rows_matrix);
