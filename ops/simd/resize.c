/* resize: axis by axis, because all its interpolations are separable, with the tables of
 * ../interpolation.h. `nearest` selects one element for every dtype by lookup.c. `linear` and
 * `cubic` compute in f32, or in f64 for f64 and wide integers, starting with the axis that shrinks
 * most.
 * Invariant: the weights of a result add up to 1. */
#include "../axes.h"
#include "../copy.h"
#include "../dense.h"
#include "../interpolation.h"
#include "../lookup.h"
#include "../window.h"
#include "isa.h"
#include "wide.h"

enum {
  X,
  ROI,
  SCALES,
  SIZES,
  BLOCK = 1024,
};

#ifndef TENON_SIMD
static tenon_status_t resize_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[X];
  tenon_meta_t *out = infer->outputs[0];
  resize_t r = {infer->host, infer, infer->attrs, x->ndim, NULL, NULL, NULL};
  const tenon_tensor_t **values[] = {NULL, &r.roi, &r.scales, &r.sizes};
  axis_t axes[TENON_RANK_MAX];
  int known = 1;
  if (infer->attrs[RESIZE_ANTIALIAS].as.i && infer->attrs[RESIZE_MODE].as.i == NEAREST)
    return tenon_fail(infer, TENON_INVALID, "mode 'nearest' does not support antialias");
  for (uint32_t i = ROI; i <= SIZES; i++) {
    if (!infer->inputs[i]) continue;
    *values[i] = infer->inputs[i]->value;
    int used = i != ROI || infer->attrs[RESIZE_COORDINATES].as.i == TF_CROP_AND_RESIZE;
    known = known && (*values[i] || !used ||
                      (infer->inputs[i]->ndim == 1 && dim_is(infer->inputs[i]->dims[0], 0)));
  }
  for (int32_t i = 0; i < x->ndim; i++) {
    axes[i].in = x->dims[i].value;
    known = known && tenon_is_known(x->dims[i]);
  }
  if (known) {
    TENON_TRY(core_resize_axes(&r, axes));
    out->ndim = x->ndim;
    for (int32_t i = 0; i < x->ndim; i++)
      out->dims[i] = tenon_extent(axes[i].out);
    if (tenon_dtype_id(x->dtype) == TENON_F32 && core_is_channels_last(x))
      core_channels_last(infer, out);
    return TENON_OK;
  }
  /* With symbols, sizes become extents; other axes are unchanged. */
  const tenon_value_t *named = &infer->attrs[RESIZE_AXES];
  ints_t sizes = {-1, 0, {{0}}};
  if (infer->inputs[SIZES]) TENON_TRY(ints_read(infer, SIZES, &sizes));
  int64_t count = named->kind != TENON_KIND_NONE ? (int64_t)named->count : x->ndim;
  out_like(out, x);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = named->kind != TENON_KIND_NONE ? named->as.ints[i] : i;
    if (at < -x->ndim || at >= x->ndim)
      return tenon_fail(infer, TENON_INVALID, "axis %" PRId64 " is out of range for rank %d", at,
                        x->ndim);
    int stated = sizes.known && sizes.count == count && infer->attrs[RESIZE_POLICY].as.i == STRETCH;
    int same = r.scales && count_of(r.scales) == count &&
               number_get(r.scales->dtype, r.scales->data, i) == 1.0 &&
               infer->attrs[RESIZE_COORDINATES].as.i != TF_CROP_AND_RESIZE;
    if (at < 0) at += x->ndim;
    if (!same) out->dims[at] = stated ? sizes.at[i] : dim_any(infer);
  }
  return TENON_OK;
}
#endif

