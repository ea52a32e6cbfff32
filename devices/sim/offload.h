/* Decides which nodes of a graph sim offloads. */
#ifndef TENON_SIM_OFFLOAD_H
#define TENON_SIM_OFFLOAD_H

#include "sim.h"

/* Functions of the device table */

tenon_status_t sim_offload(tenon_on_t on, const tenon_graph_view_t *graph, const char *settings,
                           tenon_claims_t *out);

#endif
