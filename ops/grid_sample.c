/* Sampling at given points: grid_sample, for up to four spatial axes, and affine_grid, which
 * creates such grids. The elements around a point and their weights are computed once and then
 * applied to every channel. Coordinates follow ONNX's GridSample-22; f16 and bf16 are computed in
 * f32.
 * Invariant: a coordinate that is NaN or far outside is treated like any other point outside. */
#include "axes.h"
#include "composite.h"
#include "copy.h"
#include "dense.h"
#include "simd/wide.h"
#include <tenon/check.h>

enum {
  LINEAR,
  NEAREST,
  CUBIC,
};
enum {
  ZEROS,
  BORDER,
  REFLECTION,
};
enum {
  AXES_MAX = 4,
  TAPS_MAX = 4,
  PLACES_MAX = 256,
};

typedef struct grid_t {
  const void *x;
  void *y;
  const tenon_tensor_t *grid;
  int64_t mode;
  int64_t padding;
  int align_corners;
  int32_t axes;
  int64_t extent[AXES_MAX];
  int64_t stride[AXES_MAX]; /* strides of x's spatial axes */
  int64_t channels;
  int64_t places;
  /* `places` counts points of the result, `pixels` those of x. */
  int64_t pixels;
} grid_t;

static double reflected_coordinate(double v, double low, double high) {
  double range = high - low;
  double beyond = v < low ? low - v : v - high;
  if (v >= low && v <= high) return v;
  if (range <= 0) return low;
  double turns = floor(beyond / range);
  double rest = beyond - turns * range;
  return (v < low) == (fmod(turns, 2) == 0) ? low + rest : high - rest;
}

/* The index that replaces one outside x; -1 means zero. */
static int64_t index_inside(const grid_t *g, int32_t axis, int64_t i) {
  int64_t n = g->extent[axis];
  if (i >= 0 && i < n) return i;
  if (g->padding == ZEROS) return -1;
  if (g->padding == BORDER) return i < 0 ? 0 : n - 1;
  double edge = g->align_corners ? 0 : -0.5;
  i = (int64_t)reflected_coordinate((double)i, edge, (double)(n - 1) - edge);
  return int_clamp(i, 0, n - 1);
}

/* The derivative of reflected() with respect to v. */
static double reflected_slope(double v, double low, double high) {
  double range = high - low;
  double beyond = v < low ? low - v : v - high;
  if (v >= low && v <= high) return 1;
  if (range <= 0) return 0;
  return fmod(floor(beyond / range), 2) == 0 ? -1 : 1;
}

/* Finds the elements along an axis and their weights and, where `slope` is not NULL, the
 * derivatives of the weights with respect to `normal`. Returns their number. */
