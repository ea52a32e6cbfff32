/* deform_conv: ONNX's deformable convolution with any number of spatial axes, groups and offset
 * groups. The patches of the matrix product sample x at the positions given by the offsets, with
 * linear interpolation.
 * Invariant: elements outside x are zero, for each corner of a sample separately. */
#include "axes.h"
#include "conv_im2col.h"
#include "dense.h"
#include "epilogue.h"
#include "gemm.h"
#include "window.h"
#include <math.h>
#include <tenon/check.h>

enum {
  X,
  W,
  OFFSET,
  BIAS,
  MASK,
}; /* inputs */
enum {
  GROUP = 4,
  OFFSET_GROUP,
};                     /* attributes after those of the window */
enum { AXES_MAX = 8 }; /* a sample has 2^8 corners at most */

typedef struct deform_t {
  window_t window;
  tenon_dtype_t dtype;
  const tenon_tensor_t *x;
  const tenon_tensor_t *w;
  const tenon_tensor_t *offset;
  const tenon_tensor_t *bias;
  const tenon_tensor_t *mask; /* dense */
  tenon_tensor_t *out;        /* dense */
  int64_t group;
  int64_t offset_group;
  int64_t taps;
  int64_t pixels;
  int64_t plane; /* elements of one channel of x */
} deform_t;

#define T float
#define NAME(x) x##_float
#include "deform_kernel.h"

#define T double
#define NAME(x) x##_double
#include "deform_kernel.h"

static void place_product(const void *context, int64_t index, product_t *product) {
  const deform_t *d = (const deform_t *)context;
  int64_t filters = d->w->shape[0] / d->group;
  int64_t size = d->dtype.bits / 8;
  int64_t group = index % d->group;
  product->a.vector = index;
  product->b.data = (const char *)d->w->data + group * filters * product->k * size;
  product->c = (char *)d->out->data +
               index * filters * d->pixels * size; /* images and groups are adjacent */
}

static void finish_tile(const void *context, int64_t index, int64_t i, int64_t i_end, int64_t j,
                        int64_t j_end) {
  const deform_t *d = (const deform_t *)context;
  int64_t filters = d->w->shape[0] / d->group;
  int64_t size = d->dtype.bits / 8;
  finish_t f = {.dtype = d->dtype, .scale = 1, .bias_scale = 1, .row = 1, .column = d->pixels};
  f.c = (char *)d->out->data + index * filters * d->pixels * size;
  f.bias = (finish_side_t){(const char *)d->bias->data + index % d->group * filters * size, 0, 1};
  core_finish(&f, i, i_end, j, j_end);
}

static tenon_status_t deform_conv_run(tenon_call_t *call) {
  window_args_t args = window_args(call->attrs, 0);
  deform_t d = {.dtype = core_gemm_dtype(call->outputs[0]->dtype),
                .group = call->attrs[GROUP].as.i,
                .offset_group = call->attrs[OFFSET_GROUP].as.i};
  const tenon_tensor_t **to[5] = {&d.x, &d.w, &d.offset, &d.bias, &d.mask};
  for (int i = 0; i < 5; i++) {
    if (!call->inputs[i]) continue;
    *to[i] = core_dense(call, call->inputs[i], d.dtype);
    if (!*to[i]) return TENON_MEMORY;
  }
  d.out = core_place_dense(call, call->outputs[0], d.dtype);
  if (!d.out) return TENON_MEMORY;
  if (tenon_count(d.out) == 0) return TENON_OK;
  core_window_set(&d.window, &args, d.x->ndim - 2, d.x->shape + 2, d.w->shape + 2,
                  d.out->shape + 2);
  d.taps = window_size(d.window.kernel, d.window.rank);
  d.pixels = window_size(d.window.out, d.window.rank);
  d.plane = window_size(d.window.in, d.window.rank);
  products_t products = {
      .product = {d.pixels,
                  d.w->shape[0] / d.group,
                  d.w->shape[1] * d.taps,
                  {.pack = d.dtype.bits == 64 ? pack_double : pack_float, .context = &d},
                  {.vector = d.w->shape[1] * d.taps, .element = 1},
                  0,
                  1,
                  d.pixels,
                  0,
                  0},
      .dtype = d.dtype,
      .count = d.x->shape[0] * d.group,
      .place = place_product,
      .finish = d.bias ? finish_tile : 0,
      .context = &d};
  TENON_TRY(core_products(call, &products));
  return core_settle(call, call->outputs[0], d.out);
}

/* shapes */

