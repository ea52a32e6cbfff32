/* Boxes in images: non_max_suppression, which keeps the best of those that overlap, and roi_align, which pools features
 * under a box.  Invariant: boxes of equal score are taken in their order. */
#include "axes.h"
#include "copy.h"
#include "order.h"
#include <math.h>

/* ---- non_max_suppression ----------------------------------------------------------------------------------------- */

enum { BOXES, SCORES, MOST, OVERLAP, THRESHOLD };

static tenon_status_t suppress_infer(tenon_infer_t *infer) {
  const tenon_meta_t *boxes = infer->inputs[BOXES], *scores = infer->inputs[SCORES];
  tenon_meta_t *out = infer->outputs[0];
  if (boxes->ndim != 3 || scores->ndim != 3 || dim_differ(boxes->dims[2], tenon_extent(4)) ||
      dim_differ(boxes->dims[0], scores->dims[0]) || dim_differ(boxes->dims[1], scores->dims[2]))
    return tenon_fail(infer, TENON_INVALID,
                      "boxes %s and scores %s: [batch, box, 4] and [batch, class, box] are wanted",
                      dims_text(boxes->dims, boxes->ndim).text, dims_text(scores->dims, scores->ndim).text);
  tenon_dim_t each = boxes->dims[1], classes = dim_mul(infer, scores->dims[0], scores->dims[1]);
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
  float left, right, top, bottom;
} box_t;

static box_t box_of(const float *at, int centred) {
  if (centred) /* x, y, width, height */
    return (box_t){at[0] - at[2] / 2, at[0] + at[2] / 2, at[1] - at[3] / 2, at[1] + at[3] / 2};
  /* y, x of any two opposite corners */
  return (box_t){fminf(at[1], at[3]), fmaxf(at[1], at[3]), fminf(at[0], at[2]), fmaxf(at[0], at[2])};
}

static int overlaps(box_t a, box_t b, float limit) {
  float width = fminf(a.right, b.right) - fmaxf(a.left, b.left);
  float height = fminf(a.bottom, b.bottom) - fmaxf(a.top, b.top);
  float area_a = (a.right - a.left) * (a.bottom - a.top), area_b = (b.right - b.left) * (b.bottom - b.top);
  if (!(width > 0 && height > 0 && area_a > 0 && area_b > 0)) return 0;
  float shared = width * height;
  return shared / (area_a + area_b - shared) > limit;
}

static int better(const void *context, int64_t a, int64_t b) {
  return ((const float *)context)[a] > ((const float *)context)[b];
}

static tenon_status_t suppress_run(tenon_call_t *call) {
  const tenon_tensor_t *boxes = call->inputs[BOXES], *scores = call->inputs[SCORES];
  const tenon_tensor_t *most_of = call->inputs[MOST], *overlap = call->inputs[OVERLAP];
  const tenon_tensor_t *threshold = call->inputs[THRESHOLD];
  int centred = call->attrs[0].as.i != 0;
  int64_t batches = scores->shape[0], classes = scores->shape[1], n = scores->shape[2], kept = 0;
  int64_t most = most_of && tenon_count(most_of) ? tensor_int(most_of, 0) : 0;
  float limit = overlap && tenon_count(overlap) ? *(const float *)overlap->data : 0;
  int64_t *order = (int64_t *)call->host->allocate(call, (uint64_t)(3 * n + 1) * sizeof *order), *room = order + n;
  if (!order) return TENON_MEMORY;
  if (most < 0) most = 0;
  if (most > n) most = n;
  uint64_t bytes = (uint64_t)(batches * classes * most * 3 + 1) * sizeof(int64_t);
  int64_t *found = (int64_t *)call->host->allocate(call, bytes), *taken = order + 2 * n;
  if (!found) return TENON_MEMORY;
  for (int64_t row = 0; row < batches * classes; row++) {
    const float *score = (const float *)scores->data + row * n;
    const float *corners = (const float *)boxes->data + row / classes * n * 4;
    int64_t candidates = 0, count = 0;
    for (int64_t i = 0; i < n; i++)
      if (!threshold || !tenon_count(threshold) || score[i] > *(const float *)threshold->data) order[candidates++] = i;
    order_sort(order, room, candidates, better, score);
    for (int64_t i = 0; i < candidates && count < most; i++) {
      box_t box = box_of(corners + order[i] * 4, centred);
      int keep = 1;
      for (int64_t j = 0; j < count && keep; j++) keep = !overlaps(box, box_of(corners + taken[j] * 4, centred), limit);
      if (!keep) continue;
      taken[count++] = order[i];
      found[3 * kept] = row / classes, found[3 * kept + 1] = row % classes, found[3 * kept + 2] = order[i];
      kept++;
    }
  }
  const int64_t shape[2] = {kept, 3};
  TENON_TRY(call->host->resize(call, 0, 2, shape));
  memcpy(call->outputs[0]->data, found, (size_t)(3 * kept) * sizeof *found);
  return TENON_OK;
}

