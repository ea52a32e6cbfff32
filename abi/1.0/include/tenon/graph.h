/* tenon/graph.h: graphs as libraries see them, and what libraries do to them.  A pass makes a graph of a graph; a partitioner
 * says which nodes of a graph go to an operator of its library, as subgraphs, and the host cuts them out.  Contract version
 * 1.0; the rules are those of op.h.
 *
 * A library states them before its first operator, TENON_PASS(&pass), TENON_PARTITIONER(&partitioner), and programs apply them
 * by name: tenon_graph_apply(graph, "library::name", ...).  Nothing here is linked: graphs are read and built by the functions
 * in `call->graphs`, which are those of tenon.h.  All functions of a library may be called on any thread, and by several at
 * once; what they get lives until they return. */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_GRAPH_ABI 0x10000u /* major << 16 | minor */

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

typedef struct tenon_axis_t {
  int64_t extent;   /* negative: symbolic */
  const char *name; /* of the symbol, NULL: a fresh one */
} tenon_axis_t;

typedef int32_t tenon_edge_t; /* a value of a graph */

typedef struct tenon_port_t { /* an input or output of a graph; lends its texts */
  uint32_t size;
  const char *name;
  tenon_dtype_t dtype; /* code 0 bits 0: unknown */
  int32_t ndim;        /* -1: unknown */
  const tenon_axis_t *axes;
  tenon_edge_t edge; /* the value that it is */
  uint32_t layout;   /* TENON_DETAIL_CSR, _ROW_SPARSE; 0: dense */
} tenon_port_t;

typedef struct tenon_operand_t { /* one tensor argument: no edge (absent), one, or the items of a list */
  int32_t count;
  const tenon_edge_t *edges;
} tenon_operand_t;

typedef struct tenon_graph_part_t { /* a node of a graph, which lends all of it */
  uint32_t size;
  int32_t output_count; /* results in order, items of list results one by one, then written inputs that no result is */
  const char *name;
  const tenon_op_t *op;
  const tenon_value_t *attrs;      /* in the schema's order */
  const tenon_operand_t *operands; /* one for each tensor argument of the schema */
  const tenon_edge_t *outputs;
} tenon_graph_part_t;

typedef struct tenon_graph_edge_t { /* a value of a graph, which lends its name and constant */
  uint32_t size;
  int32_t node, input; /* that makes it; its number among the inputs; -1 */
  const char *name;
  tenon_tensor_t *constant; /* NULL: it is none */
} tenon_graph_edge_t;

typedef struct tenon_attrs_t tenon_attrs_t;     /* attributes of an operator, being set */
typedef struct tenon_builder_t tenon_builder_t; /* a graph in the making */

