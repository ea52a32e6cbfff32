/* means: the mean of each row. Defect: it divides by the number of elements to find the number of
 * rows.
 * Found as: size.zero */
#include "defect.h"

static tenon_status_t means_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t width = width_of(x);
  int64_t rows = PLANTED(tenon_count(x) / width, count_out(call, 0));
  for (int64_t r = 0; r < rows; r++) {
    float sum = 0;
    for (int64_t i = 0; i < width; i++)
      sum += f32_in(call, 0)[r * width + i];
    f32_out(call, 0)[r] = sum / (float)width;
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("means(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [..., k]; out: [...]"), PURE,
    TENON_KERNEL("cpu", means_run)))
