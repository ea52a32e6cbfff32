/* Conversion of graphs between Tenon and MXNet's libraries, which use JSON in the form of NNVM:
 * nodes have operators with MXNet's names and attributes as strings; inputs and parameters are
 * nodes of the operator "null". */
#ifndef BRIDGES_MXNET_NNVM_H
#define BRIDGES_MXNET_NNVM_H

#include <tenon/tenon.h>

#include "../writer.h"
#include "base/json.h"
#include "hosted.h"

/* operators */

enum { NNVM_ATTRS = 96 };

typedef struct nnvm_op_t { /* a node in MXNet's terms */
  const char *op;
  const char *names[NNVM_ATTRS];
  const char *values[NNVM_ATTRS];
  int attr_count;
  uint64_t left_out;    /* bit i: operand i is not an input of the node but an attribute */
  const char *subgraph; /* JSON; NULL: the node has no subgraph */
} nnvm_op_t;

/* Describes a node in MXNet's terms. A core operator gets the name of the MXNet operator that does
 * the same, if there is one. An operator of an MXNet library keeps its name. Any other operator
 * gets its Tenon name, "ns::name". */
tenon_status_t nnvm_op(const tenon_graph_t *graph, const tenon_graph_part_t *node,
                       tn_arena_t *arena, nnvm_op_t *out);
/* Returns MXNet's number of a dtype, including dtypes that libraries do not support; -1: MXNet has
 * no such dtype. */
int nnvm_dtype(tenon_dtype_t dtype);

/* writing */

typedef struct nnvm_t { /* a graph and its JSON form */
  const tenon_graph_t *graph;
  tn_arena_t arena; /* owns the memory of all members below */
  const char *json;
  int32_t count;        /* the number of nodes in the JSON */
  const char **names;   /* the name of each JSON node; no name occurs twice */
  int32_t *nodes;       /* the node of the graph for each JSON node; -1: an input or a constant */
  tenon_edge_t *values; /* the first value that each JSON node produces */
  int32_t *ids;         /* the JSON node for each node of the graph */
} nnvm_t;

/* Writes a graph as JSON. For a subgraph, `whole` is the graph that contains it, and `inputs` are
 * the values of `whole` that its inputs receive; otherwise both are NULL. The caller must call
 * nnvm_clear, also after a failure. */
tenon_status_t nnvm_write(const tenon_graph_t *graph, const tenon_graph_t *whole,
                          const tenon_edge_t *inputs, nnvm_t *out);
void nnvm_clear(nnvm_t *nnvm);

/* reading */

typedef struct nnvm_param_t { /* a parameter that a pass created or changed */
  struct nnvm_param_t *next;
  const char *name;
  tenon_tensor_t *tensor;
} nnvm_param_t;

/* Reads the graph that a library made from `old`. A node that has not changed since nnvm_write is
 * restored as the old node. Any other node is lowered to Tenon's operators. A variable becomes a
 * tensor of `params`, the old input or constant of its name, or a new input. Errors name the
 * node. */
tenon_status_t nnvm_read(const hosted_t *library, const nnvm_t *old, const char *json, size_t size,
                         const nnvm_param_t *params, tenon_graph_t **out_graph);

/* parameters */

typedef struct nnvm_block_t { /* named tensors in the form that libraries receive */
  const char **names;
  const char **devices;
  void **data;
  const int64_t **shapes;
  int *ndims;
  int *dtypes;
  int *ids;
  int count;
  size_t *versions;
} nnvm_block_t;
/* Collects the constants that libraries can take. `out_args` receives arguments; `out_aux` receives
 * auxiliary states, which MXNet's operators write to (running statistics). */
tenon_status_t nnvm_blocks(const nnvm_t *nnvm, tn_arena_t *arena, nnvm_block_t *out_args,
                           nnvm_block_t *out_aux);
/* Returns whether MXNet treats the value as an auxiliary state rather than as an argument. */
bool nnvm_is_aux(const tenon_graph_t *graph, tenon_edge_t edge);

#endif
