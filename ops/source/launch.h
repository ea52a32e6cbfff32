/* Host-side functions shared by the source kernels of this folder.
 * Invariant: a kernel that cannot handle a call declines with TENON_UNIMPLEMENTED before anything
 * is enqueued. */
#ifndef TENON_OPS_SOURCE_LAUNCH_H
#define TENON_OPS_SOURCE_LAUNCH_H

#include <tenon/source.h>

enum { GROUP_ITEMS = 64 };

#define DECLINE(call, ...) tenon_fail(call, TENON_UNIMPLEMENTED, __VA_ARGS__)

/* log2 of the bytes of an element of 8, 16, 32 or 64 bits. */
static inline uint32_t size_log2(uint32_t bits) {
  uint32_t n = 0;
  while (n < 3 && 8u << n < bits)
    n++;
  return n;
}

/* A walk over the last of the tensors; the others broadcast to it. */
static inline tenon_status_t walk_set(tenon_call_t *call, const tenon_tensor_t *const *tensors,
                                      uint32_t count, tenon_walk_t *out) {
  const tenon_tensor_t *last = tensors[count - 1];
  if (tenon_walk_of(out, last->ndim, last->shape, tensors, count)) return TENON_OK;
  return DECLINE(call, "the source kernel supports at most eight axes that do not merge, of "
                       "elements of whole bytes");
}

/* The number of elements before the first one, which negative strides reach; arguments point to the
 * first element. */
static inline int64_t below(const tenon_tensor_t *t) {
  int64_t n = 0;
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] > 1 && t->strides[i] < 0) n -= (t->shape[i] - 1) * t->strides[i];
  return n;
}

/* Copies between two tensors of the same shape and dtype with any strides (move.c). */
tenon_status_t core_source_copy(tenon_call_t *call, const tenon_tensor_t *from, tenon_tensor_t *to);
/* Gives t itself if it is row-major, otherwise a row-major temporary copy. */
static inline tenon_status_t dense_of(tenon_call_t *call, tenon_tensor_t *t,
                                      tenon_tensor_t **out_tensor) {
  int64_t next = 1;
  int is_dense = 1;
  for (int32_t i = t->ndim - 1; i >= 0; next *= t->shape[i--])
    is_dense &= t->shape[i] == 1 || t->strides[i] == next;
  if (is_dense) {
    *out_tensor = t;
    return TENON_OK;
  }
  *out_tensor = call->host->temporary(call, t->dtype, t->ndim, t->shape);
  return *out_tensor ? core_source_copy(call, t, *out_tensor) : TENON_MEMORY;
}

/* Launches one group per row with no more items than there is work for: `length` numbers to fold,
 * or blocks to compute. */
static inline tenon_status_t rows_run(tenon_call_t *call, tenon_code_t *code, uint32_t kernel,
                                      int64_t rows, int64_t length,
                                      const tenon_kernel_argument_t *arguments, uint32_t count) {
  uint32_t items = 1;
  while (items < GROUP_ITEMS && items < length)
    items *= 2;
  tenon_grid_t grid = {sizeof(tenon_grid_t),   kernel,        code,  0,        0,
                       {(uint64_t)rows, 1, 1}, {items, 1, 1}, count, arguments};
  return rows ? call->host->launch(call, &grid) : TENON_OK;
}

#endif
