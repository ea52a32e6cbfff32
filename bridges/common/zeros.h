/* Tensors of zeros, for gradients that a framework expects where there are none. */
#ifndef BRIDGES_COMMON_ZEROS_H
#define BRIDGES_COMMON_ZEROS_H

#include <tenon/tenon.h>

/* Sets all elements to zero, on any device. */
static inline tenon_status_t zeros_fill(tenon_tensor_t *tensor) {
  static const _Alignas(16) char zero[16]; /* as large as the largest element */
  return tenon_tensor_fill(tensor, zero);
}

/* Creates zeros with the dtype, shape and device of a tensor.
 * Ownership: the caller releases *out_zeros, which is NULL after an error. */
static inline tenon_status_t zeros_like(const tenon_tensor_t *like, tenon_tensor_t **out_zeros) {
  tenon_status_t status =
      tenon_tensor_create_on(like->device, like->dtype, like->ndim, like->shape, out_zeros);
  if (status != TENON_OK) return status;
  status = zeros_fill(*out_zeros);
  if (status == TENON_OK) return status;
  tenon_tensor_release(*out_zeros);
  *out_zeros = NULL;
  return status;
}

#endif
