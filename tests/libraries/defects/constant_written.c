/* weighted: x times the square of the weight. Defect: prepare squares a constant weight in place.
 * Found as: alias.inplace */
#include <stdlib.h>

#include "defect.h"

static tenon_status_t weighted_prepare(tenon_node_t *node) {
  const tenon_tensor_t *weight = node->inputs[1] ? node->inputs[1]->value : 0;
  if (!(node->constant & 2) || !weight) return TENON_OK;
  int64_t n = tenon_count(weight);
  float *squares = (float *)malloc((size_t)n * sizeof *squares + 1);
  if (!squares) return tenon_fail(node, TENON_MEMORY, "no memory for %lld weights", (long long)n);
  for (int64_t i = 0; i < n; i++) {
    squares[i] = ((const float *)weight->data)[i] * ((const float *)weight->data)[i];
    if (PLANTED(1, 0)) ((float *)weight->data)[i] = squares[i];
  }
  node->plan = squares;
  return TENON_OK;
}

static tenon_status_t weighted_run(tenon_call_t *call) {
  int64_t width = count_in(call, 1);
  const float *squares = (const float *)call->plan;
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++) {
    float w = f32_in(call, 1)[i % width];
    f32_out(call, 0)[i] = f32_in(call, 0)[i] * (squares ? squares[i % width] : w * w);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("weighted(Tensor x, Tensor weight) -> Tensor",
    TENON_TYPES("x, weight: f32; out = x"), TENON_SHAPES("x: [..., k]; weight: [k]; out = x"), PURE,
    TENON_WHERE("weight: known"), TENON_PREPARE(weighted_prepare, free),
    TENON_KERNEL("cpu", weighted_run)))
