/* negative: -x. Defect: it uses the magnitude of a negative stride.
 * Found as: strides.negative */
#include <stdlib.h>

#include "defect.h"

static tenon_status_t negative_run(tenon_call_t *call) {
  tenon_tensor_t x = *call->inputs[0];
  int64_t strides[TENON_RANK_MAX];
  for (int32_t d = 0; d < x.ndim; d++)
    strides[d] = PLANTED(llabs(x.strides[d]), x.strides[d]);
  x.strides = strides;
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[place_of(call->outputs[0], i)] = -f32_in(call, 0)[place_of(&x, i)];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("negative(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu strided", negative_run)))
