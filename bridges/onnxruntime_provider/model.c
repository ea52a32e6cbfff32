/* Writes models; see model.h. The numbers of fields are those of onnx.proto. */
#include "model.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model_parts.h"

/* ---- types ----------------------------------------------------------------------------------- */

static tenon_status_t write_dims(message_t *m, const OrtTensorTypeAndShapeInfo *info) {
  enum { DIM = 1, VALUE = 1, PARAM = 2 };
  int64_t extents[MODEL_RANK_MOST];
  const char *names[MODEL_RANK_MOST];
  size_t rank = 0;
  tenon_status_t status = API(GetDimensionsCount, info, &rank);
  if (status == TENON_OK && rank > MODEL_RANK_MOST)
    status = tn_fail(TENON_UNIMPLEMENTED, "a value has %zu dimensions", rank);
  if (status == TENON_OK && rank) status = API(GetDimensions, info, extents, rank);
  if (status == TENON_OK && rank) status = API(GetSymbolicDimensions, info, names, rank);
  for (size_t d = 0; status == TENON_OK && d < rank; d++) {
    const size_t dim = message_open(m, DIM);
    if (extents[d] >= 0)
      message_number(m, VALUE, (uint64_t)extents[d]);
    else if (names[d] && *names[d])
      message_text(m, PARAM, names[d]);
    message_close(m, dim);
  }
  return status;
}

static tenon_status_t write_type(message_t *m, uint32_t field, const OrtTypeInfo *type) {
  enum { TENSOR = 1, ELEMENT = 1, SHAPE = 2 };
  const OrtTensorTypeAndShapeInfo *info = NULL;
  int element = 0;
  tenon_status_t status = API(CastTypeInfoToTensorInfo, type, &info);
  if (status == TENON_OK && info) status = API(GetTensorElementType, info, &element);
  if (status != TENON_OK || !info || !element) return status;
  const size_t whole = message_open(m, field);
  const size_t tensor = message_open(m, TENSOR);
  message_number(m, ELEMENT, (uint64_t)model_element(element));
  if (api.TensorTypeAndShape_HasShape(info)) {
    const size_t shape = message_open(m, SHAPE);
    status = write_dims(m, info);
    message_close(m, shape);
  }
  message_close(m, tensor);
  message_close(m, whole);
  return status;
}

/* A value with what is known of its type. */
static tenon_status_t write_value(message_t *m, uint32_t field, const OrtValueInfo *value) {
  enum { NAME = 1, TYPE = 2 };
  const char *name = NULL;
  const OrtTypeInfo *type = NULL;
  int kind = 0;
  tenon_status_t status = API(GetValueInfoName, value, &name);
  if (status == TENON_OK) status = API(GetValueInfoTypeInfo, value, &type);
  if (status == TENON_OK && type) status = API(GetOnnxTypeFromTypeInfo, type, &kind);
  if (status != TENON_OK) return status;
  const size_t whole = message_open(m, field);
  message_text(m, NAME, name);
  if (kind == ORT_KIND_TENSOR) status = write_type(m, TYPE, type);
  message_close(m, whole);
  return status;
}

/* ---- constants ------------------------------------------------------------------------------- */

typedef struct known_t { /* the constants that a graph has already */
  void *tree;
  bool is_body;     /* the graph around it has the constants from outside */
  bool is_detached; /* constants are inputs */
} known_t;

static int compare_known_names(const void *a, const void *b) { return strcmp(a, b); }

static tenon_status_t write_constant(message_t *m, known_t *known, const OrtValueInfo *value) {
  enum { INITIALISER = 5 };
  const char *name = NULL;
  const OrtValue *constant = NULL;
  bool is_constant = false;
  bool is_outside = false;
  if (known->is_detached) return TENON_OK;
  tenon_status_t status = value_is_constant(value, &is_constant);
  if (status != TENON_OK || !is_constant) return status;
  if (known->is_body) status = API(ValueInfo_IsFromOuterScope, value, &is_outside);
  if (status != TENON_OK || is_outside) return status;
  status = API(GetValueInfoName, value, &name);
  if (status != TENON_OK || tfind(name, &known->tree, compare_known_names)) return status;
  if (!tsearch(name, &known->tree, compare_known_names)) return tn_no_memory("a graph", 0);
  status = API(ValueInfo_GetInitializerValue, value, &constant);
  if (status == TENON_OK && !constant)
    status = tn_fail(TENON_UNIMPLEMENTED, "ONNX Runtime does not give the constant '%s'", name);
  return status == TENON_OK ? model_write_tensor(m, INITIALISER, name, constant) : status;
}

