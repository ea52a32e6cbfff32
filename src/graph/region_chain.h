/* Which members of a region run as links (drivers/chain.h). */
#ifndef TN_GRAPH_REGION_CHAIN_H
#define TN_GRAPH_REGION_CHAIN_H

#include "base/memory.h"
#include "drivers/region.h"

/* Finds them, and states their chains in `memory`. The region's members and tiles are known. */
tenon_status_t tn_region_find_chains(tn_region_t *region, tn_arena_t *memory);

#endif
