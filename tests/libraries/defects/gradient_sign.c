/* difference: a - b, of f64 too.  Defect: the gradient of b has the wrong sign.
 * Found as: gradient.differences */
#include "defect.h"

static tenon_status_t difference(const tenon_loop_t *loop) {
  const double *a = (const double *)loop->data[0];
  const double *b = (const double *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[2])[i] = a[i] - b[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("difference(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f32|f64; out = a"), POINTWISE,
    TENON_GRADIENT("a: core::mul(grad, 1.0); b: core::mul(grad, " PLANTED("1.0", "-1.0") ")"),
    TENON_LOOP("f64, f64 -> f64", difference)))
