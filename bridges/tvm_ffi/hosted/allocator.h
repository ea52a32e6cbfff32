/* The allocator of tensors that functions of tvm-ffi use when they create their results. */
#ifndef BRIDGES_TVM_FFI_HOSTED_ALLOCATOR_H
#define BRIDGES_TVM_FFI_HOSTED_ALLOCATOR_H

#include "abi.h"

/* Creates a tensor of Tenon on the prototype's device; see ffi_allocator_fn. */
int allocator_create(ffi_dltensor_t *prototype, ffi_managed_t **out_tensor, void *context,
                     void (*fail)(void *context, const char *kind, const char *text));

#endif
