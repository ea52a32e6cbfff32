/* The nodes of a graph of ONNX Runtime, read once. */
#ifndef BRIDGES_ONNXRUNTIME_PROVIDER_NODES_H
#define BRIDGES_ONNXRUNTIME_PROVIDER_NODES_H

#include "api.h"
#include "base/arena.h"

typedef struct values_t { /* NULL among the items: the input or output is absent */
  const OrtValueInfo **items;
  size_t count;
} values_t;

typedef struct node_t {
  const OrtNode *node;
  size_t id;
  const char *name;
  const char *type;
  const char *domain;
  values_t inputs;
  values_t implicit; /* values around the node that its subgraphs read */
  values_t outputs;
  const char *why; /* NULL: the node can be taken; otherwise why it is left */
  int32_t level;   /* the number of its group, if it can be taken */
  bool is_member;  /* of the group that is being described */
} node_t;

/* Ownership: names and values are those of ONNX Runtime, and valid as long as its graph. */
typedef struct nodes_t {
  tn_arena_t arena;
  const OrtGraph *graph; /* for operator sets */
  bool is_detached;      /* nothing is known of the values around the node */
  node_t *items;         /* in an order in which they can run */
  size_t count;
  int32_t *places; /* for each identifier the index of the node; -1: none */
  size_t place_count;
} nodes_t;

/* Reads all nodes of a graph. The caller calls nodes_clear, also after a failure. */
tenon_status_t nodes_read(const OrtGraph *graph, nodes_t *out_nodes);
/* Reads one node. */
tenon_status_t nodes_read_one(const OrtNode *node, nodes_t *out_nodes);
/* Reads the node that `body` is in. ONNX Runtime does not give the graph around it. */
tenon_status_t nodes_read_around(const OrtNode *node, const OrtGraph *body, nodes_t *out_nodes);
void nodes_clear(nodes_t *nodes);

/* Finds a node among these; NULL: it is of another graph. */
node_t *nodes_find(const nodes_t *nodes, const OrtNode *node);

/* Is the value a constant that the model states? */
tenon_status_t value_is_constant(const OrtValueInfo *value, bool *out);

#endif
