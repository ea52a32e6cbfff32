/* share: each row divided by the sum of its magnitudes. Defect: it counts the axes before the last
 * one in an unsigned number, which is 0 - 1 for a scalar.
 * Found as: size.scalar */
#include <math.h>

#include "defect.h"

static tenon_status_t share_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  volatile int64_t rows = 1;
  for (uint32_t d = 0, last = (uint32_t)x->ndim - 1; PLANTED(1, x->ndim > 0) && d < last; d++)
    rows *= x->shape[d];
  for (int64_t r = 0, width = width_of(x); r < rows; r++) {
    float sum = 0;
    for (int64_t i = 0; i < width; i++)
      sum += fabsf(f32_in(call, 0)[r * width + i]);
    for (int64_t i = 0; i < width; i++)
      f32_out(call, 0)[r * width + i] = f32_in(call, 0)[r * width + i] / sum;
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("share(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", share_run)))
