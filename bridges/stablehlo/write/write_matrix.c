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

/* Gives the result: the product of a and b, plus the bias if the input is given. */
static void give_product(hlo_write_t *w, hlo_val_t a, hlo_val_t b, int32_t bias) {
  hlo_val_t type = hlo_result(w, 0);
  a = as_matrix(w, a, true);
  b = as_matrix(w, b, false);
  if (hlo_write_stopped(w)) return;
  align(w, &a, &b);
  hlo_val_t value = hlo_to_shape(w, hlo_product(w, a, b), type.ndim, type.dims);
  if (hlo_operand_count(w, bias)) {
    const hlo_val_t values[] = {value, hlo_in(w, bias)};
    value = hlo_formula(w, "add(a, b)", values, 2, &type);
  }
  hlo_give_val(w, 0, value);
}

static void write_matmul(hlo_write_t *w) {
  hlo_val_t a = hlo_in(w, 0);
  hlo_val_t b = hlo_in(w, 1);
  if (strcmp(hlo_write_choice(w, "activation"), "none") != 0)
    hlo_write_missing(w, "an activation inside of a product");
  if (!hlo_write_stopped(w) && (!a.ndim || !b.ndim))
    hlo_write_missing(w, "an operand without axes");
  if (hlo_write_stopped(w)) return;
  if (hlo_write_int(w, "transpose_a")) a = swapped(w, a);
  if (hlo_write_int(w, "transpose_b")) b = swapped(w, b);
  give_product(w, a, b, 2);
}

/* The integers in the bytes [n, ..., bytes] as [n, rows, integers of a row]; the lowest bits of a
 * byte are its first integer. */
static hlo_val_t unpack_bits(hlo_write_t *w, hlo_val_t a, int64_t rows) {
  hlo_val_t parts[4];
  const int64_t bits = hlo_write_int(w, "bits");
  const int64_t count = 8 / bits;
  const int64_t bytes = a.dims[a.ndim - 1];
  const int64_t apart[] = {a.dims[0], rows, bytes, 1};
  const int64_t joined[] = {a.dims[0], rows, bytes * count};
  a = hlo_to_shape(w, a, 4, apart);
  for (int i = 0; i < count; i++) {
    const char *text =
        hlo_format(w, "and(shift_right_logical(a, %d), %d)", (int)(i * bits), (1 << bits) - 1);
    parts[i] = hlo_formula(w, text, &a, 1, &a);
  }
  return hlo_to_shape(w, hlo_join_items(w, parts, (int32_t)count, 3), 3, joined);
}

/* The zero point of each block, [n, blocks, 1]. */
static hlo_val_t unpack_zero_points(hlo_write_t *w, const hlo_val_t *blocks, tenon_dtype_t dtype) {
  hlo_val_t zeros = hlo_in(w, 3);
  if (hlo_write_stopped(w)) return zeros;
  if (tenon_dtype_id(zeros.dtype) == TENON_U8)
    zeros = hlo_cut_axis(w, unpack_bits(w, zeros, 1), 2, 0, blocks->dims[1]);
  return hlo_to_shape(w, hlo_convert(w, zeros, dtype), 3, blocks->dims);
}

static void write_matmul_nbits(hlo_write_t *w) {
  const hlo_val_t x = hlo_in(w, 0);
  const hlo_val_t packed = hlo_in(w, 1);
  const hlo_val_t scales = hlo_in(w, 2);
  if (hlo_write_stopped(w)) return;
  const int64_t flat[] = {packed.dims[0], packed.dims[1] * hlo_write_int(w, "block_size")};
  const int64_t each[] = {packed.dims[0], packed.dims[1], 1};
  const hlo_val_t blocks = hlo_type_of(x.dtype, 3, each);
  const hlo_val_t codes = hlo_convert(w, unpack_bits(w, packed, packed.dims[1]), x.dtype);
  const bool has_zeros = hlo_operand_count(w, 3) > 0;
  const hlo_val_t zeros = has_zeros
                              ? unpack_zero_points(w, &blocks, x.dtype)
                              : hlo_fill(w, &blocks, (double)(1 << (hlo_write_int(w, "bits") - 1)));
  const hlo_val_t values[] = {codes, zeros, hlo_to_shape(w, scales, 3, each)};
  hlo_val_t weights = hlo_formula(w, "multiply(subtract(a, b), c)", values, 3, &codes);
  weights = hlo_to_shape(w, weights, 2, flat);
  if (hlo_write_stopped(w)) return;
  weights = hlo_cut_axis(w, weights, 1, 0, x.dims[x.ndim - 1]);
  give_product(w, x, swapped(w, weights), 4);
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
    {"matmul_nbits", NULL, write_matmul_nbits},
    {"gemm", NULL, write_gemm},
};

HLO_WRITE_ROWS(hlo_write_rows_matrix);
