/* The messages of onnx.proto that matter for running a model, as structures in an arena. model.c
 * creates them from the bytes of a file. Names are copied so that they end in 0; contents of
 * tensors and strings point into the file. Every structure begins with `present`, whose bit n is
 * set if field n was in the file. */
#ifndef TN_ONNX_MODEL_H
#define TN_ONNX_MODEL_H

#include "base/arena.h"
#include "import/onnx/wire.h"

#define TN_LIST(type)                                                                              \
  struct {                                                                                         \
    type *items;                                                                                   \
    size_t count;                                                                                  \
  }
#define TN_HAS(message, number) (((message)->present >> (number)) & 1)

typedef struct tn_onnx_entry_t { /* StringStringEntryProto */
  uint64_t present;
  const char *key;
  const char *value;
} tn_onnx_entry_t;

typedef struct tn_onnx_tensor_t { /* TensorProto */
  uint64_t present;
  const char *name;
  TN_LIST(int64_t) dims;
  int64_t data_type;
  int64_t location;
  tn_bytes_t raw;
  TN_LIST(tn_onnx_entry_t) external;
  tn_bytes_t body; /* the whole message: element fields are read from it when they are needed */
} tn_onnx_tensor_t;
enum {
  TN_TENSOR_RAW = 9,
  TN_TENSOR_SEGMENT = 3,
};

typedef struct tn_onnx_sparse_t { /* SparseTensorProto */
  uint64_t present;
  tn_onnx_tensor_t *values;
  tn_onnx_tensor_t *indices;
  TN_LIST(int64_t) dims;
} tn_onnx_sparse_t;

/* SequenceProto and OptionalProto, whose fields have the same numbers and meanings as far as they
 * are read: an optional value has at most one item. */
typedef struct tn_onnx_list_t {
  uint64_t present;
  int64_t elem_type; /* TN_ONNX_ITEMS_... */
  const char *name;
  TN_LIST(tn_onnx_tensor_t) tensors;
  TN_LIST(struct tn_onnx_list_t) lists;
} tn_onnx_list_t;
enum {
  TN_ONNX_LIST_TYPE = 2,      /* the field */
  TN_ONNX_LIST_FIELDS = 0x2E, /* the set of all fields: 1, 2, 3 and 5 */
  TN_ONNX_ITEMS_NONE = 0,
  TN_ONNX_ITEMS_TENSORS = 1,
  TN_ONNX_ITEMS_SEQUENCES = 3,
  TN_ONNX_ITEMS_OPTIONALS = 5,
};

typedef struct tn_onnx_dim_t { /* TensorShapeProto.Dimension */
  uint64_t present;
  int64_t value;
  const char *param;
} tn_onnx_dim_t;
enum {
  TN_DIM_VALUE = 1,
  TN_DIM_PARAM = 2,
};

typedef struct tn_onnx_shape_t { /* TensorShapeProto */
  uint64_t present;
  TN_LIST(tn_onnx_dim_t) dims;
} tn_onnx_shape_t;

typedef struct tn_onnx_tensor_type_t { /* TypeProto.Tensor */
  uint64_t present;
  int64_t elem_type;
  tn_onnx_shape_t *shape; /* NULL: not even the rank is known */
} tn_onnx_tensor_type_t;

typedef struct tn_onnx_item_type_t { /* TypeProto.Sequence and TypeProto.Optional */
  uint64_t present;
  struct tn_onnx_type_t *elem_type;
} tn_onnx_item_type_t;

/* TypeProto; `present` tells the types that are not read */
typedef struct tn_onnx_type_t {
  uint64_t present;
  tn_onnx_tensor_type_t *tensor;
  tn_onnx_item_type_t *sequence;
  tn_onnx_item_type_t *optional;
} tn_onnx_type_t;
enum {
  TN_ONNX_TYPE_TENSOR = 1,
  TN_ONNX_TYPE_SEQUENCE = 4,
  TN_ONNX_TYPE_MAP = 5,
  TN_ONNX_TYPE_SPARSE = 8,
  TN_ONNX_TYPE_OPTIONAL = 9,
};

typedef struct tn_onnx_value_t { /* ValueInfoProto */
  uint64_t present;
  const char *name;
  tn_onnx_type_t *type;
} tn_onnx_value_t;

