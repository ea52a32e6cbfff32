/* Converts JSON to a graph. A node that a library left unchanged is restored, including attributes
 * that no string can express. All other nodes are read by their MXNet names: operators of MXNet
 * libraries, and operators that models may have. Nothing in the text is trusted. */
#include "nnvm_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "loaded.h"
#include "models/custom.h"
#include "models/lowering_table.h"
#include "models/node.h"
#include "nnvm_op.h"
#include "nnvm_subgraph.h"

/* comparison with the old graph */

static bool is_null(const symbol_node_t *node) { return strcmp(node->op, "null") == 0; }

/* Returns the JSON node of this name in the old graph; -1: there is none. */
static int32_t find_old(const nnvm_t *old, const char *name) {
  for (int32_t i = 0; i < old->count; i++)
    if (strcmp(old->names[i], name) == 0) return i;
  return -1;
}

/* Returns whether nnvm_write added the attribute. Such attributes are ignored when a graph is
 * read. */
static bool is_added(const char *name) {
  static const char *const names[] = {"__ext_shape__", "__ext_dtype__", "isArg", "argName",
                                      "isAux"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static int32_t count_operands(const tenon_graph_part_t *node, const nnvm_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  int32_t count = 0;
  tenon_op_info(node->op, &info);
  for (int32_t i = 0; i < info.input_count; i++)
    if (!(op->left_out >> i & 1)) count += node->operands[i].count;
  return count;
}

static bool is_same_node(const symbol_node_t *node, const tenon_graph_part_t *old,
                         const nnvm_op_t *op) {
  int count = 0;
  if (strcmp(node->op, op->op) != 0 || node->input_count != count_operands(old, op) || op->subgraph)
    return false;
  for (int32_t i = 0; i < node->attr_count; i++) {
    if (is_added(node->attrs[i].name)) continue;
    int k = 0;
    while (k < op->attr_count && (strcmp(op->names[k], node->attrs[i].name) != 0 ||
                                  strcmp(op->values[k], node->attrs[i].value) != 0))
      k++;
    if (k == op->attr_count) return false;
    count++;
  }
  return count == op->attr_count;
}

/* variables */

static tenon_tensor_t *find_param(const reading_t *r, const char *name) {
  const nnvm_param_t *at = r->params;
  while (at && strcmp(at->name, name) != 0)
    at = at->next;
  return at ? at->tensor : NULL;
}

/* Reads extents such as "[[2,3]]" or "(2, 3)". Returns false if the shape is unknown. */
static bool read_extents(const char *text, tenon_axis_t *axes, int32_t *out_ndim) {
  *out_ndim = 0;
  if (!text || strstr(text, "None")) return false;
  while (*text) {
    char *end;
    const long long extent = strtoll(text, &end, 10);
    if (end == text) {
      if (!strchr("[](), ", *text)) return false;
      text++;
      continue;
    }
    if (*out_ndim == TENON_RANK_MAX) return false;
    axes[(*out_ndim)++] = (tenon_axis_t){extent < 0 ? -1 : extent, NULL};
    text = end;
  }
  return true;
}

static const char *attr_of(const symbol_node_t *node, const char *name, const char *otherwise) {
  const char *value = symbol_attr(node, name);
  return value ? value : symbol_attr(node, otherwise);
}

static tenon_status_t add_new_input(reading_t *r, const symbol_node_t *node, tenon_edge_t *out) {
  tenon_axis_t axes[TENON_RANK_MAX];
  tenon_dtype_t dtype = {0, 0, 0};
  int32_t ndim;
  const char *text = attr_of(node, "__ext_dtype__", "__dtype__");
  if (!read_extents(attr_of(node, "__ext_shape__", "__shape__"), axes, &ndim)) ndim = -1;
  if (text && !mxnet_dtype_from(strtol(text + (*text == '['), NULL, 10), &dtype))
    dtype = (tenon_dtype_t){0, 0, 0};
  return tenon_builder_input(r->model.builder, node->name, dtype, ndim, axes, out);
}

static tenon_status_t add_variable(reading_t *r, int32_t index) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  const int32_t was = find_old(r->old, node->name);
  tenon_graph_edge_t edge = {.size = sizeof edge, .node = -1, .input = -1};
  tenon_edge_t *out = tn_arena_array(&r->model.arena, 1, sizeof *out);
  tenon_tensor_t *tensor = find_param(r, node->name);
  if (!out) return tn_no_memory("a graph", 0);
  r->model.values[index] = (values_t){out, 1, false};
  if (node->input_count) return tn_fail(TENON_INVALID, "variable '%.100s' has inputs", node->name);
  if (was >= 0 && r->old->nodes[was] < 0)
    TENON_TRY(tenon_graph_edge(r->old->graph, r->old->values[was], &edge, NULL));
  if (edge.input >= 0) {
    *out = r->edges[r->old->values[was]];
    return TENON_OK;
  }
  if (!tensor && edge.constant) {
    TENON_TRY(reading_constant(r, r->old->values[was]));
    *out = r->edges[r->old->values[was]];
    return TENON_OK;
  }
  return tensor ? tenon_builder_constant(r->model.builder, node->name, tensor, out)
                : add_new_input(r, node, out);
}

/* Adds the inputs of the old graph in their order. An input that the old graph used and that the
 * new graph does not use is left out. An input that the old graph did not use stays. */
static tenon_status_t add_old_inputs(reading_t *r, const bool *needed) {
  const int32_t count = r->old->graph ? tenon_graph_input_count(r->old->graph) : 0;
  for (int32_t i = 0; i < count; i++) {
    tenon_port_t port = {.size = sizeof port};
    TENON_TRY(tenon_graph_input(r->old->graph, i, &port));
    int32_t at = 0;
    const symbol_t *symbol = &r->model.symbol;
    while (at < symbol->node_count &&
           (!is_null(&symbol->nodes[at]) || strcmp(symbol->nodes[at].name, port.name) != 0))
      at++;
    if (find_old(r->old, port.name) >= 0 && (at == symbol->node_count || !needed[at])) continue;
    TENON_TRY(tenon_builder_input(r->model.builder, port.name, port.dtype, port.ndim, port.axes,
                                  &r->edges[port.edge]));
    if (port.layout)
      TENON_TRY(tenon_builder_sparse(r->model.builder, r->edges[port.edge], port.layout));
  }
  return TENON_OK;
}

/* nodes */

static tenon_status_t add_same(reading_t *r, int32_t index, const tenon_graph_part_t *old,
                               const nnvm_op_t *op) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(old->op, &info);
  tenon_operand_t *operands =
      tn_arena_array(&r->model.arena, (size_t)info.input_count + 1, sizeof *operands);
  tenon_edge_t *results =
      tn_arena_array(&r->model.arena, (size_t)old->output_count + 1, sizeof *results);
  int32_t next = 0;
  if (!operands || !results) return tn_no_memory("a graph", 0);
  for (int32_t i = 0; i < info.input_count; i++) {
    const int32_t count = old->operands[i].count;
    tenon_edge_t *edges = tn_arena_array(&r->model.arena, (size_t)count + 1, sizeof *edges);
    if (!edges) return tn_no_memory("a graph", 0);
    for (int32_t k = 0; k < count; k++) {
      const tenon_edge_t was = old->operands[i].edges[k];
      if (!(op->left_out >> i & 1))
        TENON_TRY(reading_value(r, node, next++, &edges[k]));
      else {
        TENON_TRY(reading_constant(r, was));
        edges[k] = r->edges[was];
      }
    }
    operands[i] = (tenon_operand_t){count, edges};
  }
  r->model.values[index] = (values_t){results, old->output_count, false};
  return tenon_builder_node(r->model.builder, old->name, old->op, old->attrs, operands, results,
                            old->output_count);
}

