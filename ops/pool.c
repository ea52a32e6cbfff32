/* max_pool, average_pool, lp_pool and their global forms: one pass of windows over an input with
 * any strides. A thread processes up to LANES neighbours at once: channels if they are the
 * innermost axis, otherwise positions along the last axis.
 * Invariant: the result is channels-last if the input is. */
#include "pool.h"
#include "axes.h"
#include "capability.h"
#include "copy.h"
#include "dense.h"
#include "pool_line.h"
#include <math.h>
#include <string.h>

enum {
  LANES = 64,
  LINE_ROWS = 256, /* rows under a window, at most, for results that are computed by whole rows */
  FOLD = 256,      /* taps summed in the dtype itself; a sum of more loses digits of an f32 */
  ROW_LEAST = 16   /* elements of a row of a window that are worth a loop of their own */
};

typedef struct sums_t { /* per lane: a sum of any dtype, and the index of the greatest element */
  _Alignas(64) char value[LANES * 8];
  int64_t index[LANES];
  double total[LANES]; /* sums of all taps but the last FOLD ones, of windows with more taps */
} sums_t;

/* Accumulates lanes [lo, hi) of the elements under one tap. `at` and `at_step` give their indices;
 * at_step is 0 if no indices are requested. */
typedef void (*tap_fn)(sums_t *sums, const void *x, int64_t stride, int64_t lo, int64_t hi,
                       int64_t at, int64_t at_step, double p);
/* Starts the sums (out NULL) or writes them. */
typedef void (*done_fn)(sums_t *sums, void *out, int64_t stride, int64_t lanes,
                        const double *counts, double p);

/* Moves the sums to the totals; `is_last` then sets the sums to the totals. */
typedef void (*fold_fn)(sums_t *sums, int64_t lanes, int is_last);
/* The sum of n neighbours. */
typedef double (*row_fn)(const void *x, int64_t n);

typedef struct pool_rows_t { /* the rows of x under the windows of one row of results */
  int64_t first;
  int64_t count;
  int64_t divisor; /* what they contribute to the divisor of an average */
} pool_rows_t;

typedef struct pool_t {
  window_t window;
  tenon_tensor_t *x;
  tenon_tensor_t *out;
  tenon_tensor_t *indices;
  tap_fn tap;
  done_fn done;
  fold_fn fold;        /* NULL: the result needs no sums */
  row_fn row;          /* NULL: rows of windows are not summed by themselves */
  pool_line_fn line;   /* NULL: results are not computed by whole rows */
  pool_plane_fn plane; /* NULL: results are not computed by whole planes */
  pool_rows_fn sum;    /* of a global average over adjacent channels; NULL: taps are added singly */
  pool_rows_t *rows;   /* of each output row of a plane, if there are at most two spatial axes */
  float *divisors;     /* of an average, along the last axis */
  double p;
  int include_pad;
  int column_major;
  int by_channel;
  int is_global;            /* one window covers all positions */
  tenon_tensor_t merged[2]; /* x and out with one spatial axis */
  int64_t merged_shapes[2][3];
  int64_t merged_strides[2][3];
} pool_t;

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

