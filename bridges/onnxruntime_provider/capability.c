/* What the provider takes of a graph: nodes that Tenon can import, in groups that it compiles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "provider.h"

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Keeps the first line of the last failure as the reason to leave the node. */
static tenon_status_t leave_node(nodes_t *nodes, node_t *node, const char *why) {
  enum { REASON_MOST = 240 };
  size_t size = strcspn(why, "\n");
  if (size > REASON_MOST) size = REASON_MOST;
  node->why = tn_arena_text(&nodes->arena, why, size);
  return node->why ? TENON_OK : tn_no_memory("a reason", size);
}

/* Memory of a device cannot hold strings: ONNX Runtime would make objects of C++ there. */
static bool are_strings(const values_t *values) {
  const OrtTypeInfo *type = NULL;
  const OrtTensorTypeAndShapeInfo *info = NULL;
  int element = 0;
  for (size_t i = 0; i < values->count; i++) {
    if (!values->items[i] || API(GetValueInfoTypeInfo, values->items[i], &type) || !type) continue;
    if (API(CastTypeInfoToTensorInfo, type, &info) || !info) continue;
    if (API(GetTensorElementType, info, &element) == TENON_OK && element == ORT_ELEMENT_STRING)
      return true;
  }
  return false;
}

static bool are_tensors(const values_t *values) {
  const OrtTypeInfo *type = NULL;
  int kind = 0;
  for (size_t i = 0; i < values->count; i++) {
    if (!values->items[i]) continue;
    if (API(GetValueInfoTypeInfo, values->items[i], &type) || !type) return false;
    if (API(GetOnnxTypeFromTypeInfo, type, &kind) || kind != ORT_KIND_TENSOR) return false;
  }
  return true;
}

/* Writes a model of nodes, with these outputs, or with those that others use. */
static tenon_status_t write_part(nodes_t *nodes, node_t *const *items, size_t count,
                                 const values_t *outputs, message_t *out_model) {
  part_t part = {.nodes = nodes, .items = items, .count = count};
  tenon_status_t status = groups_bound(nodes, items, count, &part.inputs, &part.outputs);
  if (outputs) part.outputs = *outputs;
  if (status == TENON_OK && !part.outputs.count)
    status = tn_fail(TENON_UNIMPLEMENTED, "nothing uses its results");
  return status == TENON_OK ? model_write(&part, out_model) : status;
}

/* Imports the node alone. With `compiles`, it is compiled as well. */
static tenon_status_t try_node(const provider_t *provider, nodes_t *nodes, node_t *node,
                               bool compiles) {
  message_t model = {0};
  tenon_graph_t *graph = NULL;
  program_t *program = NULL;
  tenon_status_t status = write_part(nodes, &node, 1, &node->outputs, &model);
  if (status == TENON_OK && compiles) {
    status = program_create(provider, &model, &program);
    program_release(program);
    return status;
  }
  if (status == TENON_OK) status = tenon_graph_read(model.data, model.size, NULL, &graph);
  tenon_graph_release(graph);
  message_free(&model);
  return status;
}

static tenon_status_t judge_node(const provider_t *provider, nodes_t *nodes, node_t *node) {
  if (context_is_node(node)) return TENON_OK;
  if (options_leave(&provider->options, node))
    return leave_node(nodes, node, "the option leave names it");
  if (!are_tensors(&node->inputs) || !are_tensors(&node->implicit) || !are_tensors(&node->outputs))
    return leave_node(nodes, node, "one of its values is no tensor");
  if (provider->factory->memory &&
      (are_strings(&node->inputs) || are_strings(&node->implicit) || are_strings(&node->outputs)))
    return leave_node(nodes, node, "the memory of the device holds no strings");
  if (try_node(provider, nodes, node, false) == TENON_OK) return TENON_OK;
  return leave_node(nodes, node, tenon_error());
}

/* Does ONNX Runtime run the body of the node as a graph? It replaces other nodes with bodies by
 * their definitions, and offers these later. */
static bool is_control(const node_t *node) {
  const bool is_known = strcmp(node->type, "If") == 0 || strcmp(node->type, "Loop") == 0 ||
                        strcmp(node->type, "Scan") == 0;
  return is_known && !*node->domain;
}

