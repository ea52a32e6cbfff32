/* Counts the iterations of loops. */
#ifndef TN_IMPORT_TRIPS_H
#define TN_IMPORT_TRIPS_H

#include "graph/graph.h"

/* Returns the number of iterations of a core::loop with this body, whose types are inferred; -1: it
 * depends on data. It is known if `trips` is a constant and the condition stays true, or if the
 * condition compares a counter with a constant. */
int64_t tn_loop_trips(const tenon_graph_t *graph, const tn_node_t *node, const tenon_graph_t *body);

#endif
