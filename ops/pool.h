/* The plain kernels of the pools and what oneDNN's kernels share with them.
 * Invariant: the attributes of max_pool, average_pool and lp_pool start with kernel, those of the
 * window, and ceil_mode. */
#ifndef TENON_OPS_POOL_H
#define TENON_OPS_POOL_H

#include "window.h"

enum {
  POOL_KERNEL,
  POOL_WINDOW,
  POOL_CEIL = POOL_WINDOW + 4,
  POOL_MORE,
  /* storage_order, count_include_pad or p */
};

/* The window of a call of max_pool, average_pool or lp_pool. */
static inline void pool_window(const tenon_call_t *call, window_t *window) {
  const tenon_tensor_t *x = call->inputs[0];
  window_args_t args = window_args(call->attrs + POOL_WINDOW, call->attrs[POOL_CEIL].as.i != 0);
  core_window_set(window, &args, x->ndim - 2, x->shape + 2, call->attrs[POOL_KERNEL].as.ints,
                  call->outputs[0]->shape + 2);
}

#define POOL_ARGUMENTS "int[] kernel, " WINDOW_ARGUMENTS ", bool ceil_mode=False"
/* The same in a gradient formula. */
#define POOL_PASSED                                                                                \
  "kernel=kernel, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad, "            \
  "ceil_mode=ceil_mode"

/* Checks x [N, C, spatial...] and kernel against the attributes and computes the extents of the
 * result. */
/* infer of a pooling operator: states outputs[0] */
tenon_status_t core_pool_result_infer(tenon_infer_t *infer);
tenon_status_t core_pool_infer(tenon_infer_t *infer, int32_t rank, const tenon_dim_t *in,
                               tenon_dim_t *out);

static inline int64_t pool_ceil_div(int64_t a, int64_t b) {
  return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}
/* The first tap of an axis at a position of at least `least`, where tap 0 is at `begin`; the number
 * of taps if there is none. */
static inline int64_t pool_first_tap(const window_t *w, int32_t axis, int64_t begin,
                                     int64_t least) {
  int64_t tap = pool_ceil_div(least - begin, w->dilation[axis]);
  if (tap < 0) return 0;
  return tap < w->kernel[axis] ? tap : w->kernel[axis];
}
/* The number of elements of the window at output position `o` of an axis that count for an
 * average. */
static inline int64_t pool_count(const window_t *w, int include_pad, int32_t axis, int64_t o) {
  int64_t begin = o * w->stride[axis] - w->before[axis];
  int64_t end = w->in[axis] + (include_pad ? w->after[axis] : 0);
  return pool_first_tap(w, axis, begin, end) -
         (include_pad ? 0 : pool_first_tap(w, axis, begin, 0));
}

tenon_status_t core_max_pool_run(tenon_call_t *call);
/* Runs max_pool with indices, if it is one of the calls for which there is a faster way. Returns 0
 * if nothing was done. */
int core_max_pool_indices_run(tenon_call_t *call, tenon_status_t *out_status);
tenon_status_t core_average_pool_run(tenon_call_t *call);

#endif
