/* Helpers that the functions of formulas share (function.c, convolution.c, slicing.c). */
#ifndef BRIDGES_TENSORFLOW_DEVICE_FUNCTION_H
#define BRIDGES_TENSORFLOW_DEVICE_FUNCTION_H

#include "run.h"

static inline tenon_value_t tensor_value(tenon_tensor_t *tensor) {
  return (tenon_value_t){.kind = TENON_KIND_TENSOR, .as.tensor = tensor};
}
static inline tenon_value_t int_value(int64_t number) {
  return (tenon_value_t){.kind = TENON_KIND_INT, .as.i = number};
}
static inline tenon_value_t ints_value(const int64_t *ints, int32_t count) {
  return (tenon_value_t){.kind = TENON_KIND_INTS, .count = (uint32_t)count, .as.ints = ints};
}

/* Is this data format one with the channels last? */
bool is_channels_last(const value_t *format);
/* Each makes a view, or a copy if there is no view. */
tenon_status_t transposed(frame_t *frame, tenon_tensor_t *x, const int64_t *perm, value_t *out);
tenon_status_t reshaped(frame_t *frame, tenon_tensor_t *x, const int64_t *shape, int32_t ndim,
                        value_t *out);
tenon_status_t expanded(frame_t *frame, tenon_tensor_t *x, const int64_t *shape, int32_t ndim,
                        value_t *out);
/* Takes x[starts:ends:steps]; steps NULL: 1. */
tenon_status_t sliced(frame_t *frame, tenon_tensor_t *x, const value_t *starts, const value_t *ends,
                      const value_t *steps, value_t *out);
tenon_status_t zeros(frame_t *frame, tenon_dtype_t dtype, const int64_t *shape, int32_t ndim,
                     value_t *out);

#define FUNCTION(name)                                                                             \
  tenon_status_t name(frame_t *frame, value_t *operands, int32_t count, value_t *out);
FUNCTION(function_convolve)
FUNCTION(function_convolve_back)
FUNCTION(function_convolve_filter)
FUNCTION(function_convolve_filter_each)
FUNCTION(function_depthwise)
FUNCTION(function_strided)
FUNCTION(function_strided_back)
FUNCTION(function_split)
FUNCTION(function_stack)
FUNCTION(function_unstack)
FUNCTION(function_gather)
FUNCTION(function_first_hit)
FUNCTION(function_running_sum)
FUNCTION(function_einsum)
FUNCTION(function_average_back)
#undef FUNCTION

#endif