/* Is the graph in a node that can be taken as a whole, or that will be replaced? */
static bool has_parent_taken(const provider_t *provider, const OrtGraph *graph) {
  const OrtNode *parent = NULL;
  bool is_taken = false;
  if (API(Graph_GetParentNode, graph, &parent) != TENON_OK || !parent) return false;
  nodes_t nodes;
  if (nodes_read_around(parent, graph, &nodes) == TENON_OK)
    is_taken = !is_control(nodes.items) ||
               (judge_node(provider, &nodes, nodes.items) == TENON_OK && !nodes.items->why);
  nodes_clear(&nodes);
  return is_taken;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static size_t collect_group(const nodes_t *nodes, int32_t level, node_t **items) {
  size_t count = 0;
  for (size_t i = 0; i < nodes->count; i++) {
    node_t *node = &nodes->items[i];
    if (!node->why && !context_is_node(node) && node->level == level) items[count++] = node;
  }
  return count;
}

/* Leaves the nodes that cannot be compiled alone; all if each of them can. */
static tenon_status_t leave_group(const provider_t *provider, nodes_t *nodes, node_t **items,
                                  size_t count) {
  char why[512];
  size_t left = 0;
  tenon_status_t status = TENON_OK;
  snprintf(why, sizeof why, "its group of %zu: %s", count, tenon_error());
  for (size_t i = 0; i < count && count > 1 && status == TENON_OK; i++) {
    if (try_node(provider, nodes, items[i], true) == TENON_OK) continue;
    status = leave_node(nodes, items[i], tenon_error());
    left++;
  }
  for (size_t i = 0; i < count && !left && status == TENON_OK; i++)
    status = leave_node(nodes, items[i], why);
  return status;
}

static tenon_status_t take_ep_group(provider_t *provider, nodes_t *nodes, node_t **items,
                                    size_t count, bool *out_is_taken) {
  message_t model = {0};
  program_t *program = NULL;
  *out_is_taken = false;
  tenon_status_t status = TENON_OK;
  if (count < (size_t)provider->options.smallest)
    status =
        tn_fail(TENON_UNIMPLEMENTED, "the option smallest_group is %d", provider->options.smallest);
  if (status == TENON_OK) status = write_part(nodes, items, count, NULL, &model);
  if (status == TENON_OK)
    status = program_create(provider, &model, &program);
  else
    message_free(&model);
  if (status != TENON_OK) {
    program_release(program);
    return leave_group(provider, nodes, items, count);
  }
  program->next = provider->ready;
  provider->ready = program;
  *out_is_taken = true;
  return TENON_OK;
}

/* Compiles all groups. When nodes of one are left, the groups are formed anew. */
static tenon_status_t take_groups(provider_t *provider, nodes_t *nodes, node_t **items,
                                  int32_t *out_count) {
  bool is_changed = true;
  tenon_status_t status = TENON_OK;
  while (is_changed && status == TENON_OK) {
    is_changed = false;
    provider_forget(provider);
    *out_count = groups_find(nodes);
    for (int32_t g = 0; g < *out_count && status == TENON_OK && !is_changed; g++) {
      const size_t count = collect_group(nodes, g, items);
      bool is_taken = true;
      if (count) status = take_ep_group(provider, nodes, items, count, &is_taken);
      is_changed = !is_taken;
    }
  }
  return status;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void add_reasons(tn_text_t *line, nodes_t *nodes) {
  for (size_t i = 0; i < nodes->count; i++) {
    node_t *node = &nodes->items[i];
    size_t count = 0;
    if (!node->why || node->is_member) continue;
    for (size_t k = i; k < nodes->count; k++) {
      node_t *other = &nodes->items[k];
      if (!other->why || strcmp(other->why, node->why) || strcmp(other->type, node->type)) continue;
      other->is_member = true; /* told */
      count++;
    }
    tn_text_add(line, "; %zu %s%s%s: %s", count, node->domain, *node->domain ? "::" : "",
                node->type, node->why);
  }
}

static void tell(const provider_t *provider, nodes_t *nodes, size_t taken, size_t groups) {
  const char *name = "";
  tn_text_t line = {0};
  (void)API(Graph_GetName, nodes->graph, &name);
  tn_text_add(&line, "graph '%s' of %zu nodes: took %zu in %zu groups; left %zu", name,
              nodes->count, taken, groups, nodes->count - taken);
  add_reasons(&line, nodes);
  report_add(&provider->options, provider->logger, tn_text_get(&line));
  tn_text_clear(&line);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static tenon_status_t add_group(OrtEpGraphSupportInfo *support, node_t *const *items, size_t count,
                                const OrtNode **room) {
  const OrtNodeFusionOptions options = {.version = EP_VERSION, .drop_constant_initializers = true};
  for (size_t i = 0; i < count; i++)
    room[i] = items[i]->node;
  return api_check(api.ep->EpGraphSupportInfo_AddNodesToFuse(support, room, count, &options));
}

static tenon_status_t answer(const provider_t *provider, nodes_t *nodes, node_t **items,
                             int32_t group_count, OrtEpGraphSupportInfo *support) {
  size_t taken = 0;
  size_t groups = 0;
  tenon_status_t status = TENON_OK;
  const OrtNode **room = tn_arena_array(&nodes->arena, nodes->count + 1, sizeof *room);
  if (!room) return tn_no_memory("a group", 0);
  for (int32_t g = 0; g < group_count && status == TENON_OK; g++) {
    const size_t count = collect_group(nodes, g, items);
    if (count) status = add_group(support, items, count, room);
    taken += count;
    groups += count > 0;
  }
  for (size_t i = 0; i < nodes->count && status == TENON_OK; i++) {
    node_t *node = &nodes->items[i];
    if (!context_is_node(node)) continue;
    status = add_group(support, &node, 1, room);
    taken++;
    groups++;
  }
  if (status == TENON_OK) tell(provider, nodes, taken, groups);
  return status;
}

OrtStatus *provider_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  provider_t *provider = (provider_t *)ep;
  nodes_t nodes;
  int32_t group_count = 0;
  tenon_status_t status = nodes_read(graph, &nodes);
  node_t **items = tn_arena_array(&nodes.arena, nodes.count + 1, sizeof *items);
  if (status == TENON_OK && !items) status = tn_no_memory("a graph", 0);
  const bool is_inside = status == TENON_OK && has_parent_taken(provider, graph);
  if (!is_inside) {
    for (size_t i = 0; i < nodes.count && status == TENON_OK; i++)
      status = judge_node(provider, &nodes, &nodes.items[i]);
    if (status == TENON_OK) status = take_groups(provider, &nodes, items, &group_count);
    if (status == TENON_OK) status = answer(provider, &nodes, items, group_count, support);
  }
  nodes_clear(&nodes);
  return api_status(status, "the graph cannot be read");
}
