/* max_pool with the indices of the greatest elements, as training needs them, of images of f32:
 * plane by plane where they are dense, and all channels at once where these are adjacent.
 * pool_taps.c does all other cases, with the same results. Invariant: of equal elements the first
 * one counts, and of several NaN the last one. */
#include "dense.h"
#include "pool.h"
#include <math.h>

enum {
  STRIP_LANES = 64, /* results that are computed at once */
  STRIP_SPAN = 512, /* columns that their windows may reach over */
  NO_ROW = INT32_MAX,
};

typedef struct planes_t {
  window_t window;
  const float *x;
  float *out;
  int64_t *indices;
} planes_t;

typedef struct pixels_t {
  window_t window;
  const tenon_tensor_t *x;
  const tenon_tensor_t *out;
  const tenon_tensor_t *indices;
} pixels_t;

static float *pixel_of(const tenon_tensor_t *t, int64_t image, int64_t channel, int64_t y,
                       int64_t i) {
  return (float *)t->data + image * t->strides[0] + channel * t->strides[1] + y * t->strides[2] +
         i * t->strides[3];
}

/* The taps of a window that lie inside of the axis: positions begin, begin + dilation, ..., below
 * end. */
typedef struct taps_t {
  int64_t begin;
  int64_t end;
} taps_t;

static taps_t taps_of(const window_t *w, int32_t axis, int64_t o) {
  const int64_t dilation = w->dilation[axis];
  taps_t taps = {o * w->stride[axis] - w->before[axis], 0};
  taps.end = taps.begin + (w->kernel[axis] - 1) * dilation + 1;
  if (taps.begin < 0) taps.begin += (dilation - 1 - taps.begin) / dilation * dilation;
  if (taps.end > w->in[axis]) taps.end = w->in[axis];
  return taps;
}

/* The greatest element of each column of x, over the rows of a window, and its row. */
typedef struct strip_t {
  float best[STRIP_SPAN];
  int32_t row[STRIP_SPAN]; /* NO_ROW: there is no element */
} strip_t;

/* The greatest element of each window of a strip. */
typedef struct lanes_t {
  float best[STRIP_LANES];
  int32_t row[STRIP_LANES]; /* of images with adjacent channels: the position in the plane */
  int32_t column[STRIP_LANES];
} lanes_t;

static void join_row(float *best, int32_t *row, const float *x, int64_t count, int32_t y) {
  for (int64_t i = 0; i < count; i++) {
    const int32_t is_better = (x[i] > best[i]) | (x[i] != x[i]) | (row[i] == NO_ROW);
    best[i] = is_better ? x[i] : best[i];
    row[i] = is_better ? y : row[i];
  }
}

/* Fills the strip with the columns from `first` on, which may lie outside of x. */
static void strip_fill(strip_t *strip, const window_t *w, const float *x, taps_t rows,
                       int64_t first, int64_t span) {
  const int64_t width = w->in[1];
  const int64_t lo = first < 0 ? -first : 0;
  const int64_t hi = first + span > width ? width - first : span;
  for (int64_t i = 0; i < span; i++) {
    strip->best[i] = -INFINITY;
    strip->row[i] = NO_ROW;
  }
  for (int64_t y = rows.begin; y < rows.end && lo < hi; y += w->dilation[0])
    join_row(strip->best + lo, strip->row + lo, x + y * width + first + lo, hi - lo, (int32_t)y);
}

/* Joins one column of each window. Of equal elements the one in the first row counts, and in the
 * first column of this row; of several NaN the last one. */
static inline void join_column(lanes_t *lanes, const float *best, const int32_t *row,
                               int64_t stride, int64_t count, int32_t column) {
  for (int64_t l = 0; l < count; l++) {
    const float value = best[l * stride];
    const float before = lanes->best[l];
    const int32_t y = row[l * stride];
    const int32_t is_first = (value == before) & (y < lanes->row[l]);
    const int32_t is_last = (value != value) & ((before == before) | (y >= lanes->row[l]));
    const int32_t is_better = (value > before) | is_first | is_last;
    lanes->best[l] = is_better ? value : before;
    lanes->row[l] = is_better ? y : lanes->row[l];
    lanes->column[l] = is_better ? column + (int32_t)(l * stride) : lanes->column[l];
  }
}

static void lanes_begin(lanes_t *lanes, int64_t count) {
  for (int64_t l = 0; l < count; l++) {
    lanes->best[l] = -INFINITY;
    lanes->row[l] = NO_ROW;
    lanes->column[l] = 0;
  }
}

static void join_columns(lanes_t *lanes, const strip_t *strip, const window_t *w, int64_t first,
                         int64_t count) {
  lanes_begin(lanes, count);
  for (int64_t k = 0; k < w->kernel[1]; k++) {
    const int64_t at = k * w->dilation[1];
    const int32_t column = (int32_t)(first + at);
    /* compiled apart for the strides that occur, so that neighbours are joined at once */
    if (w->stride[1] == 1)
      join_column(lanes, strip->best + at, strip->row + at, 1, count, column);
    else if (w->stride[1] == 2)
      join_column(lanes, strip->best + at, strip->row + at, 2, count, column);
    else
      join_column(lanes, strip->best + at, strip->row + at, w->stride[1], count, column);
  }
}

