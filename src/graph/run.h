/* What the graph layer gives to the process: how kernels evaluate subgraphs. */
#ifndef TN_GRAPH_RUN_H
#define TN_GRAPH_RUN_H

void tn_graph_start(void);
void tn_body_start(void); /* a part of it */

#endif