static int32_t taps_of(const grid_t *g, int32_t axis, double normal, int64_t *index, double *weight,
                       double *slope) {
  double n = (double)g->extent[axis];
  double edge = g->align_corners ? 0 : -0.5;
  /* Computed in f32, as exporters and other runtimes do, so that points between pixels round
   * alike. */
  float place = g->align_corners ? ((float)normal + 1) / 2 * (float)(n - 1)
                                 : (((float)normal + 1) * (float)n - 1) / 2;
  double v = g->align_corners ? (normal + 1) / 2 * (n - 1) : ((normal + 1) * n - 1) / 2;
  if (tenon_dtype_id(g->grid->dtype) != TENON_F64) v = (double)place;
  if (!(v > -0x1p30 && v < 0x1p30)) v = v > 0 ? 0x1p30 : -0x1p30;
  if (g->mode == NEAREST) v = nearbyint(v);
  double pace = g->align_corners ? (n - 1) / 2 : n / 2; /* derivative of v with respect to normal */
  if (v < edge || v > n - 1 - edge) {
    /* A cubic keeps its point, and index_inside clamps each of its elements: PyTorch and ONNX
     * Runtime agree on this, against ONNX's reference, which clamps the point. */
    if (g->padding == BORDER && g->mode != CUBIC) {
      v = fmin(fmax(v, 0), n - 1);
      pace = 0;
    }
    if (g->padding == REFLECTION) {
      pace *= reflected_slope(v, edge, n - 1 - edge);
      v = reflected_coordinate(v, edge, n - 1 - edge);
    }
  }
  double below = floor(v);
  double r = v - below;
  double s = 1 - r;
  double a = -0.75;
  int32_t count = 4;
  if (g->mode == NEAREST) count = 1;
  if (g->mode == LINEAR) count = 2;
  int64_t first = (int64_t)(g->mode == NEAREST ? v : below) - (g->mode == CUBIC);
  const double cubic[4] = {((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a,
                           ((a + 2) * r - (a + 3)) * r * r + 1, ((a + 2) * s - (a + 3)) * s * s + 1,
                           ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a};
  for (int32_t k = 0; k < count; k++) {
    index[k] = index_inside(g, axis, first + k);
    weight[k] = k ? r : s;
    if (g->mode == NEAREST) weight[k] = 1;
    if (g->mode == CUBIC) weight[k] = cubic[k];
  }
  if (!slope) return count;
  const double steep[4] = {
      (3 * a * (r + 1) - 10 * a) * (r + 1) + 8 * a, (3 * (a + 2) * r - 2 * (a + 3)) * r,
      -(3 * (a + 2) * s - 2 * (a + 3)) * s, -((3 * a * (s + 1) - 10 * a) * (s + 1) + 8 * a)};
  for (int32_t k = 0; k < count; k++) {
    slope[k] = k ? pace : -pace;
    if (g->mode == NEAREST) slope[k] = 0;
    if (g->mode == CUBIC) slope[k] = pace * steep[k];
  }
  return count;
}

/* Finds all combinations of the axes' elements that are not zero, as offsets into a channel with
 * weights. Returns their number. */
static int32_t corners_around(const grid_t *g, int64_t place, int64_t *offset, double *weight) {
  int32_t count = 1;
  offset[0] = 0;
  weight[0] = 1;
  for (int32_t axis = 0; axis < g->axes; axis++) {
    int64_t index[TAPS_MAX], more_offset[PLACES_MAX];
    double part[TAPS_MAX], more_weight[PLACES_MAX];
    double normal =
        number_get(g->grid->dtype, g->grid->data, place * g->axes + (g->axes - 1 - axis));
    int32_t taps = taps_of(g, axis, normal, index, part, NULL);
    int32_t more = 0;
    for (int32_t i = 0; i < count; i++) {
      for (int32_t k = 0; k < taps; k++) {
        if (index[k] < 0) continue;
        more_offset[more] = offset[i] + index[k] * g->stride[axis];
        more_weight[more++] = weight[i] * part[k];
      }
    }
    count = more;
    memcpy(offset, more_offset, (size_t)count * sizeof *offset);
    memcpy(weight, more_weight, (size_t)count * sizeof *weight);
  }
  return count;
}

#define T float
#define NAME(x) f32_##x
#include "grid_sample_kernel.h"

#define T double
#define NAME(x) f64_##x
#include "grid_sample_kernel.h"

static void grid_set(grid_t *g, const tenon_value_t *attrs, const tenon_tensor_t *x,
                     const tenon_tensor_t *grid, int64_t places) {
  *g = (grid_t){.grid = grid,
                .mode = attrs[0].as.i,
                .padding = attrs[1].as.i,
                .align_corners = attrs[2].as.i != 0};
  g->axes = x->ndim - 2;
  g->channels = x->shape[1];
  g->places = places;
  g->pixels = extents_product(x->shape, 2, x->ndim);
  for (int32_t i = 0; i < g->axes; i++) {
    g->extent[i] = x->shape[2 + i];
    g->stride[i] = x->strides[2 + i];
  }
}

static tenon_status_t sample_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *grid = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  int64_t count = tenon_count(out);
  grid_t g;
  grid_set(&g, call->attrs, x, grid, extents_product(out->shape, 2, out->ndim));
  g.x = x->data;
  g.y = out->data;
  if (count == 0) return TENON_OK;
  if (g.pixels == 0)
    return tenon_fail(call, TENON_INVALID, "x is empty, so there is nothing to sample");
  if (is_narrow(x->dtype)) {
    int64_t room = tenon_count(x);
    float *wide = (float *)call->host->allocate(call, (uint64_t)(room + count) * sizeof(float));
    if (!wide) return TENON_MEMORY;
    widen_run(x->dtype, wide, x->data, room);
    g.x = wide;
    g.y = wide + room;
  }
  TENON_TRY(call->host->parallel(call, x->shape[0] * g.places, 1024 / (g.channels + 1) + 1,
                                 tenon_dtype_id(x->dtype) == TENON_F64 ? f64_sample : f32_sample,
                                 &g));
  if (is_narrow(x->dtype)) narrow_run(x->dtype, out->data, (const float *)g.y, count);
  return TENON_OK;
}

static tenon_status_t sample_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *grid = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 3 || x->ndim > 2 + AXES_MAX || grid->ndim != x->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "x has rank %d and grid %d; expected the same rank, from 3 to %d", x->ndim,
                      grid->ndim, 2 + AXES_MAX);
  if (dim_differ(grid->dims[0], x->dims[0]) ||
      dim_differ(grid->dims[x->ndim - 1], tenon_extent(x->ndim - 2)))
    return tenon_fail(infer, TENON_INVALID, "grid %s does not fit x %s; expected [batch, ..., %d]",
                      dims_text(grid->dims, grid->ndim).text, dims_text(x->dims, x->ndim).text,
                      x->ndim - 2);
  out_like(out, x);
  for (int32_t i = 2; i < x->ndim; i++)
    out->dims[i] = grid->dims[i - 1];
  return TENON_OK;
}

