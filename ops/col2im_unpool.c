/* col2im, which adds up the columns of a convolution's windows, and max_unpool, which writes maxima
 * back to their positions.
 * Invariant: sums are formed in doubles, in the order of the columns; those of integers wrap. */
#include "axes.h"
#include "copy.h"
#include "dtype_scalar.h"
#include <string.h>
#include <tenon/check.h>

/* Reads attribute `at`, a list of `count` integers; all are `other` if the list is empty. */
static tenon_status_t ints_of(const tenon_host_t *host, const void *context,
                              const tenon_value_t *at, const char *name, int64_t count,
                              int64_t other, int64_t *out) {
  if (at->count && (int64_t)at->count != count)
    return host->fail(context, TENON_INVALID, "%s lists %u numbers; expected %" PRId64, name,
                      at->count, count);
  for (int64_t i = 0; i < count; i++) {
    out[i] = at->count ? at->as.ints[i] : other;
    if (out[i] < -INT32_MAX || out[i] > INT32_MAX) /* so that products do not overflow */
      return host->fail(context, TENON_INVALID, "%s contains %" PRId64, name, out[i]);
  }
  return TENON_OK;
}

/* col2im */

static tenon_status_t col2im_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t image, block;
  if (x->ndim != 3)
    return tenon_fail(infer, TENON_INVALID, "x has rank %d; expected [batch, channel, column]",
                      x->ndim);
  TENON_TRY(ints_read(infer, 1, &image));
  TENON_TRY(ints_read(infer, 2, &block));
  if (image.count > TENON_RANK_MAX - 2 ||
      (image.count >= 0 && block.count >= 0 && image.count != block.count))
    return tenon_fail(infer, TENON_INVALID,
                      "image_shape has %d numbers and block_shape %d; they must be equal",
                      image.count, block.count);
  if (image.count < 0) return out_unknown(infer, out, block.count < 0 ? -1 : 2 + block.count);
  out->ndim = 2 + image.count;
  out->dims[0] = x->dims[0];
  out->dims[1] = dim_any(infer);
  for (int32_t i = 0; i < image.count; i++)
    out->dims[2 + i] = image.known ? image.at[i] : dim_any(infer);
  int64_t blocks[INTS_MAX];
  if (!ints_numbers(&block, blocks)) return TENON_OK;
  tenon_dim_t size = dims_product(infer, block.at, 0, block.count);
  if (size.value < 1 || (tenon_is_known(x->dims[1]) && x->dims[1].value % size.value))
    return tenon_fail(infer, TENON_INVALID,
                      "%" PRId64 " channels are not a multiple of the block size %" PRId64,
                      x->dims[1].value, size.value);
  out->dims[1] = tenon_dim(infer, TENON_DIM_DIV, x->dims[1], size);
  return TENON_OK;
}

typedef struct windows_t {
  int32_t rank;
  int64_t image[TENON_RANK_MAX];
  int64_t block[TENON_RANK_MAX];
  int64_t places[TENON_RANK_MAX];
  int64_t stride[TENON_RANK_MAX];
  int64_t dilation[TENON_RANK_MAX];
  int64_t pad[2 * TENON_RANK_MAX];
  int64_t pixels;
  int64_t taps;
  int64_t columns;
  double *sums;
} windows_t;

/* The pixel under a tap of a column; -1 if it is outside. */
static int64_t pixel_of(const windows_t *w, int64_t tap, int64_t column) {
  int64_t pixel = 0;
  int64_t pace = 1;
  for (int32_t i = w->rank - 1; i >= 0; i--) {
    int64_t at =
        column % w->places[i] * w->stride[i] - w->pad[i] + tap % w->block[i] * w->dilation[i];
    if (at < 0 || at >= w->image[i]) return -1;
    pixel += at * pace;
    column /= w->places[i];
    tap /= w->block[i];
    pace *= w->image[i];
  }
  return pixel;
}

static tenon_status_t col2im_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const windows_t *w = (const windows_t *)argument;
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  for (int64_t channel = begin; channel < end; channel++) {
    double *sums = w->sums + channel * w->pixels;
    for (int64_t i = 0; i < w->pixels; i++)
      sums[i] = 0;
    for (int64_t tap = 0; tap < w->taps; tap++)
      for (int64_t column = 0; column < w->columns; column++) {
        int64_t pixel = pixel_of(w, tap, column);
        if (pixel >= 0)
          sums[pixel] +=
              number_get(x->dtype, x->data, (channel * w->taps + tap) * w->columns + column);
      }
    for (int64_t i = 0; i < w->pixels; i++)
      number_set(out->dtype, out->data, channel * w->pixels + i, sums[i]);
  }
  return TENON_OK;
}

