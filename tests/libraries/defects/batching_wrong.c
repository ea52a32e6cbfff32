/* centred: rows minus their mean. Defect: BATCHING allows extra leading axes, but the kernel takes
 * the mean over all axes but the first.
 * Found as: batching.loop */
#include "defect.h"

static tenon_status_t centred_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t n = tenon_count(x);
  int64_t rows = x->ndim > 1 ? x->shape[0] : 1;
  int64_t width = n && rows ? n / rows : 0;
  if (PLANTED(0, 1)) {
    width = width_of(x);
    rows = rows_of(x);
  }
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
      sum += f32_in(call, 0)[r * width + i];
    for (int64_t i = 0; i < width; i++)
      f32_out(call, 0)[r * width + i] =
          (float)(f32_in(call, 0)[r * width + i] - sum / (double)width);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("centred(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_BATCHING("x -> out"),
    TENON_SAMPLES("x: [3, 5]; x: [4]"), TENON_KERNEL("cpu", centred_run)))
