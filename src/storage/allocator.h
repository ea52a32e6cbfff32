/* Allocators that programs provide. */
#ifndef TN_STORAGE_ALLOCATOR_H
#define TN_STORAGE_ALLOCATOR_H

#include "core/tensor.h"

/* Creates a tensor by the thread's allocator (tenon_allocator_use), which must be set. *out_tensor
 * NULL: the device has no plug-in, or the allocator does not create this tensor. */
tenon_status_t tn_allocator_create(tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, tenon_tensor_t **out_tensor);

#endif
