/* Matrix products in plain C: what every operator of heavy arithmetic is made of when no faster
 * library is there. An operand is a set of vectors along k, with any strides or written on demand
 * (a convolution's patches), so that transposes, views and windows need no copy.  Invariant:
 * nothing is allocated, the blocks live on the stack. */
#ifndef TENON_OPS_GEMM_H
#define TENON_OPS_GEMM_H

#include <tenon/op.h>

enum {
  GEMM_DEPTH = 128,
  GEMM_WIDTH = 32,
};                       /* the most that a pack function is asked for at once */
enum { GEMM_ROWS = 96 }; /* rows of a that are packed at once */

typedef struct operand_t operand_t;
/* Writes elements [k, k + depth) of vectors [first, first + count) to out[element * width +
 * vector]. */
typedef void (*operand_pack_fn)(const operand_t *operand, int64_t first, int64_t count, int64_t k,
                                int64_t depth, int64_t width, void *out);
struct operand_t {
  const void *data;
  int64_t vector;
  int64_t element;      /* strides, in elements: to the next row of a or column of b, and along k */
  operand_pack_fn pack; /* NULL: the strides say it */
  const void *context;  /* of pack */
  int64_t
      /* of pack: the number of this operand's first vector, added to those it is asked for */
      first;
};

typedef struct
    /* c[i][j] = sum over k of a[i][k] b[j][k], added to what is there if `accumulate` */
    product_t {
  int64_t m;
  int64_t n;
  int64_t k;
  operand_t a;
  operand_t b;
  void *c;
  int64_t row;
  int64_t column; /* strides of c */
  int accumulate;
} product_t;

typedef struct gemms_t { /* the products of one instruction set, in simd/product.c */
  void (*f32)(const product_t *), (*f64)(const product_t *), (*u32)(const product_t *),
      (*u64)(const product_t *);
} gemms_t;
extern const gemms_t core_gemms, core_gemms_avx2, core_gemms_avx512;

/* The dtype in which a matrix product of this dtype is computed: f32, f64, i32 (u32) or i64
 * (u64). */
tenon_dtype_t core_gemm_dtype(tenon_dtype_t dtype);

/* One product on this thread; dtype is one that core_gemm_dtype gives. */
void core_gemm(tenon_dtype_t dtype, const product_t *product);
/* The same through oneDNN where it is built in and better, for operators that have no form of their
 * own in dnn/. */
void core_gemm_fast(tenon_dtype_t dtype, const product_t *product);

typedef struct products_t { /* `count` products of one size, on all threads */
  product_t product;
  tenon_dtype_t dtype;
  int64_t count;
  /* Points a, b and c at number `index`. */
  void (*place)(const void *context, int64_t index, product_t *product);
  /* NULL or: does something to the rows [i, i_end) and columns [j, j_end) of number `index`, which
   * are final. */
  void (*finish)(const void *context, int64_t index, int64_t i, int64_t i_end, int64_t j,
                 int64_t j_end);
  const void *context;
  int fast; /* core_gemm_fast */
} products_t;
tenon_status_t core_products(tenon_call_t *call, const products_t *products);

#endif
