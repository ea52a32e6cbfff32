/* The stand-in for libtvm_ffi: the functions that libraries of kernels need, where the real
 * libtvm_ffi is absent. Their names and arguments are those of the real ones. */
#ifndef BRIDGES_TVM_FFI_STANDIN_EXPORT_H
#define BRIDGES_TVM_FFI_STANDIN_EXPORT_H

#include "abi.h"

#define EXPORT(result, name, ...)                                                                  \
  __attribute__((visibility("default"))) result name(__VA_ARGS__);                                 \
  result name(__VA_ARGS__)

/* Sets the error of this thread, and returns -1. */
int raise_error(const char *kind, const char *format, ...) TENON_FORMAT(2, 3);

#endif
