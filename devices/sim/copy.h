/* Copies, fills, and host memory that is pinned for them. */
#ifndef TENON_SIM_COPY_H
#define TENON_SIM_COPY_H

#include "sim.h"

/* Functions of the device table */

tenon_status_t sim_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy);
tenon_status_t sim_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                        uint64_t bytes, const void *pattern, uint32_t pattern_bytes);
int32_t sim_peers(tenon_on_t on, tenon_on_t from);
tenon_status_t sim_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data);
void sim_host_free(tenon_on_t on, void *data);

#endif
