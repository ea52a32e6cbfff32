/* What rewriting passes share: who makes a value, who uses it, and turning one node into another in
 * its place. */
#ifndef TN_GRAPH_PASSES_REWRITE_H
#define TN_GRAPH_PASSES_REWRITE_H

#include "graph/graph.h"

typedef struct tn_rewrite_t {
  tenon_graph_t *graph;
  int32_t *uses; /* of each edge */
  int32_t *user; /* of each edge: the last node that reads it, -1 */
  int32_t changes;
} tn_rewrite_t;

tenon_status_t tn_rewrite_begin(tn_rewrite_t *r, tenon_graph_t *graph);
void tn_rewrite_end(tn_rewrite_t *r);
/* The node that makes the edge, if it is of that operator; else NULL. */
tn_node_t *tn_maker(const tn_rewrite_t *r, tenon_edge_t edge, const char *op);
/* The only node that reads the edge, if it is read once and is no output, and is not claimed; else
 * NULL. */
tn_node_t *tn_only_user(const tn_rewrite_t *r, tenon_edge_t edge);
bool tn_node_is(const tn_node_t *node, const char *op);
/* First edge of an operand, -1 when absent. */
tenon_edge_t tn_operand(const tn_node_t *node, uint32_t index);
/* The number of a constant with one element. */
bool tn_scalar(const tn_rewrite_t *r, tenon_edge_t edge, double *out_value);
/* Do two edges have the same known type, rank and extents (symbols too)? */
bool tn_same_shape(const tn_rewrite_t *r, tenon_edge_t a, tenon_edge_t b);
/* An attribute by name: its place in node->attrs, or -1. */
int32_t tn_attr(const tn_node_t *node, const char *name);
/* `node` becomes a node of `op` with these operands, keeping its results and place; uses are
 * counted anew.  attrs: values in the operator's order, copied; NULL: defaults. */
tenon_status_t tn_node_become(tn_rewrite_t *r, tn_node_t *node, const tenon_op_t *op,
                              const tenon_value_t *attrs, const tenon_edge_t *operands);
/* Readers of `from` read `to` instead. */
void tn_redirect(tn_rewrite_t *r, tenon_edge_t from, tenon_edge_t to);
/* Takes a node out whose results nobody reads any more. */
void tn_node_remove(tn_rewrite_t *r, tn_node_t *node);

#endif