/* grid_sample_backward */

typedef struct back_t {
  grid_t grid;
  const tenon_tensor_t *dy;
  const tenon_tensor_t *x; /* both dense, f32 or f64 */
  tenon_tensor_t *dx;
  tenon_tensor_t *dgrid;
  int64_t blocks; /* blocks of channels */
} back_t;

#define T float
#define NAME(x) f32_##x
#include "grid_sample_backward_kernel.h"

#define T double
#define NAME(x) f64_##x
#include "grid_sample_backward_kernel.h"

static tenon_status_t sample_backward_run(tenon_call_t *call) {
  enum { BLOCKS = 16 };
  const tenon_tensor_t *grid = call->inputs[2];
  tenon_tensor_t *const *out = call->outputs;
  int wide = core_is(call->inputs[1], TENON_F64);
  tenon_dtype_t dtype = tenon_dtype(wide ? TENON_F64 : TENON_F32);
  back_t b = {.dy = core_dense(call, call->inputs[0], dtype),
              .x = core_dense(call, call->inputs[1], dtype),
              .dgrid = out[1]};
  if (!b.dy || !b.x) return TENON_MEMORY;
  grid_t *g = &b.grid;
  grid_set(g, call->attrs, b.x, grid, extents_product(b.dy->shape, 2, b.dy->ndim));
  b.blocks = g->channels < BLOCKS ? g->channels : BLOCKS;
  if (g->pixels == 0 && tenon_count(b.dy))
    return tenon_fail(call, TENON_INVALID, "x is empty, so there is nothing to sample");
  if (out[0]) {
    if (!(b.dx = core_place_dense(call, out[0], dtype))) return TENON_MEMORY;
    TENON_TRY(call->host->parallel(call, b.x->shape[0] * b.blocks, 1,
                                   wide ? f64_sample_dx : f32_sample_dx, &b));
    TENON_TRY(core_settle(call, out[0], b.dx));
  }
  if (!out[1]) return TENON_OK;
  return call->host->parallel(call, b.x->shape[0] * g->places, 1024 / (g->channels + 1) + 1,
                              wide ? f64_sample_dgrid : f32_sample_dgrid, &b);
}

