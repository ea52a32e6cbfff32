/* The functions of libtvm_ffi that Tenon calls, as far as they are in the process: those of the
 * real libtvm_ffi, or of Tenon's stand-in. */
#ifndef BRIDGES_TVM_FFI_HOSTED_RUNTIME_H
#define BRIDGES_TVM_FFI_HOSTED_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"

typedef struct runtime_t { /* NULL: the library needs none of them */
  void (*take_error)(ffi_object_t **out_error);
  int (*set_stream)(int32_t type, int32_t id, void *stream, void **out_before);
  int (*set_allocator)(ffi_allocator_fn allocator, int is_global, ffi_allocator_fn *out_before);
  ffi_allocator_fn (*get_allocator)(void);
} runtime_t;

/* Opens a library of functions. If it needs libtvm_ffi, that is the one in the process, the file
 * that TENON_TVM_FFI names, the one that the system finds, or else the stand-in, in this order.
 *
 * Returns: the handle of dlopen; NULL: `why` says why not. */
void *runtime_open(const char *path, char *why, size_t capacity);
/* Finds the functions as the library finds them. If nobody has set an allocator of tensors, that of
 * Tenon becomes the one of the process. */
void runtime_find(void *library, runtime_t *out);

#endif