/* ---- roi_align --------------------------------------------------------------------------------------------------- */

enum { A_MODE, A_COORDINATES, A_HEIGHT, A_WIDTH, A_SAMPLES, A_SCALE, BLOCK = 64 };

static tenon_status_t roi_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0], *rois = infer->inputs[1], *batch = infer->inputs[2];
  const tenon_value_t *attrs = infer->attrs;
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim != 4 || rois->ndim != 2 || batch->ndim != 1 || dim_differ(rois->dims[1], tenon_extent(4)) ||
      dim_differ(rois->dims[0], batch->dims[0]))
    return tenon_fail(infer, TENON_INVALID,
                      "input %s, rois %s, batch_indices %s: [batch, channel, height, width], "
                      "[roi, 4] and [roi] are wanted",
                      dims_text(x->dims, x->ndim).text, dims_text(rois->dims, rois->ndim).text,
                      dims_text(batch->dims, batch->ndim).text);
  if (attrs[A_HEIGHT].as.i < 1 || attrs[A_WIDTH].as.i < 1 || attrs[A_SAMPLES].as.i < 0)
    return tenon_fail(infer, TENON_INVALID, "an output of %" PRId64 " by %" PRId64 " from %" PRId64 " samples",
                      attrs[A_HEIGHT].as.i, attrs[A_WIDTH].as.i, attrs[A_SAMPLES].as.i);
  out->ndim = 4;
  out->dims[0] = rois->dims[0], out->dims[1] = x->dims[1];
  out->dims[2] = tenon_extent(attrs[A_HEIGHT].as.i), out->dims[3] = tenon_extent(attrs[A_WIDTH].as.i);
  return TENON_OK;
}

/* Four pixels around a place, and their weights; 0 if it lies outside. */
static int corners_of(double y, double x, int64_t height, int64_t width, int64_t at[4], double weight[4]) {
  if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width)) return 0;
  y = y < 0 ? 0 : y > (double)(height - 1) ? (double)(height - 1) : y;
  x = x < 0 ? 0 : x > (double)(width - 1) ? (double)(width - 1) : x;
  int64_t top = (int64_t)y, left = (int64_t)x, down = top + 1 < height ? top + 1 : top,
          right = left + 1 < width ? left + 1 : left;
  double v = y - (double)top, h = x - (double)left;
  at[0] = top * width + left, at[1] = top * width + right, at[2] = down * width + left, at[3] = down * width + right;
  weight[0] = (1 - v) * (1 - h), weight[1] = (1 - v) * h, weight[2] = v * (1 - h), weight[3] = v * h;
  return 1;
}

