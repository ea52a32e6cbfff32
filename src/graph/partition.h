/* Cutting subgraphs out of a graph, as a partitioner's strategy decides. */
#ifndef TN_GRAPH_PARTITION_H
#define TN_GRAPH_PARTITION_H

#include "graph/convex.h"
#include "registry/transform.h"

/* Selects the nodes of the subgraphs. groups->group_of (zeroed, one for each node) receives the
 * number of each node's subgraph, from 1; out_count receives how many there are. */
tenon_status_t tn_partition_select(tenon_cut_t *cut, tn_groups_t *groups, int32_t *out_count);
/* Creates a graph in which each subgraph is replaced by one node of the strategy's operator. The
 * caller owns a reference to it. */
tenon_status_t tn_partition_apply(tenon_cut_t *cut, const tn_library_t *library,
                                  tenon_graph_t **out_graph);

extern const tenon_graphs_t tn_graphs; /* the functions by which libraries read and build graphs */

#endif
