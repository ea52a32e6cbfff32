/* The graph: values (edges) and nodes, in an order in which the nodes can run. A graph is immutable
 * once a builder has finished it; the compiler works on a copy of its own. The graph's arena holds
 * everything; constants, tensors of attributes and subgraphs are retained. */
#ifndef TN_GRAPH_GRAPH_H
#define TN_GRAPH_GRAPH_H

#include <tenon/tenon.h>

#include "base/arena.h"
#include "core/extent.h"
#include "graph/packing.h"
#include "operator/op.h"

/* A value. */
typedef struct tn_edge_t {
  const char *name;         /* never NULL, unique */
  int32_t producer;         /* index of the node; -1: a graph input or a constant */
  int32_t input;            /* index among the graph's inputs; -1: not an input */
  bool is_stated;           /* for an input: the caller stated its dtype */
  tenon_tensor_t *constant; /* retained; NULL: none */
  tenon_dtype_t dtype;      /* bits == 0: unknown */
  int32_t ndim;             /* -1: unknown */
  uint32_t layout;          /* TENON_DETAIL_CSR or TENON_DETAIL_ROW_SPARSE; 0: dense */
  tenon_dim_t *dims;
  /* extents may be symbols of the graph's `extents`; strides NULL: row-major */
  tenon_dim_t *strides;
  tenon_dim_t *values; /* known elements of a small integer tensor; NULL: unknown */
  uint32_t value_count;
} tn_edge_t;

typedef struct tn_node_t {
  const char *name; /* never NULL */
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  const tenon_operand_t *operands; /* one for each tensor argument of the schema */
  /* Results, with the items of list results one by one, followed by the written inputs that the
   * operator does not also return as a result. */
  int32_t output_count;
  tenon_edge_t *outputs;
  /* The results that inference asks for: bit o for result o; 0: all. Without an optional result
   * that nothing reads its type stays unknown. */
  uint64_t wanted;
  bool is_bounded; /* inference found extents that are known only after the node has run */
  /* 1 + index of its offloaded subgraph in the executable; 0: none. Passes leave nodes of such a
   * subgraph unchanged. */
  int32_t group;
} tn_node_t;

/* What a graph that was read from an artifact has beside nodes and values: it is compiled already.
 * The artifact is at `context`. */
typedef struct tn_prepared_t {
  void *context;
  const tn_block_t *blocks; /* packed weights, in the order of the nodes */
  const size_t *first;      /* of each node the index of its first block, and the number of all */
  uint64_t reloads;         /* the registry's count of library reloads when it was read */
  /* Compares the weights with their checksums: those that runs read, or all of them. They are
   * compared once. */
  tenon_status_t (*check)(const struct tn_prepared_t *prepared, bool all);
  /* The graph that was compiled. It belongs to the artifact. */
  tenon_status_t (*original)(const struct tn_prepared_t *prepared, const tenon_graph_t **out_graph);
  void (*release)(struct tn_prepared_t *prepared);
} tn_prepared_t;

struct tenon_graph_t {
  int64_t references;      /* atomic */
  tn_prepared_t *prepared; /* NULL: the graph is not from an artifact */
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
  tn_extents_t *extents;      /* table of the symbols in `dims` */
  tenon_axis_t **input_axes;  /* axes of the inputs as the caller of the builder stated them */
  tenon_axis_t **output_axes; /* axes of the outputs as inference found them; in the arena */
  size_t axes_capacity;
  tenon_axis_t **value_axes;       /* axes of all values, created on first request; in the arena */
  const tenon_graph_t **subgraphs; /* retained: graphs in attributes of nodes */
  size_t subgraph_count;
  size_t subgraph_capacity;
  const tn_library_t **libraries; /* libraries of the nodes' operators, each once; in use */
  size_t library_count;
  size_t library_capacity;
  tenon_op_t **ops; /* operators of the nodes, each once */
  size_t op_count;
  size_t op_capacity;
  tenon_tensor_t **kept; /* retained: tensors in attributes of nodes */
  size_t kept_count;
  size_t kept_capacity;
  /* A body that belongs to one compilation: the flags and the rules to leave out with which its
   * executable is made; in the arena. */
  uint32_t body_flags;
  const char *body_without; /* NULL: none */
  /* executable of a subgraph, created on its first evaluation */
  struct tenon_executable_t *executable;
  /* Releases `executable`; set together with it. A pointer, so that graph.c does not depend on the
   * units that compile and run graphs. */
  void (*release_executable)(struct tenon_executable_t *executable);
};

