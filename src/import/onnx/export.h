/* The state of a model that is being written. export.c writes graphs and nodes, export_attribute.c
 * their attributes, export_tensor.c tensors and types. Each function writes one message, last field
 * first (writer.h). */
#ifndef TN_ONNX_EXPORT_H
#define TN_ONNX_EXPORT_H

#include "base/arena.h"
#include "base/map.h"
#include "core/schema.h"
#include "graph/graph.h"
#include "import/onnx/writer.h"

/* bytes: alignment in the file of the elements of large tensors */
enum { TN_EXPORT_ALIGNMENT = 64 };

/* A domain of operators, and the newest version of its operators. */
typedef struct tn_domain_t {
  struct tn_domain_t *next;
  const char *name;
  int64_t version;
} tn_domain_t;

typedef struct tn_export_t {
  tn_writer_t writer;
  tn_arena_t arena;
  tn_map_t names; /* names of values in all graphs, which ONNX requires to be unique */
  /* Names of nodes in a model of standard operators: other runtimes require that each is unique. */
  tn_map_t node_names;
  size_t made; /* counter for generated names */
  tn_domain_t *domains;
  int depth; /* nesting of graphs in attributes */
  /* The elements of some tensor are aligned to TN_EXPORT_ALIGNMENT, counted from the end of the
   * file. */
  bool is_aligned;
  /* Core operators become ONNX's own (standard.h), of this operator set at least. */
  bool is_standard;
  bool has_short_floats; /* attributes that are numbers have 32 bits */
  int64_t operator_set;
} tn_export_t;

/* Creates a name that no value of any graph has yet: `name` itself or one derived from it. */
tenon_status_t tn_export_name(tn_export_t *export, const char *name, char **out_name);

/* Notes that the model needs this version of a domain. `name` outlives the export. */
tenon_status_t tn_export_domain(tn_export_t *export, const char *name, int64_t version);

/* Writes an attribute of a node; writes nothing if it is absent. */
tenon_status_t tn_export_attr(tn_export_t *export, const tn_argument_t *attr,
                              const tenon_value_t *value);
/* Writes an attribute of ONNX's own operator. `choice` is the value if it has another name in ONNX,
 * else "". */
tenon_status_t tn_export_standard_attr(tn_export_t *export, const char *name, const char *choice,
                                       const tn_argument_t *attr, const tenon_value_t *value);
/* Writes a graph in an attribute. */
tenon_status_t tn_export_graph(tn_export_t *export, uint32_t field, const char *name,
                               const tenon_graph_t *graph);
/* Writes a graph in an attribute whose last inputs are values of the graph around it, with these
 * names. */
tenon_status_t tn_export_body(tn_export_t *export, uint32_t field, const char *name,
                              const tenon_graph_t *graph, const char *const *captured,
                              size_t captured_count);
/* Writes a TensorProto. name NULL: without a name. */
tenon_status_t tn_export_tensor(tn_export_t *export, uint32_t field, const char *name,
                                const tenon_tensor_t *tensor);
/* Writes the fields of the TypeProto of a list; the message began at `before`. */
void tn_export_list_type(tn_export_t *export, const tenon_graph_t *graph, tenon_edge_t list,
                         size_t before);
/* Writes a ValueInfoProto, the dtype and extents of an edge. axes NULL: the inferred extents. */
tenon_status_t tn_export_value(tn_export_t *export, uint32_t field, const tenon_graph_t *graph,
                               tenon_edge_t index, const char *name, const tenon_axis_t *axes);

/* Writes a graph as it is: see tenon_graph_save. */
tenon_status_t tn_onnx_save(const tenon_graph_t *graph, const char *path);
/* Writes a graph whose types are inferred as a model of ONNX's own operators and of operators of
 * custom domains.
 *
 * Errors: UNIMPLEMENTED: the nodes of core operators that ONNX cannot express, all of them. */
tenon_status_t tn_onnx_save_standard(const tenon_graph_t *graph, const char *path);

#endif
