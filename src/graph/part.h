/* Parts of a graph, as graphs of their own. */
#ifndef TN_GRAPH_PART_H
#define TN_GRAPH_PART_H

#include "graph/graph.h"

/* The part that computes some values from others. */
typedef struct tn_part_t {
  const tenon_edge_t *given; /* its inputs, in this order, whether or not a node reads them */
  size_t given_count;
  const tenon_edge_t *results; /* its outputs; a value may occur several times */
  size_t result_count;
} tn_part_t;

/* Marks the nodes that compute the results. `out_needed` has node_count entries, which are false
 * before. */
tenon_status_t tn_part_mark(const tenon_graph_t *graph, const tn_part_t *part, bool *out_needed);
/* Makes the graph of the part; constants go along. `graph` may be one that a builder is building.
 * */
tenon_status_t tn_part_make(const tenon_graph_t *graph, const tn_part_t *part,
                            tenon_graph_t **out_graph);

#endif
