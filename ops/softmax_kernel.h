/* Softmax and its relatives for one dtype, as functions of a slab. simd/softmax.c includes this for
 * f32 and f64 with T (the element) and NAME(x) defined, and HAS_EXPONENTIALS if NAME(top) and
 * NAME(exponentials_chunk) are defined elsewhere. Functions of columns read and write up to
 * COLUMNS columns side by side, row by row; functions of a row read and write one contiguous row.
 * Invariant: y may share the memory of x, so a row is summed before it is written. */

#define W double
#define MEMBER f

#define FOLD_RUN_ONLY
#define FOLD_NAME(x) NAME(sum_##x)
#define MAP MAP_SELF
#define IDENTITY 0
#define OP OP_ADD
#include "fold_kernel.h"

#ifndef HAS_EXPONENTIALS
/* Writes exp(x - top) to y, which may be x, and returns the sum. n <= CHUNK. `top` is at least as
 * great as each x. */
static T NAME(exponentials_chunk)(T *y, const T *x, int64_t n, T top) {
  T s[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++) {
      T e = EXP_DOWN(x[i + l] - top);
      y[i + l] = e;
      s[l] += e;
    }
  for (int l = 0; i + l < n; l++) {
    T e = EXP_DOWN(x[i + l] - top);
    y[i + l] = e;
    s[l] += e;
  }
  for (int half = LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++)
      s[l] += s[l + half];
  return s[0];
}
#endif

/* Writes exp(x - top) to y, if y is not NULL, and returns the sum. */
static T NAME(exponentials)(T *y, const T *x, int64_t n, T top) {
  T buffer[CHUNK];
  W sum = 0;
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t m = n - i < CHUNK ? n - i : CHUNK;
    sum += (W)NAME(exponentials_chunk)(y ? y + i : buffer, x + i, m, top);
  }
  return (T)sum;
}

#ifndef HAS_EXPONENTIALS
/* The greatest of n numbers, leaving out NaN: a NaN makes the sum NaN by itself. */
static T NAME(top)(const T *x, int64_t n) {
  T s[LANES];
  int64_t i = 0;
  for (int l = 0; l < LANES; l++)
    s[l] = -(T)INFINITY;
  for (; i + LANES <= n; i += LANES)
    for (int l = 0; l < LANES; l++)
      s[l] = x[i + l] > s[l] ? x[i + l] : s[l];
  for (int l = 0; i + l < n; l++)
    s[l] = x[i + l] > s[l] ? x[i + l] : s[l];
  for (int half = LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++)
      s[l] = s[l + half] > s[l] ? s[l + half] : s[l];
  return s[0];
}
#endif

static void NAME(softmax_row)(void *to, const void *g, const void *from, const slab_t *s) {
  T *y = (T *)to;
  const T *x = (const T *)from;
  (void)g;
  T scale = 1 / NAME(exponentials)(y, x, s->n, NAME(top)(x, s->n));
  for (int64_t i = 0; i < s->n; i++)
    y[i] *= scale;
}

static void NAME(log_softmax_row)(void *to, const void *g, const void *from, const slab_t *s) {
  T *y = (T *)to;
  const T *x = (const T *)from;
  (void)g;
  T top = NAME(top)(x, s->n);
  T sum = (T)log((double)NAME(exponentials)(NULL, x, s->n, top));
  for (int64_t i = 0; i < s->n; i++)
    y[i] = (x[i] - top) - sum;
}

static void NAME(columns_top)(T *top, const T *x, const slab_t *s) {
  for (int64_t i = 0; i < s->width; i++)
    top[i] = x[i];
  for (int64_t r = 1; r < s->n; r++)
    for (int64_t i = 0; i < s->width; i++)
      top[i] = x[r * s->stride + i] > top[i] ? x[r * s->stride + i] : top[i];
}

static void NAME(softmax_columns)(void *to, const void *g, const void *from, const slab_t *s) {
  T *y = (T *)to;
  T top[COLUMNS];
  T sum[COLUMNS] = {0};
  const T *x = (const T *)from;
  (void)g;
  NAME(columns_top)(top, x, s);
  for (int64_t r = 0; r < s->n; r++) {
    const T *in = x + r * s->stride;
    T *out = y + r * s->stride;
    for (int64_t i = 0; i < s->width; i++)
      out[i] = EXP_DOWN(in[i] - top[i]);
    for (int64_t i = 0; i < s->width; i++)
      sum[i] += out[i];
  }
  for (int64_t i = 0; i < s->width; i++)
    sum[i] = 1 / sum[i];
  for (int64_t r = 0; r < s->n; r++)
    for (int64_t i = 0; i < s->width; i++)
      y[r * s->stride + i] *= sum[i];
}

