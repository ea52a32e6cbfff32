/* Passes over the compiler's copy of a graph; those that consist of rules are in rules.h. Each pass
 * leaves a valid graph, with the nodes in an order in which they can run. Removed nodes stay in the
 * array, with op NULL, until tn_pass_dead_code. */
#ifndef TN_GRAPH_PASSES_PASS_H
#define TN_GRAPH_PASSES_PASS_H

#include "graph/graph.h"

/* Infers types, shapes and values of every edge, with symbols, except optional results that nothing
 * reads. A contradiction is an error that
 * names the node. */
tenon_status_t tn_pass_infer(tenon_graph_t *graph);
/* Constant folding: computes pure nodes whose inputs are constants. */
tenon_status_t tn_pass_fold(tenon_graph_t *graph);
/* Dead-code elimination: removes pure nodes whose results are not used, and identities. */
tenon_status_t tn_pass_dead_code(tenon_graph_t *graph);

/* Infers one node, with symbols. Used by the passes. */
tenon_status_t tn_node_infer(tenon_graph_t *graph, const tn_node_t *node);
/* Infers one node, and computes it if its inputs are constants: its op is then NULL. */
tenon_status_t tn_node_fold(tenon_graph_t *graph, tn_node_t *node);
/* Makes a value a constant, which no node produces. The tensor is retained. */
void tn_edge_bind_constant(tenon_graph_t *graph, tenon_edge_t index, tenon_tensor_t *tensor);

#endif