/* All channels of rois [begin, end). */
static tenon_status_t roi_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const tenon_tensor_t *x = call->inputs[0], *rois = call->inputs[1];
  tenon_tensor_t *out = call->outputs[0];
  const tenon_value_t *attrs = call->attrs;
  int64_t channels = x->shape[1], height = x->shape[2], width = x->shape[3], rows = out->shape[2],
          columns = out->shape[3];
  int largest = attrs[A_MODE].as.i != 0, half_pixel = attrs[A_COORDINATES].as.i == 0;
  (void)argument;
  for (int64_t roi = begin; roi < end; roi++) {
    double edge[4], shift = half_pixel ? 0.5 : 0;
    int64_t batch = index_at(call, call->inputs[2], roi, x->shape[0], 0);
    if (batch < 0) return TENON_RANGE;
    for (int i = 0; i < 4; i++)
      edge[i] = number_get(rois->dtype, rois->data, roi * 4 + i) * attrs[A_SCALE].as.f - shift;
    double wide = edge[2] - edge[0], high = edge[3] - edge[1];
    if (!half_pixel) wide = fmax(wide, 1), high = fmax(high, 1);
    double step_y = high / (double)rows, step_x = wide / (double)columns;
    if (!(fabs(step_y) < 0x1p14 && fabs(step_x) < 0x1p14))
      return tenon_fail(call, TENON_RANGE, "box %" PRId64 " is %g by %g pixels large", roi, wide, high);
    int64_t down = attrs[A_SAMPLES].as.i, across = down;
    if (down == 0) down = (int64_t)ceil(step_y), across = (int64_t)ceil(step_x);
    for (int64_t bin = 0; bin < rows * columns; bin++) {
      double from_y = edge[1] + (double)(bin / columns) * step_y, from_x = edge[0] + (double)(bin % columns) * step_x;
      for (int64_t block = 0; block < channels; block += BLOCK) { /* a sample's corners serve many channels */
        int64_t count = channels - block < BLOCK ? channels - block : BLOCK, at[4];
        double result[BLOCK] = {0}, weight[4];
        for (int64_t s = 0; s < down * across; s++) {
          double y = from_y + ((double)(s / across) + 0.5) * step_y / (double)down;
          double z = from_x + ((double)(s % across) + 0.5) * step_x / (double)across;
          int there = corners_of(y, z, height, width, at, weight);
          for (int64_t c = 0; c < count; c++) {
            int64_t base = (batch * channels + block + c) * height * width;
            double value = 0;
            for (int k = 0; k < 4 && there; k++) {
              double part = weight[k] * number_get(x->dtype, x->data, base + at[k]);
              value = !largest ? value + part : k == 0 || part > value ? part : value;
            }
            result[c] = !largest ? result[c] + value : s == 0 || value > result[c] ? value : result[c];
          }
        }
        for (int64_t c = 0; c < count; c++) {
          if (!largest && down * across > 1) result[c] /= (double)(down * across);
          number_set(out->dtype, out->data, (roi * channels + block + c) * rows * columns + bin, result[c]);
        }
      }
    }
  }
  return TENON_OK;
}

static tenon_status_t roi_run(tenon_call_t *call) {
  if (tenon_count(call->outputs[0]) == 0) return TENON_OK;
  if (tenon_count(call->inputs[0]) == 0) return tenon_fail(call, TENON_INVALID, "the input is empty");
  return call->host->parallel(call, call->outputs[0]->shape[0], 1, roi_part, NULL);
}

/* clang-format off */
TENON_ITEMS(core_boxes,
  TENON_OP("non_max_suppression(Tensor boxes, Tensor scores, Tensor? @host max_output_boxes_per_class=None, "
           "Tensor? @host iou_threshold=None, Tensor? @host score_threshold=None, *, bool center_point_box=False) -> "
           "Tensor",
    TENON_DOC("Batch, class and number of the boxes that remain when each, best first, removes those it overlaps."),
    TENON_TYPES("boxes, scores: f32; max_output_boxes_per_class: i64|i32; iou_threshold: f32; score_threshold: f32; "
                "out = i64"),
    TENON_WHERE("max_output_boxes_per_class: known"), TENON_TRAITS(TENON_PURE), TENON_INFER(suppress_infer),
    TENON_KERNEL("cpu", suppress_run)),
  TENON_OP("roi_align(Tensor x, Tensor rois, Tensor batch_indices, *, str['avg', 'max'] mode='avg', "
           "str['half_pixel', 'output_half_pixel'] coordinates='half_pixel', int output_height=1, "
           "int output_width=1, int sampling_ratio=0, float spatial_scale=1.0) -> Tensor",
    TENON_DOC("Each box, cut into output_height by output_width bins: mean or maximum of interpolated samples."),
    TENON_TYPES("x, rois: float; batch_indices: i64|i32; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(roi_infer),
    TENON_KERNEL("cpu", roi_run))
)