static tenon_status_t resize_nearest(tenon_call_t *call, const tenon_tensor_t *x,
                                     tenon_tensor_t *out, const axis_t *axes) {
  tenon_tensor_t value = *out;
  double number[2] = {0, 0};
  lookup_t lookup = {x, out, &value, {NULL}};
  number_set(out->dtype, number, 0, call->attrs[RESIZE_EXTRAPOLATION].as.f);
  value.data = number;
  value.ndim = 0;
  TENON_TRY(core_lookup_tables(call, &lookup));
  for (int32_t axis = 0; axis < out->ndim; axis++)
    for (int64_t i = 0; i < axes[axis].out; i++)
      lookup.table[axis][i] = core_resize_nearest(call->attrs, &axes[axis], i);
  return core_lookup(call, &lookup);
}

/* passes */

typedef struct pass_t {
  const void *x;
  void *y;
  const taps_t *taps;
  int64_t in;
  int64_t out;
  int64_t inner;
  int64_t blocks; /* x: [outer, in, inner], y: [outer, out, inner] */
  double extrapolation;
} pass_t;

#define T float
#define NAME(x) f32_##x
#include "../resize_kernel.h"

#define T double
#define NAME(x) f64_##x
#include "../resize_kernel.h"

/* Excludes the axes that keep all their elements, and counts the axes that remain. */
static int64_t drop_unchanged(axis_t *axes, int32_t count) {
  int64_t left = 0;
  for (int32_t i = 0; i < count; i++) {
    axis_t *a = &axes[i];
    if (a->resized && a->in == a->out && fabs(a->scale - 1) < 1e-9 && a->start == 0 && a->end == 1)
      a->resized = 0;
    left += a->resized;
  }
  return left;
}

/* The axis left to resize that has the smallest scale; -1 if there is none. */
static int32_t most_shrunk(const axis_t *axes, int32_t count) {
  int32_t next = -1;
  for (int32_t i = 0; i < count; i++)
    if (axes[i].resized && (next < 0 || axes[i].scale < axes[next].scale)) next = i;
  return next;
}

/* Reads the axes of a call. */
static tenon_status_t read_axes(tenon_call_t *call, axis_t *axes) {
  const tenon_tensor_t *x = call->inputs[X];
  const resize_t r = {
      call->host,         call, call->attrs, x->ndim, call->inputs[ROI], call->inputs[SCALES],
      call->inputs[SIZES]};
  for (int32_t i = 0; i < x->ndim; i++)
    axes[i].in = x->shape[i];
  return core_resize_axes(&r, axes);
}

/* Computes out from x. Both are dense. */
static tenon_status_t resize_dense(tenon_call_t *call, const tenon_tensor_t *x, tenon_tensor_t *out,
                                   axis_t *axes) {
  int64_t shape[TENON_RANK_MAX];
  int64_t count = tenon_count(x);
  int is_double =
      tenon_dtype_id(x->dtype) == TENON_F64 || (x->dtype.code <= 1 && x->dtype.bits >= 32);
  int native = tenon_dtype_id(x->dtype) == TENON_F32 || tenon_dtype_id(x->dtype) == TENON_F64;
  size_t size = is_double ? sizeof(double) : sizeof(float);
  for (int32_t i = 0; i < x->ndim; i++)
    shape[i] = x->shape[i];
  if (tenon_count(out) == 0) return TENON_OK;
  if (call->attrs[RESIZE_MODE].as.i == NEAREST) return resize_nearest(call, x, out, axes);
  int64_t left = drop_unchanged(axes, x->ndim);
  const void *from = x->data;
  if (!native) {
    void *wide = call->host->allocate(call, (uint64_t)count * size);
    if (!wide) return TENON_MEMORY;
    if (is_double)
      f64_load(x, (double *)wide, count);
    else
      f32_load(x, (float *)wide, count);
    from = wide;
  }
  if (left == 0 && native) memcpy(out->data, from, (size_t)count * size);
  for (; left > 0; left--) {
    int32_t next = most_shrunk(axes, x->ndim);
    axis_t *a = &axes[next];
    taps_t taps;
    TENON_TRY(core_resize_taps(call, a, &taps));
    int64_t outer = extents_product(shape, 0, next);
    int64_t inner = extents_product(shape, next + 1, x->ndim);
    pass_t pass = {from,
                   out->data,
                   &taps,
                   a->in,
                   a->out,
                   inner,
                   (inner + BLOCK - 1) / BLOCK,
                   call->attrs[RESIZE_EXTRAPOLATION].as.f};
    count = outer * a->out * inner;
    if (left > 1 || !native) pass.y = call->host->allocate(call, (uint64_t)count * size);
    if (!pass.y) return TENON_MEMORY;
    int64_t each = a->out * taps.count * (inner < BLOCK ? inner : BLOCK);
    TENON_TRY(call->host->parallel(call, outer * pass.blocks, 16384 / (each + 1) + 1,
                                   is_double ? f64_pass : f32_pass, &pass));
    shape[next] = a->out;
    a->resized = 0;
    from = pass.y;
  }
  if (!native && is_double) f64_store(out, (const double *)from, count);
  if (!native && !is_double) f32_store(out, (const float *)from, count);
  return TENON_OK;
}