enum {
  POOL_MAX,
  POOL_AVERAGE,
  POOL_LP,
};

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
  double counts[LANES];
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
  if (taps > FOLD) memset(sums.total, 0, sizeof sums.total);
  for (int64_t t = 0; t < taps; t++) {
    if (t && t % FOLD == 0 && pool->fold) pool->fold(&sums, lanes, 0);
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
  if (taps > FOLD && pool->fold) pool->fold(&sums, lanes, 1);
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
  double counts[LANES];
  sums_t sums;
  count_elements(pool, o, lanes, counts);
  pool->done(&sums, 0, 0, lanes, counts, pool->p);
  memset(sums.total, 0, sizeof sums.total);
  for (int64_t at = 0; at < positions; at += FOLD) {
    if (at) pool->fold(&sums, lanes, 0);
    const int64_t rows = positions - at < FOLD ? positions - at : FOLD;
    pool->sum((float *)(void *)sums.value, from + at * step, step, rows, lanes);
  }
  if (positions > FOLD) pool->fold(&sums, lanes, 1);
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
  double counts[LANES];
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
static void lanes_run(const pool_t *pool, int64_t image, int64_t channel, int64_t *o,
                      int64_t lanes) {
  if (pool->row)
    average_lanes_run(pool, image, channel, o, lanes);
  else if (pool->sum)
    global_lanes_run(pool, image, channel, o, lanes);
  else
    window_lanes_run(pool, image, channel, o, lanes);
}

/* Computes the results along the last axis at position o[] of the other axes. */
static void line_run(const pool_t *pool, int64_t image, int64_t channel, const int64_t *o) {
  const window_t *w = &pool->window;
  const tenon_tensor_t *x = pool->x;
  const tenon_tensor_t *out = pool->out;
  int32_t last = w->rank - 1;
  const pool_line_t line = {w->in[last],     w->out[last],      w->kernel[last],
                            w->stride[last], w->dilation[last], w->before[last]};
  const void *rows[LINE_ROWS];
  const int64_t size = x->dtype.bits / 8;
  int64_t first[SPATIAL_MAX], some[SPATIAL_MAX];
  int64_t count = 1;
  int64_t divisor = 1;
  int64_t to = image * out->strides[0] + channel * out->strides[1];
  for (int32_t i = 0; i < last; i++) {
    int64_t begin = o[i] * w->stride[i] - w->before[i];
    first[i] = pool_first_tap(w, i, begin, 0);
    some[i] = pool_first_tap(w, i, begin, w->in[i]) - first[i];
    first[i] = begin + first[i] * w->dilation[i];
    count *= some[i] > 0 ? some[i] : 0;
    divisor *= pool_count(w, pool->include_pad, i, o[i]);
    to += o[i] * out->strides[2 + i];
  }
  for (int64_t r = 0; r < count; r++) {
    int64_t rest = r;
    int64_t offset = image * x->strides[0] + channel * x->strides[1];
    for (int32_t i = last - 1; i >= 0; i--) {
      offset += (first[i] + rest % some[i] * w->dilation[i]) * x->strides[2 + i];
      rest /= some[i];
    }
    rows[r] = (const char *)x->data + offset * size;
  }
  pool->line(&line, rows, count, pool->divisors, (float)divisor, (char *)out->data + to * size);
}

/* The same with the rows that were found before, for row number `row` of a plane. */
static void known_line_run(const pool_t *pool, int64_t plane, int64_t row) {
  const window_t *w = &pool->window;
  const tenon_tensor_t *x = pool->x;
  const tenon_tensor_t *out = pool->out;
  const int32_t last = w->rank - 1;
  const pool_line_t line = {w->in[last],     w->out[last],      w->kernel[last],
                            w->stride[last], w->dilation[last], w->before[last]};
  const pool_rows_t *under = &pool->rows[row];
  const int64_t size = x->dtype.bits / 8;
  const int64_t image = plane / x->shape[1];
  const int64_t channel = plane % x->shape[1];
  const int64_t pitch = last ? x->strides[2] : 0;
  const int64_t step = pitch * w->dilation[0] * size;
  const int64_t offset = image * x->strides[0] + channel * x->strides[1] + under->first * pitch;
  int64_t to = image * out->strides[0] + channel * out->strides[1];
  if (last) to += row * out->strides[2];
  const char *from = (const char *)x->data + offset * size;
  const void *rows[LINE_ROWS];
  for (int64_t r = 0; r < under->count; r++)
    rows[r] = from + r * step;
  pool->line(&line, rows, under->count, pool->divisors, (float)under->divisor,
             (char *)out->data + to * size);
}

/* A part is a row of results. Those of a plane follow each other, because their windows overlap. */
static tenon_status_t planes_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const pool_t *pool = (const pool_t *)argument;
  const int64_t height = pool->window.rank > 1 ? pool->window.out[0] : 1;
  int64_t plane = begin / height;
  int64_t row = begin % height;
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    known_line_run(pool, plane, row);
    if (++row < height) continue;
    row = 0;
    plane++;
  }
  return TENON_OK;
}

