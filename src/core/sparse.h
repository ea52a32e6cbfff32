/* Sparse tensors: tensors whose data is NULL and whose detail has parts. Invariant: the detail and
 * parts of an owned sparse tensor belong to its storage, so tensors that share the storage may
 * share the detail. */
#ifndef TN_CORE_SPARSE_H
#define TN_CORE_SPARSE_H

#include "core/tensor.h"

static inline bool tn_layout_is_sparse(uint32_t layout) {
  return layout == TENON_DETAIL_CSR || layout == TENON_DETAIL_ROW_SPARSE;
}
/* TENON_DETAIL_CSR or TENON_DETAIL_ROW_SPARSE; 0 if the tensor is not sparse. */
static inline uint32_t tn_layout(const tenon_tensor_t *tensor) {
  return tensor->detail && tn_layout_is_sparse(tensor->detail->kind) ? tensor->detail->kind : 0;
}
/* "csr", "row_sparse"; "dense" for 0. */
const char *tn_layout_name(uint32_t layout);
/* Checks that a tensor with `ndim` axes can have this layout. */
tenon_status_t tn_layout_check(uint32_t layout, int32_t ndim);
/* A detail without parts, for results that the kernel has not created yet. */
const tenon_detail_t *tn_sparse_unset(uint32_t layout);
/* Allocates parts for `count` stored elements or rows and replaces those of the header; the shape
 * stays. indptr is filled with 0. */
tenon_status_t tn_sparse_resize(tenon_tensor_t *tensor, uint32_t layout, int64_t count);
/* A copy that owns its parts. */
tenon_status_t tn_sparse_copy(const tenon_tensor_t *tensor, tenon_tensor_t **out_tensor);
/* Turns `to`, an owned tensor of the same layout, dtype and shape, into a copy of `from`. Tensors
 * that share the old storage of `to` are unchanged. */
tenon_status_t tn_sparse_copy_into(const tenon_tensor_t *from, tenon_tensor_t *to);

#endif
