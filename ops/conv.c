/* conv and conv_transpose: ONNX's operators with any number of spatial axes, groups, an added
 * residual and an activation. The host calls infer and the plain kernels here;
 * ops/dnn/convolution.c adds faster kernels.
 * Invariant: a result with up to three spatial axes is channels-last in memory, whatever the
 * strides of the input; but depthwise convolutions keep row-major memory. */
#include "axes.h"
#include "conv_im2col.h"
#include "dense.h"
#include "depthwise_rows.h"
#include <tenon/check.h>

/* shapes */

static tenon_status_t channels_check(tenon_infer_t *infer, const tenon_meta_t *x,
                                     const tenon_meta_t *w, int64_t group, tenon_dim_t filters,
                                     tenon_dim_t channels) {
  if (x->ndim < 3)
    return tenon_fail(infer, TENON_INVALID,
                      "x has %d axes; expected batch, channels and at least one spatial axis",
                      x->ndim);
  if (w->ndim != x->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "w has %d axes but x has %d; both must have the same number", w->ndim,
                      x->ndim);
  if (group < 1)
    return tenon_fail(infer, TENON_INVALID, "group is %" PRId64 "; expected 1 or more", group);
  if (dim_differ(x->dims[1], channels))
    return tenon_fail(infer, TENON_INVALID,
                      "x of shape %s has %" PRId64 " channels, but w of shape %s in %" PRId64
                      " groups expects %" PRId64,
                      dims_text(x->dims, x->ndim).text, x->dims[1].value,
                      dims_text(w->dims, w->ndim).text, group, channels.value);
  if (tenon_is_known(filters) && filters.value % group)
    return tenon_fail(infer, TENON_INVALID,
                      "w has %" PRId64 " filters, which is not a multiple of %" PRId64 " groups",
                      filters.value, group);
  tenon_dim(infer, TENON_DIM_EQUAL, x->dims[1], channels);
  return TENON_OK;
}

static tenon_status_t bias_check(tenon_infer_t *infer, uint32_t input, tenon_dim_t filters) {
  const tenon_meta_t *bias = infer->inputs[input];
  if (!bias) return TENON_OK;
  if (bias->ndim != 1 || dim_differ(bias->dims[0], filters))
    return tenon_fail(infer, TENON_INVALID,
                      "bias has shape %s; expected one number for each of the %" PRId64 " filters",
                      dims_text(bias->dims, bias->ndim).text, filters.value);
  tenon_dim(infer, TENON_DIM_EQUAL, bias->dims[0], filters);
  return TENON_OK;
}

tenon_status_t core_convolution_infer(tenon_infer_t *infer, uint32_t x, uint32_t w,
                                      const window_args_t *args, int64_t group) {
  const tenon_meta_t *in = infer->inputs[x];
  const tenon_meta_t *weights = infer->inputs[w];
  tenon_meta_t *out = infer->outputs[0];
  if (weights->ndim < 3)
    return tenon_fail(infer, TENON_INVALID,
                      "w has %d axes; expected filters, channels and at least one spatial axis",
                      weights->ndim);
  TENON_TRY(channels_check(infer, in, weights, group, weights->dims[0],
                           dim_mul(infer, weights->dims[1], tenon_extent(group))));
  out->ndim = in->ndim;
  out->dims[0] = in->dims[0];
  out->dims[1] = weights->dims[0];
  return core_window_infer(infer, args, in->ndim - 2, in->dims + 2, weights->dims + 2,
                           out->dims + 2);
}

tenon_status_t core_conv_infer(tenon_infer_t *infer) {
  const tenon_meta_t *residual = infer->inputs[3];
  tenon_meta_t *out = infer->outputs[0];
  window_args_t args = window_args(infer->attrs, 0);
  if (infer->attrs[CONV_ACTIVATION].as.i != FINISH_none && out->dtype.code != (TENON_F32 & 0xff) &&
      out->dtype.code != (TENON_BF16 & 0xff))
    return tenon_fail(infer, TENON_INVALID,
                      "an activation needs a float dtype, but x has integers");
  TENON_TRY(core_convolution_infer(infer, 0, 1, &args, infer->attrs[CONV_GROUP].as.i));
  TENON_TRY(bias_check(infer, 2, out->dims[1]));
  if (residual) {
    int wrong = residual->ndim != out->ndim;
    for (int32_t i = 0; !wrong && i < out->ndim; i++) {
      wrong = dim_differ(residual->dims[i], out->dims[i]);
      if (!wrong) tenon_dim(infer, TENON_DIM_EQUAL, residual->dims[i], out->dims[i]);
    }
    if (wrong)
      return tenon_fail(
          infer, TENON_INVALID, "residual has shape %s but the result %s; they must be equal",
          dims_text(residual->dims, residual->ndim).text, dims_text(out->dims, out->ndim).text);
  }
  const int keeps_rows = core_depthwise_keeps(infer->inputs[0], infer->inputs[1], residual,
                                              infer->attrs[CONV_GROUP].as.i);
  if (out->ndim <= 5 && !keeps_rows) core_channels_last(infer, out);
  return TENON_OK;
}

