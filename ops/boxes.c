/* Boxes in images: non_max_suppression keeps the best of overlapping boxes; roi_align pools
 * features inside a box and comes with its derivatives.
 * Invariant: boxes with equal scores are processed in input order. */
#include "axes.h"
#include "composite.h"
#include "copy.h"
#include "dense.h"
#include "sort_keys.h"
#include <math.h>
#include <tenon/check.h>

/* non_max_suppression */

enum {
  BOXES,
  SCORES,
  MOST,
  OVERLAP,
  THRESHOLD,
};

static tenon_status_t suppress_infer(tenon_infer_t *infer) {
  const tenon_meta_t *boxes = infer->inputs[BOXES];
  const tenon_meta_t *scores = infer->inputs[SCORES];
  tenon_meta_t *out = infer->outputs[0];
  if (boxes->ndim != 3 || scores->ndim != 3 || dim_differ(boxes->dims[2], tenon_extent(4)) ||
      dim_differ(boxes->dims[0], scores->dims[0]) || dim_differ(boxes->dims[1], scores->dims[2]))
    return tenon_fail(
        infer, TENON_INVALID,
        "boxes have shape %s and scores %s; expected [batch, box, 4] and [batch, class, box]",
        dims_text(boxes->dims, boxes->ndim).text, dims_text(scores->dims, scores->ndim).text);
  tenon_dim_t each = boxes->dims[1];
  tenon_dim_t classes = dim_mul(infer, scores->dims[0], scores->dims[1]);
  if (infer->inputs[MOST]) {
    ints_t most;
    TENON_TRY(ints_read(infer, MOST, &most));
    if (most.known && most.count == 1 && tenon_is_known(most.at[0]))
      each = dim_min(infer, each, tenon_extent(most.at[0].value < 0 ? 0 : most.at[0].value));
  } else {
    each = tenon_extent(0);
  }
  out->ndim = 2;
  out->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, dim_mul(infer, classes, each), tenon_extent(0));
  out->dims[1] = tenon_extent(3);
  return TENON_OK;
}

typedef struct box_t {
  float left;
  float right;
  float top;
  float bottom;
} box_t;

static box_t box_of(const float *at, int centred) {
  if (centred) /* x, y, width, height */
    return (box_t){at[0] - at[2] / 2, at[0] + at[2] / 2, at[1] - at[3] / 2, at[1] + at[3] / 2};
  /* y, x of any two opposite corners */
  return (box_t){fminf(at[1], at[3]), fmaxf(at[1], at[3]), fminf(at[0], at[2]),
                 fmaxf(at[0], at[2])};
}

static int boxes_overlap(box_t a, box_t b, float limit) {
  float width = fminf(a.right, b.right) - fmaxf(a.left, b.left);
  float height = fminf(a.bottom, b.bottom) - fmaxf(a.top, b.top);
  float area_a = (a.right - a.left) * (a.bottom - a.top);
  float area_b = (b.right - b.left) * (b.bottom - b.top);
  if (!(width > 0 && height > 0 && area_a > 0 && area_b > 0)) return 0;
  float shared = width * height;
  return shared / (area_a + area_b - shared) > limit;
}

static int box_is_better(const void *context, int64_t a, int64_t b) {
  return ((const float *)context)[a] > ((const float *)context)[b];
}

