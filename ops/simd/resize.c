/* resize: axis by axis, as all its interpolations are separable.  For each axis a table says which elements make up
 * each result and how much of each.  `nearest` picks one, by lookup.c, for every dtype; `linear` and `cubic` compute in
 * f32, or in f64 for f64 and wide integers, the axis that shrinks most first. Coordinates follow ONNX's Resize-19, in
 * double precision.  Invariant: weights of a result add up to 1. */
#include "../axes.h"
#include "../copy.h"
#include "../lookup.h"
#include "isa.h"
#include "wide.h"

enum { NEAREST, LINEAR, CUBIC };
enum { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, TF_CROP_AND_RESIZE };
enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, FLOOR, CEIL };
enum { STRETCH, NOT_LARGER, NOT_SMALLER };
enum { A_MODE, A_COORDINATES, A_NEAREST, A_CUBIC, A_EXCLUDE, A_EXTRAPOLATION, A_ANTIALIAS, A_POLICY, A_AXES };
enum { X, ROI, SCALES, SIZES, BLOCK = 1024 };

typedef struct axis_t {
  int resized;
  int64_t in, out;
  double scale, start, end; /* start, end: of the region, of tf_crop_and_resize */
} axis_t;

/* ---- what is asked for: infer and run agree on it -----------------------------------------------------------------
 */

typedef struct request_t {
  const tenon_host_t *host;
  const void *context;
  const tenon_value_t *attrs;
  int32_t rank;
  const tenon_tensor_t *roi, *scales, *sizes; /* NULL: not given */
} request_t;

static int64_t count_of(const tenon_tensor_t *t) { return t ? tenon_count(t) : 0; }

/* Fills in the axes, whose `in` is given. */
static tenon_status_t plan_axes(const request_t *r, axis_t *axes) {
  const tenon_value_t *named = &r->attrs[A_AXES];
  int listed = named->kind != TENON_KIND_NONE;
  int64_t count = listed ? (int64_t)named->count : r->rank, policy = r->attrs[A_POLICY].as.i;
  const tenon_tensor_t *given = count_of(r->sizes) ? r->sizes : r->scales;
  uint64_t mask = 0;
  double scale = 0;
  if (listed) TENON_TRY(axes_mask_(r->host, r->context, named->as.ints, count, r->rank, &mask));
  if (count_of(given) != count || (count_of(r->sizes) && count_of(r->scales)))
    return r->host->fail(r->context, TENON_INVALID,
                         "either scales or sizes, one number for each of %" PRId64 " axes, not %" PRId64
                         " and %" PRId64,
                         count, count_of(r->scales), count_of(r->sizes));
  int crop = r->attrs[A_COORDINATES].as.i == TF_CROP_AND_RESIZE;
  if (crop && count_of(r->roi) != 2 * count)
    return r->host->fail(r->context, TENON_INVALID,
                         "roi has %" PRId64 " numbers; two for each of %" PRId64 " axes are wanted", count_of(r->roi),
                         count);
  for (int32_t i = 0; i < r->rank; i++) axes[i] = (axis_t){0, axes[i].in, axes[i].in, 1, 0, 1};
  for (int64_t i = 0; i < count; i++) {
    int64_t at = listed ? named->as.ints[i] : i;
    axis_t *axis = &axes[at < 0 ? at + r->rank : at];
    axis->resized = 1;
    if (crop) axis->start = number_get(r->roi->dtype, r->roi->data, i);
    if (crop) axis->end = number_get(r->roi->dtype, r->roi->data, i + count);
    if (given == r->sizes) {
      axis->out = tensor_int(given, i);
      axis->scale = (double)axis->out / (double)axis->in;
    } else {
      axis->scale = number_get(given->dtype, given->data, i);
      double size = floor((double)axis->in * axis->scale * (axis->end - axis->start));
      if (!(axis->scale > 0) || !(size >= 0 && size < 0x1p60))
        return r->host->fail(r->context, TENON_INVALID, "%" PRId64 " elements, %g times as many", axis->in,
                             axis->scale);
      axis->out = (int64_t)size;
    }
    if (axis->out < 0 || (axis->in == 0 && axis->out > 0))
      return r->host->fail(r->context, TENON_INVALID, "%" PRId64 " elements cannot become %" PRId64, axis->in,
                           axis->out);
    if (i == 0 || (policy == NOT_LARGER ? axis->scale < scale : axis->scale > scale)) scale = axis->scale;
  }
  for (int32_t i = 0; i < r->rank && given == r->sizes && policy != STRETCH; i++)
    if (axes[i].resized) axes[i].scale = scale, axes[i].out = (int64_t)floor(scale * (double)axes[i].in + 0.5);
  return TENON_OK;
}

