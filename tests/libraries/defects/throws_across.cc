/* roots: square roots of amounts, by parts.  Defect: a part throws, where nobody catches it.
 * Found as: crash.throws */
#include <cmath>
#include <stdexcept>

#include "defect.h"

static tenon_status_t part(tenon_call_t *call, void *, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    float x = f32_in(call, 0)[i];
    if (x < 0 && PLANTED(1, 0)) throw std::domain_error("the root of a number below 0");
    f32_out(call, 0)[i] = std::sqrt(std::fabs(x));
  }
  return TENON_OK;
}

static tenon_status_t roots_run(tenon_call_t *call) {
  return call->host->parallel(call, count_in(call, 0), 8, part, nullptr);
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("roots(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", roots_run)))