static tenon_status_t sample_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *x = infer->inputs[1];
  const tenon_meta_t *grid = infer->inputs[2];
  int wrong = dy->ndim != x->ndim || grid->ndim != x->ndim || x->ndim < 3 || x->ndim > 2 + AXES_MAX;
  for (int32_t i = 0; !wrong && i < x->ndim; i++)
    wrong = dim_differ(dy->dims[i], i < 2 ? x->dims[i] : grid->dims[i - 1]);
  if (wrong || dim_differ(grid->dims[0], x->dims[0]) ||
      dim_differ(grid->dims[x->ndim - 1], tenon_extent(x->ndim - 2)))
    return tenon_fail(infer, TENON_INVALID,
                      "dy has shape %s, which is not what grid %s samples from x %s",
                      dims_text(dy->dims, dy->ndim).text, dims_text(grid->dims, grid->ndim).text,
                      dims_text(x->dims, x->ndim).text);
  return core_gradients_infer(infer, 1, 2);
}

/* affine_grid */

static tenon_status_t affine_infer(tenon_infer_t *infer) {
  const tenon_meta_t *theta = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t size;
  TENON_TRY(ints_read(infer, 1, &size));
  if (size.count < 0) return out_unknown(infer, out, -1);
  int32_t axes = size.count - 2;
  if ((axes != 2 && axes != 3) || theta->ndim != 3 ||
      dim_differ(theta->dims[1], tenon_extent(axes)) ||
      dim_differ(theta->dims[2], tenon_extent(axes + 1)))
    return tenon_fail(infer, TENON_INVALID,
                      "theta has shape %s and size %d extents; expected [batch, 2, 3] and 4, or "
                      "[batch, 3, 4] and 5",
                      dims_text(theta->dims, theta->ndim).text, size.count);
  if (!size.known) return out_unknown(infer, out, axes + 2);
  if (dim_differ(theta->dims[0], size.at[0]))
    return tenon_fail(infer, TENON_INVALID,
                      "theta has a batch of %" PRId64 ", the size says %" PRId64,
                      theta->dims[0].value, size.at[0].value);
  out->ndim = axes + 2;
  out->dims[0] = theta->dims[0];
  out->dims[axes + 1] = tenon_extent(axes);
  for (int32_t i = 0; i < axes; i++)
    out->dims[1 + i] = size.at[2 + i];
  return TENON_OK;
}

/* The coordinates x, y, (z,) 1 of point n of an image with the shape of the grid. */
static void affine_place(const tenon_tensor_t *grid, int64_t n, int align_corners, double *place) {
  int32_t axes = grid->ndim - 2;
  for (int32_t i = 0; i < axes; i++) {
    int64_t extent = grid->shape[axes - i];
    int64_t at = n % extent;
    n /= extent;
    if (align_corners)
      place[i] = extent > 1 ? 2.0 * (double)at / (double)(extent - 1) - 1 : -1;
    else
      place[i] = (2.0 * (double)at + 1) / (double)extent - 1;
  }
  place[axes] = 1;
}

static tenon_status_t affine_backward_run(tenon_call_t *call) {
  const tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int32_t axes = dy->ndim - 2;
  int64_t places = extents_product(dy->shape, 1, dy->ndim - 1);
  for (int64_t image = 0; image < dy->shape[0]; image++) {
    double place[4];
    double sum[3][4] = {{0}};
    for (int64_t n = image * places; n < (image + 1) * places; n++) {
      affine_place(dy, n, call->attrs[0].as.i != 0, place);
      for (int32_t i = 0; i < axes; i++) {
        double g = number_get(dy->dtype, dy->data, n * axes + i);
        for (int32_t j = 0; j <= axes; j++)
          sum[i][j] += g * place[j];
      }
    }
    for (int32_t i = 0; i < axes; i++)
      for (int32_t j = 0; j <= axes; j++)
        number_set(out->dtype, out->data, (image * axes + i) * (axes + 1) + j, sum[i][j]);
  }
  return TENON_OK;
}

static tenon_status_t affine_run(tenon_call_t *call) {
  const tenon_tensor_t *theta = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int32_t axes = out->ndim - 2;
  int64_t places = extents_product(out->shape, 1, out->ndim - 1);
  int64_t count = out->shape[0] * places;
  for (int64_t n = 0; n < count; n++) {
    double place[4];
    affine_place(out, n, call->attrs[0].as.i != 0, place);
    for (int32_t i = 0; i < axes; i++) {
      double sum = 0;
      for (int32_t j = 0; j <= axes; j++)
        sum += number_get(theta->dtype, theta->data, ((n / places) * axes + i) * (axes + 1) + j) *
               place[j];
      number_set(out->dtype, out->data, n * axes + i, sum);
    }
  }
  return TENON_OK;
}