/* Describes the windows of an image [batch, channel, pixels...] and its columns [batch, channel and
 * tap, column]. block_shape is the last input. */
static tenon_status_t windows_read(tenon_call_t *call, const tenon_tensor_t *image,
                                   const tenon_tensor_t *columns, windows_t *out) {
  const tenon_value_t *attrs = call->attrs;
  windows_t *w = out;
  *w = (windows_t){.rank = image->ndim - 2, .pixels = 1, .taps = 1, .columns = 1};
  TENON_TRY(ints_of(call->host, call, &attrs[0], "strides", w->rank, 1, w->stride));
  TENON_TRY(ints_of(call->host, call, &attrs[1], "pads", 2 * w->rank, 0, w->pad));
  TENON_TRY(ints_of(call->host, call, &attrs[2], "dilations", w->rank, 1, w->dilation));
  for (int32_t i = 0; i < w->rank; i++) {
    w->image[i] = image->shape[2 + i];
    w->block[i] = tensor_int(call->inputs[2], i);
    if (w->block[i] < 1 || w->block[i] > INT32_MAX)
      return tenon_fail(call, TENON_INVALID, "axis %d of block_shape is %" PRId64, i, w->block[i]);
    int64_t room =
        w->image[i] + w->pad[i] + w->pad[i + w->rank] - w->dilation[i] * (w->block[i] - 1) - 1;
    if (w->stride[i] < 1 || room < 0)
      return tenon_fail(call, TENON_INVALID,
                        "no window fits axis %d of the image with stride %" PRId64, i,
                        w->stride[i]);
    w->places[i] = room / w->stride[i] + 1;
    w->pixels *= w->image[i];
    w->taps *= w->block[i];
    w->columns *= w->places[i];
  }
  if (w->columns != columns->shape[2])
    return tenon_fail(call, TENON_INVALID, "the image has %" PRId64 " windows, but x has %" PRId64,
                      w->columns, columns->shape[2]);
  return TENON_OK;
}

static tenon_status_t col2im_run(tenon_call_t *call) {
  const tenon_tensor_t *out = call->outputs[0];
  windows_t w;
  TENON_TRY(windows_read(call, out, call->inputs[0], &w));
  int64_t channels = out->shape[0] * out->shape[1];
  w.sums =
      (double *)call->host->allocate(call, (uint64_t)(channels * w.pixels) * sizeof(double) + 8);
  if (!w.sums) return TENON_MEMORY;
  return call->host->parallel(call, channels, 4096 / (w.taps * w.columns + 1) + 1, col2im_part, &w);
}

/* col2im_backward */

static tenon_status_t col2im_backward_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  const tenon_meta_t *dy = infer->inputs[0];
  ints_t shape, block;
  TENON_TRY(ints_read(infer, 1, &shape));
  TENON_TRY(ints_read(infer, 2, &block));
  if (!shape.known) return out_unknown(infer, out, 3);
  if (shape.count != 3 || (block.count >= 0 && block.count != dy->ndim - 2))
    return tenon_fail(infer, TENON_INVALID,
                      "the shape of the columns has %d numbers, block_shape has %d, and dy has "
                      "rank %d; expected 3, and two fewer in block_shape than axes of dy",
                      shape.count, block.count, dy->ndim);
  out->ndim = 3;
  for (int32_t i = 0; i < 3; i++)
    out->dims[i] = shape.at[i];
  return TENON_OK;
}

static tenon_status_t col2im_backward_part(tenon_call_t *call, void *argument, int64_t begin,
                                           int64_t end) {
  const windows_t *w = (const windows_t *)argument;
  const tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int64_t size = element_size(dy);
  for (int64_t row = begin; row < end; row++)
    for (int64_t column = 0; column < w->columns; column++) {
      int64_t pixel = pixel_of(w, row % w->taps, column);
      char *to = (char *)out->data + (row * w->columns + column) * size;
      if (pixel < 0)
        memset(to, 0, (size_t)size);
      else
        memcpy(to, (const char *)dy->data + (row / w->taps * w->pixels + pixel) * size,
               (size_t)size);
    }
  return TENON_OK;
}

static tenon_status_t col2im_backward_run(tenon_call_t *call) {
  const tenon_tensor_t *dy = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  windows_t w;
  TENON_TRY(windows_read(call, dy, out, &w));
  if (out->shape[0] != dy->shape[0] || out->shape[1] != dy->shape[1] * w.taps)
    return tenon_fail(call, TENON_INVALID,
                      "[%" PRId64 ", %" PRId64 "] columns of [%" PRId64 ", %" PRId64 "] images",
                      out->shape[0], out->shape[1], dy->shape[0], dy->shape[1]);
  int64_t rows = out->shape[0] * out->shape[1];
  return call->host->parallel(call, rows, 4096 / (w.columns + 1) + 1, col2im_backward_part, &w);
}