/* The functions of tenon.h that go with graphs, tenon_graph_node as node, tenon_builder_node as builder_node. */
typedef struct tenon_graphs_t {
  uint32_t size, reserved;
  const char *(*op_name)(const tenon_op_t *op); /* "ns::name" */
  tenon_status_t (*op_find)(const char *name, const tenon_op_t **out_op);
  int32_t (*input_count)(const tenon_graph_t *graph);
  int32_t (*output_count)(const tenon_graph_t *graph);
  int32_t (*node_count)(const tenon_graph_t *graph);
  int32_t (*edge_count)(const tenon_graph_t *graph); /* values: 0 to that are edges of it */
  tenon_status_t (*input)(const tenon_graph_t *graph, int32_t index, tenon_port_t *out_port);
  tenon_status_t (*output)(const tenon_graph_t *graph, int32_t index, tenon_port_t *out_port);
  tenon_status_t (*node)(const tenon_graph_t *graph, int32_t index, tenon_graph_part_t *out_node);
  tenon_status_t (*edge)(const tenon_graph_t *graph, tenon_edge_t edge, tenon_graph_edge_t *out_edge, char **out_type);
  tenon_status_t (*value)(const tenon_graph_t *graph, tenon_edge_t edge, tenon_port_t *out_port);
  void (*retain)(const tenon_graph_t *graph);
  void (*release)(const tenon_graph_t *graph);
  tenon_status_t (*tensor_create)(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape, tenon_tensor_t **out_tensor);
  void (*tensor_release)(tenon_tensor_t *tensor);
  tenon_status_t (*attrs_create)(const tenon_op_t *op, tenon_attrs_t **out_attrs);
  void (*attrs_release)(tenon_attrs_t *attrs);
  tenon_status_t (*attrs_set)(tenon_attrs_t *attrs, const char *name, const tenon_value_t *value);
  tenon_status_t (*attrs_parse)(tenon_attrs_t *attrs, const char *name, const char *text);
  tenon_status_t (*attrs_values)(tenon_attrs_t *attrs, const tenon_value_t **out_values);
  tenon_status_t (*builder_create)(tenon_builder_t **out_builder);
  void (*builder_release)(tenon_builder_t *builder);
  tenon_status_t (*builder_name)(tenon_builder_t *builder, const char *name);
  tenon_status_t (*builder_input)(tenon_builder_t *builder, const char *name, tenon_dtype_t dtype, int32_t ndim,
                                  const tenon_axis_t *axes, tenon_edge_t *out_edge);
  tenon_status_t (*builder_constant)(tenon_builder_t *builder, const char *name, tenon_tensor_t *tensor,
                                     tenon_edge_t *out_edge);
  tenon_status_t (*builder_node)(tenon_builder_t *builder, const char *name, const tenon_op_t *op,
                                 const tenon_value_t *attrs, const tenon_operand_t *operands, tenon_edge_t *out_edges,
                                 int32_t output_count);
  tenon_status_t (*builder_output)(tenon_builder_t *builder, const char *name, tenon_edge_t edge);
  tenon_status_t (*builder_finish)(tenon_builder_t *builder, tenon_graph_t **out_graph);
  /* A pass that changes little: inputs, then nodes in order with what it changes in place of some, then outputs. */
  tenon_status_t (*builder_copy_inputs)(tenon_builder_t *builder, const tenon_graph_t *graph, tenon_edge_t *edges);
  tenon_status_t (*builder_copy_node)(tenon_builder_t *builder, const tenon_graph_t *graph, int32_t node,
                                      tenon_edge_t *edges);
  tenon_status_t (*builder_copy_outputs)(tenon_builder_t *builder, const tenon_graph_t *graph, tenon_edge_t *edges);
} tenon_graphs_t;

typedef struct tenon_option_t { /* what the program says to a pass or partitioner; each name once */
  const char *name, *value;
} tenon_option_t;

/* ---- passes ----------------------------------------------------------------------------------------------------- */

typedef struct tenon_pass_call_t { /* tenon_fail() takes it */
  uint32_t size, phase;            /* TENON_PHASE_PASS */
  const tenon_host_t *host;
  const tenon_graphs_t *graphs;
  void *context; /* the library's */
  const struct tenon_pass_t *pass;
  const tenon_graph_t *graph;
  const tenon_option_t *options;
  int32_t option_count, reserved;
} tenon_pass_call_t;

typedef struct tenon_pass_t {
  uint32_t size, abi; /* TENON_GRAPH_ABI */
  const char *name;   /* as an operator's */
  const char *doc;    /* one line, then more after a line break; NULL */
  /* Gives a reference to a graph: what it built, or call->graph, retained. */
  tenon_status_t (*run)(tenon_pass_call_t *call, tenon_graph_t **out_graph);
} tenon_pass_t;

/* ---- partitioners ----------------------------------------------------------------------------------------------- */

