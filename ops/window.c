/* Sliding windows; see window.h. Used by conv, conv_transpose, deform_conv, the pools and the
 * integer convolutions.
 * Invariant: for known extents, infer and run compute the same numbers. */
#include "window.h"
#include "axes.h"

static tenon_status_t list_check(tenon_infer_t *infer, const char *name, const tenon_value_t *list,
                                 int32_t count, int64_t least) {
  uint32_t given = list->kind == TENON_KIND_INTS ? list->count : 0;
  if (given && given != (uint32_t)count)
    return tenon_fail(infer, TENON_INVALID,
                      "%s lists %u numbers for %d spatial axes; expected %d, or none", name, given,
                      (int)(infer->inputs[0]->ndim - 2), count);
  for (uint32_t i = 0; i < given; i++)
    if (list->as.ints[i] < least || list->as.ints[i] > INT32_MAX)
      return tenon_fail(infer, TENON_INVALID, "%s[%u] is %" PRId64 "; expected %" PRId64 " to %d",
                        name, i, list->as.ints[i], least, INT32_MAX);
  return TENON_OK;
}

tenon_status_t core_window_check(tenon_infer_t *infer, const window_args_t *args, int32_t rank) {
  TENON_TRY(list_check(infer, "strides", args->strides, rank, 1));
  TENON_TRY(list_check(infer, "dilations", args->dilations, rank, 1));
  return list_check(infer, "pads", args->pads, 2 * rank, INT32_MIN);
}

tenon_status_t core_window_infer(tenon_infer_t *infer, const window_args_t *args, int32_t rank,
                                 const tenon_dim_t *in, const tenon_dim_t *kernel,
                                 tenon_dim_t *out) {
  const tenon_dim_t one = tenon_extent(1);
  TENON_TRY(core_window_check(infer, args, rank));
  for (int32_t i = 0; i < rank; i++) {
    tenon_dim_t stride = tenon_extent(list_at(args->strides, i, 1));
    if (args->auto_pad == WINDOW_SAME_UPPER || args->auto_pad == WINDOW_SAME_LOWER) {
      out[i] = tenon_dim(infer, TENON_DIM_CEIL_DIV, in[i], stride);
      continue;
    }
    int explicit_pads = args->auto_pad == WINDOW_EXPLICIT;
    int64_t before = explicit_pads ? list_at(args->pads, i, 0) : 0;
    int64_t after = explicit_pads ? list_at(args->pads, i + rank, 0) : 0;
    tenon_dim_t dilation = tenon_extent(list_at(args->dilations, i, 1));
    tenon_dim_t span =
        dim_add(infer, dim_mul(infer, dim_sub(infer, kernel[i], one), dilation), one);
    tenon_dim_t padded = dim_add(infer, in[i], tenon_extent(before + after));
    tenon_dim_t room = dim_sub(infer, padded, span);
    /* With ceil_mode, one window may begin inside the input and end anywhere after it. */
    int64_t least = args->ceil ? 1 - stride.value : 0;
    if (tenon_is_known(room) && room.value < least)
      return tenon_fail(infer, TENON_INVALID,
                        "on spatial axis %d the window spans %" PRId64
                        " elements, but the padded input has only %" PRId64 " (%" PRId64
                        " + %" PRId64 " before + %" PRId64 " after)",
                        i, span.value, padded.value, in[i].value, before, after);
    out[i] = dim_add(
        infer, tenon_dim(infer, args->ceil ? TENON_DIM_CEIL_DIV : TENON_DIM_DIV, room, stride),
        one);
    if (args->ceil &&
        explicit_pads) /* a window that would start in the padding after the input is left out */
      out[i] = dim_min(infer, out[i],
                       tenon_dim(infer, TENON_DIM_CEIL_DIV,
                                 dim_add(infer, in[i], tenon_extent(before)), stride));
  }
  return TENON_OK;
}

void core_window_out(const window_args_t *args, int32_t rank, const int64_t *in,
                     const int64_t *kernel, int64_t *out) {
  for (int32_t i = 0; i < rank; i++) {
    int64_t stride = list_at(args->strides, i, 1);
    int64_t span = (kernel[i] - 1) * list_at(args->dilations, i, 1) + 1;
    if (args->auto_pad == WINDOW_SAME_UPPER || args->auto_pad == WINDOW_SAME_LOWER) {
      out[i] = (in[i] + stride - 1) / stride;
    } else {
      int explicit_pads = args->auto_pad == WINDOW_EXPLICIT;
      int64_t pads =
          explicit_pads ? list_at(args->pads, i, 0) + list_at(args->pads, i + rank, 0) : 0;
      out[i] = (in[i] + pads - span) / stride + 1;
    }
  }
}

void core_window_set(window_t *window, const window_args_t *args, int32_t rank, const int64_t *in,
                     const int64_t *kernel, const int64_t *out) {
  window->rank = rank;
  for (int32_t i = 0; i < rank; i++) {
    int64_t stride = list_at(args->strides, i, 1);
    int64_t dilation = list_at(args->dilations, i, 1);
    int64_t before = 0;
    int64_t after = 0;
    if (args->auto_pad == WINDOW_EXPLICIT) {
      before = list_at(args->pads, i, 0);
      after = list_at(args->pads, i + rank, 0);
    } else if (args->auto_pad != WINDOW_VALID) {
      int64_t total = (out[i] - 1) * stride + (kernel[i] - 1) * dilation + 1 - in[i];
      if (total < 0) total = 0;
      before = args->auto_pad == WINDOW_SAME_UPPER ? total / 2 : total - total / 2;
      after = total - before;
    }
    window->in[i] = in[i];
    window->out[i] = out[i];
    window->kernel[i] = kernel[i];
    window->stride[i] = stride;
    window->dilation[i] = dilation;
    window->before[i] = before;
    window->after[i] = after;
  }
}

void core_channels_last(tenon_infer_t *infer, tenon_meta_t *out) {
  tenon_dim_t stride = out->dims[1];
  out->strided = 1;
  out->strides[1] = tenon_extent(1);
  for (int32_t i = out->ndim - 1; i >= 2; i--) {
    out->strides[i] = stride;
    stride = dim_mul(infer, stride, out->dims[i]);
  }
  out->strides[0] = stride;
}

int core_is_channels_last(const tenon_meta_t *x) {
  return x->ndim > 2 && x->strides && dim_is(x->strides[1], 1) && !dim_is(x->dims[1], 1);
}

int core_lies_last(const tenon_tensor_t *x) {
  if (x->ndim < 3 || x->strides[1] != 1) return 0;
  int64_t stride = x->shape[1];
  for (int32_t i = x->ndim - 1; i >= 2; stride *= x->shape[i--])
    if (x->shape[i] != 1 && x->strides[i] != stride) return 0;
  return x->shape[0] == 1 || x->strides[0] == stride;
}

int64_t core_last_pitch(const tenon_tensor_t *x) {
  if (x->ndim < 3 || x->strides[1] != 1) return 0;
  int64_t pitch = 0;
  int64_t stride = 0; /* that the next axis must have; 0: it is the first one */
  for (int32_t i = x->ndim - 1; i >= 0; i--) {
    if (i == 1 || x->shape[i] == 1) continue;
    if (!stride) pitch = stride = x->strides[i];
    if (x->strides[i] != stride || pitch < x->shape[1]) return 0;
    stride *= x->shape[i];
  }
  return pitch ? pitch : x->shape[1];
}
