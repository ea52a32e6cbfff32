/* roots: square roots of magnitudes. Defect: it throws if a number is below 0, and the kernel does
 * not catch the exception.
 * Found as: crash.throws */
#include <cmath>
#include <stdexcept>

#include "defect.h"

#ifdef DEFECT
#undef TENON_GUARD
#define TENON_GUARD(C, f) (f)
#endif

static tenon_status_t roots_run(tenon_call_t *call) {
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++) {
    float x = f32_in(call, 0)[i];
    if (x < 0 && PLANTED(1, 0)) throw std::domain_error("the root of a number below 0");
    f32_out(call, 0)[i] = std::sqrt(std::fabs(x));
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("roots(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", roots_run)))
