/* The operators of graphs in MXNet's terms: names of operators, and attributes as strings. */
#ifndef BRIDGES_MXNET_NNVM_OP_H
#define BRIDGES_MXNET_NNVM_OP_H

#include "base/arena.h"
#include "hosted.h"

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

#endif
