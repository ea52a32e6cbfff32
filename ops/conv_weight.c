/* conv_weight_backward: the gradient of conv and conv_transpose with respect to the weights. It is
 * one matrix product per group, summed over all images and pixels. Both operands are packed panel
 * by panel, so no other copy is stored. conv_backward and conv_transpose_backward call it.
 * Invariant: sums run over images, then over pixels. */
#include "axes.h"
#include "conv_im2col.h"
#include "dense.h"
#include <tenon/check.h>

typedef struct weight_t {
  window_t window; /* in: extents of x; out: extents of dy */
  const tenon_tensor_t *dy;
  const tenon_tensor_t *x;
  char *out;
  int64_t group;
  int64_t pixels;
  int64_t taps;
  int64_t filters;
  /* Channels and filters of one group. */
  int64_t channels;
  int64_t size; /* bytes of an element */
} weight_t;

/* Converts element e of the sum to an image and, in `at`, a pixel of dy. */
static int64_t pixel_set(const weight_t *w, int64_t e, int64_t *at) {
  int64_t rest = e % w->pixels;
  for (int32_t i = w->window.rank - 1; i >= 0; i--) {
    at[i] = rest % w->window.out[i];
    rest /= w->window.out[i];
  }
  return e / w->pixels;
}

#define T float
#define NAME(x) x##_float
#include "conv_weight_kernel.h"

#define T double
#define NAME(x) x##_double
#include "conv_weight_kernel.h"

static void place_product(const void *context, int64_t index, product_t *product) {
  const weight_t *w = (const weight_t *)context;
  product->a.data = (const char *)w->dy->data + index * w->filters * w->dy->strides[1] * w->size;
  product->b.data = (const char *)w->x->data + index * w->channels * w->x->strides[1] * w->size;
  product->c = w->out + index * w->filters * w->channels * w->taps * w->size;
}

tenon_status_t core_conv_weight_run(tenon_call_t *call) {
  tenon_dtype_t dtype = core_gemm_dtype(call->outputs[0]->dtype);
  window_args_t args = window_args(call->attrs, 0);
  tenon_tensor_t *dy = core_as(call, call->inputs[0], dtype);
  tenon_tensor_t *x = core_as(call, call->inputs[1], dtype);
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], dtype);
  if (!dy || !x || !out) return TENON_MEMORY;
  weight_t w = {.dy = dy, .x = x, .out = (char *)out->data, .group = call->attrs[CONV_GROUP].as.i};
  core_window_set(&w.window, &args, x->ndim - 2, x->shape + 2, out->shape + 2, dy->shape + 2);
  w.taps = window_size(w.window.kernel, w.window.rank);
  w.pixels = window_size(w.window.out, w.window.rank);
  w.filters = out->shape[0] / w.group;
  w.channels = out->shape[1];
  w.size = dtype.bits / 8;
  int wide = dtype.bits == 64;
  products_t products = {
      .product = {.m = w.filters,
                  .n = w.channels * w.taps,
                  .k = dy->shape[0] * w.pixels,
                  .a = {.pack = wide ? dy_pack_double : dy_pack_float, .context = &w},
                  .b = {.pack = wide ? x_pack_double : x_pack_float, .context = &w},
                  .row = w.channels * w.taps,
                  .column = 1},
      .dtype = dtype,
      .count = w.group,
      .place = place_product,
      .context = &w};
  TENON_TRY(core_products(call, &products));
  return core_settle(call, call->outputs[0], out);
}

static tenon_status_t conv_weight_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *x = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  window_args_t args = window_args(infer->attrs, 0);
  int64_t group = infer->attrs[CONV_GROUP].as.i;
  tenon_dim_t places[SPATIAL_MAX];
  ints_t kernel;
  TENON_TRY(ints_read(infer, 2, &kernel));
  if (group < 1)
    return tenon_fail(infer, TENON_INVALID, "group is %" PRId64 "; expected 1 or more", group);
  if (x->ndim < 3 || dy->ndim != x->ndim || (kernel.count >= 0 && kernel.count != x->ndim - 2))
    return tenon_fail(infer, TENON_INVALID,
                      "dy has %d axes, x %d and the kernel %d; expected dy and x with batch, "
                      "channels and as many spatial axes as the kernel has",
                      dy->ndim, x->ndim, kernel.count);
  if (!kernel.known) return out_unknown(infer, out, x->ndim);
  out->ndim = x->ndim;
  out->dims[0] = dy->dims[1];
  out->dims[1] = tenon_dim(infer, TENON_DIM_DIV, x->dims[1], tenon_extent(group));
  for (int32_t i = 0; i < kernel.count; i++)
    out->dims[2 + i] = kernel.at[i];
  TENON_TRY(core_window_infer(infer, &args, kernel.count, x->dims + 2, out->dims + 2, places));
  int wrong = dim_differ(dy->dims[0], x->dims[0]) ||
              (tenon_is_known(x->dims[1]) && x->dims[1].value % group) ||
              (tenon_is_known(dy->dims[1]) && dy->dims[1].value % group);
  for (int32_t i = 0; i < kernel.count; i++)
    wrong = wrong || dim_differ(places[i], dy->dims[2 + i]);
  if (wrong)
    return tenon_fail(
        infer, TENON_INVALID,
        "dy has shape %s, which is not the result of convolving x of shape %s in %" PRId64
        " groups",
        dims_text(dy->dims, dy->ndim).text, dims_text(x->dims, x->ndim).text, group);
  return TENON_OK;
}

/* clang-format off */
#define PASSED "strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad, group=group"
TENON_ITEMS(core_conv_weight,
  TENON_OP("conv_weight_backward(Tensor dy, Tensor x, Tensor @host kernel, *, " WINDOW_ARGUMENTS
           ", int group=1) -> Tensor",
    TENON_DOC("The gradient of conv with respect to its weights, "
              "whose spatial extents are `kernel`."),
    TENON_SAMPLES("dy: [n, 3, 5], x: [n, c, 6], kernel: [1] [2]"),
    TENON_TYPES("dy: float; x = dy; kernel: i64|i32; out = dy"),
    TENON_WHERE("kernel: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(conv_weight_infer),
    TENON_GRADIENT("dy: core::conv(x, grad, " PASSED "); x: core::conv_backward(dy, x, grad, "
                   PASSED ")"),
    TENON_KERNEL("cpu strided", core_conv_weight_run)))
/* clang-format on */
