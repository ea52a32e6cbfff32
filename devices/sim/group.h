/* Runs the work groups of a kernel. */
#ifndef TENON_SIM_GROUP_H
#define TENON_SIM_GROUP_H

#include "sim.h"

typedef void (*sim_kernel_fn)(const sim_item_t *item, void *const *arguments);
/* Called without the lock. `local` is the local memory of a group, which is overwritten before each
 * group. On failure the reason is written to `message`, which has room for SIM_TEXT bytes. */
tenon_status_t sim_groups_run(sim_kernel_fn function, const uint64_t groups[3],
                              const uint32_t items[3], void *const *arguments, void *local,
                              uint64_t local_bytes, char *message);

#endif
