/* Small graphs in the form that a device sees them, for cases about claims: f32, two axes, small
 * whole numbers. */
#ifndef TENON_CONFORMANCE_GRAPHS_H
#define TENON_CONFORMANCE_GRAPHS_H

#include "rig.h"

enum { NODES_MOST = 16, EDGES_MOST = 48, ELEMENTS = 256, /* maximum for one value */ };

typedef struct graph_t { /* filled by graph_begin, graph_input, ...; must not be moved */
  tenon_graph_view_t view;
  tenon_graph_node_t nodes[NODES_MOST];
  const tenon_graph_node_t *node_list[NODES_MOST];
  tenon_meta_t edges[EDGES_MOST];
  const tenon_meta_t *edge_list[EDGES_MOST];
  const char *names[EDGES_MOST];
  uint32_t starts[NODES_MOST][4];
  uint32_t args[NODES_MOST][3];
  uint32_t results[NODES_MOST];
  uint32_t inputs[EDGES_MOST];
  uint32_t outputs[EDGES_MOST];
  tenon_value_t attrs[NODES_MOST][5];
  tenon_dim_t dims[EDGES_MOST][2];
  tenon_tensor_t constants[EDGES_MOST];
  int64_t shapes[EDGES_MOST][2];
  int64_t strides[EDGES_MOST][2];
  /* Constants have values from the start; for others see graph_compute. */
  float values[EDGES_MOST][ELEMENTS];
} graph_t;

typedef struct wish_t { /* what a device claimed */
  uint32_t count;
  uint32_t nodes[NODES_MOST];
} wish_t;
typedef struct wishes_t {
  tenon_claims_t sink; /* must be the first member */
  const graph_t *graph;
  uint32_t count;
  wish_t at[2 * NODES_MOST];
} wishes_t;

void graph_begin(graph_t *graph);
uint32_t graph_input(graph_t *graph, const char *name, int64_t rows,
                     int64_t columns); /* returns the edge */
uint32_t graph_constant(graph_t *graph, const char *name, int64_t rows,
                        int64_t columns); /* returns the edge */
/* Adds a node with two arguments (b -1: one argument) and a result of this shape. */
uint32_t graph_node(graph_t *graph, const char *op, uint32_t a, int64_t b, int64_t rows,
                    int64_t columns);
void graph_output(graph_t *graph, uint32_t edge);
/* Builds relu(x w + b), which is the result `positive`, and its square, which is the second result:
 * four nodes of common operators. */
void graph_layers(graph_t *graph);
/* Computes the values of all edges, with inputs generated from `seed`. */
void graph_compute(graph_t *graph, uint64_t seed);
/* Makes a graph of the nodes of a claim; edges[i] is the original number of edge i. */
void graph_part(const graph_t *graph, const wish_t *wish, graph_t *out_part,
                uint32_t edges[EDGES_MOST]);

/* Calls claim and checks that groups name nodes of the graph, each once. Skips the case if the
 * device claims nothing. */
void must_claim(tenon_on_t on, const graph_t *graph, wishes_t *out_wishes);

#endif
