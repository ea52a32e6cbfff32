/* negative: -x. Defect: the kernel is declared "strided" and reads the input as if it were dense.
 * Found as: read.strides */
#include "defect.h"

static tenon_status_t negative_run(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[place_of(call->outputs[0], i)] =
        -f32_in(call, 0)[PLANTED(i, place_of(call->inputs[0], i))];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("negative(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu strided", negative_run)))
