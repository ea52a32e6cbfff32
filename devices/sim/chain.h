/* Compiled groups of nodes (offloaded subgraphs). */
#ifndef TENON_SIM_CHAIN_H
#define TENON_SIM_CHAIN_H

#include "handle.h"

void sim_chain_free(sim_object_t *chain); /* frees a compiled group whose handle is invalid */

/* Functions of the device table */

tenon_status_t sim_group_compile(tenon_on_t on, const tenon_graph_view_t *group,
                                 const char *settings, void **out_group);
tenon_status_t sim_group_run(tenon_on_t on, void *stream, const tenon_group_run_t *run);
tenon_status_t sim_group_save(tenon_on_t on, void *group, tenon_sink_t *out_bytes);
tenon_status_t sim_group_load(tenon_on_t on, const void *bytes, uint64_t size, void **out_group);
void sim_group_free(tenon_on_t on, void *group);

#endif