static tenon_status_t write_constants(message_t *m, known_t *known, const values_t *values) {
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < values->count && status == TENON_OK; i++)
    status = write_constant(m, known, values->items[i]);
  return status;
}

static void forget_name(void *name) { (void)name; }

/* ---- nodes and graphs ------------------------------------------------------------------------ */

static tenon_status_t write_names(message_t *m, uint32_t field, const values_t *values) {
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < values->count && status == TENON_OK; i++) {
    const char *name = "";
    if (values->items[i]) status = API(GetValueInfoName, values->items[i], &name);
    if (status == TENON_OK) message_text(m, field, name);
  }
  return status;
}

static tenon_status_t write_values(message_t *m, uint32_t field, const values_t *values) {
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < values->count && status == TENON_OK; i++)
    if (values->items[i]) status = write_value(m, field, values->items[i]);
  return status;
}

static tenon_status_t write_subgraphs(message_t *m, const node_t *node);

static tenon_status_t write_node(message_t *m, const node_t *node) {
  enum { NODE = 1, INPUT = 1, OUTPUT = 2, NAME = 3, TYPE = 4, DOMAIN = 7 };
  const size_t whole = message_open(m, NODE);
  tenon_status_t status = write_names(m, INPUT, &node->inputs);
  if (status == TENON_OK) status = write_names(m, OUTPUT, &node->outputs);
  message_text(m, NAME, node->name);
  message_text(m, TYPE, node->type);
  message_text(m, DOMAIN, node->domain);
  if (status == TENON_OK) status = model_write_attributes(m, node->node);
  if (status == TENON_OK) status = write_subgraphs(m, node);
  message_close(m, whole);
  return status;
}

/* What a GraphProto has: nodes, constants, inputs, outputs, and the types of values inside. */
static tenon_status_t write_graph_fields(message_t *m, const part_t *part, const char *name,
                                         known_t *known) {
  enum { NAME = 2, INPUT = 11, OUTPUT = 12, VALUE = 13 };
  tenon_status_t status = TENON_OK;
  message_text(m, NAME, name);
  for (size_t i = 0; i < part->count && status == TENON_OK; i++)
    status = write_node(m, part->items[i]);
  if (status == TENON_OK) status = write_values(m, INPUT, &part->inputs);
  if (status == TENON_OK) status = write_values(m, OUTPUT, &part->outputs);
  for (size_t i = 0; i < part->count && status == TENON_OK; i++) {
    const node_t *node = part->items[i];
    status = write_values(m, VALUE, &node->outputs);
    if (status == TENON_OK) status = write_constants(m, known, &node->inputs);
    if (status == TENON_OK) status = write_constants(m, known, &node->implicit);
  }
  return status;
}

typedef OrtStatus *(*graph_count_fn)(const OrtGraph *graph, size_t *out);
typedef OrtStatus *(*graph_values_fn)(const OrtGraph *graph, const OrtValueInfo **out,
                                      size_t count);

static tenon_status_t read_graph_values(nodes_t *nodes, graph_count_fn count,
                                        graph_values_fn values, values_t *out) {
  tenon_status_t status = api_check(count(nodes->graph, &out->count));
  if (status != TENON_OK) return status;
  out->items = tn_arena_array(&nodes->arena, out->count + 1, sizeof *out->items);
  if (!out->items) return tn_no_memory("a graph", 0);
  return out->count ? api_check(values(nodes->graph, out->items, out->count)) : TENON_OK;
}

