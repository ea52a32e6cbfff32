/* The graph: values and nodes in an order in which they may run.  Immutable once a builder finished
 * it; the compiler works on a copy of its own.  Everything lives in the graph's arena; constants,
 * attribute tensors and subgraphs are retained. */
#ifndef TN_GRAPH_GRAPH_H
#define TN_GRAPH_GRAPH_H

#include <tenon/tenon.h>

#include "base/arena.h"
#include "core/extent.h"
#include "operator/op.h"

typedef struct tn_edge_t {  /* a value */
  const char *name;         /* never NULL, unique */
  int32_t producer;         /* node, -1: an input or a constant */
  int32_t input;            /* number among the graph's inputs, -1 */
  bool is_stated;           /* of an input: its dtype is the caller's */
  tenon_tensor_t *constant; /* retained; NULL: none */
  tenon_dtype_t dtype;      /* bits 0: unknown */
  int32_t ndim;             /* -1: unknown */
  uint32_t layout;          /* TENON_DETAIL_CSR, _ROW_SPARSE; 0: dense */
  tenon_dim_t *dims;
  tenon_dim_t *strides; /* symbols of the graph's extents; strides NULL: row-major */
  tenon_dim_t *values;  /* what is known of a small integer tensor, NULL: nothing */
  uint32_t value_count;
} tn_edge_t;

typedef struct tn_node_t {
  const char *name; /* never NULL */
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  const tenon_operand_t *operands; /* for each tensor argument of the schema */
  int32_t
      /* results, items of list results one by one, then written inputs that no result is */
      output_count;
  tenon_edge_t *outputs;
  bool is_bounded; /* inference found extents that only run knows */
  int32_t
      /* 1 + the claim of the executable that it is in; 0: none.  Such nodes are left as they are */
      group;
} tn_node_t;

struct tenon_graph_t {
  int64_t references; /* atomic */
  tn_arena_t arena;
  const char *name; /* never NULL */
  tn_edge_t *edges;
  size_t edge_count;
  size_t edge_capacity;
  tn_node_t *nodes;
  size_t node_count;
  size_t node_capacity;
  tenon_edge_t *inputs;
  tenon_edge_t *outputs;
  const char **output_names;
  size_t input_count;
  size_t input_capacity;
  size_t output_count;
  size_t output_capacity;
  size_t name_capacity;
  tn_extents_t *extents;      /* symbols of dims */
  tenon_axis_t **input_axes;  /* ports, as the builder was told */
  tenon_axis_t **output_axes; /* as inference found them; the graph's arena */
  size_t axes_capacity;
  tenon_axis_t **value_axes; /* of all values, made when they are asked for; the graph's arena */
  const tenon_graph_t **subgraphs; /* retained: of attributes */
  size_t subgraph_count;
  size_t subgraph_capacity;
  const tn_library_t **libraries; /* in use: of the nodes' operators, each once */
  size_t library_count;
  size_t library_capacity;
  tenon_op_t **ops; /* the nodes' operators, each once */
  size_t op_count;
  size_t op_capacity;
  tenon_tensor_t **kept; /* retained: tensors of attributes */
  size_t kept_count;
  size_t kept_capacity;
  struct tenon_executable_t *executable; /* of a subgraph, made on first evaluation */
};

/* How many values a node of that operator has, given its attributes; -1: the caller says (list
 * results without a number). */
int32_t tn_node_output_count(const tenon_op_t *op, const tenon_value_t *attrs);
/* The written inputs that no result is, as extra results: input of the k-th, or -1. */
int32_t tn_op_written(const tenon_op_t *op, int32_t k);
/* The written input that result o is, or -1. */
int32_t tn_op_result_input(const tenon_op_t *op, uint32_t o);
tenon_status_t tn_graph_create(tenon_graph_t **out_graph);
tenon_status_t tn_graph_add_edge(tenon_graph_t *graph, const char *name, tn_edge_t **out_edge,
                                 tenon_edge_t *out_index);
/* Adds a node whose operands exist; its result edges are the caller's to make. */
tenon_status_t tn_graph_add_node(tenon_graph_t *graph, const char *name, const tenon_op_t *op,
                                 const tenon_value_t *attrs, const tenon_operand_t *operands,
                                 int32_t output_count, tn_node_t **out_node);
/* Axes of a value as inference found them, symbols by the text that they print as. */
tenon_status_t tn_axes_make(const tenon_graph_t *graph, tenon_edge_t edge, tn_arena_t *arena,
                            tenon_axis_t **out_axes);
/* Makes a constant of another graph, if it is not there yet; edges as for
 * tenon_builder_copy_node. */
tenon_status_t tn_builder_place(tenon_builder_t *builder, const tenon_graph_t *graph,
                                tenon_edge_t edge, tenon_edge_t *edges);
/* As much of a port as the caller has room for. */
tenon_status_t tn_port_give(const tenon_port_t *full, tenon_port_t *out_port);
/* A private copy for the compiler (shares constants). */
tenon_status_t tn_graph_copy(const tenon_graph_t *graph, tenon_graph_t **out_graph);
/* How often each value is used: by nodes and as outputs.  The caller frees the array. */
tenon_status_t tn_graph_uses(const tenon_graph_t *graph, int32_t **out_uses);
/* "?" where nothing is known: "f32[batch, 128]". */
void tn_edge_print(const tenon_graph_t *graph, const tn_edge_t *edge, tn_text_t *text);

/* Names a result of a node, which had a name that was made up; leaves that where the name is
 * another value's. */
tenon_status_t tn_builder_name_value(tenon_builder_t *builder, tenon_edge_t edge, const char *name);

#endif
