/* scaled: rows of a times rows of b, with leading axes broadcast. Defect: it repeats the smaller
 * tensor as a whole, which is right only if its leading axes are the last ones.
 * Found as: broadcast.values */
#include "defect.h"

/* The row of `t` that belongs to row r of the result. */
static int64_t row_of(const tenon_tensor_t *t, const tenon_tensor_t *out, int64_t r) {
  int64_t row = 0;
  int64_t step = 1;
  if (PLANTED(1, 0)) return rows_of(t) ? r % rows_of(t) : 0;
  for (int32_t d = out->ndim - 2, k = t->ndim - 2; d >= 0; r /= out->shape[d], d--, k--)
    if (k >= 0) {
      row += t->shape[k] == 1 ? 0 : r % out->shape[d] * step;
      step *= t->shape[k];
    }
  return row;
}

static tenon_status_t scaled_run(tenon_call_t *call) {
  const tenon_tensor_t *out = call->outputs[0];
  int64_t width = width_of(out);
  for (int64_t r = 0; r < rows_of(out); r++) {
    const float *a = f32_in(call, 0) + row_of(call->inputs[0], out, r) * width;
    const float *b = f32_in(call, 1) + row_of(call->inputs[1], out, r) * width;
    for (int64_t i = 0; i < width; i++)
      f32_out(call, 0)[r * width + i] = a[i] * b[i];
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("scaled(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f32; out = a"), TENON_SHAPES("a: [..., k]; b: [..., k]; out: [..., k]"),
    PURE, TENON_SAMPLES("a: [2, 3, 4], b: [2, 3, 4]"), TENON_KERNEL("cpu", scaled_run)))