tenon_status_t core_conv_transpose_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *w = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  const tenon_value_t *padding = &infer->attrs[CONV_OUTPUT_PADDING];
  const tenon_value_t *shape = &infer->attrs[CONV_OUTPUT_SHAPE];
  window_args_t args = window_args(infer->attrs, 0);
  int64_t group = infer->attrs[CONV_GROUP].as.i;
  int32_t rank = x->ndim - 2;
  if (w->ndim < 3)
    return tenon_fail(infer, TENON_INVALID,
                      "w has %d axes; expected channels, filters and at least one spatial axis",
                      w->ndim);
  TENON_TRY(channels_check(infer, x, w, group, w->dims[0], w->dims[0]));
  TENON_TRY(core_window_check(infer, &args, rank));
  if ((padding->count && padding->count != (uint32_t)rank) ||
      (shape->count && shape->count != (uint32_t)rank))
    return tenon_fail(infer, TENON_INVALID,
                      "output_padding lists %u numbers and output_shape %u; expected %d, one for "
                      "each spatial axis, or none",
                      padding->count, shape->count, (int)rank);
  for (uint32_t i = 0; i < padding->count + shape->count; i++) {
    const tenon_value_t *list = i < padding->count ? padding : shape;
    int64_t number = list->as.ints[i < padding->count ? i : i - padding->count];
    if (number < 0 || number > INT32_MAX)
      return tenon_fail(infer, TENON_INVALID, "%s contains %" PRId64 "; expected 0 to %d",
                        list == padding ? "output_padding" : "output_shape", number, INT32_MAX);
  }
  out->ndim = x->ndim;
  out->dims[0] = x->dims[0];
  out->dims[1] = dim_mul(infer, w->dims[1], tenon_extent(group));
  TENON_TRY(bias_check(infer, 2, out->dims[1]));
  for (int32_t i = 0; i < rank; i++) {
    const tenon_dim_t one = tenon_extent(1);
    const tenon_dim_t stride = tenon_extent(list_at(args.strides, i, 1));
    tenon_dim_t *to = &out->dims[2 + i];
    if (shape->count) {
      *to = tenon_extent(shape->as.ints[i]);
    } else if (args.auto_pad == WINDOW_SAME_UPPER || args.auto_pad == WINDOW_SAME_LOWER) {
      *to = dim_mul(infer, x->dims[2 + i], stride);
    } else {
      int explicit_pads = args.auto_pad == WINDOW_EXPLICIT;
      int64_t pads = explicit_pads ? list_at(args.pads, i, 0) + list_at(args.pads, i + rank, 0) : 0;
      tenon_dim_t taps = dim_mul(infer, dim_sub(infer, w->dims[2 + i], one),
                                 tenon_extent(list_at(args.dilations, i, 1)));
      *to = dim_add(infer, dim_mul(infer, stride, dim_sub(infer, x->dims[2 + i], one)),
                    dim_add(infer, taps, tenon_extent(1 + list_at(padding, i, 0) - pads)));
    }
    if (tenon_is_known(*to) && to->value < 0)
      return tenon_fail(infer, TENON_INVALID,
                        "spatial axis %d of the result would have %" PRId64
                        " elements; the pads are larger than the result that they cut",
                        i, to->value);
  }
  if (out->ndim <= 5) core_channels_last(infer, out);
  return TENON_OK;
}

/* kernels */

static tenon_status_t convolve_plain(tenon_call_t *call, convolution_t *convolution) {
  tenon_dtype_t dtype = core_gemm_dtype(call->outputs[0]->dtype);
  tenon_tensor_t *given[4] = {call->inputs[0], call->inputs[1], call->inputs[2],
                              convolution->transposed ? 0 : call->inputs[3]};
  tenon_tensor_t *used[4] = {0};
  tenon_tensor_t *out = core_place(call, call->outputs[0], dtype);
  if (!out) return TENON_MEMORY;
  for (int i = 0; i < 4; i++) {
    if (!given[i]) continue;
    used[i] = i == 1 ? core_dense(call, given[i], dtype) : core_as(call, given[i], dtype);
    if (!used[i]) return TENON_MEMORY;
  }
  TENON_TRY(core_convolve(call, convolution, used[0], used[1], used[2], used[3], out));
  return core_settle(call, call->outputs[0], out);
}