/* A subgraph, with all that is in it. Constants around it are written by the graph around it. */
static tenon_status_t write_body(message_t *m, nodes_t *nodes) {
  values_t constants = {0};
  known_t known = {.is_body = true};
  part_t part = {.nodes = nodes, .count = nodes->count};
  node_t **items = tn_arena_array(&nodes->arena, nodes->count + 1, sizeof *items);
  if (!items) return tn_no_memory("a graph", 0);
  for (size_t i = 0; i < nodes->count; i++)
    items[i] = &nodes->items[i];
  part.items = items;
  tenon_status_t status =
      read_graph_values(nodes, api.Graph_GetNumInputs, api.Graph_GetInputs, &part.inputs);
  if (status == TENON_OK)
    status = read_graph_values(nodes, api.Graph_GetNumOutputs, api.Graph_GetOutputs, &part.outputs);
  if (status == TENON_OK)
    status = read_graph_values(nodes, api.Graph_GetNumInitializers, api.Graph_GetInitializers,
                               &constants);
  if (status == TENON_OK) status = write_constants(m, &known, &constants);
  if (status == TENON_OK) status = write_graph_fields(m, &part, "body", &known);
  tdestroy(known.tree, forget_name);
  return status;
}

static tenon_status_t write_subgraph(message_t *m, const OrtGraph *graph, const char *name) {
  enum { ATTRIBUTE = 5, NAME = 1, GRAPH = 6, TYPE = 20, TYPE_GRAPH = 5 };
  nodes_t nodes;
  tenon_status_t status = nodes_read(graph, &nodes);
  const size_t attribute = message_open(m, ATTRIBUTE);
  message_text(m, NAME, name);
  message_number(m, TYPE, TYPE_GRAPH);
  const size_t body = message_open(m, GRAPH);
  if (status == TENON_OK) status = write_body(m, &nodes);
  message_close(m, body);
  message_close(m, attribute);
  nodes_clear(&nodes);
  return status;
}

static tenon_status_t write_subgraphs(message_t *m, const node_t *node) {
  const OrtGraph *graphs[MODEL_SUBGRAPHS_MOST];
  const char *names[MODEL_SUBGRAPHS_MOST];
  size_t count = 0;
  tenon_status_t status = API(Node_GetNumSubgraphs, node->node, &count);
  if (status != TENON_OK || !count) return status;
  if (count > MODEL_SUBGRAPHS_MOST)
    return tn_fail(TENON_UNIMPLEMENTED, "a node has %zu subgraphs", count);
  status = API(Node_GetSubgraphs, node->node, graphs, count, names);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = write_subgraph(m, graphs[i], names[i]);
  return status;
}

/* ---- the model ------------------------------------------------------------------------------- */

static tenon_status_t write_opsets(message_t *m, const OrtGraph *graph) {
  enum { OPSET = 8, DOMAIN = 1, VERSION = 2 };
  size_t count = 0;
  tenon_status_t status = API(Graph_GetNumOperatorSets, graph, &count);
  if (status != TENON_OK || !count) return status;
  const char **domains = calloc(count, sizeof *domains);
  int64_t *versions = calloc(count, sizeof *versions);
  if (!domains || !versions) status = tn_no_memory("a graph", 0);
  if (status == TENON_OK) status = API(Graph_GetOperatorSets, graph, domains, versions, count);
  for (size_t i = 0; i < count && status == TENON_OK; i++) {
    const size_t opset = message_open(m, OPSET);
    message_text(m, DOMAIN, domains[i]);
    message_number(m, VERSION, (uint64_t)versions[i]);
    message_close(m, opset);
  }
  free(domains);
  free(versions);
  return status;
}

tenon_status_t model_write(const part_t *part, message_t *out_model) {
  enum { IR_VERSION = 1, GRAPH = 7 };
  known_t known = {.is_detached = part->nodes->is_detached};
  int64_t ir_version = 0;
  *out_model = (message_t){.data = NULL};
  tenon_status_t status = API(Graph_GetOnnxIRVersion, part->nodes->graph, &ir_version);
  message_number(out_model, IR_VERSION, (uint64_t)ir_version);
  if (status == TENON_OK) status = write_opsets(out_model, part->nodes->graph);
  const size_t graph = message_open(out_model, GRAPH);
  if (status == TENON_OK) status = write_graph_fields(out_model, part, "tenon", &known);
  message_close(out_model, graph);
  tdestroy(known.tree, forget_name);
  if (status == TENON_OK && out_model->is_failed) status = tn_no_memory("a model", 0);
  return status;
}