/* Adds a node whose operator has its Tenon name. */
static tenon_status_t add_named(reading_t *r, int32_t index) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  lower_t lower = {.model = &r->model, .node = node};
  const tenon_op_t *op;
  TENON_TRY(tenon_op_find(node->op, &op));
  tenon_edge_t *inputs =
      tn_arena_array(&r->model.arena, (size_t)node->input_count + 1, sizeof *inputs);
  lower.used = tn_arena_array(&r->model.arena, (size_t)node->attr_count + 1, sizeof *lower.used);
  if (!inputs || !lower.used) return tn_no_memory("a graph", 0);
  for (int32_t i = 0; i < node->input_count; i++)
    TENON_TRY(reading_value(r, node, i, &inputs[i]));
  for (int32_t i = 0; i < node->attr_count; i++)
    lower.used[i] = is_added(node->attrs[i].name);
  lower.inputs = inputs;
  lower.input_count = node->input_count;
  custom_lower(&lower, op);
  r->model.values[index] = lower.outputs;
  return lower.status;
}

static tenon_status_t add_other(reading_t *r, int32_t index) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  const hosted_op_t *hosted = loaded_find_op(r->library, node->op);
  if (hosted) return reading_hosted(r, index, hosted);
  if (strstr(node->op, "::")) return add_named(r, index);
  TENON_TRY(node_lower(&r->model, index));
  const missing_t *missing = r->model.missing;
  if (!missing) return TENON_OK;
  return tn_fail(TENON_UNIMPLEMENTED, "%.80s: %s", missing->op, missing->reason);
}

