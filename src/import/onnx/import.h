/* The importer's own structures: graphs that are being built, names in scope, and values.
 * Each of the importer's files calls only files that are listed before it:
 *   scope.c           values, and names in scope
 *   order.c           the order of nodes
 *   graph.c           graphs: the model's own, and those in attributes of nodes
 *   lower.c           what lowerings build with
 *   attribute.c       attributes of a node
 *   lowering.c        runs the texts that tell what an ONNX operator becomes
 *   lower_*.c         these texts, by family
 *   lowering_table.c  finds the lowering of an operator
 *   custom.c          nodes of domains other than ONNX's own
 *   node.c            one node
 *   import.c          the model
 * The exception is a function pointer: graph.c imports each node through import->import_node. */
#ifndef TN_ONNX_IMPORT_H
#define TN_ONNX_IMPORT_H

#include <tenon/tenon.h>

#include "base/map.h"
#include "base/text.h"
#include "import/onnx/tensor.h"

/* A graph that is being built: that of the model, or the body of an If, Loop or Scan. */
typedef struct tn_site_t {
  tenon_builder_t *builder;
  struct tn_site_t *outer; /* NULL: this is the model's graph */
  /* values of outer graphs that are available here, by the address of their tn_ref_t */
  tn_map_t local;
  /* Values of `outer` that became inputs after the declared ones, in this order. */
  struct tn_ref_t **captured;
  size_t captured_count;
  size_t captured_capacity;
} tn_site_t;

/* What a value is. All but tensors have dtype LIST in the graph. */
enum {
  TN_REF_TENSOR,
  TN_REF_SEQUENCE,
  TN_REF_OPTIONAL, /* a list of at most one item */
};

/* A value. */
typedef struct tn_ref_t {
  tn_site_t *site;
  const char *name;
  tenon_edge_t id;        /* in site->builder; -1: a constant that no node has used yet */
  tenon_dtype_t dtype;    /* bits == 0: unknown */
  int32_t ndim;           /* -1: unknown */
  const int64_t *extents; /* -1: unknown extent; NULL: all are unknown */
  uint8_t kind;           /* TN_REF_... */
  bool holds_sequence;    /* an optional sequence */
  /* What is known about the tensors in a sequence or an optional value, as for a tensor. */
  tenon_dtype_t item_dtype;
  int32_t item_ndim;
  /* The items of a sequence that the importer takes apart; NULL: a value of the graph. */
  struct tn_ref_t **items;
  int32_t item_count;
  struct tn_ref_t *joined; /* the list of these items, once something needs it; NULL: nothing has */
  /* The result of an unsupported operator: the nodes that follow are read, but not built. */
  bool is_missing;
  bool is_map;                         /* a tensor of scores that stands for a list of maps */
  bool is_absent;                      /* an input of a function that the calling node leaves out */
  tenon_tensor_t *constant;            /* NULL: not a constant, or not read yet */
  const tn_onnx_tensor_t *initialiser; /* NULL: not an initialiser */
  const tn_onnx_sparse_t *sparse;
} tn_ref_t;

/* An attribute of a node. A reference to a parameter of a function has been replaced by its
 * value. */
typedef struct tn_attr_t {
  const char *name;
  const tn_onnx_attribute_t *proto;
  struct tn_scope_t *scope; /* the scope in which a graph attribute looks names up */
  bool is_used;
} tn_attr_t;
typedef TN_LIST(tn_attr_t) tn_attrs_list_t;

/* The names that nodes can see. */
typedef struct tn_scope_t {
  struct tn_scope_t *outer; /* NULL: the model's graph, or the body of a function */
  tn_site_t *site;
  tn_map_t edges; /* tn_ref_t by name */
  tn_map_t hints; /* tn_onnx_value_t by name: types that the file states */
  const tn_onnx_opsets_t *opsets;
  /* For the body of a function: attributes of the node that calls it; NULL: not a function. */
  const tn_attrs_list_t *parameters;
  const char *prefix; /* of node names; "" in the model's graph */
  int depth;
} tn_scope_t;

/* An operator that is not supported. */
typedef struct tn_missing_t {
  struct tn_missing_t *next;
  const char *type;
  const char *domain;
  const char *node;
  const char *reason; /* the name of the operator if it is unloaded */
  bool is_unloaded;   /* the operator of a library that is not loaded */
  int64_t version;
  size_t count; /* number of nodes */
} tn_missing_t;

typedef struct tn_import_t {
  tn_arena_t arena;
  /* Imports one node and defines its results in the scope. import.c sets this pointer to
   * tn_node_import. A lowering may import graphs of its node, whose nodes are lowered in turn;
   * because graph.c calls the pointer, lower_*.c and graph.c do not depend on node.c, which depends
   * on all lowerings. */
  tenon_status_t (*import_node)(struct tn_import_t *import, tn_scope_t *scope,
                                const tn_onnx_node_t *node);
  tn_weights_t weights;
  tn_onnx_model_t model;
  tn_map_t functions; /* tn_onnx_function_t by domain, name and overload */
  tn_map_t lowerings; /* lowerings by domain and operator; see lowering_table.c */
  /* Unsupported operators, in the order in which they were found. */
  struct tn_missing_t *missing;
  tenon_tensor_t **tensors; /* created during the import, released at its end */
  size_t tensor_count;
  size_t tensor_capacity;
  int64_t nodes;
} tn_import_t;

