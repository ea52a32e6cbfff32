/* Matrix products in plain C, on which the operators of heavy arithmetic are built where no faster
 * library is available. An operand is a set of vectors along k, with any strides or packed on
 * demand (patches of a convolution), so that transposes, views and windows need no copy.
 * Invariant: nothing is allocated; blocks are on the stack. */
#ifndef TENON_OPS_GEMM_H
#define TENON_OPS_GEMM_H

#include <tenon/op.h>

enum {
  GEMM_DEPTH = 128,
  GEMM_WIDTH = 32,
};                       /* most vectors that a pack function writes at once */
enum { GEMM_ROWS = 96 }; /* rows of a that are packed at once */

typedef struct operand_t operand_t;
/* Writes elements [k, k + depth) of vectors [first, first + count) to out[element * width +
 * vector]. */
typedef void (*operand_pack_fn)(const operand_t *operand, int64_t first, int64_t count, int64_t k,
                                int64_t depth, int64_t width, void *out);
struct operand_t {
  const void *data;
  int64_t vector;
  /* Strides in elements: to the next row of a or column of b, and along k. */
  int64_t element;
  operand_pack_fn pack; /* NULL: the strides describe the operand */
  const void *context;  /* for pack */
  /* For pack: added to the numbers of the vectors that are requested. */
  int64_t first;
};

typedef struct
    /* c[i][j] = sum over k of a[i][k] b[j][k], added to c if `accumulate` */
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
  /* a and b are of 32 bits and hold pairs of i16, the products of which are added: k counts pairs.
   */
  int pairs;
} product_t;

typedef struct gemms_t { /* the products for one instruction set, in simd/product.c */
  void (*f32)(const product_t *), (*f64)(const product_t *), (*u32)(const product_t *),
      (*u64)(const product_t *), (*pairs)(const product_t *);
} gemms_t;
extern const gemms_t core_gemms, core_gemms_avx2, core_gemms_avx512;

/* The dtype in which a product of this dtype is computed: f32, f64, i32 (u32) or i64 (u64). */
tenon_dtype_t core_gemm_dtype(tenon_dtype_t dtype);

/* Computes one product on this thread; dtype is a result of core_gemm_dtype(). */
void core_gemm(tenon_dtype_t dtype, const product_t *product);
/* The same through oneDNN where it is built in and faster, for operators without kernels in
 * dnn/. */
void core_gemm_fast(tenon_dtype_t dtype, const product_t *product);

typedef struct products_t { /* `count` products of one size, on all threads */
  product_t product;
  tenon_dtype_t dtype;
  int64_t count;
  /* Sets a, b and c of product number `index`. */
  void (*place)(const void *context, int64_t index, product_t *product);
  /* NULL, or processes rows [i, i_end) and columns [j, j_end) of product `index` when they are
   * final. */
  void (*finish)(const void *context, int64_t index, int64_t i, int64_t i_end, int64_t j,
                 int64_t j_end);
  const void *context;
  int fast; /* use core_gemm_fast() */
} products_t;
tenon_status_t core_products(tenon_call_t *call, const products_t *products);

#endif
