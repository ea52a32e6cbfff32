/* Convolutions and their gradients, by convolutions of Tenon. Images are [N, C, H, W] here, and
 * weights [OC, C / group, KH, KW]. */
#include <string.h>

#include "function.h"

/* The geometry of a convolution, for height and width. */
typedef struct window_t {
  int64_t input[2];
  int64_t kernel[2];
  int64_t output[2];
  int64_t strides[2];
  int64_t dilations[2];
  int64_t before[2]; /* padding */
  int64_t after[2];
} window_t;

static int64_t spread_of(const window_t *w, int32_t i) {
  return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

/* Computes the padding as TensorFlow does. `explicit_paddings` are pairs, in the order of the data
 * format. */
static tenon_status_t set_padding(window_t *w, const value_t *padding, const value_t *paddings,
                                  const value_t *format) {
  const int32_t first = is_channels_last(format) ? 2 : 4;
  for (int32_t i = 0; i < 2; i++) {
    const int64_t wanted = (w->input[i] + w->strides[i] - 1) / w->strides[i];
    int64_t total = (wanted - 1) * w->strides[i] + spread_of(w, i) - w->input[i];
    if (total < 0 || strcmp(padding->text, "SAME") != 0) total = 0;
    w->before[i] = total / 2;
    w->after[i] = total - total / 2;
    if (strcmp(padding->text, "EXPLICIT") != 0) continue;
    if (paddings->count != 8)
      return tenon_error_set(TENON_INVALID, "explicit_paddings needs 8 entries");
    w->before[i] = paddings->ints[first + 2 * i];
    w->after[i] = paddings->ints[first + 2 * i + 1];
  }
  return TENON_OK;
}

/* Operands from `at` on: strides, dilations, padding, explicit_paddings, format. */
static tenon_status_t make_window(const int64_t *input, const int64_t *kernel, const value_t *at,
                                  window_t *out) {
  for (int32_t i = 0; i < 2; i++) {
    out->input[i] = input[i];
    out->kernel[i] = kernel[i];
    out->strides[i] = at[0].ints[i];
    out->dilations[i] = at[1].ints[i];
    if (out->strides[i] < 1 || out->dilations[i] < 1)
      return tenon_error_set(TENON_INVALID, "strides and dilations must be at least 1");
  }
  const tenon_status_t status = set_padding(out, &at[2], &at[3], &at[4]);
  for (int32_t i = 0; i < 2; i++) {
    const int64_t room = out->input[i] + out->before[i] + out->after[i] - spread_of(out, i);
    out->output[i] = room < 0 ? 0 : room / out->strides[i] + 1;
  }
  return status;
}

/* Calls core::conv. */
static tenon_status_t call_conv(frame_t *frame, tenon_tensor_t *x, tenon_tensor_t *w,
                                const int64_t *strides, const int64_t *pads,
                                const int64_t *dilations, int64_t group, value_t *out) {
  tenon_value_t values[9] = {tensor_value(x), tensor_value(w)};
  values[4] = ints_value(strides, 2);
  values[5] = ints_value(pads, 4);
  values[6] = ints_value(dilations, 2);
  values[8] = int_value(group);
  return frame_call(frame, "core::conv", values, 9, out);
}

/* convolve(x, weights, strides, dilations, padding, explicit_paddings, format) */
tenon_status_t function_convolve(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  tenon_tensor_t *x = operands[0].tensor;
  tenon_tensor_t *w = operands[1].tensor;
  window_t window;
  (void)count;
  if (x->ndim != 4 || w->ndim != 4 || w->shape[1] == 0 || x->shape[1] % w->shape[1] != 0)
    return tenon_error_set(TENON_INVALID,
                           "the channels of the input must be a multiple of those of the filter");
  tenon_status_t status = make_window(x->shape + 2, w->shape + 2, operands + 2, &window);
  if (status != TENON_OK) return status;
  const int64_t pads[] = {window.before[0], window.before[1], window.after[0], window.after[1]};
  return call_conv(frame, x, w, window.strides, pads, window.dilations, x->shape[1] / w->shape[1],
                   out);
}

/* Writes the shape [N, C, H, W] that input sizes in a data format stand for. */
static tenon_status_t read_sizes(const value_t *sizes, const value_t *format, int64_t *out) {
  static const int32_t last[] = {0, 3, 1, 2};
  for (int32_t i = 0; i < 4; i++)
    out[i] = sizes->ints[is_channels_last(format) ? last[i] : i];
  return sizes->count == 4 ? TENON_OK
                           : tenon_error_set(TENON_INVALID, "input_sizes needs 4 entries");
}

/* convolve_back(input_sizes, weights, dy, strides, dilations, padding, explicit_paddings,
 * format) */
tenon_status_t function_convolve_back(frame_t *frame, value_t *operands, int32_t count,
                                      value_t *out) {
  tenon_tensor_t *w = operands[1].tensor;
  tenon_tensor_t *dy = operands[2].tensor;
  int64_t shape[4];
  int64_t extra[2];
  window_t window;
  (void)count;
  tenon_status_t status = read_sizes(&operands[0], &operands[7], shape);
  if (status == TENON_OK) status = make_window(shape + 2, w->shape + 2, operands + 3, &window);
  if (status != TENON_OK) return status;
  if (w->shape[1] == 0 || dy->shape[2] != window.output[0] || dy->shape[3] != window.output[1])
    return tenon_error_set(TENON_INVALID, "out_backprop does not fit input_sizes and the filter");
  for (int32_t i = 0; i < 2; i++)
    extra[i] = window.input[i] - ((window.output[i] - 1) * window.strides[i] +
                                  spread_of(&window, i) - window.before[i] - window.after[i]);
  const int64_t pads[] = {window.before[0], window.before[1], window.after[0], window.after[1]};
  tenon_value_t values[9] = {tensor_value(dy), tensor_value(w)};
  values[3] = ints_value(window.strides, 2);
  values[4] = ints_value(pads, 4);
  values[5] = ints_value(window.dilations, 2);
  values[7] = int_value(shape[1] / w->shape[1]);
  values[8] = ints_value(extra, 2);
  return frame_call(frame, "core::conv_transpose", values, 9, out);
}

/* The gradient of the weights is a convolution of the input by dy, with strides and dilations
 * exchanged, in which the batch takes the place of the channels. `x` is [1 or C, N, H, W], `dy`
 * [OC, N, OH, OW]. The result may be larger than the kernel. */
static tenon_status_t correlate(frame_t *frame, tenon_tensor_t *x, tenon_tensor_t *dy,
                                const window_t *window, int64_t group, value_t *out) {
  int64_t pads[4];
  for (int32_t i = 0; i < 2; i++) {
    const int64_t reach = (window->kernel[i] - 1) * window->dilations[i] +
                          (window->output[i] - 1) * window->strides[i] + 1;
    const int64_t after = reach - window->input[i] - window->before[i];
    pads[i] = window->before[i];
    pads[2 + i] = after > 0 ? after : 0;
  }
  tenon_status_t status =
      call_conv(frame, x, dy, window->dilations, pads, window->strides, group, out);
  if (status != TENON_OK) return status;
  const value_t starts = {.kind = VALUE_INTS, .count = 4};
  value_t ends = {.kind = VALUE_INTS, .count = 4};
  for (int32_t i = 0; i < 4; i++)
    ends.ints[i] = i < 2 ? out->tensor->shape[i] : window->kernel[i - 2];
  return sliced(frame, out->tensor, &starts, &ends, NULL, out);
}

/* Makes [N, C, H, W] the input of correlate for a number of groups:
 * [C / group, group * N, H, W]. */
static tenon_status_t group_channels(frame_t *frame, tenon_tensor_t *x, int64_t group,
                                     value_t *out) {
  static const int64_t perm[] = {2, 1, 0, 3, 4};
  const int64_t *shape = x->shape;
  const int64_t each = shape[1] / group;
  const int64_t split[] = {shape[0], group, each, shape[2], shape[3]};
  const int64_t joined[] = {each, group * shape[0], shape[2], shape[3]};
  tenon_status_t status = reshaped(frame, x, split, 5, out);
  if (status == TENON_OK) status = transposed(frame, out->tensor, perm, out);
  return status == TENON_OK ? reshaped(frame, out->tensor, joined, 4, out) : status;
}

/* convolve_filter(x, filter_sizes, dy, strides, dilations, padding, explicit_paddings, format):
 * [C, OC, KH, KW] with the axes C and OC exchanged, so that perm=[2, 3, 1, 0] gives HWIO */
tenon_status_t function_convolve_filter(frame_t *frame, value_t *operands, int32_t count,
                                        value_t *out) {
  static const int64_t perm[] = {1, 0, 2, 3};
  tenon_tensor_t *x = operands[0].tensor;
  const int64_t each = operands[1].ints[2]; /* channels of a group */
  value_t rows;
  value_t weights;
  window_t window;
  (void)count;
  if (operands[1].count != 4 || each < 1 || x->shape[1] % each != 0)
    return tenon_error_set(TENON_INVALID,
                           "the channels of the input must be a multiple of those of the filter");
  const int64_t group = x->shape[1] / each;
  tenon_status_t status = make_window(x->shape + 2, operands[1].ints, operands + 3, &window);
  if (status == TENON_OK) status = group_channels(frame, x, group, &rows);
  if (status == TENON_OK) status = transposed(frame, operands[2].tensor, perm, &weights);
  if (status == TENON_OK)
    status = correlate(frame, rows.tensor, weights.tensor, &window, group, out);
  return status == TENON_OK ? transposed(frame, out->tensor, perm, out) : status;
}

/* The same for depthwise convolutions: [C * M, 1, KH, KW] */
tenon_status_t function_convolve_filter_each(frame_t *frame, value_t *operands, int32_t count,
                                             value_t *out) {
  static const int64_t perm[] = {1, 0, 2, 3};
  tenon_tensor_t *x = operands[0].tensor;
  const int64_t channels = x->shape[1];
  value_t rows;
  value_t weights;
  window_t window;
  (void)count;
  if (operands[1].count != 4) return tenon_error_set(TENON_INVALID, "filter_sizes needs 4 entries");
  const int64_t shape[] = {1, channels * x->shape[0], x->shape[2], x->shape[3]};
  tenon_status_t status = make_window(x->shape + 2, operands[1].ints, operands + 3, &window);
  if (status == TENON_OK) status = transposed(frame, x, perm, &rows);
  if (status == TENON_OK) status = reshaped(frame, rows.tensor, shape, 4, &rows);
  if (status == TENON_OK) status = transposed(frame, operands[2].tensor, perm, &weights);
  if (status == TENON_OK)
    status = correlate(frame, rows.tensor, weights.tensor, &window, channels, out);
  return status == TENON_OK ? transposed(frame, out->tensor, perm, out) : status;
}

/* average_back(input_sizes, dy, kernel, strides, padding, format, one): the gradient of an average,
 * whose windows leave the padding out. Each element of dy is divided by the elements of its window,
 * and spread over them. `one` is a tensor [1, 1, 1, 1]. */
tenon_status_t function_average_back(frame_t *frame, value_t *operands, int32_t count,
                                     value_t *out) {
  const value_t ones = {.kind = VALUE_INTS, .count = 2, .ints = {1, 1}};
  const value_t none = {.kind = VALUE_INTS};
  tenon_tensor_t *dy = operands[1].tensor;
  tenon_tensor_t *one = operands[6].tensor;
  const int64_t *kernel = operands[2].ints;
  int64_t shape[4];
  value_t image;
  value_t window;
  value_t each;
  value_t counts;
  (void)count;
  tenon_status_t status = read_sizes(&operands[0], &operands[5], shape);
  if (status != TENON_OK) return status;
  const int64_t image_shape[] = {1, 1, shape[2], shape[3]};
  const int64_t window_shape[] = {1, 1, kernel[0], kernel[1]};
  const int64_t each_shape[] = {shape[1], 1, kernel[0], kernel[1]};
  status = expanded(frame, one, image_shape, 4, &image);
  if (status == TENON_OK) status = expanded(frame, one, window_shape, 4, &window);
  if (status == TENON_OK) status = expanded(frame, one, each_shape, 4, &each);
  if (status != TENON_OK) return status;
  value_t count_operands[] = {image, window, operands[3], ones, operands[4], none, operands[5]};
  status = function_convolve(frame, count_operands, 7, &counts);
  if (status != TENON_OK) return status;
  const tenon_value_t values[] = {tensor_value(dy), tensor_value(counts.tensor)};
  status = frame_call(frame, "core::div", values, 2, out);
  if (status != TENON_OK) return status;
  value_t back[] = {operands[0], each, *out, operands[3], ones, operands[4], none, operands[5]};
  return function_convolve_back(frame, back, 8, out);
}

/* depthwise(filter): [KH, KW, C, M] as [C * M, 1, KH, KW] */
tenon_status_t function_depthwise(frame_t *frame, value_t *operands, int32_t count, value_t *out) {
  static const int64_t perm[] = {2, 3, 0, 1};
  tenon_tensor_t *filter = operands[0].tensor;
  (void)count;
  if (filter->ndim != 4) return tenon_error_set(TENON_INVALID, "filter must be 4-dimensional");
  const int64_t shape[] = {filter->shape[2] * filter->shape[3], 1, filter->shape[0],
                           filter->shape[1]};
  const tenon_status_t status = transposed(frame, filter, perm, out);
  return status == TENON_OK ? reshaped(frame, out->tensor, shape, 4, out) : status;
}