static tenon_status_t read_node(reading_t *r, int32_t index) {
  const symbol_node_t *node = &r->model.symbol.nodes[index];
  const int32_t was = find_old(r->old, node->name);
  tenon_status_t status;
  if (was >= 0 && r->old->nodes[was] >= 0) {
    tenon_graph_part_t old = {.size = sizeof old};
    nnvm_op_t op;
    TENON_TRY(tenon_graph_node(r->old->graph, r->old->nodes[was], &old));
    TENON_TRY(nnvm_op(r->old->graph, &old, &r->model.arena, &op));
    if (is_same_node(node, &old, &op)) return add_same(r, index, &old, &op);
  }
  status = add_other(r, index);
  return status == TENON_OK || strncmp(tenon_error(), "node ", 5) == 0
             ? status
             : tn_prefix(status, "node '%.100s' (%.60s): ", node->name, node->op);
}

/* outputs */

static tenon_status_t add_outputs(reading_t *r) {
  const symbol_t *symbol = &r->model.symbol;
  const int32_t old = r->old->graph ? tenon_graph_output_count(r->old->graph) : 0;
  for (int32_t i = 0; i < symbol->head_count; i++) {
    const symbol_entry_t *head = &symbol->heads[i];
    const values_t *from = &r->model.values[head->node];
    tenon_port_t port = {.size = sizeof port};
    char name[300];
    if (head->index < 0 || head->index >= from->count)
      return tn_fail(TENON_INVALID, "head %d is result %d of '%.100s', which has only %d", (int)i,
                     (int)head->index, symbol->nodes[head->node].name, (int)from->count);
    snprintf(name, sizeof name, "%.200s_output", symbol->nodes[head->node].name);
    if (i < old && symbol->head_count == old)
      TENON_TRY(tenon_graph_output(r->old->graph, i, &port));
    tenon_status_t status = tenon_builder_output(r->model.builder, port.name ? port.name : name,
                                                 from->edges[head->index]);
    /* A node may have several results, and a value may be an output several times. */
    if (status == TENON_EXISTS) {
      snprintf(name + strlen(name), sizeof name - strlen(name), "%d", (int)i);
      status = tenon_builder_output(r->model.builder, name, from->edges[head->index]);
    }
    TENON_TRY(status);
  }
  return TENON_OK;
}

