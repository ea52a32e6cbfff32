/* inverted: the bits of x inverted. Defect: it computes offsets in memory in 32 bits.
 * Found as: size.huge */
#include "defect.h"

static tenon_status_t inverted_run(tenon_call_t *call) {
  const uint8_t *x = (const uint8_t *)call->inputs[0]->data;
  uint8_t *out = (uint8_t *)call->outputs[0]->data;
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    out[PLANTED((int32_t), ) i] = (uint8_t)~x[PLANTED((int32_t), ) i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("inverted(Tensor x) -> Tensor",
    TENON_TYPES("x: u8; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu", inverted_run)))
