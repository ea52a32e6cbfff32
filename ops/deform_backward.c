/* Gradients of deform_conv: deform_patches gives its samples as a tensor, deform_patches_backward
 * is the gradient of that, and both are combined with matrix products. The gradient formula in
 * deform.c calls them.
 * Invariant: one thread owns all channels of an offset group of an image, because they share
 * offsets and masks. */
#include "axes.h"
#include "composite.h"
#include "conv_im2col.h"
#include "dense.h"
#include "dtype_scalar.h"
#include "window.h"
#include <math.h>
#include <string.h>
#include <tenon/check.h>

enum { OFFSET_GROUP = 4 }; /* attribute of the patches */
enum {
  AXES_MAX = 8,
  CORNERS_MAX = 1 << AXES_MAX,
};

typedef struct patches_t { /* all dense, f32 or f64 */
  window_t window;
  const tenon_tensor_t *x;
  const tenon_tensor_t *offset;
  const tenon_tensor_t *mask;
  const tenon_tensor_t *dp;
  tenon_tensor_t *out; /* the patches; NULL in the backward pass */
  tenon_tensor_t *dx;
  tenon_tensor_t *doffset;
  tenon_tensor_t *dmask;
  int64_t groups;
  int64_t channels;
  int64_t taps;
  int64_t pixels;
  int64_t plane; /* channels: of one offset group */
} patches_t;

typedef struct corners_t {
  int32_t count;           /* 0: all corners are outside */
  int64_t at[CORNERS_MAX]; /* -1: outside */
  double weight[CORNERS_MAX];
  double slope[AXES_MAX][CORNERS_MAX];
} corners_t;

/* Finds the elements around a point, their weights, and the derivatives of the weights with respect
 * to each coordinate. */
static void corners_set(const window_t *w, const double *point, corners_t *c) {
  double part[AXES_MAX];
  int64_t low[AXES_MAX];
  c->count = 0;
  for (int32_t i = 0; i < w->rank; i++) {
    if (!(point[i] > -1 && point[i] < (double)w->in[i])) return;
    low[i] = (int64_t)floor(point[i]);
    part[i] = point[i] - (double)low[i];
  }
  c->count = 1 << w->rank;
  for (int32_t k = 0; k < c->count; k++) {
    c->at[k] = 0;
    c->weight[k] = 1;
    for (int32_t by = 0; by < w->rank; by++)
      c->slope[by][k] = 1;
    for (int32_t i = 0; i < w->rank; i++) {
      int up = k >> i & 1;
      int64_t place = low[i] + up;
      double share = up ? part[i] : 1 - part[i];
      double slope = up ? 1 : -1;
      c->weight[k] *= share;
      for (int32_t by = 0; by < w->rank; by++)
        c->slope[by][k] *= by == i ? slope : share;
      c->at[k] = c->at[k] < 0 || place < 0 || place >= w->in[i] ? -1 : c->at[k] * w->in[i] + place;
    }
  }
}

#define T float
#define NAME(x) x##_float
#include "deform_backward_kernel.h"

#define T double
#define NAME(x) x##_double
#include "deform_backward_kernel.h"

/* `in` holds x, offset, mask and kernel. */
static tenon_status_t run_patches(tenon_call_t *call, patches_t *p, tenon_tensor_t *const *in,
                                  tenon_dtype_t dtype) {
  const tenon_tensor_t **to[3] = {&p->x, &p->offset, &p->mask};
  window_args_t args = window_args(call->attrs, 0);
  int64_t kernel[SPATIAL_MAX];
  for (int i = 0; i < 3; i++)
    if (in[i] && !(*to[i] = core_dense(call, in[i], dtype))) return TENON_MEMORY;
  int32_t rank = p->x->ndim - 2;
  for (int32_t i = 0; i < rank; i++)
    kernel[i] = tensor_int(in[3], i);
  core_window_set(&p->window, &args, rank, p->x->shape + 2, kernel, p->offset->shape + 2);
  p->groups = call->attrs[OFFSET_GROUP].as.i;
  p->channels = p->x->shape[1] / p->groups;
  p->taps = window_size(kernel, rank);
  p->pixels = window_size(p->window.out, rank);
  p->plane = window_size(p->window.in, rank);
  return call->host->parallel(call, p->x->shape[0] * p->groups, 1,
                              dtype.bits == 64 ? units_double : units_float, p);
}

