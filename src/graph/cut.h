/* Cutting subgraphs out of a graph, as a strategy of a partitioner says. */
#ifndef TN_GRAPH_CUT_H
#define TN_GRAPH_CUT_H

#include "graph/convex.h"
#include "registry/transform.h"

/* Which nodes make subgraphs: group_of (one for each node, zeros) gets numbers from 1 on, out_count
 * how many. */
tenon_status_t tn_cut_select(tenon_cut_t *cut, tn_groups_t *groups, int32_t *out_count);
/* A graph with nodes of the strategy's operator for the subgraphs; a new reference. */
tenon_status_t tn_cut_apply(tenon_cut_t *cut, const tn_library_t *library,
                            tenon_graph_t **out_graph);

extern const tenon_graphs_t tn_graphs; /* what libraries read and build graphs by */

#endif
