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

typedef struct nnvm_op_t { /* a node as MXNet has it */
  const char *op;
  const char *names[NNVM_ATTRS];
  const char *values[NNVM_ATTRS];
  int attr_count;
  uint64_t left_out;    /* bit i: operand i is an attribute there */
  const char *subgraph; /* JSON; NULL: it has none */
} nnvm_op_t;

/* MXNet's operator where it has one that does the same; a library's own by its own name; else
 * Tenon's name, "ns::name". */
tenon_status_t nnvm_op(const tenon_graph_t *graph, const tenon_graph_part_t *node,
                       tn_arena_t *arena, nnvm_op_t *out);
/* MXNet's number of a dtype, of those too that libraries do not know; -1: it has none. */
int nnvm_dtype(tenon_dtype_t dtype);

/* writing */

typedef struct nnvm_t { /* a graph, and what was written of it */
  const tenon_graph_t *graph;
  tn_arena_t arena; /* of all that follows */
  const char *json;
  int32_t count;        /* nodes of the JSON */
  const char **names;   /* theirs, each once */
  int32_t *nodes;       /* the graph's node, -1: an input or constant */
  tenon_edge_t *values; /* the first that it makes */
  int32_t *ids;         /* of each node of the graph: the JSON's */
} nnvm_t;

/* `whole` and `inputs`: it is a subgraph, and its inputs are these values of that graph; NULL: it
 * is none.  nnvm_clear follows, after a failure too. */
tenon_status_t nnvm_write(const tenon_graph_t *graph, const tenon_graph_t *whole,
                          const tenon_edge_t *inputs, nnvm_t *out);
void nnvm_clear(nnvm_t *nnvm);

/* reading */

typedef struct nnvm_param_t { /* a parameter that a pass made */
  struct nnvm_param_t *next;
  const char *name;
  tenon_tensor_t *tensor;
} nnvm_param_t;

/* The graph that a library made of one that it was given: nodes that are as they were written are
 * the old ones, others what their operators are in Tenon.  Variables are the old ones by name, or
 * `params`, or new inputs.  Errors name the node. */
tenon_status_t nnvm_read(const hosted_t *library, const nnvm_t *old, const char *json, size_t size,
                         const nnvm_param_t *params, tenon_graph_t **out_graph);

/* parameters */

typedef struct nnvm_block_t { /* named tensors, as libraries take them */
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
/* The graph's constants that libraries can take: arguments, and those that MXNet's operators write
 * to (running statistics). */
tenon_status_t nnvm_blocks(const nnvm_t *nnvm, tn_arena_t *arena, nnvm_block_t *out_args,
                           nnvm_block_t *out_aux);
/* Is the value one that MXNet keeps beside the arguments? */
bool nnvm_is_aux(const tenon_graph_t *graph, tenon_edge_t edge);

#endif
