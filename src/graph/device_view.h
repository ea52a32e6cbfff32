/* The view of a graph, or of some of its nodes, that a device's plug-in receives
 * (tenon_graph_view_t of device.h). It is made from the compiler's copy of the graph. */
#ifndef TN_GRAPH_DEVICE_VIEW_H
#define TN_GRAPH_DEVICE_VIEW_H

#include <tenon/device.h>

#include "graph/graph.h"

typedef struct tn_view_t {
  tenon_graph_view_t view; /* must be first */
  tenon_edge_t *edges;     /* for each edge of the view: the edge of the graph */
  int32_t *nodes;          /* for each node of the view: the node of the graph */
} tn_view_t;

/* `nodes` must be sorted. The arena holds the view, except for texts, attributes and constants,
 * which belong to the graph. */
tenon_status_t tn_view_create(const tenon_graph_t *graph, const int32_t *nodes, uint32_t count,
                              tn_arena_t *arena, tn_view_t *out_view);

#endif
