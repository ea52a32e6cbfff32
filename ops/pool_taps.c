/* Pools of windows of any shape: the elements under a window are joined one by one, for up to
 * POOL_LANES results at once; see pool_run.h. */
#include "axes.h"
#include "pool_run.h"
#include <math.h>
#include <string.h>

enum {
  ROW_LEAST = 16 /* elements of a row of a window that are worth a loop of their own */
};

/* what is computed from a window */

#define T float
#define LEAST (-INFINITY)
#define NAME(x) x##_F32
#include "pool_max_kernel.h"

#define T double
#define LEAST (-(double)INFINITY)
#define NAME(x) x##_F64
#include "pool_max_kernel.h"

#define T int8_t
#define LEAST INT8_MIN
#define NAME(x) x##_I8
#include "pool_max_kernel.h"

#define T int16_t
#define LEAST INT16_MIN
#define NAME(x) x##_I16
#include "pool_max_kernel.h"

#define T int32_t
#define LEAST INT32_MIN
#define NAME(x) x##_I32
#include "pool_max_kernel.h"

#define T int64_t
#define LEAST INT64_MIN
#define NAME(x) x##_I64
#include "pool_max_kernel.h"

#define T uint8_t
#define LEAST 0
#define NAME(x) x##_U8
#include "pool_max_kernel.h"

#define T uint16_t
#define LEAST 0
#define NAME(x) x##_U16
#include "pool_max_kernel.h"

#define T uint32_t
#define LEAST 0
#define NAME(x) x##_U32
#include "pool_max_kernel.h"

#define T uint64_t
#define LEAST 0
#define NAME(x) x##_U64
#include "pool_max_kernel.h"

static inline float power_f32(float x, float p) {
  if (p == 2) return x * x;
  return p == 1 ? fabsf(x) : powf(fabsf(x), p);
}

static inline double power_f64(double x, double p) {
  if (p == 2) return x * x;
  return p == 1 ? fabs(x) : pow(fabs(x), p);
}

#define T float
#define TERM(x, p) (x)
#define RESULT(sum, count, p) ((sum) / (T)(count))
#define NAME(x) average_##x##_F32
#include "pool_sum_kernel.h"

#define T double
#define TERM(x, p) (x)
#define RESULT(sum, count, p) ((sum) / (T)(count))
#define NAME(x) average_##x##_F64
#include "pool_sum_kernel.h"

#define T float
#define TERM(x, p) power_f32(x, p)
#define RESULT(sum, count, p) ((p) == 2 ? sqrtf(sum) : powf(sum, 1 / (p)))
#define NAME(x) lp_##x##_F32
#include "pool_sum_kernel.h"

#define T double
#define TERM(x, p) power_f64(x, p)
#define RESULT(sum, count, p) ((p) == 2 ? sqrt(sum) : pow(sum, 1 / (p)))
#define NAME(x) lp_##x##_F64
#include "pool_sum_kernel.h"

#define T float
#define NAME(x) average_##x##_F32
#include "pool_row_kernel.h"

#define T double
#define NAME(x) average_##x##_F64
#include "pool_row_kernel.h"
static const struct {
  uint32_t dtype;
  int kind;
  tap_fn tap;
  done_fn done;
  fold_fn fold;
  row_fn row;
} pools[] = {
    {TENON_F32, POOL_MAX, max_tap_F32, max_done_F32, NULL, NULL},
    {TENON_F64, POOL_MAX, max_tap_F64, max_done_F64, NULL, NULL},
    {TENON_I8, POOL_MAX, max_tap_I8, max_done_I8, NULL, NULL},
    {TENON_I16, POOL_MAX, max_tap_I16, max_done_I16, NULL, NULL},
    {TENON_I32, POOL_MAX, max_tap_I32, max_done_I32, NULL, NULL},
    {TENON_I64, POOL_MAX, max_tap_I64, max_done_I64, NULL, NULL},
    {TENON_U8, POOL_MAX, max_tap_U8, max_done_U8, NULL, NULL},
    {TENON_U16, POOL_MAX, max_tap_U16, max_done_U16, NULL, NULL},
    {TENON_U32, POOL_MAX, max_tap_U32, max_done_U32, NULL, NULL},
    {TENON_U64, POOL_MAX, max_tap_U64, max_done_U64, NULL, NULL},
    {TENON_F32, POOL_AVERAGE, average_tap_F32, average_done_F32, average_fold_F32, average_row_F32},
    {TENON_F64, POOL_AVERAGE, average_tap_F64, average_done_F64, average_fold_F64, average_row_F64},
    {TENON_F32, POOL_LP, lp_tap_F32, lp_done_F32, lp_fold_F32, NULL},
    {TENON_F64, POOL_LP, lp_tap_F64, lp_done_F64, lp_fold_F64, NULL},
};

/* the sweep */

/* Sets the strides of the indices: row-major, or with the first axis innermost. */
static void set_index_strides(const pool_t *pool, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t i = 0; i < pool->window.rank; i++) {
    int32_t axis = pool->column_major ? i : pool->window.rank - 1 - i;
    strides[axis] = stride;
    stride *= pool->window.in[axis];
  }
}