static tenon_status_t suppress_run(tenon_call_t *call) {
  const tenon_tensor_t *boxes = call->inputs[BOXES];
  const tenon_tensor_t *scores = call->inputs[SCORES];
  const tenon_tensor_t *most_of = call->inputs[MOST];
  const tenon_tensor_t *overlap = call->inputs[OVERLAP];
  const tenon_tensor_t *threshold = call->inputs[THRESHOLD];
  int centred = call->attrs[0].as.i != 0;
  int64_t batches = scores->shape[0];
  int64_t classes = scores->shape[1];
  int64_t n = scores->shape[2];
  int64_t kept = 0;
  int64_t most = most_of && tenon_count(most_of) ? tensor_int(most_of, 0) : 0;
  float limit = overlap && tenon_count(overlap) ? *(const float *)overlap->data : 0;
  int64_t *order = (int64_t *)call->host->allocate(call, (uint64_t)(3 * n + 1) * sizeof *order);
  int64_t *room = order + n;
  if (!order) return TENON_MEMORY;
  if (most < 0) most = 0;
  if (most > n) most = n;
  uint64_t bytes = (uint64_t)(batches * classes * most * 3 + 1) * sizeof(int64_t);
  int64_t *found = (int64_t *)call->host->allocate(call, bytes);
  int64_t *taken = order + 2 * n;
  if (!found) return TENON_MEMORY;
  for (int64_t row = 0; row < batches * classes; row++) {
    const float *score = (const float *)scores->data + row * n;
    const float *corners = (const float *)boxes->data + row / classes * n * 4;
    int64_t candidates = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
      if (!threshold || !tenon_count(threshold) || score[i] > *(const float *)threshold->data)
        order[candidates++] = i;
    order_sort(order, room, candidates, box_is_better, score);
    for (int64_t i = 0; i < candidates && count < most; i++) {
      box_t box = box_of(corners + order[i] * 4, centred);
      int keep = 1;
      for (int64_t j = 0; j < count && keep; j++)
        keep = !boxes_overlap(box, box_of(corners + taken[j] * 4, centred), limit);
      if (!keep) continue;
      taken[count++] = order[i];
      found[3 * kept] = row / classes;
      found[3 * kept + 1] = row % classes;
      found[3 * kept + 2] = order[i];
      kept++;
    }
  }
  const int64_t shape[2] = {kept, 3};
  TENON_TRY(call->host->resize(call, 0, 2, shape));
  memcpy(call->outputs[0]->data, found, (size_t)(3 * kept) * sizeof *found);
  return TENON_OK;
}

/* roi_align */

enum {
  A_MODE,
  A_COORDINATES,
  A_HEIGHT,
  A_WIDTH,
  A_SAMPLES,
  A_SCALE,
  BLOCK = 64,
  SAMPLES = 64, /* of a bin, added at once */
};

/* Reads x, rois and batch_indices from input `first` on and states the shape `pooled` of
 * roi_align's result. */
static tenon_status_t pooled_dims(tenon_infer_t *infer, uint32_t first, tenon_dim_t pooled[4]) {
  const tenon_meta_t *x = infer->inputs[first];
  const tenon_meta_t *rois = infer->inputs[first + 1];
  const tenon_meta_t *batch = infer->inputs[first + 2];
  const tenon_value_t *attrs = infer->attrs;
  if (x->ndim != 4 || rois->ndim != 2 || batch->ndim != 1 ||
      dim_differ(rois->dims[1], tenon_extent(4)) || dim_differ(rois->dims[0], batch->dims[0]))
    return tenon_fail(infer, TENON_INVALID,
                      "inputs have shapes %s, %s and %s; expected x [batch, channel, height, "
                      "width], rois [roi, 4] and batch_indices [roi]",
                      dims_text(x->dims, x->ndim).text, dims_text(rois->dims, rois->ndim).text,
                      dims_text(batch->dims, batch->ndim).text);
  if (attrs[A_HEIGHT].as.i < 1 || attrs[A_WIDTH].as.i < 1 || attrs[A_SAMPLES].as.i < 0 ||
      attrs[A_SAMPLES].as.i > 1 << 14)
    return tenon_fail(infer, TENON_INVALID,
                      "output_height is %" PRId64 ", output_width %" PRId64
                      " and sampling_ratio %" PRId64
                      "; expected 1 or more, 1 or more, and 0 to 16384",
                      attrs[A_HEIGHT].as.i, attrs[A_WIDTH].as.i, attrs[A_SAMPLES].as.i);
  pooled[0] = rois->dims[0];
  pooled[1] = x->dims[1];
  pooled[2] = tenon_extent(attrs[A_HEIGHT].as.i);
  pooled[3] = tenon_extent(attrs[A_WIDTH].as.i);
  return TENON_OK;
}

static int dims_wrong(const tenon_meta_t *t, const tenon_dim_t dims[4]) {
  int wrong = t->ndim != 4;
  for (int32_t i = 0; !wrong && i < 4; i++)
    wrong = dim_differ(t->dims[i], dims[i]);
  return wrong;
}

static tenon_status_t roi_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 4;
  return pooled_dims(infer, 0, infer->outputs[0]->dims);
}

static tenon_status_t roi_backward_infer(tenon_infer_t *infer) {
  const tenon_meta_t *dy = infer->inputs[0];
  tenon_dim_t pooled[4];
  TENON_TRY(pooled_dims(infer, 1, pooled));
  if (dims_wrong(dy, pooled))
    return tenon_fail(infer, TENON_INVALID,
                      "dy has shape %s, but the result of roi_align has shape %s",
                      dims_text(dy->dims, dy->ndim).text, dims_text(pooled, 4).text);
  return core_gradients_infer(infer, 1, 1);
}

