/* max_pool with the indices of the greatest elements, as training needs them: of dense images of f32
 * whose windows are compared plane by plane. pool_taps.c does all other cases, with the same
 * results.
 * Invariant: of equal elements the first one counts, and of several NaN the last one. */
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
  int32_t row[STRIP_LANES];
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

static void join_columns(lanes_t *lanes, const strip_t *strip, const window_t *w, int64_t first,
                         int64_t count) {
  for (int64_t l = 0; l < count; l++) {
    lanes->best[l] = -INFINITY;
    lanes->row[l] = NO_ROW;
    lanes->column[l] = 0;
  }
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

int core_max_pool_has_planes(const tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  const tenon_tensor_t *indices = call->outputs[1];
  window_t w;
  if (!indices || x->ndim != 4 || tenon_dtype_id(x->dtype) != TENON_F32 ||
      call->attrs[POOL_MORE].as.i || !core_is_dense(x) || !core_is_dense(out) ||
      !core_is_dense(indices))
    return 0;
  pool_window(call, &w);
  const int64_t most = INT32_MAX / 2;
  return w.stride[1] < STRIP_SPAN && w.kernel[1] <= STRIP_SPAN && w.dilation[1] <= STRIP_SPAN &&
         (STRIP_LANES - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] < STRIP_SPAN &&
         w.in[0] < most && w.in[1] < most;
}

tenon_status_t core_max_pool_planes_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  planes_t p = {.x = (const float *)x->data,
                .out = (float *)call->outputs[0]->data,
                .indices = (int64_t *)call->outputs[1]->data};
  pool_window(call, &p.window);
  const int64_t work = p.window.out[0] * p.window.out[1] * p.window.kernel[0] * p.window.kernel[1];
  return call->host->parallel(call, x->shape[0] * x->shape[1], 1 + (1 << 15) / (work + 1),
                              planes_run, &p);
}
