/* Allocators of programs. */
#ifndef TN_STORAGE_ALLOCATOR_H
#define TN_STORAGE_ALLOCATOR_H

#include "core/tensor.h"

/* Makes a tensor by the thread's allocator (tenon_allocator_use).  *out_tensor NULL: the thread has
 * none, or it does not make this tensor. */
tenon_status_t tn_allocator_create(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, tenon_tensor_t **out_tensor);

#endif