#ifndef TENON_SIMD
static tenon_status_t resize_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[X];
  tenon_meta_t *out = infer->outputs[0];
  request_t r = {infer->host, infer, infer->attrs, x->ndim, NULL, NULL, NULL};
  const tenon_tensor_t **values[] = {NULL, &r.roi, &r.scales, &r.sizes};
  axis_t axes[TENON_RANK_MAX];
  int known = 1;
  if (infer->attrs[A_ANTIALIAS].as.i && infer->attrs[A_MODE].as.i == NEAREST)
    return tenon_fail(infer, TENON_INVALID, "mode 'nearest' has no antialias");
  for (uint32_t i = ROI; i <= SIZES; i++) {
    if (!infer->inputs[i]) continue;
    *values[i] = infer->inputs[i]->value;
    int used = i != ROI || infer->attrs[A_COORDINATES].as.i == TF_CROP_AND_RESIZE;
    known = known && (*values[i] || !used || (infer->inputs[i]->ndim == 1 && dim_is(infer->inputs[i]->dims[0], 0)));
  }
  for (int32_t i = 0; i < x->ndim; i++) {
    axes[i].in = x->dims[i].value;
    known = known && tenon_is_known(x->dims[i]);
  }
  if (known) {
    TENON_TRY(plan_axes(&r, axes));
    out->ndim = x->ndim;
    for (int32_t i = 0; i < x->ndim; i++) out->dims[i] = tenon_extent(axes[i].out);
    return TENON_OK;
  }
  /* symbols: sizes are extents, other axes stay */
  const tenon_value_t *named = &infer->attrs[A_AXES];
  ints_t sizes = {-1, 0, {{0}}};
  if (infer->inputs[SIZES]) TENON_TRY(ints_read(infer, SIZES, &sizes));
  int64_t count = named->kind != TENON_KIND_NONE ? (int64_t)named->count : x->ndim;
  out_like(out, x);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = named->kind != TENON_KIND_NONE ? named->as.ints[i] : i;
    if (at < -x->ndim || at >= x->ndim)
      return tenon_fail(infer, TENON_INVALID, "axis %" PRId64 " of rank %d", at, x->ndim);
    int stated = sizes.known && sizes.count == count && infer->attrs[A_POLICY].as.i == STRETCH;
    int same = r.scales && count_of(r.scales) == count && number_get(r.scales->dtype, r.scales->data, i) == 1.0 &&
               infer->attrs[A_COORDINATES].as.i != TF_CROP_AND_RESIZE;
    if (!same) out->dims[at < 0 ? at + x->ndim : at] = stated ? sizes.at[i] : dim_any(infer);
  }
  return TENON_OK;
}
#endif

/* ---- tables --------------------------------------------------------------------------------------------------------
 */

/* Where in the input, in its coordinates, result i of an axis lies. */
static double position(const axis_t *a, int64_t mode, int64_t i) {
  double x = (double)i, in = (double)a->in, out = a->scale * in, half = (x + 0.5) / a->scale - 0.5;
  switch (mode) {
  case HALF_PIXEL_SYMMETRIC: return in / 2 * (1 - (double)a->out / out) + half;
  case PYTORCH_HALF_PIXEL: return a->out == 1 ? -0.5 : half;
  case ALIGN_CORNERS: return out == 1 ? 0 : x * (in - 1) / (out - 1);
  case ASYMMETRIC: return x / a->scale;
  case TF_CROP_AND_RESIZE:
    if (a->out == 1) return 0.5 * (a->start + a->end) * (in - 1);
    return a->start * (in - 1) + x * (a->end - a->start) * (in - 1) / ((double)a->out - 1);
  default: return half;
  }
}

