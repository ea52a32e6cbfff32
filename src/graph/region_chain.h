/* Which members of a region run as links (drivers/chain.h). */
#ifndef TN_GRAPH_REGION_CHAIN_H
#define TN_GRAPH_REGION_CHAIN_H

#include "drivers/region.h"

/* Finds them. The region's members and tiles are known. */
void tn_region_find_chains(tn_region_t *region);

#endif
