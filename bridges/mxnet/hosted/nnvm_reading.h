/* A graph that a library returned and that is being read: the state of nnvm_read.c, which
 * nnvm_subgraph.c extends by the nodes of the library's own operators. */
#ifndef BRIDGES_MXNET_NNVM_READING_H
#define BRIDGES_MXNET_NNVM_READING_H

#include "base/json.h"
#include "hosted.h"
#include "models/lower.h"
#include "nnvm_write.h"

typedef struct nnvm_param_t { /* a parameter that a pass created or changed */
  struct nnvm_param_t *next;
  const char *name;
  tenon_tensor_t *tensor;
} nnvm_param_t;

typedef struct reading_t {
  const hosted_t *library;
  const nnvm_t *old; /* its graph is NULL if there is no old graph */
  const nnvm_param_t *params;
  model_t model;          /* the state that the lowerings of models work on */
  const tn_json_t *nodes; /* the nodes of the JSON text */
  /* for each value of the old graph its value in the builder; -1: not added yet */
  tenon_edge_t *edges;
  /* Reads the graph at `root`. nnvm_read.c sets this pointer to its own function. A node may have a
   * subgraph, whose nodes are read in turn; because nnvm_subgraph.c calls the pointer, it does not
   * depend on nnvm_read.c, which depends on it. */
  tenon_status_t (*read_graph)(struct reading_t *reading, const tn_json_t *root,
                               tenon_graph_t **out_graph);
} reading_t;

/* Releases the builder and the memory of the reading. */
void reading_clear(reading_t *reading);
/* Finds the value that is the index-th input of a node. */
tenon_status_t reading_value(const reading_t *reading, const symbol_node_t *node, int32_t index,
                             tenon_edge_t *out);
/* Adds a constant of the old graph. */
tenon_status_t reading_constant(reading_t *reading, tenon_edge_t value);
/* Lists the variables in the order in which a walk from the heads reaches them. */
tenon_status_t reading_variables(const symbol_t *symbol, tn_arena_t *arena, int32_t *out_order,
                                 int32_t *out_count);

#endif
