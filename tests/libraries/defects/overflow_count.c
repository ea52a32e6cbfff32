/* set: how many bytes of x are not 0.  Defect: counts elements in 32 bits.
 * Found as: size.huge */
#include "defect.h"

static tenon_status_t set_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const uint8_t *data = (const uint8_t *)x->data;
  int64_t rows = rows_of(x);
  int64_t width = width_of(x);
  int64_t step = x->ndim ? x->strides[x->ndim - 1] : 0;
  int64_t found = 0;
  for (int64_t r = 0; r < rows; r++) {
    const uint8_t *row = data + place_of(x, r * width);
    for (PLANTED(int32_t, int64_t) i = 0, n = PLANTED((int32_t), ) width; i < n; i++)
      found += row[i * step] != 0;
  }
  *(int64_t *)call->outputs[0]->data = found;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("set(Tensor x) -> Tensor",
    TENON_TYPES("x: u8; out = i64"), TENON_SHAPES("out: []"), PURE,
    TENON_KERNEL("cpu strided", set_run)))