static tenon_status_t patches_run(tenon_call_t *call) {
  tenon_dtype_t dtype = tenon_dtype(core_is(call->outputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  patches_t p = {.out = core_place_dense(call, call->outputs[0], dtype)};
  if (!p.out) return TENON_MEMORY;
  TENON_TRY(run_patches(call, &p, call->inputs, dtype));
  return core_settle(call, call->outputs[0], p.out);
}

static tenon_status_t patches_backward_run(tenon_call_t *call) {
  tenon_tensor_t *const *out = call->outputs;
  tenon_dtype_t dtype = tenon_dtype(core_is(call->inputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  patches_t p = {.dp = core_dense(call, call->inputs[0], dtype)};
  tenon_tensor_t **to[3] = {&p.dx, &p.doffset, &p.dmask};
  if (!p.dp) return TENON_MEMORY;
  for (int i = 0; i < 3; i++)
    if (out[i] && !(*to[i] = core_place_dense(call, out[i], dtype))) return TENON_MEMORY;
  TENON_TRY(run_patches(call, &p, call->inputs + 1, dtype));
  for (int i = 0; i < 3; i++)
    if (out[i]) TENON_TRY(core_settle(call, out[i], *to[i]));
  return TENON_OK;
}

/* Checks the inputs from `first` on: x, offset, mask, kernel. Gives the shape of the patches, [N, C
 * * taps, out...]. */
static tenon_status_t patches_check(tenon_infer_t *infer, uint32_t first, tenon_dim_t *dims) {
  const tenon_meta_t *x = infer->inputs[first];
  const tenon_meta_t *offset = infer->inputs[first + 1];
  const tenon_meta_t *mask = infer->inputs[first + 2];
  int64_t group = infer->attrs[OFFSET_GROUP].as.i;
  window_args_t args = window_args(infer->attrs, 0);
  int32_t rank = x->ndim - 2;
  ints_t kernel;
  TENON_TRY(ints_read(infer, first + 3, &kernel));
  if (rank < 1 || rank > AXES_MAX || offset->ndim != x->ndim || (mask && mask->ndim != x->ndim) ||
      !kernel.known || kernel.count != rank || group < 1)
    return tenon_fail(infer, TENON_INVALID,
                      "x has %d axes, offset %d and the kernel %d; expected 1 to %d spatial axes",
                      x->ndim, offset->ndim, kernel.count, AXES_MAX);
  TENON_TRY(core_window_infer(infer, &args, rank, x->dims + 2, kernel.at, dims + 2));
  tenon_dim_t taps = dims_product(infer, kernel.at, 0, rank);
  tenon_dim_t shared = dim_mul(infer, taps, tenon_extent(group));
  dims[0] = x->dims[0];
  dims[1] = dim_mul(infer, x->dims[1], taps);
  int wrong = dim_differ(offset->dims[0], x->dims[0]) ||
              (mask && dim_differ(mask->dims[0], x->dims[0])) ||
              (tenon_is_known(x->dims[1]) && x->dims[1].value % group) ||
              (mask && dim_differ(mask->dims[1], shared)) ||
              dim_differ(offset->dims[1], dim_mul(infer, shared, tenon_extent(rank)));
  for (int32_t i = 2; i < x->ndim; i++)
    wrong = wrong || dim_differ(offset->dims[i], dims[i]) ||
            (mask && dim_differ(mask->dims[i], dims[i]));
  if (wrong)
    return tenon_fail(infer, TENON_INVALID, "offset has shape %s, which does not fit x of shape %s",
                      dims_text(offset->dims, offset->ndim).text, dims_text(x->dims, x->ndim).text);
  return TENON_OK;
}

static tenon_status_t patches_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = infer->inputs[0]->ndim;
  return patches_check(infer, 0, infer->outputs[0]->dims);
}

static tenon_status_t patches_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dp = infer->inputs[0];
  tenon_dim_t dims[TENON_RANK_MAX];
  TENON_TRY(patches_check(infer, 1, dims));
  int wrong = dp->ndim != infer->inputs[1]->ndim;
  for (int32_t i = 0; !wrong && i < dp->ndim; i++)
    wrong = dim_differ(dp->dims[i], dims[i]);
  if (wrong)
    return tenon_fail(infer, TENON_INVALID, "dp has shape %s, but the patches have shape %s",
                      dims_text(dp->dims, dp->ndim).text,
                      dims_text(dims, infer->inputs[1]->ndim).text);
  return core_gradients_infer(infer, 1, 3);
}

/* deform_conv: products with the patches */

enum {
  PATCHES,
  PATCHES_BACKWARD,
  MATMUL,
  RESHAPE,
  SUM_TO,
  REDUCE_SUM,
};
enum {
  DY,
  X,
  W,
  OFFSET,
  BIAS,
  MASK,
  GROUP = 4,
  CONV_OFFSET_GROUP,
};

static tenon_status_t invoke_product(tenon_call_t *call, tenon_tensor_t *a, int transpose_a,
                                     tenon_tensor_t *b, int transpose_b, tenon_tensor_t **out) {
  tenon_value_t attrs[5] = {value_flag(transpose_a), value_flag(transpose_b), value_choice(0),
                            value_float(0), value_float(0)};
  return INVOKE(call, MATMUL, attrs, out, a, b);
}

static tenon_status_t assign_bias_gradient(tenon_call_t *call) {
  tenon_value_t attrs[2] = {value_flag(0), value_flag(0)};
  int64_t at[TENON_RANK_MAX] = {0};
  tenon_tensor_t *dy = call->inputs[DY];
  tenon_tensor_t *axes, *t;
  for (int32_t i = 2; i < dy->ndim; i++)
    at[i - 1] = i;
  if (!(axes = core_ints(call, dy->ndim - 1, at))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, REDUCE_SUM, attrs, &t, dy, axes));
  return call->host->assign(call, BIAS - X, t);
}

/* y = w * patches for each group. So dw = dy * patches^T, and the gradient of the patches is w^T *
 * dy. */
static tenon_status_t deform_conv_backward_run(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[X];
  tenon_tensor_t *w = call->inputs[W];
  tenon_tensor_t *offset = call->inputs[OFFSET];
  tenon_tensor_t *dy, *t, *shape;
  int64_t group = call->attrs[GROUP].as.i;
  int64_t images = x->shape[0];
  int64_t filters = w->shape[0] / group;
  int64_t rows = w->shape[1];
  int64_t pixels = 1;
  int64_t patches[TENON_RANK_MAX] = {images, x->shape[1]};
  for (int32_t i = 2; i < x->ndim; i++) {
    rows *= w->shape[i];
    pixels *= offset->shape[i];
    patches[1] *= w->shape[i];
    patches[i] = offset->shape[i];
  }
  int64_t by_group[4] = {images, group, rows, pixels};
  int64_t dy_shape[4] = {images, group, filters, pixels};
  int64_t weights[4] = {1, group, filters, rows};
  tenon_value_t attrs[] = {call->attrs[0], call->attrs[1], call->attrs[2], call->attrs[3],
                           call->attrs[CONV_OFFSET_GROUP]};
  tenon_tensor_t *kernel = core_ints(call, x->ndim - 2, w->shape + 2);
  if (!kernel) return TENON_MEMORY;
  TENON_TRY(core_reshape(call, RESHAPE, call->inputs[DY], 4, dy_shape, &dy));
  if (call->outputs[W - X]) {
    TENON_TRY(INVOKE(call, PATCHES, attrs, &t, x, offset, call->inputs[MASK], kernel));
    TENON_TRY(core_reshape(call, RESHAPE, t, 4, by_group, &t));
    TENON_TRY(invoke_product(call, dy, 0, t, 1, &t));
    if (!(shape = core_ints(call, 4, weights))) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, SUM_TO, NULL, &t, t, shape));
    TENON_TRY(core_reshape(call, RESHAPE, t, w->ndim, w->shape, &t));
    TENON_TRY(call->host->assign(call, W - X, t));
  }
  if (call->outputs[BIAS - X]) TENON_TRY(assign_bias_gradient(call));
  const int input[3] = {X, OFFSET, MASK};
  tenon_tensor_t *results[3] = {NULL};
  tenon_tensor_t *mask = call->inputs[MASK];
  if (!call->outputs[0] && !call->outputs[OFFSET - X] && !call->outputs[MASK - X]) return TENON_OK;
  if (!mask) { /* a call from a kernel computes all results, so also the gradient of mask */
    int64_t ones[TENON_RANK_MAX] = {images, offset->shape[1] / (x->ndim - 2)};
    for (int32_t i = 2; i < x->ndim; i++)
      ones[i] = offset->shape[i];
    if (!(mask = call->host->temporary(call, x->dtype, x->ndim, ones))) return TENON_MEMORY;
    for (int64_t i = 0; i < tenon_count(mask); i++)
      number_set(mask->dtype, mask->data, i, 1);
  }
  TENON_TRY(core_reshape(call, RESHAPE, w, 4, weights, &t));
  TENON_TRY(invoke_product(call, t, 1, dy, 0, &t));
  TENON_TRY(core_reshape(call, RESHAPE, t, x->ndim, patches, &t));
  tenon_tensor_t *inputs[] = {t, x, offset, mask, kernel};
  TENON_TRY(call->host->invoke(call, call->uses[PATCHES_BACKWARD], attrs, inputs, results));
  for (int i = 0; i < 3; i++)
    if (call->outputs[input[i] - X])
      TENON_TRY(call->host->assign(call, (uint32_t)(input[i] - X), results[i]));
  return TENON_OK;
}

