/* Translates a call of core::conv to the numbers that cuDNN needs; nothing here needs a GPU. All
 * tensors get the layout of the result, row-major or channels-last, because cuDNN is fast for these
 * only; cuDNN first copies a tensor that has another layout. A convolution over one spatial axis
 * becomes one over two, the first with extent 1. */
#ifndef TENON_CUDA_CONVOLUTION_H
#define TENON_CUDA_CONVOLUTION_H

#include "api.h"

#include <stdbool.h>

enum { CU_RANK = 5 /* images, channels, three of space */ };
typedef struct cu_layout_t { /* the layout of a tensor; rank 0: there is no tensor */
  int rank;
  int dims[CU_RANK];
  int strides[CU_RANK];
} cu_layout_t;

/* The tensors of a convolution. A tensor that is not packed and aligned in the layout of `out` is
 * copied: from FROM_X, FROM_W or FROM_RESIDUAL to the layout of X, W or OUT. */
enum {
  CU_X,
  CU_W,
  CU_OUT,
  CU_BIAS,
  CU_FROM_X,
  CU_FROM_W,
  CU_FROM_RESIDUAL,
  CU_TENSORS,
};

typedef struct cu_shape_t { /* numbers only, padding zeroed: equal bytes mean equal work */
  double coefficient;       /* of the activation */
  cu_enum_t type;
  cu_enum_t format; /* of the filter */
  int activation;   /* the activation of cuDNN; -1: none */
  int rank;         /* number of spatial axes: 2 or 3 */
  int group;
  int pad[3];
  int stride[3];
  int dilation[3];
  cu_layout_t tensors[CU_TENSORS]; /* CU_W: the layout of the filter */
} cu_shape_t;

/* The operands of a convolution as cuDNN computes it: out = activation(x * w + bias + residual). */
typedef struct cu_convolution_t {
  cu_shape_t shape;
  const void *x;
  const void *w;
  const void *bias;
  const void *residual; /* bias and residual may be NULL */
  void *out;
} cu_convolution_t;

/* Tells whether cuDNN takes this convolution. It does not take more than three spatial axes, an
 * empty computation, padding after an axis that differs from that before it (where this matters),
 * negative padding, a result that is not packed, strides that are not positive, a bias with gaps,
 * activations that cuDNN lacks, or any number above 2^31 - 1. */
bool cu_convolution_of(const tenon_call_t *call, cu_convolution_t *out);

#endif
