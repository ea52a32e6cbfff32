/* scaled: x times the largest magnitude of the scale. Defect: it remembers the address of the scale
 * and that magnitude, and uses it again for a scale at the same address; to see whether the scale
 * changed, it reads the remembered address.
 * Found as: pointer.kept */
#include <math.h>

#include "defect.h"

static tenon_status_t scaled_run(tenon_call_t *call) {
  static const float *kept;
  const float *scale = f32_in(call, 1);
  const volatile float *old = PLANTED(__atomic_exchange_n(&kept, scale, __ATOMIC_ACQ_REL), kept);
  float most = old ? 0 * *old : 0;
  for (int64_t i = 0, n = count_in(call, 1); i < n; i++)
    most = fmaxf(most, fabsf(scale[i]));
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = f32_in(call, 0)[i] * most;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("scaled(Tensor x, Tensor scale) -> Tensor",
    TENON_TYPES("x, scale: f32; out = x"), TENON_SHAPES("x: [...]; scale: [k]; out = x"), PURE,
    TENON_SAMPLES("x: [3, 4], scale: [2]"), TENON_KERNEL("cpu", scaled_run)))