static tenon_status_t resize_run(tenon_call_t *call) {
  axis_t axes[TENON_RANK_MAX];
  TENON_TRY(read_axes(call, axes));
  return resize_dense(call, call->inputs[X], call->outputs[0], axes);
}

/* A channels-last tensor as a dense one whose last axis is that of the channels. */
typedef struct turned_t {
  tenon_tensor_t tensor;
  int64_t shape[TENON_RANK_MAX];
  int64_t strides[TENON_RANK_MAX];
} turned_t;

static void turn(turned_t *turned, const tenon_tensor_t *t) {
  turned->tensor = *t;
  turned->tensor.shape = turned->shape;
  turned->tensor.strides = turned->strides;
  for (int32_t i = 0; i < t->ndim; i++) {
    int32_t from = i ? i + 1 : 0;
    if (from == t->ndim) from = 1;
    turned->shape[i] = t->shape[from];
    turned->strides[i] = t->strides[from];
  }
}

/* Tensors of f32 with any strides; of channels-last ones, whole rows of channels are copied or
 * weighted. */
static tenon_status_t resize_strided_run(tenon_call_t *call) {
  const int32_t last = call->inputs[X]->ndim - 1;
  axis_t axes[TENON_RANK_MAX];
  TENON_TRY(read_axes(call, axes));
  if (core_lies_last(call->inputs[X]) && core_lies_last(call->outputs[0])) {
    turned_t x, out;
    const axis_t channels = axes[1];
    turn(&x, call->inputs[X]);
    turn(&out, call->outputs[0]);
    for (int32_t i = 1; i < last; i++)
      axes[i] = axes[i + 1];
    axes[last] = channels;
    return resize_dense(call, &x.tensor, &out.tensor, axes);
  }
  const tenon_dtype_t dtype = call->inputs[X]->dtype;
  const tenon_tensor_t *x = core_dense(call, call->inputs[X], dtype);
  tenon_tensor_t *out = core_place_dense(call, call->outputs[0], dtype);
  if (!x || !out) return TENON_MEMORY;
  TENON_TRY(resize_dense(call, x, out, axes));
  return core_settle(call, call->outputs[0], out);
}

/* clang-format off */
FAMILY(core_resize,
  OPERATOR(resize,
    "(Tensor x, Tensor? @host roi=None, Tensor? @host scales=None, Tensor? @host sizes=None, *, "
    RESIZE_ARGUMENTS ") -> Tensor",
    (TENON_DOC("x stretched or shrunk along axes, by scales or to sizes, with interpolation."),
     TENON_TYPES("x: number|bool; roi: float; scales: float; sizes: i64|i32; out = x"),
     TENON_WHERE("roi: known; scales: known; sizes: known"),
     TENON_TRAITS(TENON_PURE),
     TENON_USES(DENSE_USES),
     TENON_INFER(resize_infer),
     TENON_GRADIENT("x: core::resize_backward(grad, core::shape(x), roi, scales, sizes, "
                    RESIZE_PASSED "); roi, scales: none")),
    KERNEL("", resize_run)
    KERNEL("f32 strided", resize_strided_run)))
/* clang-format on */
