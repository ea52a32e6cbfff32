/* What functions return: errors, tensors and other values. */
#ifndef BRIDGES_TVM_FFI_HOSTED_RESULT_H
#define BRIDGES_TVM_FFI_HOSTED_RESULT_H

#include "module.h"

/* Takes the error that a function has raised, and makes it the error of the call. */
tenon_status_t result_error(const function_t *function, tenon_call_t *call);
/* Makes a returned value the results of the operator. The memory of a returned tensor becomes that
 * of the result, unless the tensor shares memory with an input or is not dense, or the caller
 * passed the result; then it is copied.
 *
 * Ownership: the caller releases the value. */
tenon_status_t result_take(const function_t *function, tenon_call_t *call, const ffi_any_t *value);

#endif