/* Planes whose windows move by one are computed at once. A part is such a plane. */
static tenon_status_t whole_planes_run(tenon_call_t *call, void *argument, int64_t begin,
                                       int64_t end) {
  const pool_t *pool = (const pool_t *)argument;
  const window_t *w = &pool->window;
  const tenon_tensor_t *x = pool->x;
  const tenon_tensor_t *out = pool->out;
  const int64_t size = x->dtype.bits / 8;
  const pool_plane_t plane = {
      w->in[1], w->in[0], w->out[0], {w->kernel[0], w->kernel[1]}, {w->before[0], w->before[1]}};
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    const int64_t image = part / x->shape[1];
    const int64_t channel = part % x->shape[1];
    const int64_t from = image * x->strides[0] + channel * x->strides[1];
    const int64_t to = image * out->strides[0] + channel * out->strides[1];
    pool->plane(&plane, (const char *)x->data + from * size, (char *)out->data + to * size);
  }
  return TENON_OK;
}

/* A part is (image, position or row of positions, block of channels or channel). */
static tenon_status_t window_rows_run(tenon_call_t *call, void *argument, int64_t begin,
                                      int64_t end) {
  const pool_t *pool = (const pool_t *)argument;
  const window_t *w = &pool->window;
  int64_t channels = pool->x->shape[1];
  int64_t row = w->out[w->rank - 1];
  int64_t o[SPATIAL_MAX];
  int64_t step = pool->by_channel ? LANES : 1;
  int64_t blocks = (channels - 1) / step + 1;
  int64_t positions = window_size(w->out, w->rank) / (pool->by_channel ? 1 : row);
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    int64_t channel = part % blocks * step;
    int64_t rest = part / blocks % positions;
    int64_t image = part / blocks / positions;
    int32_t i = w->rank - 1;
    if (!pool->by_channel) o[i--] = 0;
    for (; i >= 0; i--) {
      o[i] = rest % w->out[i];
      rest /= w->out[i];
    }
    if (pool->line) {
      line_run(pool, image, channel, o);
      continue;
    }
    if (pool->by_channel) {
      lanes_run(pool, image, channel, o, channels - channel < LANES ? channels - channel : LANES);
      continue;
    }
    for (int64_t at = 0; at < row; at += LANES) {
      o[w->rank - 1] = at;
      lanes_run(pool, image, channel, o, row - at < LANES ? row - at : LANES);
    }
  }
  return TENON_OK;
}

static const pool_lines_t *lines_of_isa(void) {
#if defined(__x86_64__) || defined(_M_X64)
  static const pool_lines_t *const all[] = {&core_pool_lines, &core_pool_lines_avx2,
                                            &core_pool_lines_avx512};
  return all[core_capability()];
#else
  return &core_pool_lines;
#endif
}

/* The function that computes whole rows; NULL: there is none for this dtype. */
static pool_line_fn line_of(const tenon_tensor_t *x, int kind) {
  const pool_lines_t *lines = lines_of_isa();
  if (kind == POOL_LP) return NULL;
  if (core_is(x, TENON_F32)) return kind == POOL_MAX ? lines->max : lines->average;
  if (kind != POOL_MAX) return NULL;
  if (core_is(x, TENON_I8)) return lines->max_i8;
  return core_is(x, TENON_U8) ? lines->max_u8 : NULL;
}

/* The function that computes whole planes; NULL: planes are too large, or windows do not move by
 * one, or results do not lie as elements do. */
static pool_plane_fn plane_of(const pool_t *pool, int kind) {
  const pool_lines_t *lines = lines_of_isa();
  const window_t *w = &pool->window;
  const tenon_tensor_t *x = pool->x;
  const tenon_tensor_t *out = pool->out;
  if (kind != POOL_MAX || pool->indices || w->rank != 2 || w->in[1] != w->out[1]) return NULL;
  if (w->in[0] * w->in[1] > POOL_PLANE || w->out[0] * w->out[1] > POOL_PLANE) return NULL;
  for (int i = 0; i < 2; i++)
    if (w->stride[i] != 1 || w->dilation[i] != 1 || w->kernel[i] > POOL_TAPS ||
        w->before[i] >= w->kernel[i])
      return NULL;
  if (x->strides[3] != 1 || x->strides[2] != w->in[1] || out->strides[3] != 1 ||
      out->strides[2] != w->in[1])
    return NULL;
  if (core_is(x, TENON_F32)) return lines->max_plane;
  if (core_is(x, TENON_I8)) return lines->max_i8_plane;
  return core_is(x, TENON_U8) ? lines->max_u8_plane : NULL;
}

