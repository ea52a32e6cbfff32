/* Convolutions as matrix products in which one operand consists of patches of the input, packed
 * panel by panel. Used by conv and conv_transpose and, on integers, by conv_integer and
 * qlinear_conv.
 * Invariant: no patch matrix is ever stored; inputs and output may have any strides. */
#ifndef TENON_OPS_CONV_IM2COL_H
#define TENON_OPS_CONV_IM2COL_H

#include "epilogue.h"
#include "gemm.h"
#include "window.h"

/* Attributes that follow those of the window in conv, conv_transpose, conv_integer and
 * qlinear_conv. */
enum {
  CONV_GROUP = 4,
  CONV_ACTIVATION,
  CONV_ALPHA,
  CONV_BETA,
};
enum {
  CONV_OUTPUT_PADDING = CONV_GROUP + 1,
  CONV_OUTPUT_SHAPE,
};

typedef struct convolution_t {
  window_t window; /* in: extents of x; out: extents of the result, transposed or not */
  int64_t group;
  int transposed;  /* w is [C, OC / group, kernel...] */
  finish_t finish; /* scale, activation */
} convolution_t;

/* x, bias (or NULL), residual (or NULL) and out have the dtype of the matrix product; so has w,
 * which must also be row-major. */
tenon_status_t core_convolve(tenon_call_t *call, const convolution_t *convolution,
                             tenon_tensor_t *x, tenon_tensor_t *w, tenon_tensor_t *bias,
                             tenon_tensor_t *residual, tenon_tensor_t *out);

/* infer for an operator with inputs x and w and the attributes of conv from attrs[0] on: checks the
 * channels and states out. */
tenon_status_t core_convolution_infer(tenon_infer_t *infer, uint32_t x, uint32_t w,
                                      const window_args_t *args, int64_t group);
/* The plain kernels and their infer functions. */
tenon_status_t core_conv_infer(tenon_infer_t *infer);
tenon_status_t core_conv_transpose_infer(tenon_infer_t *infer);
tenon_status_t core_deform_conv_infer(tenon_infer_t *infer); /* in deform.c */
tenon_status_t core_conv_run(tenon_call_t *call);
tenon_status_t core_conv_transpose_run(tenon_call_t *call);
tenon_status_t core_conv_weight_run(tenon_call_t *call);
/* The window of a conv_transpose with these attributes. */
void core_conv_transpose_window(const tenon_value_t *attrs, const tenon_tensor_t *x,
                                const tenon_tensor_t *w, const tenon_tensor_t *out,
                                window_t *window);

#endif
