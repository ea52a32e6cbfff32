/* A graph or some of its nodes as a device's plug-in sees them: device.h's view, made of the
 * compiler's copy. */
#ifndef TN_GRAPH_VIEW_H
#define TN_GRAPH_VIEW_H

#include <tenon/device.h>

#include "graph/graph.h"

typedef struct tn_view_t {
  tenon_graph_view_t view; /* first */
  tenon_edge_t *edges;     /* of the graph: for each of the view */
  int32_t *nodes;          /* the same */
} tn_view_t;

/* `nodes`: rising.  All of the view is the arena's, but for texts, attributes and constants, which
 * are the graph's. */
tenon_status_t tn_view_create(const tenon_graph_t *graph, const int32_t *nodes, uint32_t count,
                              tn_arena_t *arena, tn_view_t *out_view);

#endif
