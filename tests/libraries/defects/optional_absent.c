/* affine: x times scale, plus shift if it is present. Defect: it adds the shift even if it is
 * absent.
 * Found as: optional.absent */
#include "defect.h"

static tenon_status_t affine(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  const float *scale = (const float *)loop->data[1];
  const float *shift = (const float *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[3])[i] = x[i] * scale[i] + (PLANTED(1, shift != 0) ? shift[i] : 0);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("affine(Tensor x, Tensor scale, Tensor? shift=None) -> Tensor",
    TENON_TYPES("x, scale, shift: f32; out = x"), POINTWISE,
    TENON_LOOP("f32, f32, f32 -> f32", affine)))
