/* Gradients of the pools: distributes the gradient of each window over its elements. The gradient
 * formulas in pool.c call them.
 * Invariant: one thread sums a plane of x, window by window in order. */
#include "axes.h"
#include "composite.h"
#include "dense.h"
#include "pool.h"
#include <string.h>
#include <tenon/check.h>

typedef struct spread_t { /* dy distributed over the windows of dx; both f32 or f64 */
  window_t window;
  const tenon_tensor_t *dy;
  const tenon_tensor_t *indices;
  tenon_tensor_t *dx; /* dense */
  int include_pad;
  int column_major;
  int has_rows; /* dy and its row-major indices lie one after another in each plane */
  int64_t plane;
  int64_t pixels; /* elements of one channel of dx and of dy */
} spread_t;

/* Converts window number `pixel` to an output position and returns its offset in t. */
static int64_t place_set(const window_t *w, const tenon_tensor_t *t, int64_t pixel, int64_t *o) {
  int64_t offset = 0;
  for (int32_t i = w->rank - 1; i >= 0; i--) {
    o[i] = pixel % w->out[i];
    pixel /= w->out[i];
    offset += o[i] * t->strides[2 + i];
  }
  return offset;
}

static int64_t plane_of(const tenon_tensor_t *t, int64_t number) {
  return number / t->shape[1] * t->strides[0] + number % t->shape[1] * t->strides[1];
}

/* average_pool */

#define T float
#define NAME(x) x##_float
#include "pool_average_backward_kernel.h"

#define T double
#define NAME(x) x##_double
#include "pool_average_backward_kernel.h"

static tenon_status_t run_planes(tenon_call_t *call, spread_t *s, tenon_part_fn part) {
  int64_t count = s->dx->shape[0] * s->dx->shape[1];
  int64_t work = s->plane + s->pixels * window_size(s->window.kernel, s->window.rank);
  TENON_TRY(call->host->parallel(call, count, 16384 / (work + 1) + 1, part, s));
  return core_settle(call, call->outputs[0], s->dx);
}

static tenon_status_t average_run(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  tenon_dtype_t dtype = tenon_dtype(core_is(out, TENON_F64) ? TENON_F64 : TENON_F32);
  window_args_t args = window_args(call->attrs + POOL_WINDOW, call->attrs[POOL_CEIL].as.i != 0);
  spread_t s = {.dy = core_as(call, call->inputs[0], dtype),
                .dx = core_place_dense(call, out, dtype)};
  if (!s.dy || !s.dx) return TENON_MEMORY;
  core_window_set(&s.window, &args, out->ndim - 2, out->shape + 2, call->attrs[POOL_KERNEL].as.ints,
                  s.dy->shape + 2);
  s.include_pad = call->attrs[POOL_MORE].as.i != 0;
  s.plane = window_size(s.window.in, s.window.rank);
  s.pixels = window_size(s.window.out, s.window.rank);
  return run_planes(call, &s, core_is(s.dx, TENON_F64) ? average_double : average_float);
}

/* States the shape in input `at`, of which dy has the pooled shape. */
static tenon_status_t shape_infer(tenon_infer_t *infer, uint32_t at, ints_t *shape) {
  const tenon_meta_t *dy = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(ints_read(infer, at, shape));
  if (shape->count >= 0 && (shape->count != dy->ndim || dy->ndim < 3))
    return tenon_fail(infer, TENON_INVALID,
                      "dy has %d axes, the pooled tensor %d; expected the same number, 3 or more",
                      dy->ndim, shape->count);
  if (!shape->known) return out_unknown(infer, out, dy->ndim);
  out->ndim = dy->ndim;
  for (int32_t i = 0; i < dy->ndim; i++)
    out->dims[i] = shape->at[i];
  return TENON_OK;
}

static tenon_status_t average_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  tenon_dim_t pooled[TENON_RANK_MAX];
  ints_t shape;
  TENON_TRY(shape_infer(infer, 1, &shape));
  if (!shape.known) return TENON_OK;
  pooled[0] = shape.at[0];
  pooled[1] = shape.at[1];
  TENON_TRY(core_pool_infer(infer, dy->ndim - 2, shape.at + 2, pooled + 2));
  for (int32_t i = 0; i < dy->ndim; i++)
    if (dim_differ(dy->dims[i], pooled[i]))
      return tenon_fail(infer, TENON_INVALID,
                        "dy has shape %s; the pooled tensor would have shape %s",
                        dims_text(dy->dims, dy->ndim).text, dims_text(pooled, dy->ndim).text);
  return TENON_OK;
}

/* max_pool */

/* Converts an index of max_pool to a position in its plane; -1 if the window has no element. Fails
 * the call if the index is out of range. */