static tenon_status_t roi_second_infer(tenon_infer_t *infer) {
  const tenon_meta_t *ddx = infer->inputs[0];
  const tenon_meta_t *x = infer->inputs[1];
  infer->outputs[0]->ndim = 4;
  TENON_TRY(pooled_dims(infer, 1, infer->outputs[0]->dims));
  if (!dims_wrong(ddx, x->dims)) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID,
                    "ddx has shape %s, but x has shape %s; they must be equal",
                    dims_text(ddx->dims, ddx->ndim).text, dims_text(x->dims, x->ndim).text);
}

/* Finds the four pixels around a point and their weights. Returns 0 if the point lies outside the
 * image. */
static int corners_of(double y, double x, int64_t height, int64_t width, int64_t at[4],
                      double weight[4]) {
  if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width)) return 0;
  y = fmin(fmax(y, 0), (double)(height - 1));
  x = fmin(fmax(x, 0), (double)(width - 1));
  int64_t top = (int64_t)y;
  int64_t left = (int64_t)x;
  int64_t down = top + 1 < height ? top + 1 : top;
  int64_t right = left + 1 < width ? left + 1 : left;
  double v = y - (double)top;
  double h = x - (double)left;
  at[0] = top * width + left;
  at[1] = top * width + right;
  at[2] = down * width + left;
  at[3] = down * width + right;
  weight[0] = (1 - v) * (1 - h);
  weight[1] = (1 - v) * h;
  weight[2] = v * (1 - h);
  weight[3] = v * h;
  return 1;
}

/* One call. If dx is NULL, elements of `from` are pooled into y; rois (and x, for the maximum)
 * select the elements and their weights. Otherwise y is distributed over dx with the same
 * selection. */
typedef struct pooling_t {
  const tenon_tensor_t *x;
  const tenon_tensor_t *rois;
  const tenon_tensor_t *batch;
  const tenon_tensor_t *from;
  const tenon_tensor_t *y;
  tenon_tensor_t *dx;
} pooling_t;

/* The sample points of one bin of a box. */
typedef struct bin_t {
  double y;
  double x;
  double step_y;
  double step_x;
  int64_t down;
  int64_t across;
  int64_t height;
  int64_t width;
  int64_t base;
  int64_t place; /* base: first pixel of the first channel; place: index in y */
} bin_t;

static int sample_corners(const bin_t *bin, int64_t s, int64_t at[4], double weight[4]) {
  double y = bin->y + ((double)(s / bin->across) + 0.5) * bin->step_y / (double)bin->down;
  double x = bin->x + ((double)(s % bin->across) + 0.5) * bin->step_x / (double)bin->across;
  return corners_of(y, x, bin->height, bin->width, at, weight);
}

static void add_to(tenon_tensor_t *t, int64_t at, double value) {
  if (tenon_dtype_id(t->dtype) == TENON_F64)
    ((double *)t->data)[at] += value;
  else
    ((float *)t->data)[at] += (float)value;
}

/* A sample inside the image: its four pixels and their weights. */
typedef struct sample_t {
  int64_t at[4];
  double weight[4];
} sample_t;

#define T float
#define W float
#define LOAD(x) (x)
#define STORE(w) (float)(w)
#define NAME(x) x##_F32
#include "boxes_kernel.h"

#define T double
#define W double
#define LOAD(x) (x)
#define STORE(w) (w)
#define NAME(x) x##_F64
#include "boxes_kernel.h"

#define T uint16_t
#define W float
#define LOAD(x) float_of_f16(x)
#define STORE(w) f16_of_float((float)(w))
#define NAME(x) x##_F16
#include "boxes_kernel.h"

#define T uint16_t
#define W float
#define LOAD(x) float_of_bf16(x)
#define STORE(w) bf16_of_float((float)(w))
#define NAME(x) x##_BF16
#include "boxes_kernel.h"

typedef struct means_t {
  uint32_t dtype;
  void (*add_samples)(double *sums, const void *from, int64_t pixels, int64_t channels,
                      const sample_t *samples, int64_t count);
  void (*store_means)(void *to, int64_t bins, int64_t channels, const double *sums, double by);
} means_t;

