/* noise: random bits of the call's generator. Defect: it uses a generator of its own.
 * Found as: determinism.seed */
#include "defect.h"

static tenon_status_t noise_run(tenon_call_t *call) {
  static uint32_t own = 1;
  for (int64_t i = 0, n = count_out(call, 0); i < n; i++) {
    uint32_t bits =
        PLANTED(__atomic_add_fetch(&own, 0x9E3779B9u, __ATOMIC_RELAXED) * 0x85EBCA6Bu,
                tenon_random(call->random->seed, call->random->offset + (uint64_t)i) + 0 * own);
    f32_out(call, 0)[i] = (float)(bits >> 8) / 16777216.0f;
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("noise(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE | TENON_RANDOM), TENON_KERNEL("cpu", noise_run)))
