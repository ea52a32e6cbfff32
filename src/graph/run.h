/* Hooks that the graph layer installs at start: how kernels evaluate and infer subgraphs. */
#ifndef TN_GRAPH_RUN_H
#define TN_GRAPH_RUN_H

void tn_graph_start(void);
void tn_subgraph_infer_start(void); /* called by tn_graph_start */

#endif
