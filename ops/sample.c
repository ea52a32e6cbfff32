/* Sampling at given places: grid_sample, for up to four spatial axes, and affine_grid, which makes such grids.
 * For a place, the elements that surround it and their weights are worked out once and then applied to every channel.
 * Coordinates follow ONNX's GridSample-22; f16 and bf16 are computed as f32.
 * Invariant: a coordinate that is no number, or far outside, is an ordinary place outside. */
#include "axes.h"
#include "copy.h"
#include "simd/wide.h"

enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, BORDER, REFLECTION };
enum { AXES_MAX = 4, TAPS_MAX = 4, PLACES_MAX = 256 };

typedef struct grid_t {
  const void *x;
  void *y;
  const tenon_tensor_t *grid;
  int64_t mode, padding;
  int align_corners;
  int32_t axes;
  int64_t extent[AXES_MAX], stride[AXES_MAX]; /* of x's spatial axes */
  int64_t channels, places, pixels;           /* places: of the result; pixels: of x */
} grid_t;

static double reflected(double v, double low, double high) {
  double range = high - low, beyond = v < low ? low - v : v - high;
  if (v >= low && v <= high) return v;
  if (range <= 0) return low;
  double turns = floor(beyond / range), rest = beyond - turns * range;
  return (v < low) == (fmod(turns, 2) == 0) ? low + rest : high - rest;
}

