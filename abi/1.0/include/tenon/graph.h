/* tenon/graph.h: graphs as libraries see them; passes and partitioners.  Contract version 1.0; the
 * rules for growth are those of op.h.
 *
 * A pass transforms a graph into another graph.  A partitioner assigns nodes of a graph to an
 * operator of its library, and the host extracts these nodes as subgraphs.
 *
 * A library declares both before its first operator, with TENON_PASS(&pass) and
 * TENON_PARTITIONER(&partitioner).  A program applies them by name: tenon_graph_apply(graph,
 * "library::name", ...).  A library has no link-time dependency on the host: it reads and builds
 * graphs with the functions in `call->graphs`, which are those of tenon.h.
 *
 * Ownership: what a function receives is valid until the function returns.
 * Threads: the host may call the functions of a library on any thread, and several at a time. */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_GRAPH_ABI 0x10000u /* Version of this contract: major << 16 | minor. */

/* ---- graphs ---------------------------------------------------------------------------------- */

typedef struct tenon_axis_t {
  int64_t extent;   /* Negative: symbolic. */
  const char *name; /* Name of the symbol; NULL: a new symbol. */
} tenon_axis_t;

/* The index of a value in a graph. */
typedef int32_t tenon_edge_t;

/* An input or output of a graph.
 * Ownership: the graph owns the strings. */
typedef struct tenon_port_t {
  uint32_t size;
  const char *name;
  tenon_dtype_t dtype; /* Code 0 and bits 0: unknown. */
  int32_t ndim;        /* -1: unknown. */
  const tenon_axis_t *axes;
  tenon_edge_t edge; /* The value that this port denotes. */
  uint32_t layout;   /* TENON_DETAIL_CSR or TENON_DETAIL_ROW_SPARSE; 0: dense. */
} tenon_port_t;

/* One tensor argument of a node: no edge if it is omitted, one edge, or the items of a list. */
typedef struct tenon_operand_t {
  int32_t count;
  const tenon_edge_t *edges;
} tenon_operand_t;

/* A node of a graph.
 * Ownership: the graph owns everything that the structure points to. */
typedef struct tenon_graph_part_t {
  uint32_t size;
  int32_t output_count;
  const char *name;
  const tenon_op_t *op;
  const tenon_value_t *attrs;      /* In the schema's order. */
  const tenon_operand_t *operands; /* One for each tensor argument of the schema. */
  /* The results in order, with the items of list results one by one; then the written inputs that
   * no result denotes. */
  const tenon_edge_t *outputs;
} tenon_graph_part_t;

/* A value of a graph.
 * Ownership: the graph owns the name and the constant. */
typedef struct tenon_graph_edge_t {
  uint32_t size;
  int32_t node;  /* The node that computes the value; -1: none. */
  int32_t input; /* The index among the inputs of the graph; -1: it is no input. */
  const char *name;
  tenon_tensor_t *constant; /* NULL: the value is not a constant. */
} tenon_graph_edge_t;

typedef struct tenon_attrs_t tenon_attrs_t;     /* Attributes of an operator, while they are set. */
typedef struct tenon_builder_t tenon_builder_t; /* A graph under construction. */

/* The functions of tenon.h that work on graphs: `node` is tenon_graph_node, `builder_node` is
 * tenon_builder_node, and so on.  Their contracts are in tenon.h. */