/* A strategy's operator has one list of tensors as its input, and one as its result, and an attribute of kind graph that TENON_BODY
 * names:
 *   TENON_OP("fused(Tensor[] inputs, *, graph body, int count) -> Tensor[count] outputs",
 *            TENON_TYPES("inputs, outputs = ?"), TENON_BODY("body"), TENON_KERNEL("cpu", run))
 * Its inputs are those of the graph, in order (more of them may follow), its results those of the graph, as the host infers
 * them through it.  Values of the host that nodes read (a shape, say) lie in the graph as constants; all others are inputs. */
#define TENON_BODY(attribute)                                                                                          \
  { TENON_TAG_SUBGRAPH, 0, 0, "" attribute, 0 }

typedef struct tenon_cut_t { /* what functions of a strategy are given; tenon_fail() takes it */
  uint32_t size, phase;      /* TENON_PHASE_PASS */
  const tenon_host_t *host;
  const tenon_graphs_t *graphs;
  void *context; /* the library's */
  const struct tenon_partitioner_t *partitioner;
  const struct tenon_strategy_t *strategy;
  const tenon_graph_t *graph; /* what strategies before this one made of it */
  const tenon_option_t *options;
  int32_t option_count, reserved;
  void *state; /* what begin set */
} tenon_cut_t;

typedef struct tenon_review_t { /* of one subgraph */
  uint32_t size;
  int32_t id; /* 0 and up, in each strategy */
  const tenon_graph_t *subgraph;
  const tenon_edge_t
      *inputs; /* of each input of the subgraph: the value of cut->graph that it is; parameters are constants */
  tenon_attrs_t *attrs; /* of the node that it becomes: to be set */
  int32_t is_accepted;  /* 1; 0: its nodes stay where they are */
} tenon_review_t;

enum { TENON_CUT_NO = -2, TENON_CUT_ANY = -1 }; /* of ids */

typedef struct tenon_strategy_t {
  uint32_t size, reserved;
  const char *name;
  const char *op; /* "name" of this library's, or "ns::name" */
  /* Either: which nodes go into subgraphs.  ids has one for each node, TENON_CUT_NO when it comes; TENON_CUT_ANY: into any; a
   * number from 0 on: into one of nodes with this number.  Nodes go into one subgraph that hang together. */
  tenon_status_t (*supported)(tenon_cut_t *cut, int32_t *ids);
  /* Or: a subgraph starts at a node that select takes, in the order of nodes, and grows by what select_input and select_output
   * take of the nodes that make inputs of `node`, or read its results. */
  tenon_status_t (*select)(tenon_cut_t *cut, int32_t node, int32_t *out_takes);
  tenon_status_t (*select_input)(tenon_cut_t *cut, int32_t node, int32_t input, int32_t *out_takes);
  tenon_status_t (*select_output)(tenon_cut_t *cut, int32_t node, int32_t output, int32_t *out_takes);
  /* What is kept of a subgraph, rising; `nodes` and `count` are changed in place.  NULL: all of it. */
  tenon_status_t (*filter)(tenon_cut_t *cut, int32_t *nodes, int32_t *count);
  tenon_status_t (*reset)(tenon_cut_t *cut); /* the subgraph starts anew, at the same node, without some; NULL */
  /* Both may have: */
  tenon_status_t (*begin)(tenon_cut_t *cut); /* before all others: sets cut->state; NULL */
  void (*end)(tenon_cut_t *cut);             /* after all others, if begin did not fail; NULL */
  tenon_status_t (*review)(tenon_cut_t *cut, tenon_review_t *review); /* NULL: every subgraph is taken */
} tenon_strategy_t;

typedef struct tenon_partitioner_t {
  uint32_t size, abi; /* TENON_GRAPH_ABI */
  const char *name, *doc;
  const tenon_strategy_t *const *strategies; /* one after the other, up to NULL */
} tenon_partitioner_t;

#define TENON_PASS(pass)                                                                                               \
  { TENON_TAG_PASS, 0, 0, (pass), 0 }
#define TENON_PARTITIONER(partitioner)                                                                                 \
  { TENON_TAG_PARTITIONER, 0, 0, (partitioner), 0 }

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
