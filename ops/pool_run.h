/* How a pool is computed, for pool.c, which chooses; pool_taps.c, which adds the elements under a
 * window one by one; and pool_lines.c, which joins whole rows and planes.
 * Invariant: x and out have the dtype in which the pool is computed. */
#ifndef TENON_OPS_POOL_RUN_H
#define TENON_OPS_POOL_RUN_H

#include "pool.h"
#include "pool_line.h"

enum {
  POOL_LANES = 64,
  POOL_FOLD = 256 /* taps summed in the dtype itself; a sum of more loses digits of an f32 */
};

enum {
  POOL_MAX,
  POOL_AVERAGE,
  POOL_LP,
};

typedef struct sums_t { /* per lane: a sum of any dtype, and the index of the greatest element */
  _Alignas(64) char value[POOL_LANES * 8];
  int64_t index[POOL_LANES];
  double total
      [POOL_LANES]; /* sums of all taps but the last POOL_FOLD ones, of windows with more taps */
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
  float *divisors;     /* of an average: along the last axis, or of a plane */
  double p;
  int include_pad;
  int column_major;
  int by_channel;
  int is_global;            /* one window covers all positions */
  tenon_tensor_t merged[2]; /* x and out with one spatial axis */
  int64_t merged_shapes[2][3];
  int64_t merged_strides[2][3];
} pool_t;

/* Sets tap, done, fold and row. */
void core_pool_choose_taps(pool_t *pool, int kind);
/* Computes lanes: neighbouring channels at output position o[], or positions along the last axis of
 * `channel`. */
void core_pool_lanes_run(const pool_t *pool, int64_t image, int64_t channel, int64_t *o,
                         int64_t lanes);

/* Sets plane, line, rows and divisors, each only where it is the way to compute the results. */
tenon_status_t core_pool_choose_lines(tenon_call_t *call, pool_t *pool, int kind);
/* The function that adds rows of adjacent channels. */
pool_rows_fn core_pool_sum_of_isa(void);
/* Computes the results along the last axis at position o[] of the other axes. */
void core_pool_line_run(const pool_t *pool, int64_t image, int64_t channel, const int64_t *o);
/* A part is a row of results of which `rows` tells what is under it. */
tenon_status_t core_pool_rows_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end);
/* A part is a plane. */
tenon_status_t core_pool_planes_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end);

#endif