static tenon_status_t deform_conv_backward_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 5, 3, core_deform_conv_infer);
}

/* clang-format off */
#define ARGUMENTS                                                                                  \
  "Tensor x, Tensor offset, Tensor? mask, Tensor @host kernel, *, " WINDOW_ARGUMENTS               \
  ", int offset_group=1"
#define PASSED                                                                                     \
  "strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad, offset_group=offset_group"
TENON_ITEMS(core_deform_backward,
  TENON_OP("deform_patches(" ARGUMENTS ") -> Tensor",
    TENON_DOC("The samples that deform_conv takes, multiplied by mask: [N, C * taps, out...]."),
    TENON_SAMPLES("x: [n, c, 4, 5], offset: [n, 8, 3, 4], mask: [n, 4, 3, 4], kernel: [2] [2, 2]"),
    TENON_TYPES("x: float; offset, mask = x; kernel: i64|i32; out = x"),
    TENON_WHERE("kernel: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(patches_infer),
    TENON_GRADIENT("x, offset, mask: core::deform_patches_backward(grad, x, offset, mask, kernel, "
                   PASSED ")"),
    TENON_KERNEL("cpu strided", patches_run)),
  TENON_OP("deform_patches_backward(Tensor dp, " ARGUMENTS
           ") -> (Tensor? dx, Tensor? doffset, Tensor? dmask)",
    TENON_DOC("The gradients of deform_patches."),
    TENON_SAMPLES("dp: [n, 12, 3, 4], x: [n, 3, 4, 5], offset: [n, 8, 3, 4], mask: [n, 4, 3, 4], "
                  "kernel: [2] [2, 2]"),
    TENON_TYPES("dp: float; x, offset, mask = dp; kernel: i64|i32; dx, doffset, dmask = dp"),
    TENON_WHERE("kernel: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(patches_backward_infer),
    TENON_KERNEL("cpu strided", patches_backward_run)),
  TENON_OP("deform_conv_backward(Tensor dy, Tensor x, Tensor w, Tensor offset, Tensor? bias=None, "
           "Tensor? mask=None, *, " WINDOW_ARGUMENTS
           ", int group=1, int offset_group=1) -> (Tensor? dx, Tensor? dw, Tensor? doffset, "
           "Tensor? dbias, Tensor? dmask)",
    TENON_DOC("The gradients of deform_conv."),
    TENON_SAMPLES("dy: [n, 3, 3, 4], x: [n, c, 4, 5], w: [3, c, 2, 2], offset: [n, 8, 3, 4], "
                  "bias: [3], mask: [n, 4, 3, 4]"),
    TENON_TYPES("dy: float; x, w, offset, bias, mask = dy; dx, dw, doffset, dbias, dmask = dy"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES("core::deform_patches, core::deform_patches_backward, core::matmul, core::reshape, "
               "core::sum_to, core::reduce_sum"),
    TENON_INFER(deform_conv_backward_infer),
    TENON_COMPOSITE(deform_conv_backward_run)))
/* clang-format on */