static tenon_status_t index_to_position(tenon_call_t *call, const spread_t *s, int64_t number,
                                        int64_t index, int64_t *place) {
  const window_t *w = &s->window;
  int64_t rest = index - number * s->plane;
  int64_t pace = 1;
  *place = -1;
  if (index < 0) return TENON_OK;
  if (rest < 0 || rest >= s->plane)
    return tenon_fail(call, TENON_RANGE,
                      "index %" PRId64 " is outside plane %" PRId64 ", whose %" PRId64
                      " elements it must address",
                      index, number, s->plane);
  *place = rest;
  if (!s->column_major) return TENON_OK;
  int64_t at[SPATIAL_MAX];
  for (int32_t i = 0; i < w->rank; i++) {
    at[i] = rest % w->in[i];
    rest /= w->in[i];
  }
  *place = 0;
  for (int32_t i = w->rank - 1; i >= 0; i--) {
    *place += at[i] * pace;
    pace *= w->in[i];
  }
  return TENON_OK;
}

#define T float
#define NAME(x) x##_float
#include "pool_max_backward_kernel.h"

#define T double
#define NAME(x) x##_double
#include "pool_max_backward_kernel.h"

static tenon_status_t max_run(tenon_call_t *call, int gathers) {
  tenon_tensor_t *out = call->outputs[0];
  tenon_dtype_t dtype = tenon_dtype(core_is(out, TENON_F64) ? TENON_F64 : TENON_F32);
  spread_t s = {.indices = call->inputs[1], .column_major = call->attrs[0].as.i != 0};
  s.dy = gathers ? core_dense(call, call->inputs[0], dtype) : core_as(call, call->inputs[0], dtype);
  s.dx = core_place_dense(call, out, dtype);
  if (!s.dy || !s.dx) return TENON_MEMORY;
  s.has_rows = !s.column_major && core_is_dense(s.dy) && core_is_dense(s.indices);
  const tenon_tensor_t *large = gathers ? s.dy : s.dx;
  s.window.rank = out->ndim - 2;
  for (int32_t i = 0; i < s.window.rank; i++) {
    s.window.in[i] = large->shape[2 + i];
    s.window.out[i] = s.indices->shape[2 + i];
    s.window.kernel[i] = 1;
  }
  s.plane = window_size(s.window.in, s.window.rank);
  s.pixels = window_size(s.window.out, s.window.rank);
  int wide = core_is(s.dx, TENON_F64);
  tenon_part_fn put = wide ? put_double : put_float;
  tenon_part_fn gather = wide ? gather_double : gather_float;
  return run_planes(call, &s, gathers ? gather : put);
}

static tenon_status_t max_backward_run(tenon_call_t *call) { return max_run(call, 0); }
static tenon_status_t max_gather_run(tenon_call_t *call) { return max_run(call, 1); }

static tenon_status_t planes_check(tenon_infer_t *infer, const tenon_dim_t *large) {
  const tenon_meta_t *indices = infer->inputs[1];
  if (indices->ndim != infer->inputs[0]->ndim || dim_differ(indices->dims[0], large[0]) ||
      dim_differ(indices->dims[1], large[1]))
    return tenon_fail(infer, TENON_INVALID,
                      "indices of shape %s do not belong to a tensor of shape %s",
                      dims_text(indices->dims, indices->ndim).text,
                      dims_text(large, infer->inputs[0]->ndim).text);
  return TENON_OK;
}

static tenon_status_t max_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *indices = infer->inputs[1];
  ints_t shape;
  TENON_TRY(shape_infer(infer, 2, &shape));
  int wrong = indices->ndim != dy->ndim;
  for (int32_t i = 0; !wrong && i < dy->ndim; i++)
    wrong = dim_differ(dy->dims[i], indices->dims[i]);
  if (wrong)
    return tenon_fail(infer, TENON_INVALID, "dy has shape %s and indices %s; they must be equal",
                      dims_text(dy->dims, dy->ndim).text,
                      dims_text(indices->dims, indices->ndim).text);
  return shape.known ? planes_check(infer, shape.at) : TENON_OK;
}

static tenon_status_t max_gather_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim < 3)
    return tenon_fail(infer, TENON_INVALID, "x has %d axes; expected 3 or more", x->ndim);
  TENON_TRY(planes_check(infer, x->dims));
  return out_like(infer->outputs[0], infer->inputs[1]);
}

/* lp_pool: a composite */

enum {
  AVERAGE,
  ABS,
  SIGN,
  POW,
  MUL,
  EQUAL,
  WHERE,
};

/* With y^p the sum of |x|^p: dx = sign(x) |x|^(p - 1) times the sum of dy y^(1 - p) over the
 * windows that contain x; 0 where y is 0. Windows that reach beyond x behave like those of an
 * average that counts all its taps. */