/* Finds the rows under each row of results, if there are at most two spatial axes. */
static tenon_status_t find_rows(tenon_call_t *call, pool_t *pool) {
  const window_t *w = &pool->window;
  if (w->rank > 2) return TENON_OK;
  const int64_t height = w->rank > 1 ? w->out[0] : 1;
  pool->rows = (pool_rows_t *)CORE_SCRATCH(call, sizeof(pool_rows_t), height);
  if (!pool->rows) return TENON_MEMORY;
  for (int64_t o = 0; o < height; o++) {
    pool->rows[o] = (pool_rows_t){0, 1, 1};
    if (w->rank == 1) continue;
    const int64_t begin = o * w->stride[0] - w->before[0];
    const int64_t tap = pool_first_tap(w, 0, begin, 0);
    const int64_t count = pool_first_tap(w, 0, begin, w->in[0]) - tap;
    pool->rows[o].first = begin + tap * w->dilation[0];
    pool->rows[o].count = count > 0 ? count : 0;
    pool->rows[o].divisor = pool_count(w, pool->include_pad, 0, o);
  }
  return TENON_OK;
}

/* Chooses whether results are computed by whole rows, and counts the divisors of averages. */
static tenon_status_t choose_line(tenon_call_t *call, pool_t *pool, int kind) {
  const window_t *w = &pool->window;
  int32_t last = w->rank - 1;
  int64_t rows = 1;
  for (int32_t i = 0; i < last && rows <= LINE_ROWS; i++)
    rows *= w->kernel[i] < w->in[i] ? w->kernel[i] : w->in[i];
  int64_t span = (w->kernel[last] - 1) * w->dilation[last] + 1;
  const pool_line_fn chosen = line_of(pool->x, kind);
  if (!chosen || pool->indices || rows > LINE_ROWS || span > POOL_SPAN ||
      w->stride[last] > POOL_SPAN || pool->x->strides[2 + last] != 1 ||
      pool->out->strides[2 + last] != 1 || (kind == POOL_AVERAGE && rows * w->kernel[last] > FOLD))
    return TENON_OK;
  pool->divisors = (float *)CORE_SCRATCH(call, sizeof(float), w->out[last]);
  if (!pool->divisors) return TENON_MEMORY;
  for (int64_t o = 0; o < w->out[last]; o++)
    pool->divisors[o] = (float)pool_count(w, pool->include_pad, last, o);
  pool->line = chosen;
  return find_rows(call, pool);
}

/* Sets the window of a global pool, which covers all positions of x. */
static void cover_positions(pool_t *pool) {
  static const tenon_value_t none[4] = {{TENON_KIND_NONE, 0, {0}}};
  window_args_t args = window_args(none, 0);
  core_window_set(&pool->window, &args, pool->x->ndim - 2, pool->x->shape + 2, pool->x->shape + 2,
                  pool->out->shape + 2);
}

/* Makes the spatial axes of a global pool one axis, if x has its positions at equal distances. */
static void merge_positions(pool_t *pool) {
  const tenon_tensor_t *sides[2] = {pool->x, pool->out};
  const int32_t last = pool->x->ndim - 1;
  for (int32_t i = 2; i < last; i++)
    if (pool->x->strides[i] != pool->x->shape[i + 1] * pool->x->strides[i + 1]) return;
  for (int s = 0; s < 2; s++) {
    int64_t *shape = pool->merged_shapes[s];
    pool->merged[s] = *sides[s];
    pool->merged[s].ndim = 3;
    pool->merged[s].shape = memcpy(shape, sides[s]->shape, 2 * sizeof *shape);
    pool->merged[s].strides = memcpy(pool->merged_strides[s], sides[s]->strides, 2 * sizeof *shape);
    shape[2] = window_size(sides[s]->shape + 2, last - 1);
    pool->merged_strides[s][2] = sides[s]->strides[last];
  }
  pool->x = &pool->merged[0];
  pool->out = &pool->merged[1];
  cover_positions(pool);
}