/* Counts the elements that an average divides by, for each lane; other pools get 1. */
static void count_elements(const pool_t *pool, const int64_t *o, int64_t lanes, double *counts) {
  const window_t *w = &pool->window;
  int32_t fixed = pool->by_channel ? w->rank : w->rank - 1;
  for (int64_t l = 0; l < lanes; l++)
    counts[l] = 1;
  if (pool->done != average_done_F32 && pool->done != average_done_F64) return;
  for (int32_t i = 0; i < w->rank; i++)
    for (int64_t l = 0, c = 0; l < lanes; l++) {
      if (l == 0 || i >= fixed)
        c = pool_count(w, pool->include_pad, i, i < fixed ? o[i] : o[i] + l);
      counts[l] *= (double)c;
    }
}

static void write_indices(const pool_t *pool, int64_t image, int64_t channel, const int64_t *o,
                          int64_t lanes, const sums_t *sums) {
  const tenon_tensor_t *indices = pool->indices;
  int64_t axis = pool->by_channel ? 1 : 1 + pool->window.rank;
  int64_t to = image * indices->strides[0] + channel * indices->strides[1];
  for (int32_t i = 0; i < pool->window.rank; i++)
    to += o[i] * indices->strides[2 + i];
  for (int64_t l = 0; l < lanes; l++)
    ((int64_t *)indices->data)[to + l * indices->strides[axis]] = sums->index[l];
}

/* Computes lanes [first, first + lanes): channels at output position o[], or positions along the
 * last axis of `channel`. */
static void window_lanes_run(const pool_t *pool, int64_t image, int64_t channel, int64_t *o,
                             int64_t lanes) {
  const window_t *w = &pool->window;
  const tenon_tensor_t *x = pool->x;
  const tenon_tensor_t *out = pool->out;
  int32_t last = w->rank - 1;
  int32_t fixed = pool->by_channel ? w->rank : last;
  int64_t size = x->dtype.bits / 8;
  int64_t taps = 1;
  int64_t space = window_size(w->in, w->rank);
  int64_t x_lane = pool->by_channel ? x->strides[1] : w->stride[last] * x->strides[2 + last];
  int64_t out_axis = pool->by_channel ? 1 : 1 + w->rank;
  int64_t out_at = image * out->strides[0] + channel * out->strides[1];
  int64_t at_weights[SPATIAL_MAX], first[SPATIAL_MAX], some[SPATIAL_MAX];
  double counts[POOL_LANES];
  sums_t sums;
  set_index_strides(pool, at_weights);
  int64_t at_lane = pool->by_channel ? space : w->stride[last] * at_weights[last];
  count_elements(pool, o, lanes, counts);
  /* Only taps that are inside x for some lane: a window may be far larger than x. */
  for (int32_t i = 0; i < w->rank; i++) {
    int64_t begin = o[i] * w->stride[i] - w->before[i];
    int64_t reach = i < fixed ? 0 : (lanes - 1) * w->stride[i];
    first[i] = pool_first_tap(w, i, begin + reach, 0);
    some[i] = pool_first_tap(w, i, begin, w->in[i]) - first[i];
    taps *= some[i] > 0 ? some[i] : 0;
    out_at += o[i] * out->strides[2 + i];
  }
  pool->done(&sums, 0, 0, lanes, counts, pool->p);
  if (taps > POOL_FOLD) memset(sums.total, 0, sizeof sums.total);
  for (int64_t t = 0; t < taps; t++) {
    if (t && t % POOL_FOLD == 0 && pool->fold) pool->fold(&sums, lanes, 0);
    int64_t offset = image * x->strides[0] + channel * x->strides[1];
    int64_t lo = 0;
    int64_t hi = lanes;
    int64_t rest = t;
    int64_t at = (image * x->shape[1] + channel) * space;
    for (int32_t i = last; i >= 0; i--) {
      int64_t place =
          o[i] * w->stride[i] - w->before[i] + (first[i] + rest % some[i]) * w->dilation[i];
      rest /= some[i];
      if (i >= fixed) { /* place + lane * stride is inside for lanes [lo, hi) */
        int64_t end = pool_ceil_div(w->in[i] - place, w->stride[i]);
        lo = place < 0 ? pool_ceil_div(-place, w->stride[i]) : 0;
        hi = end < hi ? end : hi;
      } else if (place < 0 || place >= w->in[i]) {
        hi = 0;
      }
      offset += place * x->strides[2 + i];
      at += place * at_weights[i];
    }
    if (lo >= hi) continue;
    const char *from = (const char *)x->data + offset * size; /* lane 0, which may be padding */
    pool->tap(&sums, from, x_lane, lo, hi, at, pool->indices ? at_lane : 0, pool->p);
  }
  if (taps > POOL_FOLD && pool->fold) pool->fold(&sums, lanes, 1);
  pool->done(&sums, (char *)out->data + out_at * size, out->strides[out_axis], lanes, counts,
             pool->p);
  if (pool->indices) write_indices(pool, image, channel, o, lanes, &sums);
}