static const means_t *means_of(tenon_dtype_t dtype) {
  static const means_t all[] = {{TENON_F32, add_samples_F32, store_means_F32},
                                {TENON_F64, add_samples_F64, store_means_F64},
                                {TENON_F16, add_samples_F16, store_means_F16},
                                {TENON_BF16, add_samples_BF16, store_means_BF16}};
  int i = 0;
  while (all[i].dtype != tenon_dtype_id(dtype))
    i++;
  return &all[i];
}

/* Computes the mean of a bin's samples for `count` channels. `bins` is the distance between
 * channels in y. The corners of a sample serve all of these channels. */
static void mean_bin(const pooling_t *p, const bin_t *bin, int64_t count, int64_t bins) {
  const means_t *means = means_of(p->from->dtype);
  const int64_t size = p->from->dtype.bits / 8;
  const int64_t all = bin->down * bin->across;
  const int64_t pixels = bin->height * bin->width;
  const char *from = (const char *)p->from->data + bin->base * size;
  sample_t samples[SAMPLES];
  double sums[BLOCK] = {0};
  int64_t some = 0;
  for (int64_t s = 0; s < all; s++) {
    some += sample_corners(bin, s, samples[some].at, samples[some].weight);
    if (some < SAMPLES && s + 1 < all) continue;
    means->add_samples(sums, from, pixels, count, samples, some);
    some = 0;
  }
  means->store_means((char *)p->y->data + bin->place * size, bins, count, sums,
                     all > 1 ? (double)all : 1);
}

/* Distributes the elements of y that belong to a bin over the pixels of dx. */
static void spread_mean(const pooling_t *p, const bin_t *bin, int64_t count, int64_t bins) {
  const int64_t all = bin->down * bin->across;
  const int64_t pixels = bin->height * bin->width;
  sample_t sample;
  double share[BLOCK];
  for (int64_t c = 0; c < count; c++)
    share[c] =
        number_get(p->y->dtype, p->y->data, bin->place + c * bins) / (all > 1 ? (double)all : 1);
  for (int64_t s = 0; s < all; s++) {
    if (!sample_corners(bin, s, sample.at, sample.weight)) continue;
    for (int64_t c = 0; c < count; c++)
      for (int k = 0; k < 4; k++)
        add_to(p->dx, bin->base + c * pixels + sample.at[k], sample.weight[k] * share[c]);
  }
}

/* Computes the largest weighted pixel of a bin; x selects which pixel that is. */
static void largest_bin(const pooling_t *p, const bin_t *bin, int64_t count, int64_t bins) {
  int64_t samples = bin->down * bin->across;
  int64_t pixels = bin->height * bin->width;
  int64_t at[4], element[BLOCK];
  double most[BLOCK], factor[BLOCK], weight[4];
  for (int64_t c = 0; c < count; c++)
    element[c] = -1;
  for (int64_t s = 0; s < samples; s++) {
    int there = sample_corners(bin, s, at, weight);
    for (int64_t c = 0; c < count; c++) {
      int64_t base = bin->base + c * pixels;
      int best = -1;
      double value = 0; /* value of a sample outside the image */
      for (int k = 0; k < 4 && there; k++) {
        double part = weight[k] * number_get(p->x->dtype, p->x->data, base + at[k]);
        if (k == 0 || part > value) {
          value = part;
          best = k;
        }
      }
      if (s > 0 && !(value > most[c])) continue;
      most[c] = value;
      element[c] = best < 0 ? -1 : base + at[best];
      factor[c] = best < 0 ? 0 : weight[best];
    }
  }
  for (int64_t c = 0; c < count; c++) {
    int64_t place = bin->place + c * bins;
    if (!p->dx)
      number_set(
          p->y->dtype, p->y->data, place,
          element[c] < 0 ? 0 : factor[c] * number_get(p->from->dtype, p->from->data, element[c]));
    else if (element[c] >= 0)
      add_to(p->dx, element[c], factor[c] * number_get(p->y->dtype, p->y->data, place));
  }
}

