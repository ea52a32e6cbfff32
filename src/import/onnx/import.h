/* The importer's own structures: graphs that are being built, names in scope, values. import.c
 * reads the file and walks graphs, node.c lowers one node, attribute.c reads its attributes, rule.c
 * runs the texts that say what an ONNX operator becomes, and lower_*.c hold those texts, by
 * family. */
#ifndef TN_ONNX_IMPORT_H
#define TN_ONNX_IMPORT_H

#include <tenon/tenon.h>

#include "base/map.h"
#include "base/text.h"
#include "import/onnx/tensor.h"

typedef struct
    tn_site_t { /* a graph that is being built: the model's or the body of an If, Loop or Scan */
  tenon_builder_t *builder;
  struct tn_site_t *outer; /* NULL: the model's */
  tn_map_t local;          /* what edges of outer graphs are here, by their address */
  struct tn_ref_t *
      *captured; /* edges of `outer` that became inputs after the declared ones, in order */
  size_t captured_count;
  size_t captured_capacity;
} tn_site_t;

typedef struct tn_ref_t { /* a value */
  tn_site_t *site;
  const char *name;
  tenon_edge_t id;         /* in site->builder; -1: a constant that nothing has used yet */
  tenon_dtype_t dtype;     /* bits 0: unknown */
  int32_t ndim;            /* -1: unknown */
  const int64_t *extents;  /* -1: unknown; NULL: none is known */
  struct tn_ref_t **items; /* of a sequence, which the import takes apart; NULL: a tensor */
  int32_t item_count;
  bool
      /* comes from an operator that is not supported: what follows is read, but not built */
      is_missing;
  bool is_absent;                      /* a function's input that its caller left out */
  tenon_tensor_t *constant;            /* NULL: none, or not read yet */
  const tn_onnx_tensor_t *initialiser; /* NULL: none */
  const tn_onnx_sparse_t *sparse;
} tn_ref_t;

typedef struct
    tn_attr_t { /* an attribute of a node, references to a function's parameters followed */
  const char *name;
  const tn_onnx_attribute_t *proto;
  struct tn_scope_t *scope; /* where its graph looks names up */
  bool is_used;
} tn_attr_t;
typedef TN_LIST(tn_attr_t) tn_attrs_list_t;

typedef struct tn_scope_t { /* names that nodes can see */
  struct tn_scope_t *outer; /* NULL: the model's graph, a function's body */
  tn_site_t *site;
  tn_map_t edges; /* tn_ref_t by name */
  tn_map_t hints; /* tn_onnx_value_t by name: types that the file states */
  const tn_onnx_opsets_t *opsets;
  const tn_attrs_list_t
      *parameters;    /* of a function's body: attributes of the node that calls it; NULL: none */
  const char *prefix; /* of node names, "" at the top */
  int depth;
} tn_scope_t;

typedef struct tn_missing_t { /* an operator that is not supported */
  struct tn_missing_t *next;
  const char *type;
  const char *domain;
  const char *node;
  const char *reason;
  int64_t version;
  size_t count; /* of nodes */
} tn_missing_t;

typedef struct tn_import_t {
  tn_arena_t arena;
  tn_weights_t weights;
  tn_onnx_model_t model;
  tn_map_t functions; /* tn_onnx_function_t by domain, name and overload */
  tn_map_t rules;     /* tn_choice_t by domain and operator */
  struct tn_missing_t
      *missing;             /* operators that are not supported, in the order in which they came */
  tenon_tensor_t **tensors; /* made on the way, released at the end */
  size_t tensor_count;
  size_t tensor_capacity;
  int64_t nodes;
} tn_import_t;

/* An attribute of nodes of custom domains whose operator takes several lists: how many inputs each
 * of its arguments has. */
#define TN_OPERAND_COUNTS "operand_counts"

enum {
  TN_IMPORT_DEPTH = 32,
  TN_IMPORT_NODES = 1 << 20,
  TN_OPSET_NEWEST = 27,
};

/* import.c: scopes and graphs */

tn_ref_t *tn_ref_new(tn_import_t *import, tn_site_t *site,
                     const char *name); /* NULL: out of memory, and said so */
/* The edge in this graph: makes a constant or an input of the body out of one of an outer graph. */
tenon_status_t tn_ref_here(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                           tn_ref_t **out_edge);
/* A constant of this graph; takes the tensor over. */
tenon_status_t tn_ref_constant(tn_import_t *import, tn_site_t *site, const char *name,
                               tenon_tensor_t *tensor, tn_ref_t **out_edge);
/* The tensor of a constant, NULL if the edge is none. */
tenon_status_t tn_ref_value(tn_import_t *import, tn_ref_t *edge, const tenon_tensor_t **out_tensor);
/* Looks a name up here and outside; *out_edge NULL: not defined. */
tenon_status_t tn_scope_find(tn_import_t *import, tn_scope_t *scope, const char *name,
                             tn_ref_t **out_edge);
/* Defines a name; an error when the scope has it already. */
tenon_status_t tn_scope_define(tn_scope_t *scope, const char *name, tn_ref_t *edge);
tenon_status_t tn_scope_hints(tn_scope_t *scope, const tn_onnx_value_t *values, size_t count);
void tn_scope_clear(tn_scope_t *scope);
/* dtype, rank and extents that the file states for a value, where they are not known; refuses what
 * is no tensor. */
tenon_status_t tn_type_read(tn_import_t *import, const tn_onnx_value_t *value, tn_ref_t *edge);

typedef struct tn_body_t { /* a graph attribute, being built */
  tn_site_t site;
  const tn_onnx_graph_t *graph;
  const tenon_dtype_t *dtypes; /* of its declared inputs, where the file does not say; NULL: none */
  tn_ref_t **outputs;
} tn_body_t;
/* Builds a body: its declared inputs, then the edges of `outer`, the site it is in, that are
 * shared, then those that it asks for.  Its names are looked up in `scope` after its own.  The
 * caller zeroes *body; tn_body_clear in any case. */
tenon_status_t tn_body_build(tn_import_t *import, tn_scope_t *scope, tn_site_t *outer,
                             const tn_onnx_graph_t *graph, tn_ref_t *const *shared,
                             size_t shared_count, tn_body_t *body);
/* Gives the body one more captured input, unless it has that already. */
tenon_status_t tn_body_share(tn_import_t *import, tn_body_t *body, tn_ref_t *edge);
tenon_status_t tn_body_finish(tn_body_t *body, tenon_graph_t **out_graph);
void tn_body_clear(tn_body_t *body);
/* The nodes of a graph as part of the one that is being built, with these values as its inputs. */
tenon_status_t tn_graph_inline(tn_import_t *import, tn_scope_t *scope, tn_site_t *site,
                               const char *prefix, const tn_onnx_graph_t *graph,
                               tn_ref_t *const *inputs, size_t input_count, tn_ref_t **out_outputs);
/* Fills in import->rules: rule.c.  Nodes in order; on return the scope has what they define. */
tenon_status_t tn_rules_index(tn_import_t *import);
tenon_status_t tn_import_nodes(tn_import_t *import, tn_scope_t *scope, const tn_onnx_node_t *nodes,
                               size_t count);

#endif
