/* A graph of TensorFlow, as the pass reads it, and the groups that it finds. All bytes belong to
 * the message that TensorFlow passed. */
#ifndef BRIDGES_TENSORFLOW_GRAPH_GRAPH_H
#define BRIDGES_TENSORFLOW_GRAPH_GRAPH_H

#include <tenon/tenon.h>

#include "common/message.h"
#include "plan.h"

enum {
  GROUPS_MOST = 64,       /* of a graph: as many as a mask has bits */
  GROUP_PORTS_MOST = 64,  /* inputs, and outputs, of a group */
  GROUP_NODES_MOST = 400, /* of a group */
  NODE_INPUTS_MOST = 4,   /* of a node that can be in a group */
};

enum { DT_FLOAT = 1, DT_DOUBLE = 2, DT_BOOL = 10 };

typedef struct graph_node_t {
  bytes_t name;
  bytes_t op;
  bytes_t device;
  bytes_t whole; /* the message */
  int32_t dtype; /* the attribute T; 0: there is none */
  int32_t input_count;
  int32_t *inputs;      /* nodes; of all inputs, with those that only order */
  const plan_t *plan;   /* NULL: it cannot be in a group */
  bool is_plain;        /* all inputs are first outputs, and none only orders */
  bool is_kept;         /* TensorFlow needs the node by its name */
  bool is_used_outside; /* a node outside of the group, or of no group, needs its value */
  int32_t group;        /* -1: none */
  uint64_t depends;     /* the groups that the node depends on */
} graph_node_t;

typedef struct graph_group_t {
  int32_t dtype;
  int32_t node_count;
  int32_t last; /* the last node of the group, whose name the new node gets */
  uint64_t depends;
  char *text; /* NULL: the group is given up */
  int32_t input_count;
  int32_t inputs[GROUP_PORTS_MOST]; /* nodes */
  int32_t input_types[GROUP_PORTS_MOST];
  int32_t output_count;
  int32_t outputs[GROUP_PORTS_MOST]; /* nodes */
  int32_t output_types[GROUP_PORTS_MOST];
} graph_group_t;

typedef struct graph_t {
  bytes_t message;
  int32_t node_count;
  graph_node_t *nodes;
  int32_t *order;  /* nodes, in topological order */
  int32_t *sorted; /* nodes, by name */
  int32_t *inputs; /* of all nodes */
  int32_t group_count;
  graph_group_t *groups;
  const char *why; /* why the graph is left as it is; NULL */
} graph_t;

/* Reads a graph. `graph->why` says why there is nothing to do. Returns false without memory.
 * Ownership: graph_free, also after false. */
bool graph_read(graph_t *graph, bytes_t message);
void graph_free(graph_t *graph);
/* Returns a node by its name; -1: there is none. */
int32_t graph_find(const graph_t *graph, bytes_t name);

/* Returns the plan of an operator that can be in a group, or NULL (rows.c). */
const plan_t *rows_find(bytes_t op);

/* Finds the groups (groups.c). */
void groups_find(graph_t *graph);
/* Writes the text of a group, and its inputs and outputs (text.c). Gives the group up if it cannot
 * be built. */
void groups_describe(graph_t *graph, int32_t group);

/* Writes the graph with a node for each group that has a text (write.c). */
void graph_write(const graph_t *graph, message_t *out);

#endif
