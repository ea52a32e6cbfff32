/* The inputs of one matrix multiplication, with any strides, as a batch of plain products. Filled
 * by matmul.c for its own kernel and for oneDNN's.
 * Invariant: there are as few batch axes as possible; adjacent rows across a batch form one
 * product. */
#ifndef TENON_OPS_MATMUL_H
#define TENON_OPS_MATMUL_H

#include "epilogue.h"
#include <tenon/op.h>

typedef struct matrix_t {
  void *data;
  int64_t row;
  int64_t column;
  int64_t batch[TENON_RANK_MAX]; /* strides; 0 repeats */
} matrix_t;

typedef struct matmul_t {
  int64_t m;
  int64_t n;
  int64_t k;
  int32_t rank; /* batch axes */
  int64_t batch[TENON_RANK_MAX];
  matrix_t a;
  matrix_t b;
  matrix_t c;
  matrix_t bias; /* data NULL: no bias */
} matmul_t;

/* infer for NumPy's matmul: checks a and b and states output 0. */
tenon_status_t core_matmul_result_infer(tenon_infer_t *infer); /* infer of the operator itself */
tenon_status_t core_gemm_infer(tenon_infer_t *infer);
tenon_status_t core_matmul_infer(tenon_infer_t *infer, const tenon_meta_t *a, const tenon_meta_t *b,
                                 int transpose_a, int transpose_b);

/* Describes inputs a, b and bias and the output, in the order of the schemas of matmul and gemm. */
void core_matmul_view(tenon_tensor_t *const tensors[4], int transpose_a, int transpose_b,
                      matmul_t *out);

/* Applies `finish` to the whole result on all threads; c, bias and strides are filled in here. */
tenon_status_t core_matmul_finish(tenon_call_t *call, const matmul_t *matmul,
                                  const finish_t *finish);

/* The epilogue that the attributes ask for. */
finish_t core_matmul_finish_of(const tenon_value_t *attrs);
finish_t core_gemm_finish_of(const tenon_value_t *attrs);

enum {
  MULTIPLY_FAST = 1,  /* by core_gemm_fast() */
  MULTIPLY_ADDS = 2,  /* to c */
  MULTIPLY_PAIRS = 4, /* a and b hold pairs (product_t) */
};
/* Multiplies. `tensors` are a, b, bias or NULL, and c, all of one dtype that core_gemm_dtype()
 * returns. `how` is a sum of the flags above. */
tenon_status_t core_multiply(tenon_call_t *call, tenon_tensor_t *const tensors[4], int transpose_a,
                             int transpose_b, const finish_t *finish, int how);

/* Declines an accumulating call whose result is not simply added: it is converted, scaled or goes
 * through an activation. */
tenon_status_t core_matmul_may_add(const tenon_call_t *call, const finish_t *finish);

/* The plain kernels, for any dtype and strides, and the same with core_gemm_fast(). */
tenon_status_t core_matmul_run(tenon_call_t *call);
tenon_status_t core_gemm_run(tenon_call_t *call);
tenon_status_t core_matmul_run_fast(tenon_call_t *call);
tenon_status_t core_gemm_run_fast(tenon_call_t *call);

#endif
