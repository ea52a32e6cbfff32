/* Depthwise convolutions of f32 in row-major memory, plane by plane: without the two copies that
 * channels-last memory would need.
 * Invariant: the sums run over taps in row-major order, and start at the bias. */
#ifndef TENON_OPS_DEPTHWISE_ROWS_H
#define TENON_OPS_DEPTHWISE_ROWS_H

#include <tenon/op.h>

/* The kernels for one instruction set, in simd/depthwise_rows.c. */
typedef struct depthwise_rows_t {
  /* out[i] = bias + the sum over taps t of weights[t] * from[t][i]. Reads fewer than
   * DEPTHWISE_SLACK numbers behind the last of each line. */
  void (*row)(int64_t taps, const float *const *from, const float *weights, float bias,
              int64_t count, float *out);
} depthwise_rows_t;
enum { DEPTHWISE_SLACK = 16 };
extern const depthwise_rows_t core_depthwise_rows, core_depthwise_rows_avx2,
    core_depthwise_rows_avx512;

/* Does a convolution with these arguments keep the row-major layout of x? */
int core_depthwise_keeps(const tenon_meta_t *x, const tenon_meta_t *w, const tenon_meta_t *residual,
                         int64_t group);
/* Can this call of conv be computed here? */
int core_depthwise_suits(const tenon_call_t *call);
tenon_status_t core_depthwise_run(tenon_call_t *call);

#endif
