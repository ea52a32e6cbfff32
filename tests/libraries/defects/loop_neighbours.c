/* smooth: x. Defect: a pointwise loop takes the mean of each element and its neighbour in the same
 * run.
 * Found as: pointwise.elements */
#include "defect.h"

static tenon_status_t smooth(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = PLANTED(i, 0) ? 0.5f * x[i] + 0.5f * x[i ? i - 1 : 0] : x[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("smooth(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), POINTWISE, TENON_LOOP("f32 -> f32", smooth)))
