#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "stream.h"

enum {
  WORKSPACE = 4 << 20,
  WORKSPACE_OF_90 = 32 << 20,
  ARCH_90 = 90,
}; /* as NVIDIA recommends */

static blas_api_t blas;

typedef struct cu_blas_t {
  blas_handle_t handle; /* NULL: cuBLAS is not installed, or cannot be opened */
  pthread_mutex_t lock; /* a handle has one stream at a time */
} cu_blas_t;

/* the library */

static bool open_library(tenon_on_t on) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static int state; /* 1: loaded; -1: not available */
  static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
  char tried[1000];
  pthread_mutex_lock(&lock);
  if (!state) {
    void *library =
        cu_library_open(on, "cublas", names, cu_device(on)->version, tried, sizeof tried);
    state = library ? 1 : -1;
#define BLAS_FIND_(name, symbol, parameters)                                                       \
  if (library && !(*(void **)&blas.name = dlsym(library, #symbol))) state = -1;
    BLAS_FUNCTIONS(BLAS_FIND_)
  }
  bool there = state == 1;
  pthread_mutex_unlock(&lock);
  return there;
}

/* Opened by the first product. NULL: cuBLAS is not available, and is not searched for again. */
static cu_blas_t *blas_of(tenon_on_t on) {
  cu_device_t *device = cu_device(on);
  static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
  cu_blas_t *found = atomic_load_explicit(&device->blas, memory_order_acquire);
  if (__builtin_expect(found != NULL, 1)) return found->handle ? found : NULL;
  pthread_mutex_lock(&opening);
  if (!(found = device->blas) && (found = (cu_blas_t *)calloc(1, sizeof *found))) {
    bool pushed;
    pthread_mutex_init(&found->lock, NULL);
    if (open_library(on) && !cu_enter(device, &pushed)) {
      if (blas.Create(&found->handle)) found->handle = NULL;
      cu_leave(pushed);
    }
    atomic_store_explicit(&device->blas, found, memory_order_release);
  }
  pthread_mutex_unlock(&opening);
  return found && found->handle ? found : NULL;
}

void cu_blas_close(cu_device_t *device) {
  cu_blas_t *found = device->blas;
  bool pushed;
  if (!found) return;
  if (found->handle && !cu_enter(device, &pushed)) {
    blas.Destroy(found->handle);
    cu_leave(pushed);
  }
  pthread_mutex_destroy(&found->lock);
  free(found);
  device->blas = NULL;
}

/* which products cuBLAS takes */

typedef struct matrix_t { /* a matrix of the product; strides in elements */
  int64_t rows;
  int64_t columns;
  int64_t row;
  int64_t column;
  int64_t next; /* to the matrix of the next product */
} matrix_t;

static matrix_t matrix_of(const tenon_tensor_t *t, bool transposed) {
  int32_t down = t->ndim - 2 + transposed;
  int32_t across = t->ndim - 1 - transposed;
  return (matrix_t){t->shape[down], t->shape[across], t->strides[down], t->strides[across], 0};
}

/* Merges the leading axes into one, with one stride for each of the three tensors. false: this is
 * not possible. */
static bool batch_of(const tenon_tensor_t *const tensors[3], matrix_t *matrices[3],
                     int64_t *out_count) {
  const tenon_tensor_t *out = tensors[2];
  int64_t count = 1;
  for (int32_t i = out->ndim - 3; i >= 0; i--) { /* from the innermost */
    if (out->shape[i] == 1) continue;
    for (int k = 0; k < 3; k++) {
      int32_t own = i - (out->ndim - tensors[k]->ndim);
      int64_t stride = own >= 0 && tensors[k]->shape[own] != 1 ? tensors[k]->strides[own] : 0;
      if (count == 1)
        matrices[k]->next = stride;
      else if (stride != matrices[k]->next * count)
        return false;
    }
    count *= out->shape[i];
  }
  *out_count = count;
  return true;
}

/* Describes a matrix to cuBLAS, which is column-major: either its rows follow one another with a
 * fixed stride, or those of its transpose do. */
static bool lead_of(const matrix_t *m, cu_enum_t *out_op, int *out_lead) {
  int64_t lead = 0;
  if ((m->column == 1 || m->columns == 1) && (m->row >= m->columns || m->rows == 1)) {
    *out_op = BLAS_CUBLAS_OP_N;
    lead = m->rows == 1 ? m->columns : m->row;
  } else if ((m->row == 1 || m->rows == 1) && (m->column >= m->rows || m->columns == 1)) {
    *out_op = BLAS_CUBLAS_OP_T;
    lead = m->columns == 1 ? m->rows : m->column;
  }
  *out_lead = (int)lead;
  return lead > 0 && lead <= INT32_MAX && m->rows <= INT32_MAX && m->columns <= INT32_MAX;
}

/* Checks that the bias has one number for each column, and that these are contiguous. */
static bool is_row(const tenon_tensor_t *t, int64_t columns) {
  for (int32_t i = 0; i < t->ndim - 1; i++)
    if (t->shape[i] != 1) return false;
  return t->ndim > 0 && t->shape[t->ndim - 1] == columns &&
         (columns == 1 || t->strides[t->ndim - 1] == 1);
}

static bool types_of(tenon_dtype_t dtype, cu_enum_t *out_type, cu_enum_t *out_compute) {
  *out_compute = BLAS_CUBLAS_COMPUTE_32F;
  switch (tenon_dtype_id(dtype)) {
  case TENON_F32:
    *out_type = BLAS_CUDA_R_32F;
    return true;
  case TENON_F16:
    *out_type = BLAS_CUDA_R_16F;
    return true;
  case TENON_BF16:
    *out_type = BLAS_CUDA_R_16BF;
    return true;
  case TENON_F64:
    *out_type = BLAS_CUDA_R_64F;
    *out_compute = BLAS_CUBLAS_COMPUTE_64F;
    return true;
  }
  return false;
}

/* Of core::matmul(a, b, bias, *, transpose_a, transpose_b, activation, ...). */
bool cu_product_of(const tenon_call_t *call, cu_product_t *out) {
  const tenon_tensor_t *tensors[3] = {call->inputs[0], call->inputs[1], call->outputs[0]};
  matrix_t a, b, c;
  matrix_t *matrices[3] = {&a, &b, &c};
  int64_t count;
  cu_enum_t op_c;
  const tenon_tensor_t *bias = call->inputs[2];
  if (call->attrs[2].as.i || tensors[0]->ndim < 2 || tensors[1]->ndim < 2) return false;
  if (!types_of(tensors[2]->dtype, &out->type, &out->compute)) return false;
  a = matrix_of(tensors[0], call->attrs[0].as.i);
  b = matrix_of(tensors[1], call->attrs[1].as.i);
  c = matrix_of(tensors[2], false);
  if (!a.columns || !tenon_count(tensors[2]) || !batch_of(tensors, matrices, &count)) return false;
  if (count > 1 && !b.next && a.column == 1 && a.next == a.rows * a.row &&
      c.next == c.rows * c.row) /* one of more rows */
  {
    a.rows *= count;
    c.rows *= count;
    count = 1;
    a.next = b.next = c.next = 0;
  }
  /* Its c is the transpose of ours, so its a is our b, and its b our a. */
  if (count > INT32_MAX || a.next < 0 || b.next < 0 || c.next < 0) return false;
  if (!lead_of(&b, &out->op_a, &out->a_lead) || !lead_of(&a, &out->op_b, &out->b_lead))
    return false;
  if (!lead_of(&c, &op_c, &out->c_lead) || op_c != BLAS_CUBLAS_OP_N) return false;
  if (bias && (!is_row(bias, c.columns) || count > 1 || out->type == BLAS_CUDA_R_64F)) return false;
  out->bias = bias ? bias->data : NULL;
  out->m = (int)c.columns;
  out->n = (int)c.rows;
  out->k = (int)a.columns;
  out->count = (int)count;
  out->a = tensors[1]->data;
  out->b = tensors[0]->data;
  out->c = tensors[2]->data;
  out->a_next = b.next;
  out->b_next = a.next;
  out->c_next = c.next;
  return true;
}

/* the kernel */

static uint64_t ones_size(const cu_product_t *p) {
  if (!p->bias) return 0;
  return (uint64_t)p->n * (p->type == BLAS_CUDA_R_32F ? 4 : 2);
}

/* Sets each row of c to the bias, as the product of a column of ones and the bias. */
static cu_result_t spread(const cu_blas_t *with, const cu_product_t *p, cu_native_stream_t stream,
                          void *ones) {
  const float one = 1;
  const float zero = 0;
  cu_address_t at = (cu_address_t)(uintptr_t)ones;
  cu_result_t error;
  if (p->type == BLAS_CUDA_R_32F)
    error = cu.MemsetD32Async(at, 0x3f800000u, (size_t)p->n, stream);
  else
    error =
        cu.MemsetD16Async(at, p->type == BLAS_CUDA_R_16F ? 0x3c00 : 0x3f80, (size_t)p->n, stream);
  if (error) return error;
  return blas.GemmStridedBatchedEx(with->handle, BLAS_CUBLAS_OP_N, BLAS_CUBLAS_OP_N, p->m, p->n, 1,
                                   &one, p->bias, p->type, p->m, 0, ones, p->type, 1, 0, &zero,
                                   p->c, p->type, p->c_lead, 0, 1, p->compute,
                                   BLAS_CUBLAS_GEMM_DEFAULT);
}

static cu_result_t multiply(const cu_blas_t *with, const cu_product_t *p, cu_native_stream_t stream,
                            void *workspace, size_t size) {
  const float one = 1;
  const float zero = 0;
  const double wide_one = 1;
  const double wide_zero = 0;
  const bool is_wide = p->compute == BLAS_CUBLAS_COMPUTE_64F;
  const void *alpha = is_wide ? (const void *)&wide_one : &one;
  const void *beta = is_wide ? (const void *)&wide_zero : &zero;
  if (!is_wide && p->bias) beta = &one;
  cu_result_t error =
      blas.SetStream(with->handle, stream); /* this resets the workspace of the handle */
  if (!error) error = blas.SetWorkspace(with->handle, workspace, size);
  if (!error && p->bias) error = spread(with, p, stream, (char *)workspace + size);
  if (!error)
    error = blas.GemmStridedBatchedEx(with->handle, p->op_a, p->op_b, p->m, p->n, p->k, alpha, p->a,
                                      p->type, p->a_lead, p->a_next, p->b, p->type, p->b_lead,
                                      p->b_next, beta, p->c, p->type, p->c_lead, p->c_next,
                                      p->count, p->compute, BLAS_CUBLAS_GEMM_DEFAULT);
  return error;
}

tenon_status_t cu_matmul_run(tenon_call_t *call) {
  tenon_on_t on = call->device;
  cu_product_t product;
  bool pushed;
  if (!cu_product_of(call, &product))
    return tenon_fail(call, TENON_UNIMPLEMENTED, "cuBLAS does not take this product");
  cu_blas_t *with = blas_of(on);
  if (!with)
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "cuBLAS is not installed (libcublas.so.13 or .12)");
  cu_stream_t *stream = cu_stream(on, call->stream);
  TENON_TRY(cu_stream_check(on, stream));
  size_t size = stream->device->arch >= ARCH_90 ? WORKSPACE_OF_90 : WORKSPACE;
  void *workspace = call->host->allocate(call, size + ones_size(&product));
  if (!workspace) return TENON_MEMORY; /* the failure has been reported */
  cu_result_t error = cu_enter(stream->device, &pushed);
  if (error) return cu_fail(on, error, "cannot multiply");
  pthread_mutex_lock(&with->lock);
  error = multiply(with, &product, stream->native, workspace, size);
  pthread_mutex_unlock(&with->lock);
  cu_leave(pushed);
  if (!error) return TENON_OK;
  cu_result_t failure = cu_device_failure(stream->device);
  if (failure) return cu_fail_lost(on, stream->device, failure);
  return tenon_fail(call, TENON_UNKNOWN,
                    "cuda:%d: cuBLAS fails with status %u for a product of %d x %d by %d x %d",
                    on->ordinal, error, product.n, product.k, product.k, product.m);
}
