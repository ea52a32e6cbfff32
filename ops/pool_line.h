/* Rows of results of max_pool and average_pool, for tensors whose last axis is dense: first
 * the rows under the windows are joined, and then neighbours of the joined row. simd/pool_line.c
 * has one table per instruction set.
 * Invariant: nothing outside of the rows and of the result is accessed. */
#ifndef TENON_OPS_POOL_LINE_H
#define TENON_OPS_POOL_LINE_H

#include <stdint.h>

enum { POOL_SPAN = 256 }; /* elements between the first and the last tap of a row, at most */

typedef struct pool_line_t { /* the last axis of a window (window.h) */
  int64_t in;
  int64_t out;
  int64_t kernel;
  int64_t stride;
  int64_t dilation;
  int64_t before;
} pool_line_t;

/* Computes `out` results from `count` rows of `in` elements each. For averages, result i is divided
 * by divisors[i] * scale. */
typedef void (*pool_line_fn)(const pool_line_t *line, const void *const *rows, int64_t count,
                             const float *divisors, float scale, void *out);

enum {
  POOL_PLANE = 4096, /* elements of a plane that is computed at once, at most */
  POOL_TAPS = 16,    /* taps of its windows along an axis, at most */
};

/* A plane of max_pool or average_pool whose windows move by one, and whose rows of results are as
 * long as those of elements. Both follow each other in memory. */
typedef struct pool_plane_t {
  int64_t width;
  int64_t in;            /* rows of elements */
  int64_t out;           /* rows of results */
  int64_t kernel[2];     /* rows and columns of a window */
  int64_t before[2];     /* those that lie before the first element */
  const float *divisors; /* of each result of an average */
} pool_plane_t;

typedef void (*pool_plane_fn)(const pool_plane_t *plane, const void *x, void *out);

/* Adds `count` rows of `lanes` adjacent numbers, which begin `step` elements apart, to the sums. */
typedef void (*pool_rows_fn)(float *sums, const float *x, int64_t step, int64_t count,
                             int64_t lanes);

typedef struct pool_lines_t {
  pool_line_fn max; /* of f32 */
  pool_line_fn max_i8;
  pool_line_fn max_u8;
  pool_line_fn average; /* of f32 */
  pool_rows_fn sum_rows;
  pool_plane_fn max_plane; /* of f32 */
  pool_plane_fn max_i8_plane;
  pool_plane_fn max_u8_plane;
  pool_plane_fn average_plane; /* of f32 */
} pool_lines_t;

extern const pool_lines_t core_pool_lines, core_pool_lines_avx2, core_pool_lines_avx512;

#endif
