/* Sparse tensors: one whose data is NULL and whose detail has parts.  Invariant: the detail of an
 * owned one, and its parts, belong to its storage, so that whatever shares the storage may share
 * the detail. */
#ifndef TN_CORE_SPARSE_H
#define TN_CORE_SPARSE_H

#include "core/tensor.h"

static inline bool tn_layout_is_sparse(uint32_t layout) {
  return layout == TENON_DETAIL_CSR || layout == TENON_DETAIL_ROW_SPARSE;
}
/* TENON_DETAIL_CSR or _ROW_SPARSE; 0: it is not sparse. */
static inline uint32_t tn_layout(const tenon_tensor_t *tensor) {
  return tensor->detail && tn_layout_is_sparse(tensor->detail->kind) ? tensor->detail->kind : 0;
}
/* "csr", "row_sparse"; 0: "dense". */
const char *tn_layout_name(uint32_t layout);
/* Can a tensor of so many axes have that layout? */
tenon_status_t tn_layout_check(uint32_t layout, int32_t ndim);
/* A detail without parts: of results that run has not made yet. */
const tenon_detail_t *tn_sparse_unset(uint32_t layout);
/* Room for `count` stored elements or rows in place of what the header had; its shape stays.
 * indptr is all 0. */
tenon_status_t tn_sparse_resize(tenon_tensor_t *tensor, uint32_t layout, int64_t count);
/* One with parts of its own. */
tenon_status_t tn_sparse_copy(const tenon_tensor_t *tensor, tenon_tensor_t **out_tensor);
/* An owned `to` of the same layout, dtype and shape becomes a copy; what else shares its old
 * storage stays as it is. */
tenon_status_t tn_sparse_copy_into(const tenon_tensor_t *from, tenon_tensor_t *to);

#endif
