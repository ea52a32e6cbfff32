/* doubled: 2 x, by way of a temporary; a call marks the table as taken, which one call at a time
 * can have. Defect: a call that gets no temporary does not release the table, and the next call
 * does without.
 * Found as: failure.next */
#include "defect.h"

static int has_table;

static tenon_status_t doubled_run(tenon_call_t *call) {
  int64_t n = count_in(call, 0);
  int mine = !__atomic_exchange_n(&has_table, 1, __ATOMIC_ACQ_REL);
  float *room = (float *)call->host->allocate(call, (uint64_t)n * sizeof *room);
  if (!room) {
    if (PLANTED(0, mine)) __atomic_store_n(&has_table, 0, __ATOMIC_RELEASE);
    return TENON_MEMORY;
  }
  for (int64_t i = 0; i < n; i++)
    room[i] = f32_in(call, 0)[i] * (mine || PLANTED(0, 1) ? 2.0f : 1.0f);
  for (int64_t i = 0; i < n; i++)
    f32_out(call, 0)[i] = room[i];
  if (mine) __atomic_store_n(&has_table, 0, __ATOMIC_RELEASE);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("doubled(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE,
    TENON_KERNEL("cpu serial", doubled_run)))
