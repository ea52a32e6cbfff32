/* taps: a filter over a signal, with its taps in reverse order. Defect: it reverses the attribute
 * in place.
 * Found as: attrs.changed */
#include "defect.h"

static tenon_status_t taps_run(tenon_call_t *call) {
  const double *taps = call->attrs[0].as.floats;
  int64_t count = call->attrs[0].count;
  int64_t n = count_in(call, 0);
#ifdef DEFECT
  for (int64_t k = 0; k < count / 2; k++) {
    double first = taps[k];
    ((double *)(uintptr_t)taps)[k] = taps[count - 1 - k];
    ((double *)(uintptr_t)taps)[count - 1 - k] = first;
  }
#endif
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t k = 0; k < count && k <= i; k++)
      sum += taps[PLANTED(k, count - 1 - k)] * f32_in(call, 0)[i - k];
    f32_out(call, 0)[i] = (float)sum;
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("taps(Tensor x, *, float[] taps) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_SAMPLES("x: [9], taps = [0.5, 0.25, 0.125]"), TENON_KERNEL("cpu", taps_run)))
