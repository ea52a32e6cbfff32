/* leaky: x, or x times a slope where x is below 0; the default slope is 0.1. Defect: without the
 * attribute the slope is 0.01.
 * Found as: attrs.defaults */
#include "defect.h"

static float slope_of(const tenon_value_t *value, double usual) {
  return (float)(value->kind == TENON_KIND_NONE ? usual : value->as.f);
}

static tenon_status_t leaky(const tenon_loop_t *loop) {
  float slope = slope_of(&loop->attrs[0], PLANTED(0.01, 0.1));
  const float *x = (const float *)loop->data[0];
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = x[i] < 0 ? slope * x[i] : x[i];
  return TENON_OK;
}

static tenon_status_t leaky_plain(tenon_call_t *call) {
  float slope = slope_of(&call->attrs[0], 0.1);
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = f32_in(call, 0)[i] < 0 ? slope * f32_in(call, 0)[i] : f32_in(call, 0)[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("leaky(Tensor x, *, float? slope=None) -> Tensor",
    TENON_TYPES("x: f32; out = x"), POINTWISE, TENON_SAMPLES("x: [3, 4], slope = 0.2"),
    TENON_REFERENCE(leaky_plain), TENON_LOOP("f32 -> f32", leaky)))
