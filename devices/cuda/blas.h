/* Matrix products by cuBLAS, if it is installed: a kernel for core::matmul. Products that cuBLAS
 * does not take go to the source kernel. The parts of cuBLAS in use are declared here;
 * tests/unit/devices/cuda_api_test.c compares them with its header. */
#ifndef TENON_CUDA_BLAS_H
#define TENON_CUDA_BLAS_H

#include "ordinal.h"

typedef struct cublasContext *blas_handle_t;

/* clang-format off */
#define BLAS_CONSTANTS(X) /* of cuBLAS and of CUDA's library_types.h, whose names these are */ \
  X(CUBLAS_OP_N, 0) X(CUBLAS_OP_T, 1) X(CUBLAS_COMPUTE_32F, 68) X(CUBLAS_COMPUTE_64F, 70) \
    X(CUBLAS_GEMM_DEFAULT, -1) \
  X(CUDA_R_32F, 0) X(CUDA_R_64F, 1) X(CUDA_R_16F, 2) X(CUDA_R_16BF, 14)

#define BLAS_FUNCTIONS(X) /* name here, in the library, parameters; all give a cublasStatus_t */ \
  X(Create, cublasCreate_v2, (blas_handle_t *)) \
  X(Destroy, cublasDestroy_v2, (blas_handle_t)) \
  X(SetStream, cublasSetStream_v2, (blas_handle_t, cu_native_stream_t)) \
  X(SetWorkspace, cublasSetWorkspace_v2, (blas_handle_t, void *, size_t)) \
  X(GemmStridedBatchedEx, cublasGemmStridedBatchedEx, \
    (blas_handle_t, cu_enum_t, cu_enum_t, int, int, int, const void *, const void *, cu_enum_t, \
    int, long long, const void *, cu_enum_t, int, long long, const void *, void *, cu_enum_t, \
    int, long long, int, cu_enum_t, int))

#define BLAS_MEMBER_(name, value) BLAS_##name = (value),
#define BLAS_POINTER_(name, symbol, parameters) cu_result_t (*name) parameters;
enum { BLAS_CONSTANTS(BLAS_MEMBER_) };
typedef struct blas_api_t { BLAS_FUNCTIONS(BLAS_POINTER_) } blas_api_t;
/* clang-format on */

/* The arguments of one call of cublasGemmStridedBatchedEx, which is column-major. Its `a` is the
 * second factor of the product, and its `b` the first. */
typedef struct cu_product_t {
  int m; /* columns of the result */
  int n; /* rows of the result */
  int k;
  int count; /* number of products */
  cu_enum_t op_a;
  cu_enum_t op_b;
  cu_enum_t type;
  cu_enum_t compute;
  const void *a;
  const void *b;
  const void *bias; /* a number for each column of the result, then count is 1; NULL: none */
  void *c;
  int a_lead;
  int b_lead;
  int c_lead;
  long long a_next;
  long long b_next;
  long long c_next; /* a_next, b_next, c_next: elements to the next of `count` products */
} cu_product_t;

/* Tells whether cuBLAS takes this product. It does not take an activation, a bias that is not a
 * row, vectors, matrices without a stride of 1, leading axes that cannot be merged into one, an
 * empty sum, or any number above 2^31 - 1. */
bool cu_product_of(const tenon_call_t *call, cu_product_t *out);
tenon_status_t cu_matmul_run(tenon_call_t *call);
void cu_blas_close(cu_device_t *device);

#endif
