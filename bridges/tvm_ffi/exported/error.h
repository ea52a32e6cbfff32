/* Errors of exported operators, and the functions of libtvm_ffi that they need. */
#ifndef BRIDGES_TVM_FFI_EXPORTED_ERROR_H
#define BRIDGES_TVM_FFI_EXPORTED_ERROR_H

#include <stdbool.h>

#include "abi.h"

/* Finds libtvm_ffi, which is in the process when a function is called through it. */
void env_find(void);
/* The stream that the caller uses on a device; NULL: none is set. */
void *env_stream(tenon_device_t device);
/* Reads the name of a dtype, such as "float32". Returns false if libtvm_ffi does not know it. */
bool env_dtype(const char *name, size_t size, tenon_dtype_t *out);
/* Raises an error of a kind such as "TypeError", and returns -1. */
int raise_text(const char *kind, const char *format, ...) TENON_FORMAT(2, 3);

#endif
