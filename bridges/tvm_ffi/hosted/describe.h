/* Describes the functions of a library as operators of Tenon. */
#ifndef BRIDGES_TVM_FFI_HOSTED_DESCRIBE_H
#define BRIDGES_TVM_FFI_HOSTED_DESCRIBE_H

#include "module.h"

/* Fills in the functions and the descriptor of a library that is open; see module_open. */
tenon_status_t describe_module(module_t *module, const tenon_tvm_ffi_function_t *declared,
                               uint32_t count, char *why, size_t capacity);

#endif
