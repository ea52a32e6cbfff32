/* reversed: a row backwards, by way of a temporary. Defect: it requests one byte for each element
 * of four bytes.
 * Found as: workspace.temporary */
#include "defect.h"

static tenon_status_t reversed_run(tenon_call_t *call) {
  int64_t n = count_in(call, 0);
  float *room = (float *)call->host->allocate(call, (uint64_t)n * PLANTED(1, sizeof *room));
  if (!room) return TENON_MEMORY;
  for (int64_t i = 0; i < n; i++)
    room[i] = f32_in(call, 0)[n - 1 - i];
  for (int64_t i = 0; i < n; i++)
    f32_out(call, 0)[i] = room[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("reversed(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu", reversed_run)))