/* Pools channels [first, last) of one box. */
static tenon_status_t pool_box(tenon_call_t *call, const pooling_t *p, int64_t roi, int64_t first,
                               int64_t last) {
  const tenon_tensor_t *x = p->x;
  const tenon_tensor_t *rois = p->rois;
  const tenon_value_t *attrs = call->attrs;
  int64_t channels = x->shape[1];
  int64_t rows = p->y->shape[2];
  int64_t columns = p->y->shape[3];
  int half_pixel = attrs[A_COORDINATES].as.i == 0;
  double edge[4];
  double shift = half_pixel ? 0.5 : 0;
  int64_t batch = index_at(call, p->batch, roi, x->shape[0], 0);
  if (batch < 0) return TENON_RANGE;
  for (int i = 0; i < 4; i++)
    edge[i] = number_get(rois->dtype, rois->data, roi * 4 + i) * attrs[A_SCALE].as.f - shift;
  double wide = edge[2] - edge[0];
  double high = edge[3] - edge[1];
  if (!half_pixel) {
    wide = fmax(wide, 1);
    high = fmax(high, 1);
  }
  bin_t bin = {.step_y = high / (double)rows, .step_x = wide / (double)columns};
  if (!(fabs(bin.step_y) < 0x1p14 && fabs(bin.step_x) < 0x1p14))
    return tenon_fail(call, TENON_RANGE,
                      "box %" PRId64 " is %g by %g pixels; that is too large or not a number", roi,
                      wide, high);
  bin.height = x->shape[2];
  bin.width = x->shape[3];
  bin.down = bin.across = attrs[A_SAMPLES].as.i;
  void (*pool_bin)(const pooling_t *, const bin_t *, int64_t, int64_t) = mean_bin;
  if (p->dx) pool_bin = spread_mean;
  if (attrs[A_MODE].as.i != 0) pool_bin = largest_bin;
  if (bin.down == 0) {
    bin.down = (int64_t)ceil(bin.step_y);
    bin.across = (int64_t)ceil(bin.step_x);
  }
  for (int64_t i = 0; i < rows * columns; i++) {
    bin.y = edge[1] + (double)(i / columns) * bin.step_y;
    bin.x = edge[0] + (double)(i % columns) * bin.step_x;
    for (int64_t block = first; block < last;
         block += BLOCK) { /* the corners of a sample serve a block of channels */
      int64_t count = last - block < BLOCK ? last - block : BLOCK;
      bin.base = (batch * channels + block) * bin.height * bin.width;
      bin.place = (roi * channels + block) * rows * columns + i;
      pool_bin(p, &bin, count, rows * columns);
    }
  }
  return TENON_OK;
}

/* Pools all channels of boxes [begin, end). */
static tenon_status_t pool_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const pooling_t *p = (const pooling_t *)argument;
  for (int64_t roi = begin; roi < end; roi++)
    TENON_TRY(pool_box(call, p, roi, 0, p->x->shape[1]));
  return TENON_OK;
}

/* Distributes all boxes over channels [begin, end) of dx: boxes may overlap, so threads divide the
 * channels. */
static tenon_status_t spread_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const pooling_t *p = (const pooling_t *)argument;
  tenon_tensor_t *dx = p->dx;
  int64_t channels = dx->shape[1];
  int64_t size = dx->dtype.bits / 8 * dx->shape[2] * dx->shape[3];
  for (int64_t image = 0; image < dx->shape[0]; image++)
    memset((char *)dx->data + (image * channels + begin) * size, 0, (size_t)((end - begin) * size));
  for (int64_t roi = 0; roi < p->y->shape[0]; roi++)
    TENON_TRY(pool_box(call, p, roi, begin, end));
  return TENON_OK;
}

static tenon_status_t pool_all(tenon_call_t *call, pooling_t *p) {
  if (tenon_count(p->y) == 0) return TENON_OK;
  if (tenon_count(p->x) == 0)
    return tenon_fail(call, TENON_INVALID, "x is empty, but the output is not");
  return call->host->parallel(call, p->y->shape[0], 1, pool_part, p);
}

static tenon_status_t roi_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  return pool_all(
      call, &(pooling_t){
                .x = in[0], .rois = in[1], .batch = in[2], .from = in[0], .y = call->outputs[0]});
}

static tenon_status_t roi_second_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  return pool_all(
      call, &(pooling_t){
                .x = in[1], .rois = in[2], .batch = in[3], .from = in[0], .y = call->outputs[0]});
}

static tenon_status_t roi_backward_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  tenon_tensor_t *out = call->outputs[0];
  pooling_t p = {.x = in[1], .rois = in[2], .batch = in[3], .y = in[0]};
  if (tenon_count(out) == 0)
    return tenon_count(p.y) ? tenon_fail(call, TENON_INVALID, "x is empty, but dy is not")
                            : TENON_OK;
  p.dx = core_place_dense(call, out, tenon_dtype(core_is(out, TENON_F64) ? TENON_F64 : TENON_F32));
  if (!p.dx) return TENON_MEMORY;
  TENON_TRY(call->host->parallel(call, out->shape[1], 4, spread_part, &p));
  return core_settle(call, out, p.dx);
}

