/* Passes over the compiler's copy of a graph.  Each leaves a valid graph: nodes in an order to run,
 * removed nodes with op NULL until tn_pass_sweep. */
#ifndef TN_GRAPH_PASSES_PASS_H
#define TN_GRAPH_PASSES_PASS_H

#include "graph/graph.h"

/* Types, shapes and values of every edge, with symbols; a contradiction is an error that names the
 * node. */
tenon_status_t tn_pass_infer(tenon_graph_t *graph);
/* Computes pure nodes whose inputs are constants. */
tenon_status_t tn_pass_fold(tenon_graph_t *graph);
/* Nodes that do nothing go; padding moves into convolutions; written-out gelu and silu become one
 * node. */
tenon_status_t tn_pass_simplify(tenon_graph_t *graph);
/* Bias, residual and activation become part of the matmul or convolution before them. */
tenon_status_t tn_pass_fuse(tenon_graph_t *graph);
/* Removes pure nodes that nobody uses, and identities. */
tenon_status_t tn_pass_sweep(tenon_graph_t *graph);

/* One node's inference, with symbols: used by the passes. */
tenon_status_t tn_node_infer(tenon_graph_t *graph, const tn_node_t *node);

#endif
