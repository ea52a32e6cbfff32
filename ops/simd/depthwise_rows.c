/* Rows of depthwise convolutions (../depthwise_rows.h), as one table per instruction set. Called
 * from parts of a parallel loop. */
#include "../depthwise_rows.h"
#include "isa.h"
#include "madd.h"
#include "math.h"
#include <string.h>

typedef float vector __attribute__((vector_size(VECTOR)));
typedef float loose __attribute__((vector_size(VECTOR), aligned(sizeof(float)), may_alias));

enum {
  LANES = VECTOR / sizeof(float), /* at most DEPTHWISE_SLACK */
  VECTORS = 4,                    /* that are computed together, at most */
};

TN_INLINE void add_taps(int vectors, int64_t taps, const float *const *from, const float *weights,
                        float bias, int64_t at, float *out) {
  vector sum[VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++)
    sum[v] = bias - (vector){0};
  for (int64_t t = 0; t < taps; t++) {
    const float *line = from[t] + at;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      sum[v] = MADD_F32(weights[t], *(const loose *)(line + v * LANES), sum[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++)
    *(loose *)(out + v * LANES) = sum[v];
}

static void compute_row(int64_t taps, const float *const *from, const float *weights, float bias,
                        int64_t count, float *out) {
  if (count < LANES) {
    float last[LANES];
    add_taps(1, taps, from, weights, bias, 0, last);
    memcpy(out, last, (size_t)count * sizeof(float));
    return;
  }
  int64_t at = 0;
  for (; at + VECTORS * LANES <= count; at += VECTORS * LANES)
    add_taps(VECTORS, taps, from, weights, bias, at, out + at);
  const int64_t whole = (count - at) / LANES;
  if (whole == 3)
    add_taps(3, taps, from, weights, bias, at, out + at);
  else if (whole == 2)
    add_taps(2, taps, from, weights, bias, at, out + at);
  else if (whole == 1)
    add_taps(1, taps, from, weights, bias, at, out + at);
  if (count % LANES == 0) return;
  at = count - LANES; /* the last vector overlaps another */
  add_taps(1, taps, from, weights, bias, at, out + at);
}

#ifdef TENON_SIMD
const depthwise_rows_t ISA_JOIN(core_depthwise_rows, TENON_SIMD) = {compute_row};
#else
const depthwise_rows_t core_depthwise_rows = {compute_row};
#endif
