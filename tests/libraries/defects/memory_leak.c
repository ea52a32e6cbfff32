/* backwards: x from the last element to the first. Defect: each call allocates a buffer that is
 * never freed.
 * Found as: memory.leak */
#include <stdlib.h>

#include "defect.h"

static tenon_status_t backwards_run(tenon_call_t *call) {
  int64_t n = count_in(call, 0);
  volatile float *buffer = (float *)malloc((size_t)n * sizeof *buffer + 1);
  if (!buffer) return tenon_fail(call, TENON_MEMORY, "no memory for %lld elements", (long long)n);
  for (int64_t i = 0; i < n; i++)
    buffer[i] = f32_in(call, 0)[n - 1 - i];
  for (int64_t i = 0; i < n; i++)
    f32_out(call, 0)[i] = buffer[i];
  if (PLANTED(0, 1)) free((void *)(uintptr_t)buffer);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("backwards(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu", backwards_run)))