/* The same, as a number that an integer can hold: a region of interest may be anything. */
static double coordinate(const axis_t *a, int64_t mode, int64_t i) {
  double x = position(a, mode, i);
  return x > -0x1p50 ? (x < 0x1p50 ? x : 0x1p50) : -0x1p50;
}

static int outside(const axis_t *a, int64_t mode, double x) {
  return mode == TF_CROP_AND_RESIZE && (x < 0 || x > (double)(a->in - 1));
}

static double kernel(double x, int64_t mode, double a) {
  x = fabs(x);
  if (mode == LINEAR) return x < 1 ? 1 - x : 0;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

typedef struct taps_t {
  int64_t count;  /* elements that make up a result */
  int64_t *index; /* [out, count] */
  double *weight; /* the same; the first is NaN where the result is the extrapolation value */
} taps_t;

static tenon_status_t make_taps(tenon_call_t *call, const axis_t *a, taps_t *taps) {
  const tenon_value_t *attrs = call->attrs;
  int64_t mode = attrs[A_MODE].as.i, coordinates = attrs[A_COORDINATES].as.i;
  double narrow = attrs[A_ANTIALIAS].as.i && a->scale < 1 ? a->scale : 1; /* stretches the kernel */
  int64_t reach = 1 - ((int64_t)floor((mode == LINEAR ? -1 : -2) / narrow) + 1);
  taps->count = 2 * reach;
  uint64_t n = (uint64_t)(a->out * taps->count);
  taps->index = (int64_t *)call->host->allocate(call, n * sizeof *taps->index + 8);
  taps->weight = (double *)call->host->allocate(call, n * sizeof *taps->weight + 8);
  if (!taps->index || !taps->weight) return TENON_MEMORY;
  for (int64_t i = 0; i < a->out; i++) {
    double x = coordinate(a, coordinates, i), below = floor(x), sum = 0;
    int64_t first = (int64_t)below - reach + (x != below), *index = taps->index + i * taps->count;
    double *weight = taps->weight + i * taps->count;
    for (int64_t k = 0; k < taps->count; k++) {
      int64_t at = first + k;
      weight[k] = kernel(((double)at - x) * narrow, mode, attrs[A_CUBIC].as.f);
      if (attrs[A_EXCLUDE].as.i && (at < 0 || at >= a->in)) weight[k] = 0;
      sum += weight[k];
      index[k] = at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
    }
    for (int64_t k = 0; k < taps->count; k++) weight[k] /= sum == 0 ? 1 : sum;
    if (outside(a, coordinates, x)) weight[0] = NAN;
  }
  return TENON_OK;
}

static tenon_status_t nearest(tenon_call_t *call, const axis_t *axes) {
  const tenon_tensor_t *out = call->outputs[0];
  int64_t coordinates = call->attrs[A_COORDINATES].as.i, rounding = call->attrs[A_NEAREST].as.i;
  tenon_tensor_t value = *out;
  double number[2] = {0, 0};
  lookup_t lookup = {&value, {NULL}};
  number_set(out->dtype, number, 0, call->attrs[A_EXTRAPOLATION].as.f);
  value.data = number, value.ndim = 0;
  TENON_TRY(core_lookup_tables(call, &lookup));
  for (int32_t axis = 0; axis < out->ndim; axis++) {
    const axis_t *a = &axes[axis];
    for (int64_t i = 0; i < a->out; i++) {
      double x = a->resized ? coordinate(a, coordinates, i) : (double)i, below = floor(x), rest = x - below;
      int up = rest > 0 && (rounding == ROUND_PREFER_FLOOR  ? rest > 0.5
                            : rounding == ROUND_PREFER_CEIL ? rest >= 0.5
                                                            : rounding == CEIL);
      int64_t at = (int64_t)below + up;
      at = at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
      lookup.table[axis][i] = a->resized && outside(a, coordinates, x) ? -1 : at;
    }
  }
  return core_lookup(call, &lookup);
}

/* ---- passes --------------------------------------------------------------------------------------------------------
 */

typedef struct pass_t {
  const void *x;
  void *y;
  const taps_t *taps;
  int64_t in, out, inner, blocks; /* x: [outer, in, inner], y: [outer, out, inner] */
  double extrapolation;
} pass_t;

/* clang-format off */
#define PASS(name, T)                                                                                                  \
  /* results of one axis: rows of `inner` at once, or, where it is 1, one by one */                                    \
  static tenon_status_t name##_pass(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {                  \
    const pass_t *p = (const pass_t *)argument;                                                                        \
    int64_t n = p->taps->count;                                                                                        \
    (void)call;                                                                                                        \
    for (int64_t unit = begin; unit < end; unit++) {                                                                   \
      int64_t block = unit % p->blocks * BLOCK, outer = unit / p->blocks;                                              \
      int64_t width = p->inner - block < BLOCK ? p->inner - block : BLOCK;                                             \
      const T *x = (const T *)p->x + outer * p->in * p->inner + block;                                                 \
      T *y = (T *)p->y + outer * p->out * p->inner + block;                                                            \
      for (int64_t o = 0; o < p->out; o++, y += p->inner) {                                                            \
        const int64_t *index = p->taps->index + o * n;                                                                 \
        const double *weight = p->taps->weight + o * n;                                                                \
        if (isnan(weight[0])) {                                                                                        \
          for (int64_t i = 0; i < width; i++) y[i] = (T)p->extrapolation;                                              \
        } else if (p->inner == 1) {                                                                                    \
          T sum = 0;                                                                                                   \
          for (int64_t k = 0; k < n; k++) sum += (T)weight[k] * x[index[k]];                                           \
          *y = sum;                                                                                                    \
        } else {                                                                                                       \
          for (int64_t k = 0; k < n; k += 2) { /* there is an even number of them */                                   \
            const T *restrict a = x + index[k] * p->inner, *restrict b = x + index[k + 1] * p->inner;                  \
            T v = (T)weight[k], w = (T)weight[k + 1], *restrict to = y;                                                \
            if (k == 0) for (int64_t i = 0; i < width; i++) to[i] = v * a[i] + w * b[i];                               \
            else for (int64_t i = 0; i < width; i++) to[i] += v * a[i] + w * b[i];                                     \
          }                                                                                                            \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    return TENON_OK;                                                                                                   \
  }                                                                                                                    \
  /* numbers of other dtypes in and out; integers are rounded, ties to even, and kept in range */                      \
  static void name##_load(const tenon_tensor_t *t, T *y, int64_t n) {                                                  \
    for (int64_t i = 0; i < n; i++) y[i] = (T)number_get(t->dtype, t->data, i);                                        \
  }                                                                                                                    \
  static void name##_store(tenon_tensor_t *t, const T *x, int64_t n) {                                                 \
    int real = t->dtype.code == (uint8_t)TENON_F32 || t->dtype.code == (uint8_t)TENON_BF16;                            \
    int is_signed = t->dtype.code == (uint8_t)TENON_I8;                                                                \
    double most = ldexp(1.0, t->dtype.bits - is_signed) - 1, least = is_signed ? -most - 1 : 0;                        \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      double v = (double)x[i];                                                                                         \
      if (!real) v = v != v ? 0 : nearbyint(v), v = v < least ? least : v > most ? most : v;                           \
      number_set(t->dtype, t->data, i, v);                                                                             \
    }                                                                                                                  \
  }
