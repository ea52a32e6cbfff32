/* Imports graphs: declares their constants and inputs, imports their nodes in topological order,
 * and finds their outputs. Called by import.c for the model's graph, by node.c for bodies of
 * functions, and by lowerings for the graphs in attributes of their nodes. Nodes are imported
 * through import->import_node, so that nothing in this file depends on lowerings. */
#include <string.h>

#include "base/status.h"
#include "import/onnx/import.h"
#include "import/onnx/order.h"

/* Declarations */

/* An extent of -1 is how some exporters write an unknown one; others below 0 are an error. */
static tenon_status_t check_extents(const tn_onnx_value_t *value) {
  if (!value->type || !value->type->tensor || !value->type->tensor->shape) return TENON_OK;
  for (size_t i = 0; i < value->type->tensor->shape->dims.count; i++) {
    const int64_t extent = value->type->tensor->shape->dims.items[i].value;
    if (extent < -1)
      return tn_fail(
          TENON_INVALID,
          "input '%.200s' has the extent %lld in dimension %zu: expected 0 or more, or a "
          "name for an unknown extent",
          value->name, (long long)extent, i);
  }
  return TENON_OK;
}

/* Declares an input. Inputs of control-flow bodies get no extents, because these may differ between
 * evaluations. */
static tenon_status_t declare_input(tn_import_t *import, tn_scope_t *scope,
                                    const tn_onnx_value_t *value, const tn_ref_t *like) {
  tenon_axis_t axes[TENON_RANK_MAX];
  const tn_ref_t *known = tn_map_get(&scope->edges, value->name, strlen(value->name));
  if (known && tn_ref_is_constant(known) && !scope->outer)
    /* An initialiser with the same name: its value cannot be overridden. */
    return TENON_OK;
  if (!*value->name) return tn_fail(TENON_INVALID, "an input has no name: every input needs one");
  TN_TRY(check_extents(value));
  tn_ref_t *edge = tn_ref_new(import, scope->site, value->name);
  if (!edge) return TENON_MEMORY;
  TN_TRY(tn_type_read(import, value, edge));
  if (!edge->dtype.bits && like) {
    const int32_t ndim = like->kind == TN_REF_TENSOR && !like->items ? edge->ndim : 1;
    tn_ref_like(edge, like);
    edge->ndim = ndim;
  }
  if (scope->outer) edge->extents = NULL;
  for (int32_t i = 0; i < edge->ndim; i++) {
    const bool is_named = !scope->outer && edge->kind == TN_REF_TENSOR;
    const char *symbol = is_named ? value->type->tensor->shape->dims.items[i].param : "";
    axes[i] = (tenon_axis_t){edge->extents ? edge->extents[i] : -1, NULL};
    if (axes[i].extent < 0 && *symbol) axes[i].name = symbol;
  }
  TN_TRY(tenon_builder_input(scope->site->builder, edge->name, edge->dtype, edge->ndim, axes,
                             &edge->id));
  return tn_scope_define(scope, value->name, edge);
}

static tenon_status_t declare_initialiser(tn_import_t *import, tn_scope_t *scope,
                                          const tn_onnx_tensor_t *values, size_t ndim,
                                          const tn_onnx_sparse_t *sparse) {
  tn_ref_t *edge = tn_ref_new(import, scope->site, values->name);
  if (!edge) return TENON_MEMORY;
  if (!*values->name)
    return tn_fail(TENON_INVALID, "an initialiser has no name: every initialiser needs one");
  /* An invalid type is reported when the tensor is read. */
  (void)tn_onnx_dtype(values->data_type, &edge->dtype);
  edge->ndim = ndim > TENON_RANK_MAX ? -1 : (int32_t)ndim;
  edge->extents = sparse ? sparse->dims.items : values->dims.items;
  if (sparse)
    edge->sparse = sparse;
  else
    edge->initialiser = values;
  return tn_scope_define(scope, values->name, edge);
}

static tenon_status_t declare_constants(tn_import_t *import, tn_scope_t *scope,
                                        const tn_onnx_graph_t *graph) {
  for (size_t i = 0; i < graph->initialisers.count; i++) {
    const tn_onnx_tensor_t *tensor = &graph->initialisers.items[i];
    TN_TRY(declare_initialiser(import, scope, tensor, tensor->dims.count, NULL));
  }
  for (size_t i = 0; i < graph->sparse_initialisers.count; i++) {
    const tn_onnx_sparse_t *sparse = &graph->sparse_initialisers.items[i];
    if (!sparse->values) return tn_fail(TENON_INVALID, "a sparse initialiser has no values");
    TN_TRY(declare_initialiser(import, scope, sparse->values, sparse->dims.count, sparse));
  }
  TN_TRY(tn_scope_hints(scope, graph->values.items, graph->values.count));
  return tn_scope_hints(scope, graph->outputs.items, graph->outputs.count);
}

tenon_status_t tn_graph_declare(tn_import_t *import, tn_scope_t *scope,
                                const tn_onnx_graph_t *graph, tn_ref_t *const *like) {
  TN_TRY(declare_constants(import, scope, graph));
  for (size_t i = 0; i < graph->inputs.count; i++)
    TN_TRY(declare_input(import, scope, &graph->inputs.items[i], like ? like[i] : NULL));
  return TENON_OK;
}