/* Number of values that a node of the operator has with these attributes; -1: the caller must state
 * the number, because a list result has no count. */
int32_t tn_node_output_count(const tenon_op_t *op, const tenon_value_t *attrs);
/* Written inputs that the operator does not return are extra results of a node. Returns the input
 * that the k-th of them stands for, or -1. */
int32_t tn_op_written(const tenon_op_t *op, int32_t k);
/* The written input that result `o` returns, or -1. */
int32_t tn_op_result_input(const tenon_op_t *op, uint32_t o);
tenon_status_t tn_graph_create(tenon_graph_t **out_graph);
tenon_status_t tn_graph_add_edge(tenon_graph_t *graph, const char *name, tn_edge_t **out_edge,
                                 tenon_edge_t *out_index);
/* Keeps the operator and its library in use as long as the graph. */
tenon_status_t tn_graph_use_op(tenon_graph_t *graph, const tenon_op_t *op);
/* Adds a node whose operands exist already. The caller creates its result edges. */
tenon_status_t tn_graph_add_node(tenon_graph_t *graph, const char *name, const tenon_op_t *op,
                                 const tenon_value_t *attrs, const tenon_operand_t *operands,
                                 int32_t output_count, tn_node_t **out_node);
/* Creates the axes of a value as inference found them; a symbolic extent is named by its printed
 * text. */
tenon_status_t tn_axes_make(const tenon_graph_t *graph, tenon_edge_t edge, tn_arena_t *arena,
                            tenon_axis_t **out_axes);
/* Adds the value `edge` of another graph to the builder if it is a constant that has not been added
 * yet. `edges` maps edges of `graph` to the builder's, as in tenon_builder_copy_node. */
tenon_status_t tn_builder_copy_constant(tenon_builder_t *builder, const tenon_graph_t *graph,
                                        tenon_edge_t edge, tenon_edge_t *edges);
/* Makes sure that all constants of a graph may be shown to a caller: those of an artifact are
 * compared with their checksums first. */
static inline tenon_status_t tn_graph_check(const tenon_graph_t *graph) {
  return graph->prepared ? graph->prepared->check(graph->prepared, true) : TENON_OK;
}
/* Copies as much of `full` as fits the size that the caller stated in out_port->size. */
tenon_status_t tn_port_give(const tenon_port_t *full, tenon_port_t *out_port);
/* Copies a graph for the compiler; constants are shared. */
tenon_status_t tn_graph_copy(const tenon_graph_t *graph, tenon_graph_t **out_graph);
/* Replaces a graph in an attribute of a node. The new one is retained; the old one stays retained
 * too, because copies refer to its memory. */
tenon_status_t tn_node_set_graph(tenon_graph_t *graph, tn_node_t *node, uint32_t attr,
                                 const tenon_graph_t *body);
/* Counts how often each value is used, by nodes and as an output. The caller frees the array. */
tenon_status_t tn_graph_uses(const tenon_graph_t *graph, int32_t **out_uses);
/* The results of a node that are not optional or that are used: bit o for result o. Never 0, which
 * would mean all results. */
uint64_t tn_node_wanted(const tn_node_t *node, const int32_t *uses);
/* Prints a value's type, such as "f32[batch, 128]"; "?" stands for what is not known. */
void tn_edge_print(const tenon_graph_t *graph, const tn_edge_t *edge, tn_text_t *text);

/* The graph as far as it was built. Its arrays move when something is added. */
tenon_graph_t *tn_builder_graph(const tenon_builder_t *builder);
/* Names a result of a node that has only a generated name. Does nothing if another value has the
 * name. */
tenon_status_t tn_builder_name_value(tenon_builder_t *builder, tenon_edge_t edge, const char *name);
/* Does what tenon_builder_node does for a node of which only the results in `wanted` will be read
 * (bit o: result o; 0: all). */
tenon_status_t tn_builder_node_wanted(tenon_builder_t *builder, const char *name,
                                      const tenon_op_t *op, const tenon_value_t *attrs,
                                      const tenon_operand_t *operands, uint64_t wanted,
                                      tenon_edge_t *out_edges, int32_t output_count);
/* Infers the nodes that were added so far, and from now on each node when it is added. */
tenon_status_t tn_builder_infer(tenon_builder_t *builder);

#endif