/* One row of results. `x` is the plane, whose first element has the index `base`. */
static void row_run(const window_t *w, const float *x, int64_t base, taps_t rows, float *out,
                    int64_t *indices) {
  const int64_t reach = (w->kernel[1] - 1) * w->dilation[1] + 1;
  strip_t strip;
  lanes_t lanes;
  for (int64_t o = 0; o < w->out[1]; o += STRIP_LANES) {
    const int64_t left = w->out[1] - o;
    const int64_t count = left < STRIP_LANES ? left : STRIP_LANES;
    const int64_t first = o * w->stride[1] - w->before[1];
    strip_fill(&strip, w, x, rows, first, (count - 1) * w->stride[1] + reach);
    join_columns(&lanes, &strip, w, first, count);
    for (int64_t l = 0; l < count; l++) {
      const int64_t at = base + lanes.row[l] * w->in[1] + lanes.column[l];
      out[o + l] = lanes.best[l];
      indices[o + l] = lanes.row[l] == NO_ROW ? -1 : at;
    }
  }
}

static tenon_status_t planes_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const planes_t *p = (const planes_t *)argument;
  const window_t *w = &p->window;
  const int64_t in = w->in[0] * w->in[1];
  const int64_t out = w->out[0] * w->out[1];
  (void)call;
  for (int64_t plane = begin; plane < end; plane++)
    for (int64_t o = 0; o < w->out[0]; o++)
      row_run(w, p->x + plane * in, plane * in, taps_of(w, 0, o),
              p->out + plane * out + o * w->out[1], p->indices + plane * out + o * w->out[1]);
  return TENON_OK;
}

/* Images with adjacent channels: a part is one position of the results. */
static void pixel_run(const pixels_t *p, int64_t image, int64_t channel, const int64_t *o,
                      int64_t count) {
  const window_t *w = &p->window;
  const taps_t rows = taps_of(w, 0, o[0]);
  const taps_t columns = taps_of(w, 1, o[1]);
  const int64_t *strides = p->indices->strides;
  int64_t *index = (int64_t *)p->indices->data + image * strides[0] + channel * strides[1] +
                   o[0] * strides[2] + o[1] * strides[3];
  float *out = pixel_of(p->out, image, channel, o[0], o[1]);
  const int64_t first = image * p->x->shape[1] + channel;
  lanes_t lanes;
  lanes_begin(&lanes, count);
  for (int64_t y = rows.begin; y < rows.end; y += w->dilation[0])
    for (int64_t i = columns.begin; i < columns.end; i += w->dilation[1])
      join_row(lanes.best, lanes.row, pixel_of(p->x, image, channel, y, i), count,
               (int32_t)(y * w->in[1] + i));
  for (int64_t l = 0; l < count; l++) {
    const int64_t base = (first + l) * w->in[0] * w->in[1];
    out[l] = lanes.best[l];
    index[l * strides[1]] = lanes.row[l] == NO_ROW ? -1 : base + lanes.row[l];
  }
}

static tenon_status_t pixels_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const pixels_t *p = (const pixels_t *)argument;
  const window_t *w = &p->window;
  const int64_t channels = p->x->shape[1];
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    const int64_t image = part / (w->out[0] * w->out[1]);
    const int64_t o[2] = {part / w->out[1] % w->out[0], part % w->out[1]};
    for (int64_t channel = 0; channel < channels; channel += STRIP_LANES) {
      const int64_t left = channels - channel;
      pixel_run(p, image, channel, o, left < STRIP_LANES ? left : STRIP_LANES);
    }
  }
  return TENON_OK;
}

static int has_planes(const tenon_call_t *call, const window_t *w) {
  return core_is_dense(call->inputs[0]) && core_is_dense(call->outputs[0]) &&
         core_is_dense(call->outputs[1]) && w->stride[1] < STRIP_SPAN &&
         w->kernel[1] <= STRIP_SPAN && w->dilation[1] <= STRIP_SPAN &&
         (STRIP_LANES - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] < STRIP_SPAN;
}

static tenon_status_t run_planes(tenon_call_t *call, const window_t *w, int64_t grain) {
  const tenon_tensor_t *x = call->inputs[0];
  planes_t p = {.window = *w,
                .x = (const float *)x->data,
                .out = (float *)call->outputs[0]->data,
                .indices = (int64_t *)call->outputs[1]->data};
  return call->host->parallel(call, x->shape[0] * x->shape[1], grain, planes_run, &p);
}

static tenon_status_t run_pixels(tenon_call_t *call, const window_t *w, int64_t grain) {
  pixels_t p = {*w, call->inputs[0], call->outputs[0], call->outputs[1]};
  const int64_t count = p.x->shape[0] * w->out[0] * w->out[1];
  return call->host->parallel(call, count, grain, pixels_run, &p);
}

int core_max_pool_indices_run(tenon_call_t *call, tenon_status_t *out_status) {
  const tenon_tensor_t *x = call->inputs[0];
  const int64_t most = (int64_t)1 << 30; /* positions of a plane, so that they fit into 32 bits */
  window_t w;
  if (!call->outputs[1] || x->ndim != 4 || tenon_dtype_id(x->dtype) != TENON_F32 ||
      call->attrs[POOL_MORE].as.i || tenon_count(call->outputs[0]) == 0)
    return 0;
  pool_window(call, &w);
  if (w.in[0] > most || w.in[1] > most || w.in[0] * w.in[1] > most) return 0;
  if (w.kernel[0] > most / w.kernel[1]) return 0;
  const int64_t taps = w.kernel[0] * w.kernel[1];
  const int64_t parts = 1 << 15; /* comparisons of a part of the parallel loop, at least */
  if (has_planes(call, &w)) {
    *out_status = run_planes(call, &w, 1 + parts / (w.out[0] * w.out[1] * taps + 1));
    return 1;
  }
  if (x->strides[1] != 1 || call->outputs[0]->strides[1] != 1 || x->shape[1] < 4) return 0;
  *out_status = run_pixels(call, &w, 1 + parts / (x->shape[1] * taps + 1));
  return 1;
}