/* max_unpool */

/* Infers the shape that the pooled tensor had, as far as possible; the indices refer to it. */
static tenon_status_t unpooled_shape(const tenon_host_t *host, const void *context,
                                     const tenon_value_t *attrs, int32_t rank,
                                     const int64_t *pooled, int64_t *out) {
  int64_t stride[TENON_RANK_MAX], pad[2 * TENON_RANK_MAX], kernel[TENON_RANK_MAX];
  if (rank < 3 || (int64_t)attrs[0].count != rank - 2)
    return host->fail(context, TENON_INVALID, "kernel lists %u numbers, but x has rank %d",
                      attrs[0].count, rank);
  TENON_TRY(ints_of(host, context, &attrs[0], "kernel", rank - 2, 1, kernel));
  TENON_TRY(ints_of(host, context, &attrs[1], "strides", rank - 2, 1, stride));
  TENON_TRY(ints_of(host, context, &attrs[2], "pads", 2 * (rank - 2), 0, pad));
  for (int32_t i = 0; i < rank; i++) {
    out[i] = pooled[i];
    if (pooled[i] > INT32_MAX)
      return host->fail(context, TENON_INVALID, "axis %d is too long: %" PRId64, i, pooled[i]);
    if (i >= 2)
      out[i] = (pooled[i] - 1) * stride[i - 2] - pad[i - 2] - pad[i - 2 + rank - 2] + kernel[i - 2];
  }
  return TENON_OK;
}

static tenon_status_t unpool_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  int64_t shape[TENON_RANK_MAX], from[TENON_RANK_MAX];
  int known = 1;
  ints_t wish = {-1, 0, {{0}}};
  if (infer->inputs[2]) TENON_TRY(ints_read(infer, 2, &wish));
  if (infer->inputs[2] && wish.count >= 0 && wish.count != x->ndim)
    return tenon_fail(infer, TENON_INVALID, "output_shape lists %d extents, but x has rank %d",
                      wish.count, x->ndim);
  if (indices->ndim != x->ndim)
    return tenon_fail(infer, TENON_INVALID, "indices have rank %d and x has %d; they must be equal",
                      indices->ndim, x->ndim);
  for (int32_t i = 0; i < x->ndim; i++) {
    if (dim_differ(x->dims[i], indices->dims[i]))
      return tenon_fail(
          infer, TENON_INVALID, "indices have shape %s and x has %s; they must be equal",
          dims_text(indices->dims, indices->ndim).text, dims_text(x->dims, x->ndim).text);
    from[i] = x->dims[i].value;
    known = known && tenon_is_known(x->dims[i]);
  }
  if (known) TENON_TRY(unpooled_shape(infer->host, infer, infer->attrs, x->ndim, from, shape));
  out_like(out, x);
  for (int32_t i = 0; i < x->ndim; i++) {
    if (infer->inputs[2] && wish.known)
      out->dims[i] = wish.at[i];
    else if (!infer->inputs[2] && known)
      out->dims[i] = tenon_extent(shape[i]);
    else
      out->dims[i] = i < 2 ? x->dims[i] : dim_any(infer);
    if (tenon_is_known(out->dims[i]) && out->dims[i].value < 0)
      return tenon_fail(infer, TENON_INVALID, "axis %d would have extent %" PRId64, i,
                        out->dims[i].value);
  }
  return TENON_OK;
}

/* Moves elements between `small`, with the shape of the indices, and `large`, whose other elements
 * are 0. */
static tenon_status_t move_maxima(tenon_call_t *call, tenon_tensor_t *small, tenon_tensor_t *large,
                                  int back) {
  const tenon_tensor_t *x = small;
  const tenon_tensor_t *indices = call->inputs[1];
  tenon_tensor_t *out = large;
  int64_t shape[TENON_RANK_MAX];
  int64_t all = 1;
  int64_t n = tenon_count(x);
  TENON_TRY(unpooled_shape(call->host, call, call->attrs, x->ndim, x->shape, shape));
  for (int32_t i = 0; i < x->ndim; i++) {
    if (shape[i] < 0 || (shape[i] > 0 && all > INT64_MAX / shape[i]))
      return tenon_fail(call, TENON_INVALID, "axis %d would have extent %" PRId64, i, shape[i]);
    all *= shape[i];
  }
  memset(call->outputs[0]->data, 0, (size_t)(tenon_count(call->outputs[0]) * element_size(out)));
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = tensor_int(indices, i);
    int64_t to = 0;
    if (rest < 0 || rest >= all)
      return tenon_fail(call, TENON_RANGE,
                        "index %" PRId64 " is outside a tensor of %" PRId64 " elements", rest, all);
    for (int32_t axis = x->ndim - 1; axis >= 0 && to >= 0; axis--) {
      int64_t at = rest % shape[axis];
      to = at < out->shape[axis] ? to + at * out->strides[axis] : -1;
      rest /= shape[axis];
    }
    if (to >= 0)
      TENON_TRY(back ? core_move_run(call, small, i, large, to, 1)
                     : core_move_run(call, large, to, small, i, 1));
  }
  return TENON_OK;
}

