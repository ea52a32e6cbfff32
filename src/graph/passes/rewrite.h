/* What rewriting passes share: which node makes a value, which nodes use it, and turning a node
 * into another one in place. */
#ifndef TN_GRAPH_PASSES_REWRITE_H
#define TN_GRAPH_PASSES_REWRITE_H

#include "base/map.h"
#include "graph/graph.h"

/* An operand that reads an edge, or has read it before it was changed. */
typedef struct tn_reader_t {
  int32_t node;
  uint32_t operand;
  int32_t item;
  int32_t next; /* the next reader of the edge; -1: none */
} tn_reader_t;

typedef struct tn_rewrite_t {
  tenon_graph_t *graph;
  size_t edge_count; /* of the edges that the following arrays cover */
  size_t edge_capacity;
  int32_t *uses;         /* of each edge: how often it is used */
  int32_t *user;         /* of each edge: the last node that reads it; -1: none */
  int32_t *first_reader; /* of each edge: its first reader; -1: none */
  int32_t *first_output; /* of each edge: the first graph output that it is; -1: none */
  int32_t *next_output;  /* of each graph output: the next one of the same edge; -1: none */
  tn_reader_t *readers;
  size_t reader_count;
  size_t reader_capacity;
  int32_t changes;
  size_t node_count; /* of the graph when the rewrite began */
  /* The order in which nodes run, if some were inserted: of each node the one before it and the one
   * after it; -1: none. NULL: that of the graph. */
  int32_t *before;
  int32_t *after;
  size_t order_count; /* of the nodes in these arrays */
  size_t before_capacity;
  size_t after_capacity;
  tn_map_t seen; /* what the rule for equal nodes has seen (share.c) */
} tn_rewrite_t;

/* A node to insert. */
typedef struct tn_insertion_t {
  const char *name;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  const tenon_operand_t *operands;
  int32_t output_count;
} tn_insertion_t;

tenon_status_t tn_rewrite_begin(tn_rewrite_t *r, tenon_graph_t *graph);
void tn_rewrite_end(tn_rewrite_t *r);
/* Adds a node that runs just before the node `at`, and infers its results. It comes last in the
 * graph's array, which may move, until the rewrite ends. */
tenon_status_t tn_rewrite_insert(tn_rewrite_t *r, int32_t at, const tn_insertion_t *what,
                                 int32_t *out_index);
/* Adds a constant that no node reads yet. The tensor is retained. */
tenon_status_t tn_rewrite_constant(tn_rewrite_t *r, tenon_tensor_t *tensor, tenon_edge_t *out_edge);
/* The node that makes the edge, if it is a node of operator `op`; else NULL. */
tn_node_t *tn_maker(const tn_rewrite_t *r, tenon_edge_t edge, const char *op);
/* The only node that reads the edge; NULL if the edge is read more than once or is a graph output,
 * or if the node is offloaded. */
tn_node_t *tn_only_user(const tn_rewrite_t *r, tenon_edge_t edge);
bool tn_node_is(const tn_node_t *node, const char *op);
/* The edge of an operand; -1: absent, or a list. */
tenon_edge_t tn_operand(const tn_node_t *node, uint32_t index);
/* Reads a constant with one element as a number; false: it is not such a constant. */
bool tn_scalar(const tn_rewrite_t *r, tenon_edge_t edge, double *out_value);
/* Whether two edges have the same known dtype, rank and extents, symbols included. */
bool tn_same_shape(const tn_rewrite_t *r, tenon_edge_t a, tenon_edge_t b);
/* The index of an attribute in node->attrs; -1: it has none of this name. */
int32_t tn_attr(const tn_node_t *node, const char *name);
/* Turns `node` into a node of `op` with these operands. It keeps its position and its results, to
 * which those that `op` has beyond them are added; uses are counted again. `attrs` are values in
 * the operator's order, which are copied; NULL: the defaults. */
tenon_status_t tn_node_become(tn_rewrite_t *r, tn_node_t *node, const tenon_op_t *op,
                              const tenon_value_t *attrs, const tenon_edge_t *operands);
/* Gives the first operand of the node, a list, these edges instead. */
tenon_status_t tn_node_set_list(tn_rewrite_t *r, tn_node_t *node, const tenon_edge_t *edges,
                                int32_t count);
/* Makes all readers of `from` read `to` instead. */
void tn_redirect(tn_rewrite_t *r, tenon_edge_t from, tenon_edge_t to);
/* Removes a node whose results nobody reads any more. */
void tn_node_remove(tn_rewrite_t *r, tn_node_t *node);
/* Makes a quantize_linear node a table if its result depends on one tensor of 8-bit numbers element
 * by element (tabulate.c). */
tenon_status_t tn_tabulate(tn_rewrite_t *r, tn_node_t *last);

#endif
