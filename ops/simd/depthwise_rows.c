/* Rows of depthwise convolutions (../depthwise_rows.h), as one table per instruction set. Called
 * from parts of a parallel loop. */
#include "../depthwise_rows.h"
#include "isa.h"
#include "madd.h"
#include <string.h>

typedef float vector __attribute__((vector_size(VECTOR)));
typedef float loose __attribute__((vector_size(VECTOR), aligned(sizeof(float)), may_alias));

enum {
  LANES = VECTOR / sizeof(float),
  VECTORS = 4,
  SPAN = VECTORS * LANES, /* results that are computed together; at most DEPTHWISE_SLACK */
};

static inline void add_taps(int64_t taps, const float *const *from, const float *weights,
                            float bias, int64_t at, float *out) {
  vector sum[VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++)
    sum[v] = bias - (vector){0};
  for (int64_t t = 0; t < taps; t++) {
    const float *line = from[t] + at;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
      sum[v] = MADD_F32(weights[t], *(const loose *)(line + v * LANES), sum[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++)
    *(loose *)(out + v * LANES) = sum[v];
}

static void compute_row(int64_t taps, const float *const *from, const float *weights, float bias,
                        int64_t count, float *out) {
  int64_t at = 0;
  for (; at + SPAN <= count; at += SPAN)
    add_taps(taps, from, weights, bias, at, out + at);
  if (at == count) return;
  float last[SPAN];
  add_taps(taps, from, weights, bias, at, last);
  memcpy(out + at, last, (size_t)(count - at) * sizeof(float));
}

#ifdef TENON_SIMD
const depthwise_rows_t ISA_JOIN(core_depthwise_rows, TENON_SIMD) = {compute_row};
#else
const depthwise_rows_t core_depthwise_rows = {compute_row};
#endif