/* The index that takes the place of one outside; -1: zero. */
static int64_t inside(const grid_t *g, int32_t axis, int64_t i) {
  int64_t n = g->extent[axis];
  if (i >= 0 && i < n) return i;
  if (g->padding == ZEROS) return -1;
  if (g->padding == BORDER) return i < 0 ? 0 : n - 1;
  double edge = g->align_corners ? 0 : -0.5;
  i = (int64_t)reflected((double)i, edge, (double)(n - 1) - edge);
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* The elements along an axis, and their weights; gives how many. */
static int32_t taps_of(const grid_t *g, int32_t axis, double normal, int64_t *index, double *weight) {
  double n = (double)g->extent[axis], edge = g->align_corners ? 0 : -0.5;
  /* in f32, as exporters and other runtimes have it, so that places between pixels round alike */
  float place = g->align_corners ? ((float)normal + 1) / 2 * (float)(n - 1) : (((float)normal + 1) * (float)n - 1) / 2;
  double v = tenon_dtype_id(g->grid->dtype) != TENON_F64 ? (double)place
             : g->align_corners                          ? (normal + 1) / 2 * (n - 1)
                                                         : ((normal + 1) * n - 1) / 2;
  if (!(v > -0x1p30 && v < 0x1p30)) v = v > 0 ? 0x1p30 : -0x1p30;
  if (g->mode == NEAREST) v = nearbyint(v);
  if (v < edge || v > n - 1 - edge) {
    if (g->padding == BORDER) v = v < 0 ? 0 : v > n - 1 ? n - 1 : v;
    if (g->padding == REFLECTION) v = reflected(v, edge, n - 1 - edge);
  }
  double below = floor(v), r = v - below, s = 1 - r, a = -0.75;
  int32_t count = g->mode == NEAREST ? 1 : g->mode == LINEAR ? 2 : 4;
  int64_t first = (int64_t)(g->mode == NEAREST ? v : below) - (g->mode == CUBIC);
  const double cubic[4] = {((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a,
                           ((a + 2) * r - (a + 3)) * r * r + 1, ((a + 2) * s - (a + 3)) * s * s + 1,
                           ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a};
  for (int32_t k = 0; k < count; k++) {
    index[k] = inside(g, axis, first + k);
    weight[k] = g->mode == NEAREST ? 1 : g->mode == CUBIC ? cubic[k] : k ? r : s;
  }
  return count;
}

/* All combinations of the axes' elements that are not zero: offsets into a channel, and weights.  Gives how many. */
static int32_t around(const grid_t *g, int64_t place, int64_t *offset, double *weight) {
  int32_t count = 1;
  offset[0] = 0, weight[0] = 1;
  for (int32_t axis = 0; axis < g->axes; axis++) {
    int64_t index[TAPS_MAX], more_offset[PLACES_MAX];
    double part[TAPS_MAX], more_weight[PLACES_MAX];
    double normal = number_get(g->grid->dtype, g->grid->data, place * g->axes + (g->axes - 1 - axis));
    int32_t taps = taps_of(g, axis, normal, index, part), more = 0;
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

#define SAMPLE(name, T)                                                                                                \
  static tenon_status_t name##_sample(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {                \
    const grid_t *g = (const grid_t *)argument;                                                                        \
    int64_t offset[PLACES_MAX];                                                                                        \
    double weight[PLACES_MAX];                                                                                         \
    (void)call;                                                                                                        \
    for (int64_t place = begin; place < end; place++) {                                                                \
      int32_t count = around(g, place, offset, weight);                                                                \
      int64_t batch = place / g->places, first = batch * g->channels;                                                  \
      const T *x = (const T *)g->x + first * g->pixels;                                                                \
      T *y = (T *)g->y + first * g->places + place % g->places;                                                        \
      for (int64_t c = 0; c < g->channels; c++, x += g->pixels, y += g->places) {                                      \
        T sum = 0;                                                                                                     \
        for (int32_t k = 0; k < count; k++) sum += (T)weight[k] * x[offset[k]];                                        \
        *y = sum;                                                                                                      \
      }                                                                                                                \
    }                                                                                                                  \
    return TENON_OK;                                                                                                   \
  }
SAMPLE(f32, float)
SAMPLE(f64, double)

static tenon_status_t sample_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0], *grid = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  int64_t count = tenon_count(out);
  grid_t g = {.x = x->data, .y = out->data, .grid = grid, .mode = call->attrs[0].as.i, .padding = call->attrs[1].as.i};
  g.align_corners = call->attrs[2].as.i != 0, g.axes = x->ndim - 2, g.channels = x->shape[1];
  g.places = extents_product(out->shape, 2, out->ndim), g.pixels = extents_product(x->shape, 2, x->ndim);
  for (int32_t i = 0; i < g.axes; i++) g.extent[i] = x->shape[2 + i], g.stride[i] = x->strides[2 + i];
  if (count == 0) return TENON_OK;
  if (g.pixels == 0) return tenon_fail(call, TENON_INVALID, "there is nothing to sample: the input is empty");
  if (is_narrow(x->dtype)) {
    int64_t room = tenon_count(x);
    float *wide = (float *)call->host->allocate(call, (uint64_t)(room + count) * sizeof(float));
    if (!wide) return TENON_MEMORY;
    widen(x->dtype, wide, x->data, room);
    g.x = wide, g.y = wide + room;
  }
  TENON_TRY(call->host->parallel(call, x->shape[0] * g.places, 1024 / (g.channels + 1) + 1,
                                 tenon_dtype_id(x->dtype) == TENON_F64 ? f64_sample : f32_sample, &g));
  if (is_narrow(x->dtype)) narrow(x->dtype, out->data, (const float *)g.y, count);
  return TENON_OK;
}

static tenon_status_t sample_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0], *grid = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 3 || x->ndim > 2 + AXES_MAX || grid->ndim != x->ndim)
    return tenon_fail(infer, TENON_INVALID, "the input has rank %d and the grid %d; the same, from 3 to %d, is wanted",
                      x->ndim, grid->ndim, 2 + AXES_MAX);
  if (dim_differ(grid->dims[0], x->dims[0]) || dim_differ(grid->dims[x->ndim - 1], tenon_extent(x->ndim - 2)))
    return tenon_fail(infer, TENON_INVALID, "grid %s does not fit input %s: [batch, ..., %d] is wanted",
                      dims_text(grid->dims, grid->ndim).text, dims_text(x->dims, x->ndim).text, x->ndim - 2);
  out_like(out, x);
  for (int32_t i = 2; i < x->ndim; i++) out->dims[i] = grid->dims[i - 1];
  return TENON_OK;
}

