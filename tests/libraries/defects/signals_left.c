/* twice: 2 x. Defect: it changes how the process handles a signal.
 * Found as: environment.signals */
#include <signal.h>

#include "defect.h"

static tenon_status_t twice_run(tenon_call_t *call) {
#ifdef DEFECT
  signal(SIGUSR1, SIG_IGN);
#endif
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = 2 * f32_in(call, 0)[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_KERNEL("cpu", twice_run)))