/* Nodes */

tenon_status_t tn_import_nodes(tn_import_t *import, tn_scope_t *scope, const tn_onnx_node_t *nodes,
                               size_t count) {
  if (scope->depth > TN_IMPORT_DEPTH)
    return tn_fail(TENON_INVALID,
                   "graphs and functions are nested more than %d deep, or functions call each "
                   "other recursively",
                   TN_IMPORT_DEPTH);
  const size_t *order;
  TN_TRY(tn_nodes_order(import, scope, nodes, count, &order));
  for (size_t i = 0; i < count; i++) {
    const size_t node = order ? order[i] : i;
    if (++import->nodes > TN_IMPORT_NODES)
      return tn_fail(
          TENON_INVALID,
          "the model has more than %d nodes, counting those of its functions at each use",
          TN_IMPORT_NODES);
    TN_TRY(import->import_node(import, scope, &nodes[node]));
  }
  return TENON_OK;
}

/* Outputs */

static tenon_status_t find_output(tn_import_t *import, tn_scope_t *scope, const char *name,
                                  tn_ref_t **out_edge) {
  TN_TRY(tn_scope_find(import, scope, name, out_edge));
  if (!*out_edge || (*out_edge)->is_absent)
    return tn_fail(TENON_INVALID, "output '%.200s' is not defined by any node", name);
  return TENON_OK;
}

tenon_status_t tn_graph_find_output(tn_import_t *import, tn_scope_t *scope, const char *name,
                                    tn_ref_t **out_edge) {
  TN_TRY(find_output(import, scope, name, out_edge));
  return tn_ref_join(import, scope->site, *out_edge, out_edge);
}

/* Graphs in attributes */

tenon_status_t tn_graph_inline(tn_import_t *import, tn_scope_t *scope, tn_site_t *site,
                               const char *prefix, const tn_onnx_graph_t *graph,
                               tn_ref_t *const *inputs, size_t input_count,
                               tn_ref_t **out_outputs) {
  tn_scope_t inner = {scope,           site, {0}, {0}, scope->opsets, scope->parameters, prefix,
                      scope->depth + 1};
  tenon_status_t status = TENON_OK;
  if (graph->inputs.count != input_count)
    return tn_fail(TENON_INVALID, "the graph has %zu inputs, expected %zu", graph->inputs.count,
                   input_count);
  for (size_t i = 0; i < input_count && status == TENON_OK; i++)
    status = tn_scope_define(&inner, graph->inputs.items[i].name, inputs[i]);
  if (status == TENON_OK) status = declare_constants(import, &inner, graph);
  if (status == TENON_OK)
    status = tn_import_nodes(import, &inner, graph->nodes.items, graph->nodes.count);
  for (size_t i = 0; i < graph->outputs.count && status == TENON_OK; i++)
    status = find_output(import, &inner, graph->outputs.items[i].name, &out_outputs[i]);
  tn_scope_clear(&inner);
  return status;
}

tenon_status_t tn_body_build(tn_import_t *import, tn_scope_t *scope, tn_site_t *outer,
                             const tn_onnx_graph_t *graph, tn_ref_t *const *shared,
                             size_t shared_count, tn_body_t *body) {
  tn_ref_t *edge;
  body->site.outer = outer;
  body->graph = graph;
  TN_TRY(tenon_builder_create(&body->site.builder));
  body->outputs = tn_arena_array(&import->arena, graph->outputs.count, sizeof *body->outputs);
  if (!body->outputs) return tn_no_memory("a graph", 0);
  tn_scope_t inner = {scope,         &body->site,       {0},           {0},
                      scope->opsets, scope->parameters, scope->prefix, scope->depth + 1};
  tenon_status_t status = tn_graph_declare(import, &inner, graph, body->like);
  for (size_t i = 0; i < shared_count && status == TENON_OK; i++)
    status = tn_ref_capture(import, &body->site, shared[i], &edge);
  if (status == TENON_OK)
    status = tn_import_nodes(import, &inner, graph->nodes.items, graph->nodes.count);
  for (size_t i = 0; i < graph->outputs.count && status == TENON_OK; i++)
    status = tn_graph_find_output(import, &inner, graph->outputs.items[i].name, &body->outputs[i]);
  tn_scope_clear(&inner);
  return status;
}

tenon_status_t tn_body_share(tn_import_t *import, tn_body_t *body, tn_ref_t *edge) {
  return tn_ref_capture(import, &body->site, edge, &edge);
}

tenon_status_t tn_body_finish(tn_body_t *body, tenon_graph_t **out_graph) {
  for (size_t i = 0; i < body->graph->outputs.count; i++)
    TN_TRY(tenon_builder_output(body->site.builder, body->graph->outputs.items[i].name,
                                body->outputs[i]->id));
  return tenon_builder_finish(body->site.builder, out_graph);
}

void tn_body_clear(tn_body_t *body) { tn_site_clear(&body->site); }
