/* sums: of neighbours, and of the last element with 0. Defect: it reads the element behind the last
 * one and multiplies it by 0.
 * Found as: read.beyond */
#include "defect.h"

static tenon_status_t sums_run(tenon_call_t *call) {
  const volatile float *x = f32_in(call, 0);
  int64_t n = count_in(call, 0);
  for (int64_t i = 0; i < n; i++) {
    int is_last = i + 1 == n;
    float next = PLANTED(1, !is_last) ? x[i + 1] : 0;
    f32_out(call, 0)[i] = x[i] + (is_last ? 0 : next);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("sums(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", sums_run)))
