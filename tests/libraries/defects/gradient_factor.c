/* cube: x * x * x. Defect: its gradient is 1.01 times the right one.
 * Found as: gradient.differences */
#include "defect.h"

static tenon_status_t cube(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = x[i] * x[i] * x[i];
  return TENON_OK;
}

static tenon_status_t cube_backward(const tenon_loop_t *loop) {
  const float *grad = (const float *)loop->data[0];
  const float *x = (const float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[2])[i] = PLANTED(3.03f, 3.0f) * grad[i] * x[i] * x[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("cube(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), POINTWISE, TENON_GRADIENT("x: cube_backward(grad, x)"),
    TENON_LOOP("f32 -> f32", cube)),
  TENON_OP("cube_backward(Tensor grad, Tensor x) -> Tensor",
    TENON_TYPES("grad, x: f32; out = x"), POINTWISE, TENON_LOOP("f32, f32 -> f32", cube_backward)))
