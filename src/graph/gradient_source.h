/* What is differentiated: a graph in which the constants whose gradients are wanted are inputs, and
 * in which formulas that programs write out, such as those of gelu, are single operators. Backward
 * then needs fewer values of forward. */
#ifndef TN_GRAPH_GRADIENT_SOURCE_H
#define TN_GRAPH_GRADIENT_SOURCE_H

#include "graph/graph.h"

/* Makes that graph. Its inputs are those of `graph`, then the constants among the values. With
 * TENON_GRADIENTS_PLAIN no node is rewritten. */
tenon_status_t tn_gradient_source(const tenon_graph_t *graph,
                                  const tenon_graph_gradients_t *options,
                                  tenon_graph_t **out_graph);

#endif
