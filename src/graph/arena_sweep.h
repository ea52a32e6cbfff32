/* Plans an arena in one sweep over time, for stages with too many blocks alive at the same time to
 * compare them in pairs. */
#ifndef TN_GRAPH_ARENA_SWEEP_H
#define TN_GRAPH_ARENA_SWEEP_H

#include "graph/executable.h"

/* Sets the offset of each of `count` blocks, whose sizes are multiples of the alignment. `by_first`
 * and `by_last` list all of them, in the order in which their lives begin and end. Returns the size
 * of the arena. */
tenon_status_t tn_arena_sweep(tn_lifetime_t *lifetimes, tn_lifetime_t *const *by_first,
                              tn_lifetime_t *const *by_last, size_t count, uint64_t *out_size);

#endif