tenon_status_t core_deform_conv_infer(tenon_infer_t *infer) {
  tenon_meta_t *const *in = infer->inputs;
  tenon_meta_t *out = infer->outputs[0];
  window_args_t args = window_args(infer->attrs, 0);
  int64_t group = infer->attrs[GROUP].as.i;
  int64_t offset_group = infer->attrs[OFFSET_GROUP].as.i;
  int32_t rank = in[X]->ndim - 2;
  if (rank < 1 || rank > AXES_MAX || in[W]->ndim != in[X]->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "x has %d axes and w %d; expected the same number, from 3 to %d", in[X]->ndim,
                      in[W]->ndim, AXES_MAX + 2);
  tenon_dim_t channels = in[X]->dims[1];
  tenon_dim_t filters = in[W]->dims[0];
  if (group < 1 || offset_group < 1)
    return tenon_fail(infer, TENON_INVALID,
                      "group is %" PRId64 " and offset_group %" PRId64 "; expected 1 or more",
                      group, offset_group);
  tenon_dim_t wanted = dim_mul(infer, in[W]->dims[1], tenon_extent(group));
  if (dim_differ(channels, wanted))
    return tenon_fail(infer, TENON_INVALID,
                      "x has %" PRId64 " channels, but w in %" PRId64 " groups expects %" PRId64,
                      channels.value, group, wanted.value);
  if ((tenon_is_known(filters) && filters.value % group) ||
      (tenon_is_known(channels) && channels.value % offset_group))
    return tenon_fail(infer, TENON_INVALID,
                      "%" PRId64 " filters and %" PRId64 " channels are not multiples of %" PRId64
                      " groups and %" PRId64 " offset groups",
                      filters.value, channels.value, group, offset_group);
  out->ndim = in[X]->ndim;
  out->dims[0] = in[X]->dims[0];
  out->dims[1] = filters;
  TENON_TRY(core_window_infer(infer, &args, rank, in[X]->dims + 2, in[W]->dims + 2, out->dims + 2));
  tenon_dim_t taps =
      dim_mul(infer, dims_product(infer, in[W]->dims, 2, 2 + rank), tenon_extent(offset_group));
  for (int i = OFFSET; i <= MASK; i++) {
    if (i == BIAS || !in[i]) continue;
    tenon_dim_t want[AXES_MAX + 2] = {
        out->dims[0], i == OFFSET ? dim_mul(infer, taps, tenon_extent(rank)) : taps};
    int wrong = in[i]->ndim != out->ndim;
    for (int32_t axis = 0; !wrong && axis < out->ndim; axis++) {
      if (axis >= 2) want[axis] = out->dims[axis];
      wrong = dim_differ(in[i]->dims[axis], want[axis]);
    }
    for (int32_t axis = 2; axis < out->ndim; axis++)
      want[axis] = out->dims[axis];
    if (wrong)
      return tenon_fail(infer, TENON_INVALID, "%s has shape %s; expected %s",
                        i == OFFSET ? "offset" : "mask", dims_text(in[i]->dims, in[i]->ndim).text,
                        dims_text(want, out->ndim).text);
  }
  if (in[BIAS] && (in[BIAS]->ndim != 1 || dim_differ(in[BIAS]->dims[0], filters)))
    return tenon_fail(infer, TENON_INVALID,
                      "bias has shape %s; expected one number for each of the %" PRId64 " filters",
                      dims_text(in[BIAS]->dims, in[BIAS]->ndim).text, filters.value);
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_deform,
  TENON_OP("deform_conv(Tensor x, Tensor w, Tensor offset, Tensor? bias=None, Tensor? mask=None, "
           "*, " WINDOW_ARGUMENTS ", int group=1, int offset_group=1) -> Tensor",
    TENON_DOC("A convolution that samples x at positions shifted by offset and multiplies the "
              "samples by mask.\noffset is [N, offset_group * taps * axes, out...], mask [N, "
              "offset_group * taps, out...]."),
    TENON_SAMPLES("x: [n, c, 4, 5], w: [3, c, 2, 2], offset: [n, 8, 3, 4]; "
                  "x: [n, c, 4, 5], w: [3, c, 2, 2], offset: [n, 8, 3, 4], bias: [3], mask: [n, 4, "
                  "3, 4]"),
    TENON_TYPES("x: float; w = x; offset = x; bias = x; mask = x; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_deform_conv_infer),
    TENON_GRADIENT("x, w, offset, bias, mask: core::deform_conv_backward(grad, x, w, offset, bias, "
                   "mask, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad, "
                   "group=group, offset_group=offset_group)"),
    TENON_KERNEL("cpu strided", deform_conv_run)))
/* clang-format on */
