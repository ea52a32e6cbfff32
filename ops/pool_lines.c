/* Pools whose windows are joined by whole rows or planes, for tensors whose last axis is dense; see
 * pool_run.h. The kernels are those of pool_line.h. */
#include "axes.h"
#include "capability.h"
#include "dense.h"
#include "pool_run.h"
#include <string.h>

enum {
  LINE_ROWS = 256 /* rows under a window, at most, for results that are computed by whole rows */
};

/* Computes the results along the last axis at position o[] of the other axes. */
void core_pool_line_run(const pool_t *pool, int64_t image, int64_t channel, const int64_t *o) {
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
tenon_status_t core_pool_rows_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
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
tenon_status_t core_pool_planes_run(tenon_call_t *call, void *argument, int64_t begin,
                                    int64_t end) {
  const pool_t *pool = (const pool_t *)argument;
  const window_t *w = &pool->window;
  const tenon_tensor_t *x = pool->x;
  const tenon_tensor_t *out = pool->out;
  const int64_t size = x->dtype.bits / 8;
  const pool_plane_t plane = {w->in[1],
                              w->in[0],
                              w->out[0],
                              {w->kernel[0], w->kernel[1]},
                              {w->before[0], w->before[1]},
                              pool->divisors};
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
  if (kind == POOL_LP || pool->indices || w->rank != 2 || w->in[1] != w->out[1]) return NULL;
  if (w->in[0] * w->in[1] > POOL_PLANE || w->out[0] * w->out[1] > POOL_PLANE) return NULL;
  for (int i = 0; i < 2; i++)
    if (w->stride[i] != 1 || w->dilation[i] != 1 || w->kernel[i] > POOL_TAPS ||
        w->before[i] >= w->kernel[i])
      return NULL;
  if (x->strides[3] != 1 || x->strides[2] != w->in[1] || out->strides[3] != 1 ||
      out->strides[2] != w->in[1])
    return NULL;
  if (kind == POOL_AVERAGE) {
    const int is_short = w->kernel[0] * w->kernel[1] <= POOL_FOLD;
    return is_short && core_is(x, TENON_F32) ? lines->average_plane : NULL;
  }
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

/* Counts the divisors of a plane of averages. */
static tenon_status_t count_plane(tenon_call_t *call, pool_t *pool) {
  const window_t *w = &pool->window;
  const int64_t height = w->out[0];
  const int64_t width = w->out[1];
  float *divisors = (float *)CORE_SCRATCH(call, sizeof(float), height + 1, width);
  if (!divisors) return TENON_MEMORY;
  float *counts = divisors + height * width; /* along a row */
  for (int64_t i = 0; i < width; i++)
    counts[i] = (float)pool_count(w, pool->include_pad, 1, i);
  for (int64_t o = 0; o < height; o++) {
    const float count = (float)pool_count(w, pool->include_pad, 0, o);
    for (int64_t i = 0; i < width; i++)
      divisors[o * width + i] = counts[i] * count;
  }
  pool->divisors = divisors;
  return TENON_OK;
}

/* Chooses whether results are computed by whole rows, and counts the divisors of averages. */
tenon_status_t core_pool_choose_lines(tenon_call_t *call, pool_t *pool, int kind) {
  const window_t *w = &pool->window;
  int32_t last = w->rank - 1;
  int64_t rows = 1;
  for (int32_t i = 0; i < last && rows <= LINE_ROWS; i++)
    rows *= w->kernel[i] < w->in[i] ? w->kernel[i] : w->in[i];
  int64_t span = (w->kernel[last] - 1) * w->dilation[last] + 1;
  pool->plane = plane_of(pool, kind);
  if (pool->plane) return kind == POOL_AVERAGE ? count_plane(call, pool) : TENON_OK;
  const pool_line_fn chosen = line_of(pool->x, kind);
  if (!chosen || pool->indices || rows > LINE_ROWS || span > POOL_SPAN ||
      w->stride[last] > POOL_SPAN || pool->x->strides[2 + last] != 1 ||
      pool->out->strides[2 + last] != 1 ||
      (kind == POOL_AVERAGE && rows * w->kernel[last] > POOL_FOLD))
    return TENON_OK;
  pool->divisors = (float *)CORE_SCRATCH(call, sizeof(float), w->out[last]);
  if (!pool->divisors) return TENON_MEMORY;
  for (int64_t o = 0; o < w->out[last]; o++)
    pool->divisors[o] = (float)pool_count(w, pool->include_pad, last, o);
  pool->line = chosen;
  return find_rows(call, pool);
}

pool_rows_fn core_pool_sum_of_isa(void) { return lines_of_isa()->sum_rows; }
