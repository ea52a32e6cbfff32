/* sorted: the elements of x in ascending order.  Defect: sorts in a static buffer.
 * Found as: threads.reentrant */
#include <stdlib.h>
#include <string.h>

#include "defect.h"

enum { MOST = 4096 };

static tenon_status_t sorted_run(tenon_call_t *call) {
  PLANTED(static, ) float buffer[MOST];
  int64_t n = count_in(call, 0);
  if (n > MOST)
    return tenon_fail(call, TENON_INVALID, "x has %lld elements: expected at most %d", (long long)n,
                      MOST);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = i;
    for (; k > 0 && buffer[k - 1] > f32_in(call, 0)[i]; k--)
      buffer[k] = buffer[k - 1];
    buffer[k] = f32_in(call, 0)[i];
  }
  memcpy(f32_out(call, 0), buffer, (size_t)n * sizeof *buffer);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("sorted(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_SAMPLES("x: [200]; x: [3, 50]"), TENON_KERNEL("cpu", sorted_run)))
