/* gain.c: light times a gain. */
#include "@NAME@.h"

static tenon_status_t gain_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0], *by = (const float *)loop->data[1];
  float *y = (float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++) y[i] = x[i] * by[i];
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(@NAME@_gain,
  TENON_OP("gain(Tensor x, Tensor by) -> Tensor",
    TENON_DOC("x times by."),
    TENON_TYPES("x, by: f16|bf16|f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: gain(grad, by); by: gain(grad, x)"),
    TENON_LOOP("f32, f32 -> f32", gain_f32)))
/* clang-format on */