/* clang-format off */
#define ROI_ARGUMENTS                                                                              \
  "str['avg', 'max'] mode='avg', str['half_pixel', 'output_half_pixel'] "                          \
  "coordinates='half_pixel', int output_height=1, int output_width=1, int sampling_ratio=0, "      \
  "float spatial_scale=1.0"
#define ROI_PASSED                                                                                 \
  "x, rois, batch_indices, mode=mode, coordinates=coordinates, output_height=output_height, "      \
  "output_width=output_width, sampling_ratio=sampling_ratio, spatial_scale=spatial_scale"
TENON_ITEMS(core_boxes,
  TENON_OP("non_max_suppression(Tensor boxes, Tensor scores, "
           "Tensor? @host max_output_boxes_per_class=None, Tensor? @host iou_threshold=None, "
           "Tensor? @host score_threshold=None, *, bool center_point_box=False) -> Tensor",
    TENON_DOC("Returns [batch, class, box] for each box that remains: boxes are taken by "
              "descending score, and each removes the boxes that overlap it."),
    TENON_SAMPLES("boxes: [n, 6, 4] uniform(0, 1), scores: [n, 2, 6] uniform(0, 1), "
                  "max_output_boxes_per_class: [1] [3], iou_threshold: [1] [0.5]"),
    TENON_TYPES("boxes, scores: f32; max_output_boxes_per_class: i64|i32; iou_threshold: f32; "
                "score_threshold: f32; out = i64"),
    TENON_WHERE("max_output_boxes_per_class: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(suppress_infer),
    TENON_KERNEL("cpu", suppress_run)),
  TENON_OP("roi_align(Tensor x, Tensor rois, Tensor batch_indices, *, " ROI_ARGUMENTS ") -> Tensor",
    TENON_DOC("Divides each box into output_height by output_width bins and takes the mean or "
              "maximum of interpolated samples."),
    TENON_SAMPLES("x: [2, c, 6, 7], rois: [3, 4] [0.0, 0.0, 4.0, 4.0, 1.0, 1.0, 5.0, 3.0, 0.5, "
                  "0.5, 2.0, 6.0], batch_indices: [3] integers(0, 2), output_height = 2, "
                  "output_width = 3"),
    TENON_TYPES("x, rois: float; batch_indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(roi_infer),
    TENON_GRADIENT("x: core::roi_align_backward(grad, " ROI_PASSED "); rois: none"),
    TENON_KERNEL("cpu", roi_run)),
  TENON_OP("roi_align_backward(Tensor dy, Tensor x, Tensor rois, Tensor batch_indices, *, "
           ROI_ARGUMENTS ") -> Tensor",
    TENON_DOC("The gradient of roi_align with respect to x."),
    TENON_SAMPLES("dy: [3, c, 2, 3], x: [2, c, 6, 7], rois: [3, 4] [0.0, 0.0, 4.0, 4.0, 1.0, 1.0, "
                  "5.0, 3.0, 0.5, 0.5, 2.0, 6.0], batch_indices: [3] integers(0, 2), "
                  "output_height = 2, output_width = 3"),
    TENON_TYPES("dy, x, rois: float; batch_indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(roi_backward_infer),
    TENON_GRADIENT("dy: core::roi_align_second(grad, " ROI_PASSED "); x, rois: none"),
    TENON_KERNEL("cpu", roi_backward_run)),
  TENON_OP("roi_align_second(Tensor ddx, Tensor x, Tensor rois, Tensor batch_indices, *, "
           ROI_ARGUMENTS ") -> Tensor",
    TENON_DOC("The gradient of roi_align_backward with respect to dy: pools ddx at the elements of "
              "x that roi_align selects."),
    TENON_SAMPLES("ddx: [2, c, 6, 7], x: [2, c, 6, 7], rois: [3, 4] [0.0, 0.0, 4.0, 4.0, 1.0, 1.0, "
                  "5.0, 3.0, 0.5, 0.5, 2.0, 6.0], batch_indices: [3] integers(0, 2), "
                  "output_height = 2, output_width = 3"),
    TENON_TYPES("ddx, x, rois: float; batch_indices: i64|i32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(roi_second_infer),
    TENON_GRADIENT("ddx: core::roi_align_backward(grad, " ROI_PASSED "); x, rois: none"),
    TENON_KERNEL("cpu", roi_second_run)))
/* clang-format on */
