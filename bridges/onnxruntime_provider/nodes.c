/* Reads nodes of ONNX Runtime; see nodes.h. */
#include "nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

typedef OrtStatus *(*count_fn)(const OrtNode *node, size_t *out);
typedef OrtStatus *(*values_fn)(const OrtNode *node, const OrtValueInfo **out, size_t count);

static tenon_status_t read_values(nodes_t *nodes, const OrtNode *node, count_fn count,
                                  values_fn values, values_t *out) {
  tenon_status_t status = api_check(count(node, &out->count));
  if (status != TENON_OK) return status;
  out->items = tn_arena_array(&nodes->arena, out->count + 1, sizeof *out->items);
  if (!out->items) return tn_no_memory("a node", 0);
  return out->count ? api_check(values(node, out->items, out->count)) : TENON_OK;
}

static tenon_status_t read_graph_node(nodes_t *nodes, node_t *out) {
  const OrtNode *node = out->node;
  tenon_status_t status = API(Node_GetId, node, &out->id);
  if (status == TENON_OK) status = API(Node_GetName, node, &out->name);
  if (status == TENON_OK) status = API(Node_GetOperatorType, node, &out->type);
  if (status == TENON_OK) status = API(Node_GetDomain, node, &out->domain);
  if (status == TENON_OK)
    status = read_values(nodes, node, api.Node_GetNumInputs, api.Node_GetInputs, &out->inputs);
  if (status == TENON_OK)
    status = read_values(nodes, node, api.Node_GetNumImplicitInputs, api.Node_GetImplicitInputs,
                         &out->implicit);
  if (status == TENON_OK)
    status = read_values(nodes, node, api.Node_GetNumOutputs, api.Node_GetOutputs, &out->outputs);
  return status;
}

static tenon_status_t index_nodes(nodes_t *nodes) {
  for (size_t i = 0; i < nodes->count; i++)
    if (nodes->items[i].id >= nodes->place_count) nodes->place_count = nodes->items[i].id + 1;
  nodes->places = tn_arena_array(&nodes->arena, nodes->place_count, sizeof *nodes->places);
  if (!nodes->places) return tn_no_memory("the nodes of a graph", 0);
  memset(nodes->places, -1, nodes->place_count * sizeof *nodes->places);
  for (size_t i = 0; i < nodes->count; i++)
    nodes->places[nodes->items[i].id] = (int32_t)i;
  return TENON_OK;
}

static tenon_status_t read_all(nodes_t *nodes, const OrtNode *const *given) {
  nodes->items = tn_arena_array(&nodes->arena, nodes->count + 1, sizeof *nodes->items);
  if (!nodes->items) return tn_no_memory("the nodes of a graph", 0);
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < nodes->count && status == TENON_OK; i++) {
    nodes->items[i].node = given[i];
    status = read_graph_node(nodes, &nodes->items[i]);
  }
  return status == TENON_OK ? index_nodes(nodes) : status;
}

tenon_status_t nodes_read(const OrtGraph *graph, nodes_t *out_nodes) {
  *out_nodes = (nodes_t){.graph = graph};
  tenon_status_t status = API(Graph_GetNumNodes, graph, &out_nodes->count);
  if (status != TENON_OK || !out_nodes->count) return status;
  const OrtNode **given = calloc(out_nodes->count, sizeof *given);
  if (!given) return tn_no_memory("the nodes of a graph", 0);
  status = API(Graph_GetNodes, graph, given, out_nodes->count);
  if (status == TENON_OK) status = read_all(out_nodes, given);
  free(given);
  return status;
}

tenon_status_t nodes_read_one(const OrtNode *node, nodes_t *out_nodes) {
  *out_nodes = (nodes_t){.count = 1};
  const tenon_status_t status = API(Node_GetGraph, node, &out_nodes->graph);
  return status == TENON_OK ? read_all(out_nodes, &node) : status;
}

tenon_status_t nodes_read_around(const OrtNode *node, const OrtGraph *body, nodes_t *out_nodes) {
  *out_nodes = (nodes_t){.graph = body, .is_detached = true, .count = 1};
  return read_all(out_nodes, &node);
}

void nodes_clear(nodes_t *nodes) { tn_arena_clear(&nodes->arena); }

node_t *nodes_find(const nodes_t *nodes, const OrtNode *node) {
  size_t id = 0;
  if (!node || API(Node_GetId, node, &id) != TENON_OK || id >= nodes->place_count) return NULL;
  const int32_t place = nodes->places[id];
  return place >= 0 && nodes->items[place].node == node ? &nodes->items[place] : NULL;
}

tenon_status_t value_is_constant(const OrtValueInfo *value, bool *out) {
  *out = false;
  return value ? API(ValueInfo_IsConstantInitializer, value, out) : TENON_OK;
}
