/* Conversion of Tenon's graphs to those of MXNet's libraries, which use JSON in the form of NNVM:
 * nodes have operators with MXNet's names and attributes as strings; inputs and parameters are
 * nodes of the operator "null". */
#ifndef BRIDGES_MXNET_NNVM_WRITE_H
#define BRIDGES_MXNET_NNVM_WRITE_H

#include "base/arena.h"
#include "hosted.h"

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
/* Returns whether MXNet treats the value as an auxiliary state rather than as an argument. */
bool nnvm_is_aux(const tenon_graph_t *graph, tenon_edge_t edge);

#endif
