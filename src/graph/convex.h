/* Convex groups of nodes, that is, groups that can run as one: subgraphs that a device runs, and
 * subgraphs that partitioners cut out. Invariant: no path leaves a group and returns to it, where
 * another group counts as one node; so the nodes of each group can stand one after the other. */
#ifndef TN_GRAPH_CONVEX_H
#define TN_GRAPH_CONVEX_H

#include "graph/graph.h"

/* The groups of a graph. The graph's nodes must not change meanwhile. An arena holds all arrays. */
typedef struct tn_groups_t {
  const tenon_graph_t *graph;
  int32_t *producers; /* of each value: the node that makes it; -1: none */
  int32_t *group_of;  /* of each node: the number of its group, from 1; 0: none */
  uint8_t *reached;   /* of each node: a mark used while paths are searched */
} tn_groups_t;

tenon_status_t tn_groups_create(const tenon_graph_t *graph, tn_arena_t *arena,
                                tn_groups_t *out_groups);
/* Whether a path leaves these nodes and returns to them. *out_left is the first node outside that
 * the path goes through, *out_back the first of the nodes that it returns to. */
bool tn_groups_return(const tn_groups_t *groups, const int32_t *nodes, size_t count,
                      int32_t *out_left, int32_t *out_back);
/* Finds an order in which all nodes can run, those of a group one after the other. out_order has
 * room for all nodes; removed nodes are left out. */
tenon_status_t tn_groups_order(const tn_groups_t *groups, tn_arena_t *arena, int32_t *out_order,
                               size_t *out_count);

#endif
