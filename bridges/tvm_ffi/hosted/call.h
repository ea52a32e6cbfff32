/* Calls functions: the kernels of the operators that they are. */
#ifndef BRIDGES_TVM_FFI_HOSTED_CALL_H
#define BRIDGES_TVM_FFI_HOSTED_CALL_H

#include "module.h"

tenon_status_t function_call(const function_t *function, tenon_call_t *call);

#endif