typedef struct tenon_graphs_t {
  uint32_t size;
  uint32_t reserved;
  const char *(*op_name)(const tenon_op_t *op); /* "ns::name" */
  tenon_status_t (*op_find)(const char *name, const tenon_op_t **out_op);
  int32_t (*input_count)(const tenon_graph_t *graph);
  int32_t (*output_count)(const tenon_graph_t *graph);
  int32_t (*node_count)(const tenon_graph_t *graph);
  int32_t (*edge_count)(const tenon_graph_t *graph); /* Valid edges are 0 to this number - 1. */
  tenon_status_t (*input)(const tenon_graph_t *graph, int32_t index, tenon_port_t *out_port);
  tenon_status_t (*output)(const tenon_graph_t *graph, int32_t index, tenon_port_t *out_port);
  tenon_status_t (*node)(const tenon_graph_t *graph, int32_t index, tenon_graph_part_t *out_node);
  tenon_status_t (*edge)(const tenon_graph_t *graph, tenon_edge_t edge,
                         tenon_graph_edge_t *out_edge, char **out_type);
  tenon_status_t (*value)(const tenon_graph_t *graph, tenon_edge_t edge, tenon_port_t *out_port);
  void (*retain)(const tenon_graph_t *graph);
  void (*release)(const tenon_graph_t *graph);
  tenon_status_t (*tensor_create)(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                  tenon_tensor_t **out_tensor);
  void (*tensor_release)(tenon_tensor_t *tensor);
  tenon_status_t (*attrs_create)(const tenon_op_t *op, tenon_attrs_t **out_attrs);
  void (*attrs_release)(tenon_attrs_t *attrs);
  tenon_status_t (*attrs_set)(tenon_attrs_t *attrs, const char *name, const tenon_value_t *value);
  tenon_status_t (*attrs_parse)(tenon_attrs_t *attrs, const char *name, const char *text);
  tenon_status_t (*attrs_values)(tenon_attrs_t *attrs, const tenon_value_t **out_values);
  tenon_status_t (*builder_create)(tenon_builder_t **out_builder);
  void (*builder_release)(tenon_builder_t *builder);
  tenon_status_t (*builder_name)(tenon_builder_t *builder, const char *name);
  tenon_status_t (*builder_input)(tenon_builder_t *builder, const char *name, tenon_dtype_t dtype,
                                  int32_t ndim, const tenon_axis_t *axes, tenon_edge_t *out_edge);
  tenon_status_t (*builder_constant)(tenon_builder_t *builder, const char *name,
                                     tenon_tensor_t *tensor, tenon_edge_t *out_edge);
  tenon_status_t (*builder_node)(tenon_builder_t *builder, const char *name, const tenon_op_t *op,
                                 const tenon_value_t *attrs, const tenon_operand_t *operands,
                                 tenon_edge_t *out_edges, int32_t output_count);
  tenon_status_t (*builder_output)(tenon_builder_t *builder, const char *name, tenon_edge_t edge);
  tenon_status_t (*builder_finish)(tenon_builder_t *builder, tenon_graph_t **out_graph);
  /* A pass with few changes copies the inputs, then each node in order or its replacement, then the
   * outputs. */
  tenon_status_t (*builder_copy_inputs)(tenon_builder_t *builder, const tenon_graph_t *graph,
                                        tenon_edge_t *edges);
  tenon_status_t (*builder_copy_node)(tenon_builder_t *builder, const tenon_graph_t *graph,
                                      int32_t node, tenon_edge_t *edges);
  tenon_status_t (*builder_copy_outputs)(tenon_builder_t *builder, const tenon_graph_t *graph,
                                         tenon_edge_t *edges);
} tenon_graphs_t;

/* An option that a program passes to a pass or a partitioner.  Each name occurs once. */
typedef struct tenon_option_t {
  const char *name;
  const char *value;
} tenon_option_t;

/* ---- passes ---------------------------------------------------------------------------------- */

/* Argument of a pass; tenon_fail() accepts it. */
typedef struct tenon_pass_call_t {
  uint32_t size;
  uint32_t phase; /* TENON_PHASE_PASS */
  const tenon_host_t *host;
  const tenon_graphs_t *graphs;
  void *context; /* The library's context. */
  const struct tenon_pass_t *pass;
  const tenon_graph_t *graph; /* The graph to transform. */
  const tenon_option_t *options;
  int32_t option_count;
  int32_t reserved;
} tenon_pass_call_t;

typedef struct tenon_pass_t {
  uint32_t size;
  uint32_t abi;     /* TENON_GRAPH_ABI */
  const char *name; /* Spelled like an operator's name. */
  const char *doc;  /* One summary line; more may follow after a line break; NULL: none. */
  /* Transforms call->graph.
   * Returns: in *out_graph, a reference to a graph: a new one, or call->graph, retained. */
  tenon_status_t (*run)(tenon_pass_call_t *call, tenon_graph_t **out_graph);
} tenon_pass_t;

/* ---- partitioners ---------------------------------------------------------------------------- */

/* clang-format off */
/* Names the attribute of an operator that holds its subgraph.
 *
 * The operator of a strategy has one list of tensors as its input, one list as its result, and an
 * attribute of kind graph:
 *   TENON_OP("fused(Tensor[] inputs, *, graph body, int count) -> Tensor[count] outputs",
 *            TENON_TYPES("inputs, outputs = ?"), TENON_BODY("body"), TENON_KERNEL("cpu", run))
 * The inputs of a node are those of its graph, in order; more inputs may follow.  The results are
 * those of the graph, as the host infers them through it.  Host values that nodes of the graph
 * read, such as a shape, are constants of the graph; all other values are inputs. */
#define TENON_BODY(attribute) { TENON_TAG_SUBGRAPH, 0, 0, "" attribute, 0 }
/* clang-format on */

