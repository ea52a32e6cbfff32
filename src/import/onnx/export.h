/* A model that is being written: export.c writes graphs and nodes, export_attribute.c their
 * attributes, export_tensor.c tensors and types.  Each function writes one message, last field
 * first (writer.h). */
#ifndef TN_ONNX_EXPORT_H
#define TN_ONNX_EXPORT_H

#include "base/arena.h"
#include "base/map.h"
#include "core/schema.h"
#include "graph/graph.h"
#include "import/onnx/writer.h"

enum { TN_EXPORT_ALIGNMENT = 64 }; /* bytes: of the elements of large tensors in the file */

typedef struct tn_domain_t { /* of operators, and their newest version */
  struct tn_domain_t *next;
  const char *name;
  int64_t version;
} tn_domain_t;

typedef struct tn_export_t {
  tn_writer_t writer;
  tn_arena_t arena;
  tn_map_t names; /* of values, of all graphs: ONNX wants them to differ */
  size_t made;    /* numbers of names that were made up */
  tn_domain_t *domains;
  int depth; /* of graphs in attributes */
  bool
      is_aligned; /* some tensor's elements are at a multiple of TN_EXPORT_ALIGNMENT from the end */
} tn_export_t;

/* An attribute of the node; nothing, if it is absent. */
tenon_status_t tn_export_attr(tn_export_t *export, const tn_argument_t *attr,
                              const tenon_value_t *value);
/* A graph in an attribute. */
tenon_status_t tn_export_graph(tn_export_t *export, uint32_t field, const char *name,
                               const tenon_graph_t *graph);
/* TensorProto; name NULL: none. */
tenon_status_t tn_export_tensor(tn_export_t *export, uint32_t field, const char *name,
                                const tenon_tensor_t *tensor);
/* ValueInfoProto: an edge's dtype and extents; axes NULL: as they are known. */
tenon_status_t tn_export_value(tn_export_t *export, uint32_t field, const tenon_graph_t *graph,
                               tenon_edge_t index, const char *name, const tenon_axis_t *axes);

#endif
