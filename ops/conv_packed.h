/* Convolutions of f32 with weights that are packed once, computed on channels-last memory without
 * a copy of patches: the kernel reads the elements under a tap by their addresses.
 * Invariant: the packed weights do not depend on the extents of x. */
#ifndef TENON_OPS_CONV_PACKED_H
#define TENON_OPS_CONV_PACKED_H

#include "epilogue.h"
#include "window.h"

typedef struct conv_packed_t conv_packed_t;

/* One call. The channels of x, residual (or NULL) and out are adjacent in memory; other axes may
 * have any strides. */
typedef struct conv_call_t {
  const conv_packed_t *packed;
  const window_t *window;
  const tenon_tensor_t *x;
  const tenon_tensor_t *bias; /* any stride; NULL: none */
  const tenon_tensor_t *residual;
  const tenon_tensor_t *out;
  int64_t activation;
  double alpha;
  double beta;
} conv_call_t;

/* Are these kernels meant for weights of this shape, [filters, channels / group, kernel...]?
 * Elsewhere oneDNN is faster: where there is AVX-512, and where sums are short, so that writing
 * results takes most of the time. */
int core_conv_suits(const tenon_tensor_t *w, int64_t group, int64_t activation);
/* Copies w, which has f32 and any strides. Returns: NULL if memory is short. Release it with
 * core_conv_packed_release(). */
conv_packed_t *core_conv_pack(const tenon_tensor_t *w, int64_t group);
/* The bytes of the packed weights, which core_conv_packed_data() gives. */
uint64_t core_conv_packed_size(const tenon_tensor_t *w, int64_t group);
const void *core_conv_packed_data(const conv_packed_t *packed);
/* The same as core_conv_pack() with weights that were packed before, in memory that stays. */
conv_packed_t *core_conv_borrow(const tenon_tensor_t *w, int64_t group, const void *weights);
void core_conv_packed_release(conv_packed_t *packed);
tenon_status_t core_conv_packed_run(tenon_call_t *call, const conv_call_t *convolution);

#endif
