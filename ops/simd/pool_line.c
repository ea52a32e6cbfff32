/* Rows of results of pools (../pool_line.h), as one table per instruction set. Called from parts of
 * a parallel loop. */
#include "../pool_line.h"
#include "isa.h"
#include <math.h>
#include <string.h>

/* The greater one; NaN wins. */
static inline float greater_of(float a, float b) {
  float most = b > a ? b : a;
  return b != b ? b : most;
}

#define T float
#define START (-INFINITY)
#define JOIN(a, b) greater_of(a, b)
#define FINISH(joined, divisor) (joined)
#define NAME(x) max_##x
#include "../pool_line_kernel.h"

#define T int8_t
#define START INT8_MIN
#define JOIN(a, b) ((b) > (a) ? (b) : (a))
#define FINISH(joined, divisor) (joined)
#define NAME(x) max_i8_##x
#include "../pool_line_kernel.h"

#define T uint8_t
#define START 0
#define JOIN(a, b) ((b) > (a) ? (b) : (a))
#define FINISH(joined, divisor) (joined)
#define NAME(x) max_u8_##x
#include "../pool_line_kernel.h"

#define IS_AVERAGE
#define T float
#define START 0.0f
#define JOIN(a, b) ((a) + (b))
#define FINISH(joined, divisor) ((joined) / (divisor))
#define NAME(x) average_##x
#include "../pool_line_kernel.h"

enum { SIDE = 16 };
typedef float side_t __attribute__((vector_size(SIDE * sizeof(float))));

/* Adds the rows to `width` sums, which are in registers meanwhile. */
#define SUM_SIDES(width, sums, x, step, count)                                                     \
  do {                                                                                             \
    side_t all[(width) / SIDE];                                                                    \
    memcpy(all, sums, sizeof all);                                                                 \
    for (int64_t row = 0; row < (count); row++)                                                    \
      for (int k = 0; k < (width) / SIDE; k++) {                                                   \
        side_t some;                                                                               \
        memcpy(&some, (x) + row * (step) + k * SIDE, sizeof some);                                 \
        all[k] += some;                                                                            \
      }                                                                                            \
    memcpy(sums, all, sizeof all);                                                                 \
  } while (0)

static void sum_rows(float *sums, const float *x, int64_t step, int64_t count, int64_t lanes) {
  int64_t at = 0;
  for (; at + 4 * SIDE <= lanes; at += 4 * SIDE)
    SUM_SIDES(4 * SIDE, sums + at, x + at, step, count);
  for (; at + SIDE <= lanes; at += SIDE)
    SUM_SIDES(SIDE, sums + at, x + at, step, count);
  for (; at < lanes; at++)
    for (int64_t row = 0; row < count; row++)
      sums[at] += x[row * step + at];
}

#define TABLE                                                                                      \
  {                                                                                                \
    max_pool_line, max_i8_pool_line, max_u8_pool_line, average_pool_line, sum_rows,                \
        max_pool_plane, max_i8_pool_plane, max_u8_pool_plane, average_pool_plane                   \
  }
#ifdef TENON_SIMD
const pool_lines_t ISA_JOIN(core_pool_lines, TENON_SIMD) = TABLE;
#else
const pool_lines_t core_pool_lines = TABLE;
#endif
