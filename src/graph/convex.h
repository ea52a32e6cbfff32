/* Groups of nodes that shall run as one: what devices claim, and what partitioners cut out.
 * Invariant: no path leaves a group and comes back to it, other groups passed as a whole; so the
 * nodes of each can stand one after the other. */
#ifndef TN_GRAPH_CONVEX_H
#define TN_GRAPH_CONVEX_H

#include "graph/graph.h"

typedef struct
    tn_groups_t { /* of a graph whose nodes stay as they are meanwhile; all of it is the arena's */
  const tenon_graph_t *graph;
  int32_t *producers; /* of each value: the node, -1 */
  int32_t *group_of;  /* of each node: the number of its group, from 1; 0: none */
  uint8_t *reached;   /* of each node: while paths are looked for */
} tn_groups_t;

tenon_status_t tn_groups_create(const tenon_graph_t *graph, tn_arena_t *arena,
                                tn_groups_t *out_groups);
/* Does a path leave these nodes and come back?  *out_left: the first node that it goes through
 * outside; *out_back: the first of them that it comes back to. */
bool tn_groups_return(const tn_groups_t *groups, const int32_t *nodes, size_t count,
                      int32_t *out_left, int32_t *out_back);
/* An order in which all nodes may run, those of a group one after the other: out_order has a place
 * for each node, removed ones are left out. */
tenon_status_t tn_groups_order(const tn_groups_t *groups, tn_arena_t *arena, int32_t *out_order,
                               size_t *out_count);

#endif