/* Whether a tensor of f16 or bf16 lies channels-last: its f32 then lies so, too. */
static int is_narrow_last(const tenon_tensor_t *t) {
  return (core_is(t, TENON_F16) || core_is(t, TENON_BF16)) && core_lies_last(t);
}

static tenon_status_t copy_last(tenon_call_t *call, tenon_tensor_t *to, const tenon_tensor_t *t) {
  move_t move;
  move_begin(&move, to, t);
  for (int32_t i = 0; i < t->ndim; i++)
    move_axis(&move, t->shape[i], t->strides[i], to->strides[i]);
  return core_move(call, &move);
}

/* A tensor of f32 that lies as the given one, which has no gaps. NULL: memory is short. */
static tenon_tensor_t *place_last(tenon_call_t *call, const tenon_tensor_t *t) {
  tenon_tensor_t *wide = call->host->temporary(call, tenon_dtype(TENON_F32), t->ndim, t->shape);
  for (int32_t i = 0; wide && i < t->ndim; i++)
    wide->strides[i] = t->strides[i];
  return wide;
}

/* Sets x and out to tensors of the dtype in which the pool is computed. */
static tenon_status_t place_tensors(tenon_call_t *call, pool_t *pool) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  tenon_dtype_t dtype = x->dtype;
  if (dtype.bits == 16 && dtype.code != (TENON_I16 & 0xff) && dtype.code != (TENON_U16 & 0xff))
    dtype = tenon_dtype(TENON_F32);
  pool->x = is_narrow_last(x) ? place_last(call, x) : core_as(call, x, dtype);
  pool->out = is_narrow_last(out) ? place_last(call, out) : core_place(call, out, dtype);
  if (!pool->x || !pool->out) return TENON_MEMORY;
  return is_narrow_last(x) ? copy_last(call, pool->x, x) : TENON_OK;
}

static tenon_status_t run_windows(tenon_call_t *call, pool_t *pool, int kind) {
  tenon_tensor_t *result = call->outputs[0];
  if (tenon_count(result) == 0) return TENON_OK;
  TENON_TRY(place_tensors(call, pool));
  const tenon_dtype_t dtype = pool->x->dtype;
  tenon_tensor_t *placed = pool->out;
  if (pool->is_global) cover_positions(pool);
  if (pool->is_global) merge_positions(pool);
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
    if (pools[i].dtype == tenon_dtype_id(dtype) && pools[i].kind == kind) {
      pool->tap = pools[i].tap;
      pool->done = pools[i].done;
      pool->fold = pools[i].fold;
      pool->row = pools[i].row;
    }
  int32_t last = pool->window.rank - 1;
  int64_t reach = pool->window.in[last] < pool->window.kernel[last] ? pool->window.in[last]
                                                                    : pool->window.kernel[last];
  if (pool->x->strides[2 + last] != 1 || pool->window.dilation[last] != 1 || reach < ROW_LEAST)
    pool->row = NULL;
  int64_t row = pool->window.out[last];
  pool->plane = plane_of(pool, kind);
  TENON_TRY(choose_line(call, pool, kind));
  pool->by_channel = !pool->line && (pool->x->strides[1] == 1 || row < 8);
  if (pool->is_global && kind == POOL_AVERAGE && core_is(pool->x, TENON_F32) &&
      pool->x->ndim == 3 && pool->x->strides[1] == 1)
    pool->sum = lines_of_isa()->sum_rows;
  int64_t step = pool->by_channel ? LANES : 1;
  int64_t blocks = (pool->x->shape[1] - 1) / step + 1;
  int64_t positions =
      window_size(pool->window.out, pool->window.rank) / (pool->by_channel ? 1 : row);
  int64_t work = pool->by_channel ? LANES : row;
  for (int32_t i = 0; i < pool->window.rank && work < 1 << 15; i++)
    work *= pool->window.kernel[i];
  int64_t grain =
      work < 1 << 15 ? (1 << 15) / (work + 1) + 1 : 1; /* a window without elements is no work */
  const int64_t planes = pool->x->shape[0] * pool->x->shape[1];
  if (pool->plane)
    TENON_TRY(call->host->parallel(call, planes, 1 + grain / pool->window.out[0], whole_planes_run,
                                   pool));
  else
    TENON_TRY(call->host->parallel(call, pool->x->shape[0] * positions * blocks, grain,
                                   pool->line && pool->rows ? planes_run : window_rows_run, pool));
  return is_narrow_last(result) ? copy_last(call, result, placed)
                                : core_settle(call, result, placed);
}

