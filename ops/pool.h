/* The pools' plain kernels and what oneDNN's forms share with them.
 * Invariant: the attributes of max_pool, average_pool and lp_pool start alike: kernel, the window's, ceil_mode. */
#ifndef TENON_OPS_POOL_H
#define TENON_OPS_POOL_H

#include "window.h"

enum { POOL_KERNEL, POOL_WINDOW, POOL_CEIL = POOL_WINDOW + 4, POOL_MORE /* storage_order, count_include_pad or p */ };

/* The window of a call of max_pool, average_pool or lp_pool. */
static inline void pool_window(const tenon_call_t *call, window_t *window) {
  const tenon_tensor_t *x = call->inputs[0];
  window_args_t args = window_args(call->attrs + POOL_WINDOW, call->attrs[POOL_CEIL].as.i != 0);
  core_window_set(window, &args, x->ndim - 2, x->shape + 2, call->attrs[POOL_KERNEL].as.ints,
                  call->outputs[0]->shape + 2);
}

tenon_status_t core_max_pool_run(tenon_call_t *call);
tenon_status_t core_average_pool_run(tenon_call_t *call);

#endif