/* clang-format on */
PASS(f32, float)
PASS(f64, double)

static tenon_status_t resize_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[X];
  tenon_tensor_t *out = call->outputs[0];
  request_t r = {call->host, call, call->attrs, x->ndim, call->inputs[ROI], call->inputs[SCALES], call->inputs[SIZES]};
  axis_t axes[TENON_RANK_MAX];
  int64_t shape[TENON_RANK_MAX], left = 0, count = tenon_count(x);
  int is_double = tenon_dtype_id(x->dtype) == TENON_F64 || (x->dtype.code <= 1 && x->dtype.bits >= 32);
  int native = tenon_dtype_id(x->dtype) == TENON_F32 || tenon_dtype_id(x->dtype) == TENON_F64;
  size_t size = is_double ? sizeof(double) : sizeof(float);
  for (int32_t i = 0; i < x->ndim; i++) axes[i].in = shape[i] = x->shape[i];
  TENON_TRY(plan_axes(&r, axes));
  if (tenon_count(out) == 0) return TENON_OK;
  if (call->attrs[A_MODE].as.i == NEAREST) return nearest(call, axes);
  for (int32_t i = 0; i < x->ndim; i++) {
    axis_t *a = &axes[i];
    if (a->resized && a->in == a->out && fabs(a->scale - 1) < 1e-9 && a->start == 0 && a->end == 1) a->resized = 0;
    left += a->resized;
  }
  const void *from = x->data;
  if (!native) {
    void *wide = call->host->allocate(call, (uint64_t)count * size);
    if (!wide) return TENON_MEMORY;
    if (is_double) f64_load(x, (double *)wide, count);
    else f32_load(x, (float *)wide, count);
    from = wide;
  }
  if (left == 0 && native) memcpy(out->data, from, (size_t)count * size);
  for (; left > 0; left--) {
    int32_t next = -1;
    for (int32_t i = 0; i < x->ndim; i++)
      if (axes[i].resized && (next < 0 || axes[i].scale < axes[next].scale)) next = i;
    axis_t *a = &axes[next];
    taps_t taps;
    TENON_TRY(make_taps(call, a, &taps));
    int64_t outer = extents_product(shape, 0, next), inner = extents_product(shape, next + 1, x->ndim);
    pass_t pass = {
        from, out->data, &taps, a->in, a->out, inner, (inner + BLOCK - 1) / BLOCK, call->attrs[A_EXTRAPOLATION].as.f};
    count = outer * a->out * inner;
    if (left > 1 || !native) pass.y = call->host->allocate(call, (uint64_t)count * size);
    if (!pass.y) return TENON_MEMORY;
    int64_t each = a->out * taps.count * (inner < BLOCK ? inner : BLOCK);
    TENON_TRY(call->host->parallel(call, outer * pass.blocks, 16384 / (each + 1) + 1, is_double ? f64_pass : f32_pass,
                                   &pass));
    shape[next] = a->out, a->resized = 0, from = pass.y;
  }
  if (!native && is_double) f64_store(out, (const double *)from, count);
  if (!native && !is_double) f32_store(out, (const float *)from, count);
  return TENON_OK;
}

/* clang-format off */
FAMILY(core_resize,
  OPERATOR(resize,
    "(Tensor x, Tensor? @host roi=None, Tensor? @host scales=None, Tensor? @host sizes=None, *, "
    "str['nearest', 'linear', 'cubic'] mode='nearest', "
    "str['half_pixel', 'half_pixel_symmetric', 'pytorch_half_pixel', 'align_corners', 'asymmetric', "
    "'tf_crop_and_resize'] coordinates='half_pixel', "
    "str['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'] nearest='round_prefer_floor', "
    "float cubic_coeff=-0.75, bool exclude_outside=False, float extrapolation=0.0, bool antialias=False, "
    "str['stretch', 'not_larger', 'not_smaller'] policy='stretch', int[]? axes=None) -> Tensor",
    (TENON_DOC("Axes stretched or shrunk, by scales or to sizes, with interpolation."),
     TENON_TYPES("x: number|bool; roi: float; scales: float; sizes: i64|i32; out = x"),
     TENON_WHERE("roi: known; scales: known; sizes: known"), TENON_TRAITS(TENON_PURE), TENON_INFER(resize_infer)),
    KERNEL("", resize_run)))
