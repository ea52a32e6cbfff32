/* Hooks that the graph layer installs at start: how kernels evaluate and infer subgraphs. */
#ifndef TN_GRAPH_RUN_H
#define TN_GRAPH_RUN_H

#include <tenon/tenon.h>

/* Called when the process starts, and at shutdown. */
tenon_status_t tn_graph_start(void);
void tn_graph_stop(void);
void tn_subgraph_infer_start(void); /* called by tn_graph_start */

#endif