tenon_status_t core_max_pool_run(tenon_call_t *call) {
  pool_t pool = {.indices = call->outputs[1], .column_major = call->attrs[POOL_MORE].as.i != 0};
  pool_window(call, &pool.window);
  return run_windows(call, &pool, POOL_MAX);
}

tenon_status_t core_average_pool_run(tenon_call_t *call) {
  pool_t pool = {.include_pad = call->attrs[POOL_MORE].as.i != 0};
  pool_window(call, &pool.window);
  return run_windows(call, &pool, POOL_AVERAGE);
}

static tenon_status_t lp_pool_run(tenon_call_t *call) {
  pool_t pool = {.p = call->attrs[POOL_MORE].as.f};
  pool_window(call, &pool.window);
  return run_windows(call, &pool, POOL_LP);
}

static tenon_status_t global_run(tenon_call_t *call, int kind, double p) {
  pool_t pool = {.p = p, .is_global = 1};
  return run_windows(call, &pool, kind);
}

static tenon_status_t global_max_run(tenon_call_t *call) { return global_run(call, POOL_MAX, 0); }
static tenon_status_t global_average_run(tenon_call_t *call) {
  return global_run(call, POOL_AVERAGE, 0);
}
static tenon_status_t global_lp_run(tenon_call_t *call) {
  return global_run(call, POOL_LP, call->attrs[0].as.f);
}

/* shapes */

static tenon_status_t rank_check(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 3)
    return tenon_fail(infer, TENON_INVALID,
                      "x has %d axes; expected batch, channels and at least one spatial axis",
                      x->ndim);
  out->ndim = x->ndim;
  out->dims[0] = x->dims[0];
  out->dims[1] = x->dims[1];
  return TENON_OK;
}

tenon_status_t core_pool_infer(tenon_infer_t *infer, int32_t rank, const tenon_dim_t *in,
                               tenon_dim_t *out) {
  const tenon_value_t *kernel = &infer->attrs[POOL_KERNEL];
  window_args_t args = window_args(infer->attrs + POOL_WINDOW, infer->attrs[POOL_CEIL].as.i != 0);
  tenon_dim_t window[SPATIAL_MAX];
  if (kernel->count != (uint32_t)rank)
    return tenon_fail(infer, TENON_INVALID, "kernel lists %u extents, but x has %d spatial axes",
                      kernel->count, rank);
  for (uint32_t i = 0; i < kernel->count; i++) {
    if (kernel->as.ints[i] < 1 || kernel->as.ints[i] > INT32_MAX)
      return tenon_fail(infer, TENON_INVALID, "kernel[%u] is %" PRId64 "; expected 1 to %d", i,
                        kernel->as.ints[i], INT32_MAX);
    window[i] = tenon_extent(kernel->as.ints[i]);
  }
  return core_window_infer(infer, &args, rank, in, window, out);
}

tenon_status_t core_pool_result_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(rank_check(infer));
  TENON_TRY(core_pool_infer(infer, x->ndim - 2, x->dims + 2, out->dims + 2));
  if (core_is_channels_last(x)) core_channels_last(infer, out);
  return TENON_OK;
}

static tenon_status_t max_pool_infer(tenon_infer_t *infer) {
  TENON_TRY(core_pool_result_infer(infer));
  return infer->outputs[1] ? out_like(infer->outputs[1], infer->outputs[0]) : TENON_OK;
}

