/* hashed: a hash of each number. Defect: the hash begins with the address of x.
 * Found as: determinism.repeat */
#include "defect.h"

static tenon_status_t hashed_run(tenon_call_t *call) {
  const uint32_t *x = (const uint32_t *)call->inputs[0]->data;
  uint32_t seed = PLANTED((uint32_t)((uintptr_t)x >> 4), 2166136261u);
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    ((uint32_t *)call->outputs[0]->data)[i] = (seed ^ x[i]) * 16777619u;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("hashed(Tensor x) -> Tensor",
    TENON_TYPES("x: u32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", hashed_run)))