/* ---- affine_grid ------------------------------------------------------------------------------------------------- */

static tenon_status_t affine_infer(tenon_infer_t *infer) {
  const tenon_meta_t *theta = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t size;
  TENON_TRY(ints_read(infer, 1, &size));
  if (size.count < 0) return out_unknown(infer, out, -1);
  int32_t axes = size.count - 2;
  if ((axes != 2 && axes != 3) || theta->ndim != 3 || dim_differ(theta->dims[1], tenon_extent(axes)) ||
      dim_differ(theta->dims[2], tenon_extent(axes + 1)))
    return tenon_fail(infer, TENON_INVALID,
                      "theta %s and a size of %d extents: [batch, 2, 3] and 4, or [batch, 3, 4] "
                      "and 5, are wanted",
                      dims_text(theta->dims, theta->ndim).text, size.count);
  if (!size.known) return out_unknown(infer, out, axes + 2);
  if (dim_differ(theta->dims[0], size.at[0]))
    return tenon_fail(infer, TENON_INVALID, "theta is for a batch of %" PRId64 ", the size says %" PRId64,
                      theta->dims[0].value, size.at[0].value);
  out->ndim = axes + 2;
  out->dims[0] = theta->dims[0], out->dims[axes + 1] = tenon_extent(axes);
  for (int32_t i = 0; i < axes; i++) out->dims[1 + i] = size.at[2 + i];
  return TENON_OK;
}

static tenon_status_t affine_run(tenon_call_t *call) {
  const tenon_tensor_t *theta = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int32_t axes = out->ndim - 2;
  int align_corners = call->attrs[0].as.i != 0;
  int64_t places = extents_product(out->shape, 1, out->ndim - 1), count = out->shape[0] * places;
  for (int64_t n = 0; n < count; n++) {
    double place[4] = {1, 1, 1, 1}; /* x, y, (z,) 1 */
    int64_t rest = n;
    for (int32_t i = 0; i < axes; i++) {
      int64_t extent = out->shape[axes - i], at = rest % extent;
      rest /= extent;
      if (align_corners) place[i] = extent > 1 ? 2.0 * (double)at / (double)(extent - 1) - 1 : -1;
      else place[i] = (2.0 * (double)at + 1) / (double)extent - 1;
    }
    for (int32_t i = 0; i < axes; i++) {
      double sum = 0;
      for (int32_t j = 0; j <= axes; j++)
        sum += number_get(theta->dtype, theta->data, ((n / places) * axes + i) * (axes + 1) + j) * place[j];
      number_set(out->dtype, out->data, n * axes + i, sum);
    }
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_sample,
  TENON_OP("grid_sample(Tensor x, Tensor grid, *, str['linear', 'nearest', 'cubic'] mode='linear', "
           "str['zeros', 'border', 'reflection'] padding='zeros', bool align_corners=False) -> Tensor",
    TENON_DOC("x, interpolated at the places that the grid holds, from -1 to 1 along each axis, the last axis first."),
    TENON_TYPES("x: float; grid: float; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(sample_infer),
    TENON_KERNEL("cpu", sample_run)),
  TENON_OP("affine_grid(Tensor theta, Tensor @host size, *, bool align_corners=False) -> Tensor",
    TENON_DOC("A grid for grid_sample: the places of an image of this size, transformed by matrices."),
    TENON_TYPES("theta: float; size: i64|i32; out = theta"), TENON_WHERE("size: known"), TENON_TRAITS(TENON_PURE),
    TENON_INFER(affine_infer), TENON_KERNEL("cpu", affine_run))
)