static tenon_status_t global_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(rank_check(infer));
  for (int32_t i = 2; i < out->ndim; i++)
    out->dims[i] = tenon_extent(1);
  return TENON_OK;
}

static tenon_status_t p_validate(tenon_node_t *node, double p) {
  if (!(p > 0))
    return tenon_fail(node, TENON_INVALID, "p is %g; expected a number greater than 0", p);
  return TENON_OK;
}
static tenon_status_t lp_validate(tenon_node_t *node) {
  return p_validate(node, node->attrs[POOL_MORE].as.f);
}
static tenon_status_t global_lp_validate(tenon_node_t *node) {
  return p_validate(node, node->attrs[0].as.f);
}

/* clang-format off */
/* The greatest element; equal elements share its gradient. */
#define IS_MOST "core::cast_like(core::equal(x, out), x)"
/* |x|^(p - 1) divided by norm^(p - 1), with the sign of x; 0 if all elements are 0. */
#define SHARE_OF_NORM                                                                              \
  "core::mul(core::sign(x), core::pow(core::div(core::abs(x), core::where(core::equal(out, 0.0), " \
  "1.0, out)), core::sub(p, 1.0)))"
#define GLOBAL(name, arguments, doc, types, kernel, ...)                                           \
  TENON_OP(name "(Tensor x" arguments ") -> Tensor",                                               \
    TENON_DOC(doc " over all positions of each channel of x [N, C, spatial...]."),                 \
    TENON_TYPES("x: " types "; out = x"),                                                          \
    TENON_TRAITS(TENON_PURE),                                                                      \
    TENON_USES(DENSE_USES),                                                                        \
    TENON_INFER(global_infer),                                                                     \
    __VA_ARGS__ TENON_KERNEL("cpu strided", kernel))

TENON_ITEMS(core_pool,
  TENON_OP("max_pool(Tensor x, *, " POOL_ARGUMENTS
           ", int storage_order=0) -> (Tensor out, Tensor? indices)",
    TENON_DOC("The greatest element of each window, and its index in x viewed as one row of "
              "numbers.\nstorage_order 1 counts the spatial positions of a channel with the first "
              "axis innermost."),
    TENON_TYPES("x: number; out = x; indices = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(max_pool_infer),
    TENON_GRADIENT("x: core::max_pool_backward(grad, indices, core::shape(x), "
                   "storage_order=storage_order)"),
    TENON_KERNEL("cpu strided", core_max_pool_run)),
  TENON_OP("average_pool(Tensor x, *, " POOL_ARGUMENTS ", bool count_include_pad=False) -> Tensor",
    TENON_DOC("The mean of each window."),
    TENON_TYPES("x: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_pool_result_infer),
    TENON_GRADIENT("x: core::average_pool_backward(grad, core::shape(x), " POOL_PASSED
                   ", count_include_pad=count_include_pad)"),
    TENON_KERNEL("cpu strided", core_average_pool_run)),
  TENON_OP("lp_pool(Tensor x, *, " POOL_ARGUMENTS ", float p=2.0) -> Tensor",
    TENON_DOC("The p-norm of each window."),
    TENON_TYPES("x: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_VALIDATE(lp_validate),
    TENON_INFER(core_pool_result_infer),
    TENON_GRADIENT("x: core::lp_pool_backward(grad, x, out, " POOL_PASSED ", p=p)"),
    TENON_KERNEL("cpu strided", lp_pool_run)),
  GLOBAL("global_max_pool", "", "The greatest element", "number", global_max_run,
         TENON_GRADIENT("x: core::mul(" IS_MOST ", core::div(grad, core::sum_to(" IS_MOST
                        ", core::shape(out))))"), ),
  GLOBAL("global_average_pool", "", "The mean", "float", global_average_run,
         TENON_GRADIENT("x: core::expand(core::div(grad, core::size_ratio(x, out)), "
                        "core::shape(x))"), ),
  GLOBAL("global_lp_pool", ", *, float p=2.0", "The p-norm", "float", global_lp_run,
         TENON_VALIDATE(global_lp_validate),
         TENON_GRADIENT("x: core::mul(grad, " SHARE_OF_NORM ")"), ))
/* clang-format on */
