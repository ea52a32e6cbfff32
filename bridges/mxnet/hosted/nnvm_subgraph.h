/* Reading of graphs that a library returns: what nodes of the library's own operators need,
 * including their subgraphs. */
#ifndef BRIDGES_MXNET_NNVM_SUBGRAPH_H
#define BRIDGES_MXNET_NNVM_SUBGRAPH_H

#include "../models/lower.h"
#include "nnvm.h"

typedef struct reading_t {
  const hosted_t *library;
  const nnvm_t *old; /* its graph is NULL: there is none */
  const nnvm_param_t *params;
  model_t model;          /* what rules of models build on */
  const tn_json_t *nodes; /* as the text has them */
  tenon_edge_t *edges;    /* of each value of the old graph: where it is in the builder, -1 */
} reading_t;

tenon_status_t reading_run(reading_t *reading, const tn_json_t *root, tenon_graph_t **out_graph);
void reading_clear(reading_t *reading);
tenon_status_t reading_value(const reading_t *reading, const symbol_node_t *node, int32_t index,
                             tenon_edge_t *out);
tenon_status_t reading_constant(reading_t *reading, tenon_edge_t value); /* of the old graph */
/* A node of an operator of a library of MXNet's. */
tenon_status_t reading_hosted(reading_t *reading, int32_t index, const hosted_op_t *op);
/* Its variables, as a walk from the heads comes to them. */
tenon_status_t subgraph_variables(const symbol_t *symbol, tn_arena_t *arena, int32_t *out_order,
                                  int32_t *out_count);

#endif