static tenon_status_t lp_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *y = call->inputs[2];
  tenon_tensor_t *zero, *one, *shape, *t, *is_zero;
  const tenon_value_t *kernel = &call->attrs[POOL_KERNEL];
  window_args_t args = window_args(call->attrs + POOL_WINDOW, call->attrs[POOL_CEIL].as.i != 0);
  double p = call->attrs[POOL_MORE].as.f;
  int64_t pads[2 * SPATIAL_MAX];
  window_t w;
  core_window_set(&w, &args, x->ndim - 2, x->shape + 2, kernel->as.ints, dy->shape + 2);
  for (int32_t i = 0; i < w.rank; i++) {
    pads[i] = w.before[i];
    pads[i + w.rank] = (w.out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 -
                       w.in[i] - w.before[i];
  }
  tenon_value_t attrs[] = {*kernel,
                           *args.strides,
                           value_ints(2 * (uint32_t)w.rank, pads),
                           *args.dilations,
                           value_choice(WINDOW_EXPLICIT),
                           value_flag(0),
                           value_flag(1)};
  if (!(zero = core_number(call, y->dtype, 0)) || !(one = core_number(call, y->dtype, 1)))
    return TENON_MEMORY;
  TENON_TRY(INVOKE(call, EQUAL, NULL, &is_zero, y, zero));
  TENON_TRY(INVOKE(call, WHERE, NULL, &t, is_zero, one, y));
  TENON_TRY(core_with(call, POW, t, 1 - p, &t));
  TENON_TRY(INVOKE(call, MUL, NULL, &t, t, dy));
  TENON_TRY(core_with(call, MUL, t, (double)window_size(w.kernel, w.rank), &t));
  TENON_TRY(INVOKE(call, WHERE, NULL, &t, is_zero, zero, t));
  if (!(shape = core_ints(call, x->ndim, x->shape))) return TENON_MEMORY;
  TENON_TRY(INVOKE(call, AVERAGE, attrs, &dy, t, shape));
  TENON_TRY(INVOKE(call, ABS, NULL, &t, x));
  TENON_TRY(core_with(call, POW, t, p - 1, &t));
  TENON_TRY(INVOKE(call, MUL, NULL, &dy, dy, t));
  TENON_TRY(INVOKE(call, SIGN, NULL, &t, x));
  TENON_TRY(INVOKE(call, MUL, NULL, &dy, dy, t));
  return call->host->assign(call, 0, dy);
}

static tenon_status_t lp_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 1, 3, core_pool_result_infer);
}

/* clang-format off */
TENON_ITEMS(core_pool_backward,
  TENON_OP("average_pool_backward(Tensor dy, Tensor @host shape, *, " POOL_ARGUMENTS
           ", bool count_include_pad=False) -> Tensor",
    TENON_DOC("The gradient of average_pool, whose input has this shape."),
    TENON_SAMPLES("dy: [n, c, 5], shape: [3] [n, c, 6], kernel = [2]; "
                  "dy: [n, c, 2, 2], shape: [4] [n, c, 4, 5], kernel = [2, 3], strides = [2, 2]"),
    TENON_TYPES("dy: float; shape: i64|i32; out = dy"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(average_infer),
    TENON_GRADIENT("dy: core::average_pool(grad, " POOL_PASSED
                   ", count_include_pad=count_include_pad)"),
    TENON_KERNEL("cpu strided", average_run)),
  TENON_OP("max_pool_backward(Tensor dy, Tensor indices, Tensor @host shape, *, "
           "int storage_order=0) -> Tensor",
    TENON_DOC("The gradient of max_pool, whose input has this shape."),
    TENON_SAMPLES("dy: [2, 2, 5], indices: [2, 2, 5] [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, "
                  "15, 16, 18, 19, 20, 21, 22], shape: [3] [2, 2, 6]"),
    TENON_TYPES("dy: float; indices: i64; shape: i64|i32; out = dy"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(max_backward_infer),
    TENON_GRADIENT("dy: core::max_pool_gather(grad, indices, storage_order=storage_order)"),
    TENON_KERNEL("cpu strided", max_backward_run)),
  TENON_OP("max_pool_gather(Tensor x, Tensor indices, *, int storage_order=0) -> Tensor",
    TENON_DOC("The elements of x at the indices of max_pool; 0 for a window without elements."),
    TENON_SAMPLES("x: [2, 2, 6], indices: [2, 2, 5] [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, "
                  "15, 16, 18, 19, 20, 21, 22]"),
    TENON_TYPES("x: float; indices: i64; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(max_gather_infer),
    TENON_GRADIENT("x: core::max_pool_backward(grad, indices, core::shape(x), "
                   "storage_order=storage_order)"),
    TENON_KERNEL("cpu strided", max_gather_run)),
  TENON_OP("lp_pool_backward(Tensor dy, Tensor x, Tensor y, *, " POOL_ARGUMENTS
           ", float p=2.0) -> Tensor",
    TENON_DOC("The gradient of lp_pool with result y."),
    TENON_SAMPLES("dy: [n, c, 5], x: [n, c, 6], y: [n, c, 5] uniform(1, 2), kernel = [2]"),
    TENON_TYPES("dy, x, y: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES("core::average_pool_backward, core::abs, core::sign, core::pow, core::mul, "
               "core::equal, core::where"),
    TENON_INFER(lp_infer),
    TENON_COMPOSITE(lp_run)))
/* clang-format on */
