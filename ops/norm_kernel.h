/* The normalisation of a row for one dtype. simd/norm.c includes this once per dtype with T (the
 * element) and NAME(x) defined. */

#define W double
#define MEMBER f

#define FOLD_RUN_ONLY
#define FOLD_NAME(x) NAME(sum_##x)
#define MAP MAP_SELF
#define IDENTITY 0
#define OP OP_ADD
#include "fold_kernel.h"

#define FOLD_RUN_ONLY
#define FOLD_NAME(x) NAME(square_##x)
#define MAP MAP_SQUARE
#define IDENTITY 0
#define OP OP_ADD
#include "fold_kernel.h"

/* Calls `run` for chunks of CHUNK numbers, and adds the results as double. */
static double NAME(fold)(void (*run)(word_t *, const void *, int64_t), const T *x, int64_t n) {
  word_t sum = {.f = 0};
  for (int64_t i = 0; i < n; i += CHUNK)
    run(&sum, x + i, n - i < CHUNK ? n - i : CHUNK);
  return sum.f;
}

/* Normalises the row x into y, which may be x itself. */
static void NAME(row)(const norm_t *p, T *y, const T *x, int64_t row) {
  int64_t first = row % p->period * p->runs;
  const T *scale = p->scale ? (const T *)p->scale + first : NULL;
  const T *bias = p->bias ? (const T *)p->bias + first : NULL;
  T mean = p->centred ? (T)(NAME(fold)(NAME(sum_run), x, p->n) / (double)p->n) : 0;
  for (int64_t i = 0; i < p->n; i++)
    y[i] = x[i] - mean;
  T by = (T)(1.0 / sqrt(NAME(fold)(NAME(square_run), y, p->n) / (double)p->n + p->epsilon));
  if (p->mean) ((T *)p->mean)[row] = mean;
  if (p->deviation) ((T *)p->deviation)[row] = by;
  if (!scale && !bias) {
    for (int64_t i = 0; i < p->n; i++)
      y[i] *= by;
  } else if (p->inner == 1 && scale && bias) {
    for (int64_t i = 0; i < p->n; i++)
      y[i] = y[i] * by * scale[i] + bias[i];
  } else if (p->inner == 1 && scale) {
    for (int64_t i = 0; i < p->n; i++)
      y[i] = y[i] * by * scale[i];
  } else {
    for (int64_t r = 0; r < p->runs; r++, y += p->inner) {
      T a = scale ? by * scale[r] : by;
      T b = bias ? bias[r] : 0;
      for (int64_t i = 0; i < p->inner; i++)
        y[i] = y[i] * a + b;
    }
  }
}
#undef T
#undef NAME
#undef W
#undef MEMBER
