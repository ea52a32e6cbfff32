/* Reading of graphs that a library returns: what nodes of the library's own operators need,
 * including their subgraphs. */
#ifndef BRIDGES_MXNET_NNVM_SUBGRAPH_H
#define BRIDGES_MXNET_NNVM_SUBGRAPH_H

#include "../models/lower.h"
#include "nnvm.h"

typedef struct reading_t {
  const hosted_t *library;
  const nnvm_t *old; /* its graph is NULL if there is no old graph */
  const nnvm_param_t *params;
  model_t model;          /* the state that the lowerings of models work on */
  const tn_json_t *nodes; /* the nodes of the JSON text */
  /* for each value of the old graph its value in the builder; -1: not added yet */
  tenon_edge_t *edges;
} reading_t;

tenon_status_t reading_run(reading_t *reading, const tn_json_t *root, tenon_graph_t **out_graph);
void reading_clear(reading_t *reading);
tenon_status_t reading_value(const reading_t *reading, const symbol_node_t *node, int32_t index,
                             tenon_edge_t *out);
/* adds a constant of the old graph */
tenon_status_t reading_constant(reading_t *reading, tenon_edge_t value);
/* Adds a node whose operator belongs to an MXNet library. */
tenon_status_t reading_hosted(reading_t *reading, int32_t index, const hosted_op_t *op);
/* Lists the variables in the order in which a walk from the heads reaches them. */
tenon_status_t subgraph_variables(const symbol_t *symbol, tn_arena_t *arena, int32_t *out_order,
                                  int32_t *out_count);

#endif
