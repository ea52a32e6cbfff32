/* Kernels for functions. Tenon's host calls a kernel without saying which function it is, except
 * through a state, whose search would cost every call; so each function has a kernel of its own. */
#ifndef BRIDGES_TVM_FFI_HOSTED_THUNK_H
#define BRIDGES_TVM_FFI_HOSTED_THUNK_H

#include "module.h"

enum {
  FUNCTIONS_MOST = 4096, /* in a process */
};

/* Returns a kernel that calls the function; NULL: all are in use. */
tenon_run_fn thunk_take(const function_t *function);
/* Makes the kernel of the function available again. */
void thunk_release(const function_t *function);

#endif
