/* The pools' plain kernels and what oneDNN's forms share with them. Invariant: the attributes of
 * max_pool, average_pool and lp_pool start alike: kernel, the window's, ceil_mode. */
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
/* The same in a gradient text. */
#define POOL_PASSED                                                                                \
  "kernel=kernel, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad, "            \
  "ceil_mode=ceil_mode"

/* x [N, C, spatial...] and a kernel fit to the attributes; out: the extents of the result, none of
 * them stated yet. */
tenon_status_t core_pool_result_infer(tenon_infer_t *infer); /* of a pooling operator: outputs[0] */
tenon_status_t core_pool_infer(tenon_infer_t *infer, int32_t rank, const tenon_dim_t *in,
                               tenon_dim_t *out);

static inline int64_t pool_ceil_div(int64_t a, int64_t b) {
  return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}
/* The first tap of an axis whose place, `begin` for tap 0, is not below `least`; the number of taps
 * if none is. */
static inline int64_t pool_first_tap(const window_t *w, int32_t axis, int64_t begin,
                                     int64_t least) {
  int64_t tap = pool_ceil_div(least - begin, w->dilation[axis]);
  return tap < 0 ? 0 : tap < w->kernel[axis] ? tap : w->kernel[axis];
}
/* How many elements of the window at output position `o` of an axis count for an average. */
static inline int64_t pool_count(const window_t *w, int include_pad, int32_t axis, int64_t o) {
  int64_t begin = o * w->stride[axis] - w->before[axis];
  int64_t end = w->in[axis] + (include_pad ? w->after[axis] : 0);
  return pool_first_tap(w, axis, begin, end) -
         (include_pad ? 0 : pool_first_tap(w, axis, begin, 0));
}

tenon_status_t core_max_pool_run(tenon_call_t *call);
tenon_status_t core_average_pool_run(tenon_call_t *call);

#endif
