/* The operator that bench/pytorch.py calls: y = x * by, and its gradient. */
#include <tenon/op.h>

static tenon_status_t scale(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  const float by = (float)loop->attrs[0].as.f;
  float *y = (float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = x[i] * by;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(bench, "1.0.0",
  TENON_OP("scale(Tensor x, float by) -> Tensor", TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: bench::scale(grad, by)"), TENON_LOOP("f32 -> f32", scale)))
/* clang-format on */
