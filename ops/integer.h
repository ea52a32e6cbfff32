/* What the products of 8-bit numbers (integer.c) share: zero points and scales that broadcast, and
 * operands as pairs of i16 (integer_pairs.c).
 * Invariant: a product of two differences of 8-bit numbers and the sum of two such products are
 * exact in 32 bits. */
#ifndef TENON_OPS_INTEGER_H
#define TENON_OPS_INTEGER_H

#include "integer_tile.h"
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
/* Writes one row of pairs: the element with the even index along k in the low half. A missing
 * element is 0. */
void core_pair_row_write(const operand8_t *operand, int64_t row, uint32_t *pairs);
/* Writes rows [begin, end); row 0 is at `pairs`. */
void core_pairs_write(const operand8_t *operand, int64_t begin, int64_t end, uint32_t *pairs);

/* Dense matrices of i8 or u8 with one zero point, as panels (integer_tile.h). */
typedef struct panels_t {
  const uint8_t *x;
  int is_signed;
  int32_t zero;
  int64_t rows;
  int64_t columns;
  int64_t depth; /* pairs of rows */
  int64_t size;  /* of the panels of one matrix */
  uint32_t *panels;
} panels_t;
/* Writes pairs of rows [begin, end), which count over all matrices. */
void core_panels_write(const panels_t *panels, int64_t begin, int64_t end);

/* The kernels for this processor. */
const integer_tiles_t *core_integer_tiles_of_isa(void);

/* Weights of i8 or u8: `count` rows or columns of `inner` numbers along k. */
typedef struct integer_matrix_t {
  const uint8_t *data;
  int is_signed;        /* the zero points too */
  const uint8_t *zeros; /* NULL: 0 */
  int64_t zero_step;    /* 0: all have the same zero point */
  int64_t count;
  int64_t step;
  int64_t inner;
  int64_t inner_step;
  int64_t taps; /* of a channel, if quads are channels under one tap; 0: neighbours along k */
  int64_t row;  /* numbers along k after which a new quad begins; 0: quads follow each other */
} integer_matrix_t;

typedef struct integer_weights_t {
  int64_t width; /* rows or columns of a tile */
  int64_t depth; /* quads along k */
  int64_t row;   /* as in integer_matrix_t */
  int64_t tiles; /* of all matrices; each matrix begins a new one */
  integer_steps_t *steps;
  void *joined[2]; /* the memory of all steps; NULL: each tile has its own */
  int32_t *sums; /* of each row or column; a zero point of the other operand is multiplied by it */
} integer_weights_t;
/* Makes the steps of a matrix and of those that follow it in memory, of the same size, in tiles of
 * `width` rows or columns. Returns: NULL without memory. Ownership: the caller releases it. */
integer_weights_t *core_integer_weights_create(const integer_matrix_t *first, int64_t matrices,
                                               int64_t width);
void core_integer_weights_release(integer_weights_t *weights);

/* Receives `count` final sums of one row, from `column` on. May change them. */
typedef void (*integer_finish_fn)(const void *context, int64_t row, int64_t column, int64_t count,
                                  int32_t *sums);

/* Rows times panels of columns (integer_tile.h). Both are pairs of i16, or one is u8 and the other
 * one is steps of weights. */
typedef struct integer_product_t {
  const void *left; /* NULL: left_steps */
  int64_t left_row; /* pairs from a row to the next; bytes if the right operand is steps */
  const integer_steps_t *left_steps;  /* of the rows of every tile */
  const uint32_t *right;              /* panels; NULL: right_steps */
  const integer_steps_t *right_steps; /* of every panel */
  int64_t rows;
  int64_t columns; /* the last panel may have fewer than a panel holds; the others are complete */
  int64_t depth;   /* pairs or quads */
  /* Of each quad in `right`, for column 0; the other columns follow. NULL: `right` is panels. */
  const int32_t *offsets;
  integer_finish_fn finish;
  const void *context;
} integer_product_t;
enum { PRODUCT_COLUMNS = 256 }; /* given to `finish` at once, at most */
tenon_status_t core_integer_product(tenon_call_t *call, const integer_product_t *product);

/* The scales and limits with which the qlinear operators narrow sums to their result. */
typedef struct integer_narrow_t {
  narrow_t limits;
  spread_t scales[2];
  float scale; /* sums are multiplied by scales[0] * scales[1] / scale */
} integer_narrow_t;

/* The convolution of dense x and w. narrow NULL: out receives i32, otherwise 8 bits. */
struct window_t;
typedef struct integer_convolution_t {
  const struct window_t *window;
  int64_t group;
  const tenon_tensor_t *x;
  int32_t x_zero;
  const tenon_tensor_t *w;          /* only its shape is used if `weights` suit the convolution */
  const tenon_tensor_t *w_zero;     /* NULL: 0 */
  const integer_weights_t *weights; /* NULL: the filters were not prepared */
  const int32_t *bias;              /* NULL, or one number for each filter */
  const integer_narrow_t *narrow;
  tenon_tensor_t *out; /* dense */
} integer_convolution_t;
tenon_status_t core_integer_convolve(tenon_call_t *call, const integer_convolution_t *convolution);
/* Whether filters of this shape belong to a depthwise convolution, whose weights are tiles of one
 * filter. Their own data stays in use, for an x whose rows are too wide. */
int core_integer_is_depthwise(const tenon_tensor_t *w);
/* Makes the steps of the filters of all groups. Returns: NULL without memory. */
enum {
  FILTERS_OF_PATCHES,
  FILTERS_OF_PLANES, /* of quads of channels */
  FILTERS_DEPTHWISE,
};
integer_weights_t *core_integer_filters_create(const tenon_tensor_t *w,
                                               const tenon_tensor_t *w_zero, int64_t group,
                                               int kind);
/* The kind of filters of this shape that move by these strides, of which there are w->ndim - 2. */
int core_integer_filters_kind(const tenon_tensor_t *w, int64_t group, const int64_t *strides);

#endif