static void NAME(log_softmax_columns)(void *to, const void *g, const void *from, const slab_t *s) {
  T *y = (T *)to;
  T top[COLUMNS];
  T sum[COLUMNS] = {0};
  T exps[COLUMNS];
  const T *x = (const T *)from;
  (void)g;
  NAME(columns_top)(top, x, s);
  for (int64_t r = 0; r < s->n; r++) {
    for (int64_t i = 0; i < s->width; i++)
      exps[i] = EXP_DOWN(x[r * s->stride + i] - top[i]);
    for (int64_t i = 0; i < s->width; i++)
      sum[i] += exps[i];
  }
  for (int64_t i = 0; i < s->width; i++)
    sum[i] = (T)log((double)sum[i]);
  for (int64_t r = 0; r < s->n; r++)
    for (int64_t i = 0; i < s->width; i++)
      y[r * s->stride + i] = (x[r * s->stride + i] - top[i]) - sum[i];
}

/* Writes 1 for the first of the largest numbers and 0 for the others. */
static void NAME(hardmax_columns)(void *to, const void *g, const void *from, const slab_t *s) {
  T *y = (T *)to;
  const T *x = (const T *)from;
  (void)g;
  for (int64_t i = 0; i < s->width; i++) {
    int64_t best = 0;
    for (int64_t r = 1; r < s->n; r++)
      if (x[r * s->stride + i] > x[best * s->stride + i]) best = r;
    for (int64_t r = 0; r < s->n; r++)
      y[r * s->stride + i] = (T)(r == best);
  }
}

/* With x the result of the operator, the gradient of softmax is (g - sum of g x) x, and that of
 * log_softmax is g - exp(x) sum of g. */
static void NAME(softmax_backward_columns)(void *to, const void *grad, const void *from,
                                           const slab_t *s) {
  T *y = (T *)to;
  T sum[COLUMNS] = {0};
  const T *g = (const T *)grad;
  const T *x = (const T *)from;
  for (int64_t r = 0, at = 0; r < s->n; r++, at += s->stride)
    for (int64_t i = 0; i < s->width; i++)
      sum[i] += g[at + i] * x[at + i];
  for (int64_t r = 0, at = 0; r < s->n; r++, at += s->stride)
    for (int64_t i = 0; i < s->width; i++)
      y[at + i] = (g[at + i] - sum[i]) * x[at + i];
}

static void NAME(softmax_backward_row)(void *to, const void *grad, const void *from,
                                       const slab_t *s) {
  T *y = (T *)to;
  const T *g = (const T *)grad;
  const T *x = (const T *)from;
  word_t sum = {.f = 0};
  T buffer[CHUNK];
  for (int64_t i = 0; i < s->n; i += CHUNK) {
    int64_t m = s->n - i < CHUNK ? s->n - i : CHUNK;
    for (int64_t j = 0; j < m; j++)
      buffer[j] = g[i + j] * x[i + j];
    NAME(sum_run)(&sum, buffer, m);
  }
  for (int64_t i = 0; i < s->n; i++)
    y[i] = (g[i] - (T)sum.f) * x[i];
}

static void NAME(log_softmax_backward_columns)(void *to, const void *grad, const void *from,
                                               const slab_t *s) {
  T *y = (T *)to;
  T sum[COLUMNS] = {0};
  const T *g = (const T *)grad;
  const T *x = (const T *)from;
  for (int64_t r = 0, at = 0; r < s->n; r++, at += s->stride)
    for (int64_t i = 0; i < s->width; i++)
      sum[i] += g[at + i];
  for (int64_t r = 0, at = 0; r < s->n; r++, at += s->stride)
    for (int64_t i = 0; i < s->width; i++)
      y[at + i] = g[at + i] - EXP(x[at + i]) * sum[i];
}

static void NAME(log_softmax_backward_row)(void *to, const void *grad, const void *from,
                                           const slab_t *s) {
  T *y = (T *)to;
  const T *g = (const T *)grad;
  const T *x = (const T *)from;
  word_t sum = {.f = 0};
  for (int64_t i = 0; i < s->n; i += CHUNK)
    NAME(sum_run)(&sum, g + i, s->n - i < CHUNK ? s->n - i : CHUNK);
  for (int64_t i = 0; i < s->n; i++)
    y[i] = g[i] - EXP(x[i]) * (T)sum.f;
}
#undef T
#undef NAME
#undef W
#undef MEMBER
#undef HAS_EXPONENTIALS
