/* Tables for resize; see interpolation.h. */
#include "interpolation.h"
#include "axes.h"
#include "dtype_scalar.h"
#include <math.h>

tenon_status_t core_resize_axes(const resize_t *r, axis_t *axes) {
  const tenon_value_t *named = &r->attrs[RESIZE_AXES];
  int listed = named->kind != TENON_KIND_NONE;
  int64_t count = listed ? (int64_t)named->count : r->rank;
  int64_t policy = r->attrs[RESIZE_POLICY].as.i;
  const tenon_tensor_t *given = count_of(r->sizes) ? r->sizes : r->scales;
  int64_t step = given && given->ndim ? given->strides[0] : 1;
  int64_t roi_step = r->roi && r->roi->ndim ? r->roi->strides[0] : 1;
  uint64_t mask = 0;
  double scale = 0;
  if (listed) TENON_TRY(axes_mask_(r->host, r->context, named->as.ints, count, r->rank, &mask));
  if (count_of(given) != count || (count_of(r->sizes) && count_of(r->scales)))
    return r->host->fail(r->context, TENON_INVALID,
                         "expected scales or sizes with one number for each of %" PRId64
                         " axes, but found %" PRId64 " scales and %" PRId64,
                         count, count_of(r->scales), count_of(r->sizes));
  int crop = r->attrs[RESIZE_COORDINATES].as.i == TF_CROP_AND_RESIZE;
  if ((given && given->ndim != 1) || (crop && r->roi && r->roi->ndim != 1))
    return r->host->fail(r->context, TENON_INVALID,
                         "scales, sizes and roi must have one axis each");
  if (crop && count_of(r->roi) != 2 * count)
    return r->host->fail(r->context, TENON_INVALID,
                         "roi has %" PRId64 " numbers; expected two for each of %" PRId64 " axes",
                         count_of(r->roi), count);
  for (int32_t i = 0; i < r->rank; i++)
    axes[i] = (axis_t){0, axes[i].in, axes[i].in, 1, 0, 1};
  for (int64_t i = 0; i < count; i++) {
    int64_t at = listed ? named->as.ints[i] : i;
    axis_t *axis = &axes[at < 0 ? at + r->rank : at];
    axis->resized = 1;
    if (crop) axis->start = number_get(r->roi->dtype, r->roi->data, i * roi_step);
    if (crop) axis->end = number_get(r->roi->dtype, r->roi->data, (i + count) * roi_step);
    if (given == r->sizes) {
      axis->out = tensor_int(given, i);
      axis->scale = (double)axis->out / (double)axis->in;
    } else {
      axis->scale = number_get(given->dtype, given->data, i * step);
      double size = floor((double)axis->in * axis->scale * (axis->end - axis->start));
      if (!(axis->scale > 0) || !(size >= 0 && size < 0x1p60))
        return r->host->fail(r->context, TENON_INVALID,
                             "%" PRId64 " elements cannot be scaled by %g", axis->in, axis->scale);
      axis->out = (int64_t)size;
    }
    if (axis->out < 0 || (axis->in == 0 && axis->out > 0))
      return r->host->fail(r->context, TENON_INVALID,
                           "%" PRId64 " elements cannot be resized to %" PRId64, axis->in,
                           axis->out);
    if (i == 0 || (policy == NOT_LARGER ? axis->scale < scale : axis->scale > scale))
      scale = axis->scale;
  }
  for (int32_t i = 0; i < r->rank && given == r->sizes && policy != STRETCH; i++)
    if (axes[i].resized) {
      axes[i].scale = scale;
      axes[i].out = (int64_t)floor(scale * (double)axes[i].in + 0.5);
    }
  return TENON_OK;
}

/* tables */