typedef struct tn_onnx_attribute_t { /* AttributeProto */
  uint64_t present;
  const char *name;
  const char *ref_name;
  int64_t type; /* TN_ATTRIBUTE_... */
  double f;
  int64_t i;
  tn_bytes_t s;
  tn_onnx_tensor_t *t;
  struct tn_onnx_graph_t *g;
  tn_onnx_sparse_t *sparse;
  TN_LIST(double) floats;
  TN_LIST(int64_t) ints;
  TN_LIST(tn_bytes_t) strings;
  TN_LIST(tn_onnx_tensor_t) tensors;
} tn_onnx_attribute_t;
enum {
  TN_ATTRIBUTE_FLOAT = 1,
  TN_ATTRIBUTE_INT = 2,
  TN_ATTRIBUTE_STRING = 3,
  TN_ATTRIBUTE_TENSOR = 4,
  TN_ATTRIBUTE_GRAPH = 5,
  TN_ATTRIBUTE_FLOATS = 6,
  TN_ATTRIBUTE_INTS = 7,
  TN_ATTRIBUTE_STRINGS = 8,
  TN_ATTRIBUTE_TENSORS = 9,
  TN_ATTRIBUTE_GRAPHS = 10,
  TN_ATTRIBUTE_SPARSE = 11,
  TN_ATTRIBUTE_SPARSES = 12,
  TN_ATTRIBUTE_TYPE = 13,
  TN_ATTRIBUTE_TYPES = 14,
};

typedef struct tn_onnx_node_t { /* NodeProto */
  uint64_t present;
  TN_LIST(const char *) inputs;
  TN_LIST(const char *) outputs;
  const char *name;
  const char *type;
  const char *domain;
  const char *overload;
  TN_LIST(tn_onnx_attribute_t) attributes;
} tn_onnx_node_t;
/* The name for messages. A node without a name is named by its first output, or by its type. */
static inline const char *tn_onnx_node_name(const tn_onnx_node_t *node) {
  if (*node->name) return node->name;
  return node->outputs.count ? node->outputs.items[0] : node->type;
}

typedef struct tn_onnx_graph_t { /* GraphProto */
  uint64_t present;
  const char *name;
  TN_LIST(tn_onnx_node_t) nodes;
  TN_LIST(tn_onnx_tensor_t) initialisers;
  TN_LIST(tn_onnx_sparse_t) sparse_initialisers;
  TN_LIST(tn_onnx_value_t) inputs;
  TN_LIST(tn_onnx_value_t) outputs;
  TN_LIST(tn_onnx_value_t) values;
} tn_onnx_graph_t;

typedef struct tn_onnx_opset_t { /* OperatorSetIdProto */
  uint64_t present;
  const char *domain;
  int64_t version;
} tn_onnx_opset_t;
typedef TN_LIST(tn_onnx_opset_t) tn_onnx_opsets_t;

typedef struct tn_onnx_function_t { /* FunctionProto */
  uint64_t present;
  const char *name;
  const char *domain;
  const char *overload;
  TN_LIST(const char *) inputs;
  TN_LIST(const char *) outputs;
  TN_LIST(const char *) attribute_names;
  TN_LIST(tn_onnx_attribute_t) attributes; /* attributes with default values */
  TN_LIST(tn_onnx_node_t) nodes;
  tn_onnx_opsets_t opsets;
  TN_LIST(tn_onnx_value_t) values;
} tn_onnx_function_t;

typedef struct tn_onnx_model_t { /* ModelProto */
  uint64_t present;
  int64_t ir_version;
  tn_onnx_opsets_t opsets;
  tn_onnx_graph_t *graph;
  TN_LIST(tn_onnx_function_t) functions;
} tn_onnx_model_t;

/* Reads a whole file. Absent names are "", absent messages NULL. */
tenon_status_t tn_onnx_read_model(tn_bytes_t file, tn_arena_t *arena, tn_onnx_model_t *out_model);
tenon_status_t tn_onnx_read_list(tn_bytes_t file, tn_arena_t *arena, tn_onnx_list_t *out_list);
tenon_status_t tn_onnx_read_tensor(tn_bytes_t file, tn_arena_t *arena,
                                   tn_onnx_tensor_t *out_tensor);

#endif
