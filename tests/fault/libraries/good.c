/* No fault: the other libraries are compared with this one. doubles(x) is 2 x. */
#include "planted.h"

static tenon_status_t doubles(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  float *y = (float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = 2 * x[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(good, "1.0.0",
  TENON_OP("doubles(Tensor x) -> Tensor",
    TENON_DOC("Twice x."),
    SAME,
    TENON_GRADIENT("x: doubles(grad)"),
    TENON_LOOP("f32 -> f32", doubles)),
  TENON_OP("keeps(Tensor x) -> Tensor",
    SAME,
    TENON_GRADIENT("x: keeps(grad)"),
    NOTHING))