/* The coordinate in the input of result i along an axis. */
static double input_position(const axis_t *a, int64_t mode, int64_t i) {
  double x = (double)i;
  double in = (double)a->in;
  double out = a->scale * in;
  double half = (x + 0.5) / a->scale - 0.5;
  switch (mode) {
  case HALF_PIXEL_SYMMETRIC:
    return in / 2 * (1 - (double)a->out / out) + half;
  case PYTORCH_HALF_PIXEL:
    return a->out == 1 ? -0.5 : half;
  case ALIGN_CORNERS:
    return out == 1 ? 0 : x * (in - 1) / (out - 1);
  case ASYMMETRIC:
    return x / a->scale;
  case TF_CROP_AND_RESIZE:
    if (a->out == 1) return 0.5 * (a->start + a->end) * (in - 1);
    return a->start * (in - 1) + x * (a->end - a->start) * (in - 1) / ((double)a->out - 1);
  default:
    return half;
  }
}

/* The same, clamped so that an integer can hold it: a region of interest may be anything. */
static double clamped_position(const axis_t *a, int64_t mode, int64_t i) {
  double x = input_position(a, mode, i);
  if (!(x > -0x1p50)) return -0x1p50;
  return x < 0x1p50 ? x : 0x1p50;
}

static int64_t clamped_index(const axis_t *a, int64_t at) {
  if (at < 0) return 0;
  return at >= a->in ? a->in - 1 : at;
}

static int is_outside(const axis_t *a, int64_t mode, double x) {
  return mode == TF_CROP_AND_RESIZE && (x < 0 || x > (double)(a->in - 1));
}

static double interpolation_kernel(double x, int64_t mode, double a) {
  x = fabs(x);
  if (mode == LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

tenon_status_t core_resize_taps(tenon_call_t *call, const axis_t *a, taps_t *taps) {
  const tenon_value_t *attrs = call->attrs;
  int64_t mode = attrs[RESIZE_MODE].as.i;
  int64_t coordinates = attrs[RESIZE_COORDINATES].as.i;
  double narrow =
      attrs[RESIZE_ANTIALIAS].as.i && a->scale < 1 ? a->scale : 1; /* stretches the kernel */
  int64_t reach = 1 - ((int64_t)floor((mode == LINEAR ? -1 : -2) / narrow) + 1);
  taps->count = 2 * reach;
  uint64_t n = (uint64_t)(a->out * taps->count);
  taps->index = (int64_t *)call->host->allocate(call, n * sizeof *taps->index + 8);
  taps->weight = (double *)call->host->allocate(call, n * sizeof *taps->weight + 8);
  if (!taps->index || !taps->weight) return TENON_MEMORY;
  for (int64_t i = 0; i < a->out; i++) {
    double x = clamped_position(a, coordinates, i);
    double below = floor(x);
    double sum = 0;
    int64_t first = (int64_t)below - reach + (x != below);
    int64_t *index = taps->index + i * taps->count;
    double *weight = taps->weight + i * taps->count;
    for (int64_t k = 0; k < taps->count; k++) {
      int64_t at = first + k;
      weight[k] = interpolation_kernel(((double)at - x) * narrow, mode, attrs[RESIZE_CUBIC].as.f);
      if (attrs[RESIZE_EXCLUDE].as.i && (at < 0 || at >= a->in)) weight[k] = 0;
      sum += weight[k];
      index[k] = clamped_index(a, at);
    }
    for (int64_t k = 0; k < taps->count; k++)
      weight[k] /= sum == 0 ? 1 : sum;
    if (is_outside(a, coordinates, x)) weight[0] = NAN;
  }
  return TENON_OK;
}

int64_t core_resize_nearest(const tenon_value_t *attrs, const axis_t *a, int64_t i) {
  int64_t coordinates = attrs[RESIZE_COORDINATES].as.i;
  int64_t rounding = attrs[RESIZE_NEAREST].as.i;
  if (!a->resized) return i;
  double x = clamped_position(a, coordinates, i);
  double below = floor(x);
  double rest = x - below;
  int up = rounding == CEIL;
  if (rounding == ROUND_PREFER_FLOOR) up = rest > 0.5;
  if (rounding == ROUND_PREFER_CEIL) up = rest >= 0.5;
  up = up && rest > 0;
  int64_t at = (int64_t)below + up;
  if (is_outside(a, coordinates, x)) return -1;
  return clamped_index(a, at);
}