/* An attribute of nodes of custom domains whose operator takes several lists: the number of inputs
 * of each argument. */
#define TN_OPERAND_COUNTS "operand_counts"

enum {
  TN_IMPORT_DEPTH = 32,
  TN_IMPORT_NODES = 1 << 20,
  TN_OPSET_NEWEST = 27,
};

/* scope.c: values and names */

/* Returns NULL and reports it if memory is exhausted. */
tn_ref_t *tn_ref_new(tn_import_t *import, tn_site_t *site, const char *name);
/* Returns the value as one of this site's graph. A value of an outer graph becomes a constant or an
 * input of the body. */
tenon_status_t tn_ref_here(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                           tn_ref_t **out_edge);
/* Returns in *out_edge the input of this body that stands for `outer`, a value of the graph around
 * it. Creates the input unless the body has captured the value already. */
tenon_status_t tn_ref_capture(tn_import_t *import, tn_site_t *site, tn_ref_t *outer,
                              tn_ref_t **out_edge);
bool tn_ref_is_constant(const tn_ref_t *edge);
/* Returns the value as one of this site's graph: a sequence whose items are known becomes a
 * list. */
tenon_status_t tn_ref_join(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                           tn_ref_t **out_edge);
/* Copies what is known about the type of a value, without extents. */
void tn_ref_like(tn_ref_t *edge, const tn_ref_t *of);
/* Creates a constant of this graph. Takes ownership of the tensor. */
tenon_status_t tn_ref_constant(tn_import_t *import, tn_site_t *site, const char *name,
                               tenon_tensor_t *tensor, tn_ref_t **out_edge);
/* The tensor of a constant; NULL if the value is not a constant. */
tenon_status_t tn_ref_value(tn_import_t *import, tn_ref_t *edge, const tenon_tensor_t **out_tensor);
/* Looks a name up in this scope and in the outer ones; *out_edge NULL: it is not defined. */
tenon_status_t tn_scope_find(tn_import_t *import, tn_scope_t *scope, const char *name,
                             tn_ref_t **out_edge);
/* Defines a name. Fails if the scope defines it already. */
tenon_status_t tn_scope_define(tn_scope_t *scope, const char *name, tn_ref_t *edge);
/* Notes the types that the file states for values of this scope. */
tenon_status_t tn_scope_hints(tn_scope_t *scope, const tn_onnx_value_t *values, size_t count);
void tn_scope_clear(tn_scope_t *scope);
/* Sets kind, dtype, rank and extents from the type that the file states, where they are unknown.
 * Refuses maps, sparse tensors, and sequences of anything but tensors. */
tenon_status_t tn_type_read(tn_import_t *import, const tn_onnx_value_t *value, tn_ref_t *edge);
void tn_site_clear(tn_site_t *site);

/* graph.c: graphs */

/* Declares the constants and stated types of a graph, then its inputs. `like` has a value for each
 * input, whose type is used where the file does not state one; NULL: none. */
tenon_status_t tn_graph_declare(tn_import_t *import, tn_scope_t *scope,
                                const tn_onnx_graph_t *graph, tn_ref_t *const *like);
/* Imports nodes and defines their results in the scope. Nodes that are not in topological order are
 * sorted. */
tenon_status_t tn_import_nodes(tn_import_t *import, tn_scope_t *scope, const tn_onnx_node_t *nodes,
                               size_t count);
/* Finds the value of an output of the graph. */
tenon_status_t tn_graph_find_output(tn_import_t *import, tn_scope_t *scope, const char *name,
                                    tn_ref_t **out_edge);

/* A graph attribute that is being built. */
typedef struct tn_body_t {
  tn_site_t site;
  const tn_onnx_graph_t *graph;
  /* For each declared input a value whose type is used where the file does not state one; NULL:
   * none. */
  tn_ref_t *const *like;
  tn_ref_t **outputs;
} tn_body_t;
/* Builds a body. Its inputs are the declared ones, then the `shared` values of `outer`, the site
 * around it, then the values that its nodes use. Names are looked up in the body, then in `scope`.
 * The caller zeroes *body, and calls tn_body_clear also after a failure. */
tenon_status_t tn_body_build(tn_import_t *import, tn_scope_t *scope, tn_site_t *outer,
                             const tn_onnx_graph_t *graph, tn_ref_t *const *shared,
                             size_t shared_count, tn_body_t *body);
/* Adds one more captured input to the body, unless it has captured the value already. */
tenon_status_t tn_body_share(tn_import_t *import, tn_body_t *body, tn_ref_t *edge);
tenon_status_t tn_body_finish(tn_body_t *body, tenon_graph_t **out_graph);
void tn_body_clear(tn_body_t *body);
/* Adds the nodes of a graph to the graph that is being built, with these values as its inputs. */
tenon_status_t tn_graph_inline(tn_import_t *import, tn_scope_t *scope, tn_site_t *site,
                               const char *prefix, const tn_onnx_graph_t *graph,
                               tn_ref_t *const *inputs, size_t input_count, tn_ref_t **out_outputs);

/* import.c: the model */

/* Reads an ONNX file. `folder` is where its external weights are; NULL: the folder of the file. */
tenon_status_t tn_onnx_load(const char *path, const char *folder, tenon_graph_t **out_graph);
/* Imports the model in `file`. Takes ownership of the storage. folder NULL: the model has no
 * external weights. */
tenon_status_t tn_onnx_read(tn_storage_t *file, const char *folder, tenon_graph_t **out_graph);

#endif