/* Argument of the functions of a strategy; tenon_fail() accepts it. */
typedef struct tenon_cut_t {
  uint32_t size;
  uint32_t phase; /* TENON_PHASE_PASS */
  const tenon_host_t *host;
  const tenon_graphs_t *graphs;
  void *context; /* The library's context. */
  const struct tenon_partitioner_t *partitioner;
  const struct tenon_strategy_t *strategy;
  const tenon_graph_t *graph; /* The graph after the preceding strategies. */
  const tenon_option_t *options;
  int32_t option_count;
  int32_t reserved;
  void *state; /* Set by `begin`. */
} tenon_cut_t;

/* A subgraph that a strategy may accept or reject. */
typedef struct tenon_review_t {
  uint32_t size;
  int32_t id; /* 0, 1, ... within each strategy. */
  const tenon_graph_t *subgraph;
  /* For each input of the subgraph, the value of cut->graph that it denotes.  Parameters are
   * constants. */
  const tenon_edge_t *inputs;
  tenon_attrs_t *attrs; /* The attributes of the node that replaces the subgraph; to be set. */
  int32_t is_accepted;  /* 1; set it to 0 to leave the nodes as they are. */
} tenon_review_t;

/* Values of `ids` in tenon_strategy_t.supported. */
enum {
  TENON_CUT_NO = -2, /* The node stays outside. */
  TENON_CUT_ANY = -1 /* The node may belong to any subgraph. */
};

/* A way to choose subgraphs: by `supported`, or by the functions `select...`. */
typedef struct tenon_strategy_t {
  uint32_t size;
  uint32_t reserved;
  const char *name;
  const char *op; /* The operator of the new nodes: "name" in this library, or "ns::name". */

  /* First way.  Assigns nodes to subgraphs.
   * Arguments: `ids` has one entry for each node, initially TENON_CUT_NO.  Set it to TENON_CUT_ANY
   * for a node that may belong to any subgraph, or to a number from 0 for a node that may only join
   * nodes with the same number.  Only connected nodes form a subgraph. */
  tenon_status_t (*supported)(tenon_cut_t *cut, int32_t *ids);

  /* Second way.  A subgraph starts at a node that `select` takes; the host asks for each node in
   * order.  It grows by the nodes that `select_input` takes among the producers of the inputs of
   * `node`, and that `select_output` takes among the users of its results. */
  tenon_status_t (*select)(tenon_cut_t *cut, int32_t node, int32_t *out_takes);
  tenon_status_t (*select_input)(tenon_cut_t *cut, int32_t node, int32_t input, int32_t *out_takes);
  tenon_status_t (*select_output)(tenon_cut_t *cut, int32_t node, int32_t output,
                                  int32_t *out_takes);
  /* Removes nodes from a subgraph. `nodes`, in ascending order, and `count` are changed in place.
   * NULL: the subgraph keeps all nodes. */
  tenon_status_t (*filter)(tenon_cut_t *cut, int32_t *nodes, int32_t *count);
  /* The host restarts the subgraph at the same node, without some of the nodes.  May be NULL. */
  tenon_status_t (*reset)(tenon_cut_t *cut);

  /* For both ways. */
  tenon_status_t (*begin)(tenon_cut_t *cut); /* Called first; sets cut->state.  May be NULL. */
  void (*end)(tenon_cut_t *cut);             /* Called last, unless `begin` failed.  May be NULL. */
  /* Accepts or rejects a subgraph.  NULL: every subgraph is accepted. */
  tenon_status_t (*review)(tenon_cut_t *cut, tenon_review_t *review);
} tenon_strategy_t;

typedef struct tenon_partitioner_t {
  uint32_t size;
  uint32_t abi; /* TENON_GRAPH_ABI */
  const char *name;
  const char *doc;
  const tenon_strategy_t *const *strategies; /* Applied in order; ends with NULL. */
} tenon_partitioner_t;

/* clang-format off */
/* The items that declare a pass and a partitioner. */
#define TENON_PASS(pass)               { TENON_TAG_PASS, 0, 0, (pass), 0 }
#define TENON_PARTITIONER(partitioner) { TENON_TAG_PARTITIONER, 0, 0, (partitioner), 0 }
/* Declares a rule by which the compiler of every program that has loaded the library rewrites
 * graphs: "name: before -> after", such as
 *   TENON_REWRITE("fast_silu: core::mul(x, core::sigmoid(x)) -> silu(x)")
 * `before` is a call of an operator whose operands are calls, names, numbers or choices (a | b);
 * `after` is one call or a name.  Operators without a namespace are those of the library.  The
 * rule applies where nothing else reads the values between, and where the dtype and the shape of
 * the result stay the same.  docs/rewrites.md has the language. */
#define TENON_REWRITE(rule) { TENON_TAG_REWRITE, 0, 0, "" rule, 0 }
/* clang-format on */

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
