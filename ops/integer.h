/* What the products of 8-bit numbers (integer.c) share: zero points and scales that broadcast, and
 * operands as pairs of i16 (integer_pairs.c).
 * Invariant: a product of two differences of 8-bit numbers and the sum of two such products are
 * exact in 32 bits. */
#ifndef TENON_OPS_INTEGER_H
#define TENON_OPS_INTEGER_H

#include <tenon/op.h>

/* A scale or zero point that broadcasts to a tensor: one element, a vector along an axis, or by
 * NumPy's rule. */
typedef struct spread_t {
  const void *data; /* NULL: absent */
  int64_t strides[TENON_RANK_MAX];
} spread_t;

/* t NULL: absent. */
spread_t core_spread_of(const tenon_tensor_t *t, int32_t rank, int32_t axis);
/* Computes the offsets of the first element of row `row` in several spreads; rows run along the
 * last axis of shape. */
void core_row_offsets(int32_t rank, const int64_t *shape, int64_t row, const spread_t *of,
                      int count, int64_t *offsets);

/* Row-major numbers of i8 or u8 minus their zero points. */
typedef struct operand8_t {
  const tenon_tensor_t *x;
  spread_t zero;
  int zero_is_signed;
  int is_right; /* x is [..., k, n] rather than [..., k]: pairs are elements of adjacent rows */
} operand8_t;

/* The number of rows of pairs, and their width; shape is that of the pairs, with the rank of x. */
int64_t core_pair_rows(const operand8_t *operand, int64_t *width, int64_t *shape);
/* Writes rows [begin, end) of pairs: the element with the even index along k in the low half. A
 * missing element is 0. */
void core_pairs_write(const operand8_t *operand, int64_t begin, int64_t end, uint32_t *pairs);

#endif