/* window_lanes_run for the mean over all positions of channels that are adjacent in memory. The
 * sums are the same as there. */
static void global_lanes_run(const pool_t *pool, int64_t image, int64_t channel, const int64_t *o,
                             int64_t lanes) {
  const tenon_tensor_t *x = pool->x;
  const tenon_tensor_t *out = pool->out;
  const int64_t positions = x->shape[2];
  const int64_t step = x->strides[2];
  const float *from = (const float *)x->data + image * x->strides[0] + channel;
  float *to = (float *)out->data + image * out->strides[0] + channel * out->strides[1];
  double counts[POOL_LANES];
  sums_t sums;
  count_elements(pool, o, lanes, counts);
  pool->done(&sums, 0, 0, lanes, counts, pool->p);
  memset(sums.total, 0, sizeof sums.total);
  for (int64_t at = 0; at < positions; at += POOL_FOLD) {
    if (at) pool->fold(&sums, lanes, 0);
    const int64_t rows = positions - at < POOL_FOLD ? positions - at : POOL_FOLD;
    pool->sum((float *)(void *)sums.value, from + at * step, step, rows, lanes);
  }
  if (positions > POOL_FOLD) pool->fold(&sums, lanes, 1);
  pool->done(&sums, to, out->strides[1], lanes, counts, pool->p);
}

/* The sum of the elements under the window at output position o[] of a channel, by whole rows. */
static double window_rows_sum(const pool_t *pool, int64_t image, int64_t channel,
                              const int64_t *o) {
  const window_t *w = &pool->window;
  const tenon_tensor_t *x = pool->x;
  int32_t last = w->rank - 1;
  int64_t size = x->dtype.bits / 8;
  int64_t rows = 1;
  int64_t origin[SPATIAL_MAX], some[SPATIAL_MAX];
  double total = 0;
  for (int32_t i = 0; i <= last; i++) {
    int64_t begin = o[i] * w->stride[i] - w->before[i];
    int64_t first = pool_first_tap(w, i, begin, 0);
    some[i] = pool_first_tap(w, i, begin, w->in[i]) - first;
    origin[i] = begin + first * w->dilation[i];
    if (some[i] <= 0) return 0;
    if (i < last) rows *= some[i];
  }
  for (int64_t row = 0; row < rows; row++) {
    int64_t rest = row;
    int64_t offset = image * x->strides[0] + channel * x->strides[1] + origin[last];
    for (int32_t i = last - 1; i >= 0; i--) {
      offset += (origin[i] + rest % some[i] * w->dilation[i]) * x->strides[2 + i];
      rest /= some[i];
    }
    total += pool->row((const char *)x->data + offset * size, some[last]);
  }
  return total;
}

/* window_lanes_run for averages of windows whose rows are long and dense. */
static void average_lanes_run(const pool_t *pool, int64_t image, int64_t channel, const int64_t *o,
                              int64_t lanes) {
  const tenon_tensor_t *out = pool->out;
  int32_t rank = pool->window.rank;
  int64_t axis = pool->by_channel ? 1 : 1 + rank;
  int64_t to = image * out->strides[0] + channel * out->strides[1];
  int64_t own[SPATIAL_MAX];
  double counts[POOL_LANES];
  count_elements(pool, o, lanes, counts);
  for (int32_t i = 0; i < rank; i++) {
    own[i] = o[i];
    to += o[i] * out->strides[2 + i];
  }
  for (int64_t l = 0; l < lanes; l++, to += out->strides[axis]) {
    if (!pool->by_channel) own[rank - 1] = o[rank - 1] + l;
    double mean =
        window_rows_sum(pool, image, pool->by_channel ? channel + l : channel, own) / counts[l];
    if (tenon_dtype_id(out->dtype) == TENON_F64)
      ((double *)out->data)[to] = mean;
    else
      ((float *)out->data)[to] = (float)mean;
  }
}

/* Lanes of either kind. */
void core_pool_lanes_run(const pool_t *pool, int64_t image, int64_t channel, int64_t *o,
                         int64_t lanes) {
  if (pool->row)
    average_lanes_run(pool, image, channel, o, lanes);
  else if (pool->sum)
    global_lanes_run(pool, image, channel, o, lanes);
  else
    window_lanes_run(pool, image, channel, o, lanes);
}

void core_pool_choose_taps(pool_t *pool, int kind) {
  const uint32_t dtype = tenon_dtype_id(pool->x->dtype);
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
    if (pools[i].dtype == dtype && pools[i].kind == kind) {
      pool->tap = pools[i].tap;
      pool->done = pools[i].done;
      pool->fold = pools[i].fold;
      pool->row = pools[i].row;
    }
  const window_t *w = &pool->window;
  const int32_t last = w->rank - 1;
  const int64_t reach = w->in[last] < w->kernel[last] ? w->in[last] : w->kernel[last];
  if (pool->x->strides[2 + last] != 1 || w->dilation[last] != 1 || reach < ROW_LEAST)
    pool->row = NULL;
}
