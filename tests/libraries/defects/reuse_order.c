/* mirrored: x plus the element at the same distance from the end. Defect: REUSE is declared, but x
 * is read after it was overwritten.
 * Found as: alias.reuse */
#include "defect.h"

static tenon_status_t mirrored_run(tenon_call_t *call) {
  const float *x = f32_in(call, 0);
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = x[i] + x[n - 1 - i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("mirrored(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    PLANTED(TENON_REUSE("out: x"), TENON_DOC("Not where x lies: each element is read twice.")),
    TENON_KERNEL("cpu", mirrored_run)))
