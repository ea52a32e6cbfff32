/* Matrix products of f32 with the semantics of core::matmul. The functions are called without the
 * lock. */
#ifndef TENON_SIM_MATMUL_H
#define TENON_SIM_MATMUL_H

#include "sim.h"

typedef struct sim_factor_t { /* strides in elements; 0 along a broadcast axis */
  int64_t row;
  int64_t column;
  int64_t batch[TENON_RANK_MAX];
} sim_factor_t;

typedef struct sim_matmul_t {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t batches;
  int64_t shape[TENON_RANK_MAX];
  int32_t rank;
  uint32_t has_bias;
  uint32_t activation;
  float alpha;
  float beta;
  sim_factor_t a;
  sim_factor_t b;
  sim_factor_t bias;
} sim_matmul_t;

/* `attrs` are those of core::matmul. `bias` may be NULL. */
void sim_matmul_make(const tenon_tensor_t *a, const tenon_tensor_t *b, const tenon_tensor_t *bias,
                     const tenon_tensor_t *out, const tenon_value_t *attrs,
                     sim_matmul_t *out_matmul);
void sim_matmul(const sim_matmul_t *matmul, const float *a, const float *b, const float *bias,
                float *out);
float sim_activate(uint32_t activation, float x, float alpha, float beta);

#endif