/* the whole graph */

static bool *find_needed(reading_t *r) {
  const symbol_t *symbol = &r->model.symbol;
  bool *needed = tn_arena_array(&r->model.arena, (size_t)symbol->node_count + 1, sizeof *needed);
  for (int32_t i = 0; needed && i < symbol->head_count; i++)
    needed[symbol->heads[i].node] = true;
  for (int32_t i = symbol->node_count - 1; needed && i >= 0; i--)
    for (int32_t k = 0; needed[i] && k < symbol->nodes[i].input_count; k++)
      needed[symbol->nodes[i].inputs[k].node] = true;
  return needed;
}

/* Adds the variables. New variables of a subgraph become its inputs in the order in which MXNet
 * lists them: that of a walk from the heads. */
static tenon_status_t add_variables(reading_t *r, const bool *needed) {
  const symbol_t *symbol = &r->model.symbol;
  int32_t *order = tn_arena_array(&r->model.arena, (size_t)symbol->node_count + 1, sizeof *order);
  int32_t count = 0;
  if (!order) return tn_no_memory("a graph", 0);
  TENON_TRY(reading_variables(symbol, &r->model.arena, order, &count));
  for (int32_t i = 0; i < count; i++)
    if (needed[order[i]]) TENON_TRY(add_variable(r, order[i]));
  return TENON_OK;
}

static tenon_status_t read_graph(reading_t *r, const tn_json_t *root, tenon_graph_t **out_graph) {
  model_t *m = &r->model;
  TENON_TRY(symbol_read(root, &m->arena, &m->symbol));
  const size_t count = (size_t)m->symbol.node_count + 1;
  r->nodes = tn_json_find(root, "nodes");
  m->values = tn_arena_array(&m->arena, count, sizeof *m->values);
  m->lowerings = tn_arena_array(&m->arena, count, sizeof *m->lowerings);
  const bool *needed = find_needed(r);
  tenon_graph_edge_t edge = {.size = sizeof edge};
  int32_t values = 0;
  while (r->old->graph && tenon_graph_edge(r->old->graph, values, &edge, NULL) == TENON_OK)
    values++;
  r->edges = tn_arena_array(&m->arena, (size_t)values + 1, sizeof *r->edges);
  if (!m->values || !m->lowerings || !needed || !r->edges) return tn_no_memory("a graph", 0);
  for (int32_t e = 0; e < values; e++)
    r->edges[e] = -1;
  for (int32_t i = 0; i < m->symbol.node_count; i++)
    m->lowerings[i] = lowering_find(m->symbol.nodes[i].op);
  TENON_TRY(tenon_builder_create(&m->builder));
  tenon_builder_check(m->builder, 1);
  if (r->old->graph) TENON_TRY(tenon_builder_name(m->builder, tenon_graph_name(r->old->graph)));
  TENON_TRY(add_old_inputs(r, needed));
  TENON_TRY(add_variables(r, needed));
  for (int32_t i = 0; i < m->symbol.node_count; i++)
    if (needed[i] && !is_null(&m->symbol.nodes[i])) TENON_TRY(read_node(r, i));
  TENON_TRY(add_outputs(r));
  return tenon_builder_finish(m->builder, out_graph);
}

tenon_status_t nnvm_read(const hosted_t *library, const nnvm_t *old, const char *json, size_t size,
                         const nnvm_param_t *params, tenon_graph_t **out_graph) {
  reading_t r = {.library = library, .old = old, .params = params, .read_graph = read_graph};
  const tn_json_t *root;
  tenon_status_t status = tn_json_read(json, size, &r.model.arena, &root);
  if (status == TENON_OK) status = read_graph(&r, root, out_graph);
  reading_clear(&r);
  return status == TENON_OK ? status : tn_prefix(status, "the returned graph: ");
}