static tenon_status_t unpool_run(tenon_call_t *call) {
  return move_maxima(call, call->inputs[0], call->outputs[0], 0);
}
static tenon_status_t unpool_backward_run(tenon_call_t *call) {
  return move_maxima(call, call->outputs[0], call->inputs[0], 1);
}

static tenon_status_t unpool_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  if (dy->ndim != indices->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "indices have rank %d and dy has %d; they must be equal", indices->ndim,
                      dy->ndim);
  return out_like(infer->outputs[0], indices);
}

/* clang-format off */
TENON_ITEMS(core_unfold,
  TENON_OP("col2im(Tensor x, Tensor @host image_shape, Tensor @host block_shape, *, "
           "int[] strides=[], int[] pads=[], int[] dilations=[]) -> Tensor",
    TENON_DOC("An image assembled from its windows; elements are added where windows overlap."),
    TENON_SAMPLES("x: [n, 12, 6], image_shape: [2] [3, 4], block_shape: [2] [2, 2]"),
    TENON_TYPES("x: number; image_shape: i64|i32; block_shape: i64|i32; out = x"),
    TENON_WHERE("image_shape: known; block_shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(col2im_infer),
    TENON_GRADIENT("x: core::col2im_backward(grad, core::shape(x), block_shape, strides=strides, "
                   "pads=pads, dilations=dilations)"),
    TENON_KERNEL("cpu", col2im_run)),
  TENON_OP("col2im_backward(Tensor dy, Tensor @host shape, Tensor @host block_shape, *, "
           "int[] strides=[], int[] pads=[], int[] dilations=[]) -> Tensor",
    TENON_DOC("The gradient of col2im with respect to x, which has this shape: the windows of "
              "images dy [batch, channel, pixels...]."),
    TENON_SAMPLES("dy: [n, 3, 3, 4], shape: [3] [n, 12, 6], block_shape: [2] [2, 2]"),
    TENON_TYPES("dy: float; shape: i64|i32; block_shape: i64|i32; out = dy"),
    TENON_WHERE("shape: known; block_shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(col2im_backward_infer),
    TENON_GRADIENT("dy: core::col2im(grad, core::shape(dy, start=2), block_shape, strides=strides, "
                   "pads=pads, dilations=dilations)"),
    TENON_KERNEL("cpu", col2im_backward_run)),
  TENON_OP("max_unpool(Tensor x, Tensor indices, Tensor? @host output_shape=None, *, int[] kernel, "
           "int[] strides=[], int[] pads=[]) -> Tensor",
    TENON_DOC("Writes maxima to the positions given by max_pool's indices; other elements are 0."),
    TENON_SAMPLES("x: [2, 2, 3], indices: [2, 2, 3] [0, 3, 4, 7, 9, 11, 12, 15, 17, 19, 20, 23], "
                  "kernel = [2], strides = [2]"),
    TENON_TYPES("x: number; indices: i64; output_shape: i64|i32; out = x"),
    TENON_WHERE("output_shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(unpool_infer),
    TENON_GRADIENT("x: core::max_unpool_backward(grad, indices, kernel=kernel, strides=strides, "
                   "pads=pads)"),
    TENON_KERNEL("cpu", unpool_run)),
  TENON_OP("max_unpool_backward(Tensor dy, Tensor indices, *, int[] kernel, int[] strides=[], "
           "int[] pads=[]) -> Tensor",
    TENON_DOC("The gradient of max_unpool: the elements of dy at the positions of the maxima."),
    TENON_SAMPLES("dy: [2, 2, 6], indices: [2, 2, 3] [0, 3, 4, 7, 9, 11, 12, 15, 17, 19, 20, 23], "
                  "kernel = [2], strides = [2]"),
    TENON_TYPES("dy: float; indices: i64; out = dy"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(unpool_backward_infer),
    TENON_GRADIENT("dy: core::max_unpool(grad, indices, core::shape(dy), kernel=kernel, "
                   "strides=strides, pads=pads)"),
    TENON_KERNEL("cpu", unpool_backward_run)))
/* clang-format on */
