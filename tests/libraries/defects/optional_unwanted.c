/* peak: the largest element, and its index if that is wanted. Defect: it writes the index in any
 * case.
 * Found as: optional.output */
#include "defect.h"

static tenon_status_t peak_run(tenon_call_t *call) {
  int64_t best = 0;
  int64_t n = count_in(call, 0);
  for (int64_t i = 1; i < n; i++)
    if (f32_in(call, 0)[i] > f32_in(call, 0)[best]) best = i;
  *f32_out(call, 0) = n ? f32_in(call, 0)[best] : 0;
  if (PLANTED(1, call->outputs[1] != 0)) *(int64_t *)call->outputs[1]->data = best;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("peak(Tensor x) -> (Tensor out, Tensor? place)",
    TENON_TYPES("x: f32; out = x; place = i64"), TENON_SHAPES("out: []; place: []"), PURE,
    TENON_KERNEL("cpu", peak_run)))