tenon_status_t core_conv_run(tenon_call_t *call) {
  if (core_depthwise_suits(call)) return core_depthwise_run(call);
  const tenon_value_t *attrs = call->attrs;
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *w = call->inputs[1];
  window_args_t args = window_args(attrs, 0);
  convolution_t c = {.group = attrs[CONV_GROUP].as.i,
                     .finish = {.scale = 1,
                                .bias_scale = 1,
                                .activation = attrs[CONV_ACTIVATION].as.i,
                                .alpha = attrs[CONV_ALPHA].as.f,
                                .beta = attrs[CONV_BETA].as.f}};
  core_window_set(&c.window, &args, x->ndim - 2, x->shape + 2, w->shape + 2,
                  call->outputs[0]->shape + 2);
  return convolve_plain(call, &c);
}

void core_conv_transpose_window(const tenon_value_t *attrs, const tenon_tensor_t *x,
                                const tenon_tensor_t *w, const tenon_tensor_t *out,
                                window_t *window) {
  const tenon_value_t *padding = &attrs[CONV_OUTPUT_PADDING];
  window_args_t args = window_args(attrs, 0);
  core_window_set(window, &args, x->ndim - 2, x->shape + 2, w->shape + 2, out->shape + 2);
  for (int32_t i = 0; i < window->rank; i++) { /* how much is cut from the full result, and where */
    int64_t full =
        window->stride[i] * (window->in[i] - 1) + (window->kernel[i] - 1) * window->dilation[i] + 1;
    int64_t cut = full + list_at(padding, i, 0) - window->out[i];
    if (cut < 0) cut = 0;
    if (args.auto_pad == WINDOW_SAME_UPPER)
      window->before[i] = cut / 2;
    else if (args.auto_pad == WINDOW_SAME_LOWER || attrs[CONV_OUTPUT_SHAPE].count)
      window->before[i] = cut - cut / 2;
    window->after[i] = full - window->before[i] - window->out[i];
  }
}

tenon_status_t core_conv_transpose_run(tenon_call_t *call) {
  convolution_t c = {.group = call->attrs[CONV_GROUP].as.i,
                     .transposed = 1,
                     .finish = {.scale = 1, .bias_scale = 1}};
  core_conv_transpose_window(call->attrs, call->inputs[0], call->inputs[1], call->outputs[0],
                             &c.window);
  return convolve_plain(call, &c);
}

/* clang-format off */
#define PASSED "strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad, group=group"
TENON_ITEMS(core_conv,
  TENON_OP("conv(Tensor x, Tensor w, Tensor? bias=None, Tensor? residual=None, *, " WINDOW_ARGUMENTS
           ", int group=1, " FINISH_ARGUMENTS ") -> Tensor",
    TENON_DOC("activation(the convolution of x [N, C, spatial...] with w [OC, C / group, "
              "kernel...] + bias + residual).\n"
              "The result of up to three spatial axes lies channels-last in memory, but that of a "
              "depthwise convolution of row-major f32 with two spatial axes is row-major."),
    TENON_TYPES("x: number; w = x; bias = x; residual = x; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_conv_infer),
    TENON_GRADIENT("x, w, bias, residual: core::conv_backward(grad, x, w, bias, residual, " PASSED
                   ", activation=activation, alpha=alpha, beta=beta)"),
    TENON_SHARDING("x: [n, _, _]; w: [c, _, _]; bias: [c]; residual, out: [n, c, _]; if group = 1"
                   " | x: [n, _, _, _]; w: [c, _, _, _]; bias: [c]; residual, out: [n, c, _, _]; "
                   "if group = 1"
                   " | x: [n, _, _]; w: [_, _, _]; bias: [_]; residual, out: [n, _, _]"
                   " | x: [n, _, _, _]; w: [_, _, _, _]; bias: [_]; residual, out: [n, _, _, _]"),
    TENON_KERNEL("cpu strided", core_conv_run)),
  TENON_OP("conv_transpose(Tensor x, Tensor w, Tensor? bias=None, *, " WINDOW_ARGUMENTS
           ", int group=1, int[] output_padding=[], int[] output_shape=[]) -> Tensor",
    TENON_DOC("The transposed convolution of x [N, C, spatial...] with w [C, OC / group, "
              "kernel...], plus bias.\n"
              "The result of up to three spatial axes lies channels-last in memory."),
    TENON_SAMPLES("x: [n, c, 6], w: [c, 3, 2]; "
                  "x: [n, 4, 4, 5], w: [4, 3, 3, 3], bias: [6], strides = [2, 2], group = 2"),
    TENON_TYPES("x: number; w = x; bias = x; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_conv_transpose_infer),
    TENON_GRADIENT("x, w, bias: core::conv_transpose_backward(grad, x, w, bias, " PASSED
                   ", output_padding=output_padding, output_shape=output_shape)"),
    TENON_KERNEL("cpu strided", core_conv_transpose_run)))
/* clang-format on */
