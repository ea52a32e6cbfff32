/* The gradient of resize: applies the transpose of its tables axis by axis, starting with the axis
 * that grew most. The gradient formula in simd/resize.c calls it.
 * Invariant: one thread forms a sum, in the order of the results. */
#include "axes.h"
#include "copy.h"
#include "dense.h"
#include "interpolation.h"
#include <math.h>
#include <string.h>
#include <tenon/check.h>

enum {
  DY,
  SHAPE,
  ROI,
  SCALES,
  SIZES,
  BLOCK = 1024,
};

typedef struct pass_t {
  const void *dy; /* [outer, out, inner] */
  void *dx;       /* [outer, in, inner] */
  const taps_t *taps;
  int64_t in;
  int64_t out;
  int64_t inner;
  int64_t blocks;
} pass_t;

#define T float
#define NAME(x) x##_float
#include "resize_backward_kernel.h"

#define T double
#define NAME(x) x##_double
#include "resize_backward_kernel.h"

/* The table for nearest, in the form of a table of weights. */
static tenon_status_t nearest_taps(tenon_call_t *call, const axis_t *a, taps_t *taps) {
  taps->count = 1;
  taps->index = (int64_t *)CORE_SCRATCH(call, sizeof *taps->index, a->out);
  taps->weight = (double *)CORE_SCRATCH(call, sizeof *taps->weight, a->out);
  if (!taps->index || !taps->weight) return TENON_MEMORY;
  for (int64_t i = 0; i < a->out; i++) {
    int64_t at = core_resize_nearest(call->attrs, a, i);
    taps->index[i] = at < 0 ? 0 : at;
    taps->weight[i] = at < 0 ? NAN : 1;
  }
  return TENON_OK;
}

static tenon_status_t resize_backward_run(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  tenon_dtype_t dtype = tenon_dtype(core_is(out, TENON_F64) ? TENON_F64 : TENON_F32);
  tenon_tensor_t *dy = core_dense(call, call->inputs[DY], dtype);
  tenon_tensor_t *dx = core_place_dense(call, out, dtype);
  resize_t r = {
      call->host,         call, call->attrs, out->ndim, call->inputs[ROI], call->inputs[SCALES],
      call->inputs[SIZES]};
  axis_t axes[TENON_RANK_MAX];
  int64_t shape[TENON_RANK_MAX];
  int64_t left = 0;
  if (!dy || !dx) return TENON_MEMORY;
  for (int32_t i = 0; i < out->ndim; i++)
    axes[i].in = out->shape[i];
  TENON_TRY(core_resize_axes(&r, axes));
  for (int32_t i = 0; i < out->ndim; i++) {
    shape[i] = dy->shape[i];
    if (axes[i].out != shape[i])
      return tenon_fail(call, TENON_INVALID,
                        "axis %d of dy has %" PRId64 " elements, but resize gives %" PRId64, i,
                        shape[i], axes[i].out);
    left += axes[i].resized;
  }
  size_t size = dtype.bits / 8;
  if (tenon_count(dy) == 0 || left == 0) {
    memset(dx->data, 0, (size_t)tenon_count(dx) * size);
    if (tenon_count(dy)) memcpy(dx->data, dy->data, (size_t)tenon_count(dx) * size);
    return core_settle(call, out, dx);
  }
  const void *from = dy->data;
  for (; left > 0; left--) {
    int32_t next = -1;
    for (int32_t i = 0; i < out->ndim; i++)
      if (axes[i].resized && (next < 0 || axes[i].scale > axes[next].scale)) next = i;
    axis_t *a = &axes[next];
    taps_t taps;
    TENON_TRY(call->attrs[RESIZE_MODE].as.i == NEAREST ? nearest_taps(call, a, &taps)
                                                       : core_resize_taps(call, a, &taps));
    int64_t outer = extents_product(shape, 0, next);
    int64_t inner = extents_product(shape, next + 1, out->ndim);
    pass_t pass = {from, dx->data, &taps, a->in, a->out, inner, (inner + BLOCK - 1) / BLOCK};
    if (left > 1) pass.dx = CORE_SCRATCH(call, size, outer, a->in, inner);
    if (!pass.dx) return TENON_MEMORY;
    int64_t each = a->out * taps.count * (inner < BLOCK ? inner : BLOCK);
    TENON_TRY(call->host->parallel(call, outer * pass.blocks, 16384 / (each + 1) + 1,
                                   dtype.bits == 64 ? pass_double : pass_float, &pass));
    shape[next] = a->in;
    a->resized = 0;
    from = pass.dx;
  }
  return core_settle(call, out, dx);
}

static tenon_status_t resize_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[DY];
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  TENON_TRY(ints_read(infer, SHAPE, &shape));
  if (shape.count >= 0 && shape.count != dy->ndim)
    return tenon_fail(infer, TENON_INVALID, "dy has %d axes, but the resized tensor has %d",
                      dy->ndim, shape.count);
  if (!shape.known) return out_unknown(infer, out, dy->ndim);
  out->ndim = dy->ndim;
  for (int32_t i = 0; i < dy->ndim; i++)
    out->dims[i] = shape.at[i];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_resize_backward,
  TENON_OP("resize_backward(Tensor dy, Tensor @host shape, Tensor? @host roi=None, "
           "Tensor? @host scales=None, Tensor? @host sizes=None, *, " RESIZE_ARGUMENTS
           ") -> Tensor",
    TENON_DOC("The gradient of resize, whose input has this shape."),
    TENON_SAMPLES("dy: [n, c, 8, 10], shape: [4] [n, c, 4, 5], scales: [4] [1.0, 1.0, 2.0, 2.0]"),
    TENON_TYPES("dy: float; shape: i64|i32; roi: float; scales: float; sizes: i64|i32; out = dy"),
    TENON_WHERE("shape: known; roi: known; scales: known; sizes: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(resize_backward_infer),
    TENON_GRADIENT("dy: core::resize(grad, roi, scales, sizes, " RESIZE_PASSED
                   "); roi, scales: none"),
    TENON_KERNEL("cpu strided", resize_backward_run)))
/* clang-format on */
