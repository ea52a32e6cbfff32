/* half: x / 2. Defect: for f64 it is x / 4.
 * Found as: types.agree */
#include "defect.h"

static tenon_status_t half_f32(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i] / 2;
  return TENON_OK;
}

static tenon_status_t half_f64(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i] / PLANTED(4, 2);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("half(Tensor x) -> Tensor",
    TENON_TYPES("x: f32|f64; out = x"), POINTWISE, TENON_LOOP("f32 -> f32", half_f32),
    TENON_LOOP("f64 -> f64", half_f64)))