static tenon_status_t affine_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t size;
  TENON_TRY(ints_read(infer, 1, &size));
  int wrong = dy->ndim < 4 || dy->ndim > 5 || size.count != dy->ndim ||
              dim_differ(dy->dims[dy->ndim - 1], tenon_extent(dy->ndim - 2));
  for (int32_t i = 0; !wrong && size.known && i < dy->ndim - 1; i++)
    wrong = dim_differ(dy->dims[i], size.at[i ? i + 1 : 0]);
  if (wrong)
    return tenon_fail(infer, TENON_INVALID,
                      "dy has shape %s, which is not that of a grid for a size of %d extents",
                      dims_text(dy->dims, dy->ndim).text, size.count);
  out->ndim = 3;
  out->dims[0] = dy->dims[0];
  out->dims[1] = tenon_extent(dy->ndim - 2);
  out->dims[2] = tenon_extent(dy->ndim - 1);
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_sample,
  TENON_OP("grid_sample(Tensor x, Tensor grid, *, str['linear', 'nearest', 'cubic'] mode='linear', "
           "str['zeros', 'border', 'reflection'] padding='zeros', "
           "bool align_corners=False) -> Tensor",
    TENON_DOC("x interpolated at the points in grid; "
              "coordinates run from -1 to 1 along each axis, last axis first."),
    TENON_SAMPLES("x: [n, c, 4, 5], grid: [n, 3, 2, 2] uniform(-1, 1)"),
    TENON_TYPES("x: float; grid: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(sample_infer),
    TENON_GRADIENT("x, grid: core::grid_sample_backward(grad, x, grid, mode=mode, padding=padding, "
                   "align_corners=align_corners)"),
    TENON_KERNEL("cpu", sample_run)),
  TENON_OP("grid_sample_backward(Tensor dy, Tensor x, Tensor grid, *, str['linear', 'nearest', "
           "'cubic'] mode='linear', str['zeros', 'border', 'reflection'] padding='zeros', "
           "bool align_corners=False) -> (Tensor? dx, Tensor? dgrid)",
    TENON_DOC("The gradients of grid_sample."),
    TENON_SAMPLES("dy: [n, c, 3, 2], x: [n, c, 4, 5], grid: [n, 3, 2, 2] uniform(-1, 1)"),
    TENON_TYPES("dy, x: float; grid: float; dx = x; dgrid = grid"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(sample_backward_infer),
    TENON_KERNEL("cpu", sample_backward_run)),
  TENON_OP("affine_grid(Tensor theta, Tensor @host size, *, bool align_corners=False) -> Tensor",
    TENON_DOC("A grid for grid_sample: the pixel positions of an image of this size, "
              "transformed by matrices."),
    TENON_SAMPLES("theta: [n, 2, 3], size: [4] [n, 2, h, w]; "
                  "theta: [n, 3, 4], size: [5] [n, 2, 3, h, w]"),
    TENON_TYPES("theta: float; size: i64|i32; out = theta"),
    TENON_WHERE("size: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(affine_infer),
    TENON_GRADIENT("theta: core::affine_grid_backward(grad, size, align_corners=align_corners)"),
    TENON_KERNEL("cpu", affine_run)),
  TENON_OP("affine_grid_backward(Tensor dy, Tensor @host size, *, "
           "bool align_corners=False) -> Tensor",
    TENON_DOC("The gradient of affine_grid."),
    TENON_SAMPLES("dy: [n, h, w, 2], size: [4] [n, 2, h, w]; "
                  "dy: [n, 3, h, w, 3], size: [5] [n, 2, 3, h, w]"),
    TENON_TYPES("dy: float; size: i64|i32; out = dy"),
    TENON_WHERE("size: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(affine_backward_infer),
    TENON_GRADIENT("dy: core::affine_grid(grad, size, align_corners=align_corners)"),
    TENON_KERNEL("cpu", affine_backward_run)))
/* clang-format on */
