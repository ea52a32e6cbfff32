/* summed: cumulative sums of x, each from the one before. Defect: a recursion as deep as x is long
 * uses 64 KiB of stack for each step.
 * Found as: crash.stack */
#include "defect.h"

#ifdef DEFECT
static double sum_to(const float *x, float *out, int64_t i) {
  volatile char room[65536];
  room[i % 65536] = (char)i;
  out[i] = (float)(x[i] + (i ? sum_to(x, out, i - 1) : 0));
  return out[i] + 0 * room[i % 65536];
}
#endif

static tenon_status_t summed_run(tenon_call_t *call) {
  int64_t n = count_in(call, 0);
#ifdef DEFECT
  if (n) sum_to(f32_in(call, 0), f32_out(call, 0), n - 1);
#else
  for (int64_t i = 0; i < n; i++)
    f32_out(call, 0)[i] = f32_in(call, 0)[i] + (i ? f32_out(call, 0)[i - 1] : 0);
#endif
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("summed(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_SAMPLES("x: [3, 500]"),
    TENON_KERNEL("cpu", summed_run)))
