/* larger: the larger of two numbers, or NaN if one of them is NaN. Defect: a comparison drops a NaN
 * of a.
 * Found as: values.nan */
#include <math.h>

#include "defect.h"

static tenon_status_t larger(const tenon_loop_t *loop) {
  const float *a = (const float *)loop->data[0];
  const float *b = (const float *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[2])[i] = a[i] > b[i] || PLANTED(0, isnan(a[i])) ? a[i] : b[i];
  return TENON_OK;
}

static tenon_status_t larger_plain(tenon_call_t *call) {
  for (int64_t i = 0, n = count_out(call, 0); i < n; i++) {
    float a = f32_in(call, 0)[i];
    float b = f32_in(call, 1)[i];
    f32_out(call, 0)[i] = isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("larger(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: f32; out = a"), POINTWISE, TENON_REFERENCE(larger_plain),
    TENON_LOOP("f32, f32 -> f32", larger)))
