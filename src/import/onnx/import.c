/* Imports an ONNX file as a graph: the entry points, graphs and bodies of control flow, and names
 * in scope. A value of an outer graph that a body uses becomes an input of the body, or a constant
 * of its own. Invariant: an edge is used only in the graph (site) that it belongs to; tn_ref_here
 * is the only way from one site to another. */
#include "import/onnx/import.h"
#include "graph/graph.h"

#include <stddef.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "import/model_file.h"
#include "import/onnx/lower.h"

/* Values */

tn_ref_t *tn_ref_new(tn_import_t *import, tn_site_t *site, const char *name) {
  tn_ref_t *edge = tn_arena_allocate(&import->arena, sizeof *edge);
  if (!edge)
    (void)tn_no_memory("a value", sizeof *edge);
  else {
    edge->site = site;
    edge->name = name;
    edge->id = -1;
    edge->ndim = -1;
  }
  return edge;
}

/* Keeps a tensor until the end of the import. Releases it if this fails. */
static tenon_status_t keep_tensor(tn_import_t *import, tenon_tensor_t *tensor) {
  if (!tn_grow((void **)&import->tensors, &import->tensor_capacity, import->tensor_count,
               sizeof tensor)) {
    tenon_tensor_release(tensor);
    return tn_no_memory("a list of tensors", import->tensor_count);
  }
  import->tensors[import->tensor_count++] = tensor;
  return TENON_OK;
}

static bool is_constant(const tn_ref_t *edge) {
  return edge->constant || edge->initialiser || edge->sparse;
}

tenon_status_t tn_ref_value(tn_import_t *import, tn_ref_t *edge,
                            const tenon_tensor_t **out_tensor) {
  tenon_tensor_t *tensor = NULL;
  *out_tensor = edge->constant;
  if (edge->constant || !is_constant(edge)) return TENON_OK;
  if (edge->initialiser)
    TN_TRY(tn_onnx_tensor(edge->initialiser, &import->weights, &tensor));
  else
    TN_TRY(tn_onnx_sparse(edge->sparse, &import->weights, &tensor));
  TN_TRY(keep_tensor(import, tensor));
  *out_tensor = edge->constant = tensor;
  return TENON_OK;
}

tenon_status_t tn_ref_constant(tn_import_t *import, tn_site_t *site, const char *name,
                               tenon_tensor_t *tensor, tn_ref_t **out_edge) {
  TN_TRY(keep_tensor(import, tensor));
  *out_edge = tn_ref_new(import, site, name);
  if (!*out_edge) return TENON_MEMORY;
  (*out_edge)->constant = tensor;
  (*out_edge)->dtype = tensor->dtype;
  (*out_edge)->ndim = tensor->ndim;
  (*out_edge)->extents = tensor->shape;
  return TENON_OK;
}

static tn_ref_t *find_local(const tn_site_t *site, const tn_ref_t *edge) {
  return tn_map_get(&site->local, (const char *)&edge, sizeof edge);
}

static tenon_status_t add_local(tn_site_t *site, const tn_ref_t *edge, tn_ref_t *here) {
  return tn_map_put(&site->local, (const char *)&edge, sizeof edge, here)
             ? TENON_OK
             : tn_no_memory("a value", 0);
}

/* Makes an input of the body for a value of the graph around it. */
static tenon_status_t capture_value(tn_import_t *import, tn_site_t *site, tn_ref_t *outer,
                                    tn_ref_t **out_edge) {
  tenon_axis_t axes[TENON_RANK_MAX];
  tn_ref_t *edge = tn_ref_new(import, site, outer->name);
  if (!edge) return TENON_MEMORY;
  edge->dtype = outer->dtype;
  edge->ndim = outer->ndim;
  edge->extents = outer->extents;
  for (int32_t i = 0; i < edge->ndim; i++)
    axes[i] = (tenon_axis_t){-1, NULL};
  TN_TRY(tenon_builder_input(site->builder, NULL, edge->dtype, edge->ndim, axes, &edge->id));
  if (!tn_grow((void **)&site->captured, &site->captured_capacity, site->captured_count,
               sizeof edge))
    return tn_no_memory("a list of values", site->captured_count);
  site->captured[site->captured_count++] = outer;
  *out_edge = edge;
  return add_local(site, outer, edge);
}

/* Converts a sequence of another site: each of its items is made available here. */
static tenon_status_t items_here(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                                 tn_ref_t **out_edge) {
  if (edge->site == site) return TENON_OK;
  tn_ref_t *here = tn_ref_new(import, site, edge->name);
  if (!here) return TENON_MEMORY;
  here->items = tn_arena_array(&import->arena, (size_t)edge->item_count + 1, sizeof *here->items);
  if (!here->items) return tn_no_memory("a sequence", (size_t)edge->item_count);
  for (here->item_count = 0; here->item_count < edge->item_count; here->item_count++)
    TN_TRY(
        tn_ref_here(import, site, edge->items[here->item_count], &here->items[here->item_count]));
  *out_edge = here;
  return TENON_OK;
}

tenon_status_t tn_ref_here(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                           tn_ref_t **out_edge) {
  const tenon_tensor_t *tensor;
  *out_edge = edge;
  if (edge->is_missing || edge->is_absent) return TENON_OK;
  if (edge->items) return items_here(import, site, edge, out_edge);
  if (is_constant(edge)) {
    TN_TRY(tn_ref_value(import, edge, &tensor));
    if (edge->site != site) *out_edge = find_local(site, edge);
    if (!*out_edge) {
      tn_ref_t *here = tn_ref_new(import, site, edge->name);
      if (!here) return TENON_MEMORY;
      here->constant = edge->constant;
      here->dtype = edge->dtype;
      here->ndim = edge->ndim;
      here->extents = edge->constant->shape;
      TN_TRY(add_local(site, edge, here));
      *out_edge = here;
    }
    edge = *out_edge;
    /* Only initialisers of the model keep their names: names in a graph must be unique. */
    const char *name = edge->initialiser && !site->outer ? edge->name : NULL;
    return edge->id >= 0 ? TENON_OK
                         : tenon_builder_constant(site->builder, name, edge->constant, &edge->id);
  }
  if (edge->site == site) return TENON_OK;
  if (!site->outer)
    return tn_fail(TENON_INVALID, "value '%.200s' does not belong to this graph or one around it",
                   edge->name);
  TN_TRY(tn_ref_here(import, site->outer, edge, &edge));
  *out_edge = find_local(site, edge);
  return *out_edge ? TENON_OK : capture_value(import, site, edge, out_edge);
}

/* Names */

tenon_status_t tn_scope_find(tn_import_t *import, tn_scope_t *scope, const char *name,
                             tn_ref_t **out_edge) {
  size_t size = strlen(name);
  tn_site_t *site = scope->site;
  *out_edge = NULL;
  for (; scope && !*out_edge; scope = scope->outer)
    *out_edge = tn_map_get(&scope->edges, name, size);
  return *out_edge ? tn_ref_here(import, site, *out_edge, out_edge) : TENON_OK;
}

tenon_status_t tn_scope_define(tn_scope_t *scope, const char *name, tn_ref_t *edge) {
  if (tn_map_get(&scope->edges, name, strlen(name)))
    return tn_fail(TENON_INVALID,
                   "value '%.200s' is defined twice in one graph: every value needs one definition",
                   name);
  bool is_of_model = !scope->outer && !*scope->prefix && edge->site == scope->site && edge->id >= 0;
  if (is_of_model) TN_TRY(tn_builder_name_value(scope->site->builder, edge->id, name));
  return tn_map_put(&scope->edges, name, strlen(name), edge) ? TENON_OK
                                                             : tn_no_memory("a name", strlen(name));
}

tenon_status_t tn_scope_hints(tn_scope_t *scope, const tn_onnx_value_t *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!tn_map_put(&scope->hints, values[i].name, strlen(values[i].name),
                    (void *)(uintptr_t)&values[i]))
      return tn_no_memory("a name", strlen(values[i].name));
  return TENON_OK;
}

void tn_scope_clear(tn_scope_t *scope) {
  tn_map_clear(&scope->edges);
  tn_map_clear(&scope->hints);
}

static void site_clear(tn_site_t *site) {
  tenon_builder_release(site->builder);
  tn_map_clear(&site->local);
  tn_release_memory(site->captured);
  *site = (tn_site_t){0};
}

/* Graphs */

tenon_status_t tn_type_read(tn_import_t *import, const tn_onnx_value_t *value, tn_ref_t *edge) {
  static const struct {
    int field;
    const char *name;
  } others[] = {{TN_ONNX_TYPE_SEQUENCE, "a sequence"},
                {TN_ONNX_TYPE_MAP, "a map"},
                {TN_ONNX_TYPE_SPARSE, "a sparse tensor"},
                {TN_ONNX_TYPE_OPTIONAL, "an optional value"}};
  const tn_onnx_type_t *type = value->type;
  tenon_dtype_t dtype = {0, 0, 0};
  for (size_t i = 0; type && i < sizeof others / sizeof *others; i++)
    if (TN_HAS(type, others[i].field))
      return tn_fail(TENON_UNIMPLEMENTED,
                     "value '%.200s' is %s, but graphs of this runtime contain tensors only",
                     value->name, others[i].name);
  if (!type || !type->tensor) return TENON_OK;
  if (type->tensor->elem_type && !tn_onnx_dtype(type->tensor->elem_type, &dtype))
    return tn_fail(TENON_INVALID, "value '%.200s' has the unknown element type %lld", value->name,
                   (long long)type->tensor->elem_type);
  if (!edge->dtype.bits) edge->dtype = dtype;
  if (!type->tensor->shape || edge->extents) return TENON_OK;
  size_t ndim = type->tensor->shape->dims.count;
  if (ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID, "value '%.200s' has %zu dimensions: expected at most %d",
                   value->name, ndim, TENON_RANK_MAX);
  if (edge->ndim >= 0 && (size_t)edge->ndim != ndim) return TENON_OK;
  int64_t *extents = tn_arena_array(&import->arena, ndim + 1, sizeof *extents);
  if (!extents) return tn_no_memory("a shape", ndim);
  for (size_t i = 0; i < ndim; i++) {
    const tn_onnx_dim_t *dim = &type->tensor->shape->dims.items[i];
    extents[i] = TN_HAS(dim, TN_DIM_VALUE) && dim->value >= 0 ? dim->value : -1;
  }
  edge->ndim = (int32_t)ndim;
  edge->extents = extents;
  return TENON_OK;
}

/* Declares an input. Inputs of control-flow bodies get no extents, because these may differ between
 * evaluations. */
static tenon_status_t declare_input(tn_import_t *import, tn_scope_t *scope,
                                    const tn_onnx_value_t *value, tenon_dtype_t otherwise) {
  tenon_axis_t axes[TENON_RANK_MAX];
  const tn_ref_t *known = tn_map_get(&scope->edges, value->name, strlen(value->name));
  if (known && is_constant(known) && !scope->outer)
    /* An initialiser with the same name: its value cannot be overridden. */
    return TENON_OK;
  if (!*value->name) return tn_fail(TENON_INVALID, "an input has no name: every input needs one");
  tn_ref_t *edge = tn_ref_new(import, scope->site, value->name);
  if (!edge) return TENON_MEMORY;
  TN_TRY(tn_type_read(import, value, edge));
  if (!edge->dtype.bits) edge->dtype = otherwise;
  if (scope->outer) edge->extents = NULL;
  for (int32_t i = 0; i < edge->ndim; i++) {
    const char *symbol = scope->outer ? "" : value->type->tensor->shape->dims.items[i].param;
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

/* Declares the constants and stated types of a graph, then its inputs. */
static tenon_status_t declare_graph(tn_import_t *import, tn_scope_t *scope,
                                    const tn_onnx_graph_t *graph, const tenon_dtype_t *dtypes) {
  TN_TRY(declare_constants(import, scope, graph));
  for (size_t i = 0; i < graph->inputs.count; i++)
    TN_TRY(declare_input(import, scope, &graph->inputs.items[i],
                         dtypes ? dtypes[i] : (tenon_dtype_t){0, 0, 0}));
  return TENON_OK;
}

static bool defines_value(const tn_onnx_node_t *node, const char *name) {
  for (size_t i = 0; i < node->outputs.count; i++)
    if (strcmp(node->outputs.items[i], name) == 0) return true;
  return false;
}

/* Adds an explanation to the error if a node uses a value that a later node defines. */
static tenon_status_t explain_order(tenon_status_t status, const tn_scope_t *scope,
                                    const tn_onnx_node_t *nodes, size_t index, size_t count) {
  for (size_t k = 0; k < nodes[index].inputs.count; k++) {
    const char *name = nodes[index].inputs.items[k];
    const tn_scope_t *seen = scope;
    while (seen && !tn_map_get(&seen->edges, name, strlen(name)))
      seen = seen->outer;
    if (!*name || seen) continue;
    for (size_t j = index; j < count; j++)
      if (defines_value(&nodes[j], name))
        return tn_fail(
            TENON_INVALID,
            "%s; node '%.200s' (%.100s) defines it later: nodes must be in topological order, "
            "without cycles",
            tn_error(), nodes[j].name, nodes[j].type);
  }
  return status;
}

tenon_status_t tn_import_nodes(tn_import_t *import, tn_scope_t *scope, const tn_onnx_node_t *nodes,
                               size_t count) {
  if (scope->depth > TN_IMPORT_DEPTH)
    return tn_fail(TENON_INVALID,
                   "graphs and functions are nested more than %d deep, or functions call each "
                   "other recursively",
                   TN_IMPORT_DEPTH);
  for (size_t i = 0; i < count; i++) {
    if (++import->nodes > TN_IMPORT_NODES)
      return tn_fail(
          TENON_INVALID,
          "the model has more than %d nodes, counting those of its functions at each use",
          TN_IMPORT_NODES);
    tenon_status_t status = tn_node_import(import, scope, &nodes[i]);
    if (status != TENON_OK) return explain_order(status, scope, nodes, i, count);
  }
  return TENON_OK;
}

static tenon_status_t find_output(tn_import_t *import, tn_scope_t *scope, const char *name,
                                  tn_ref_t **out_edge) {
  TN_TRY(tn_scope_find(import, scope, name, out_edge));
  if (!*out_edge || (*out_edge)->is_absent)
    return tn_fail(TENON_INVALID, "output '%.200s' is not defined by any node", name);
  return TENON_OK;
}

/* Finds an output, which must be a tensor. */
static tenon_status_t find_tensor(tn_import_t *import, tn_scope_t *scope, const char *name,
                                  tn_ref_t **out_edge) {
  TN_TRY(find_output(import, scope, name, out_edge));
  if ((*out_edge)->items)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "output '%.200s' is a sequence, but graphs of this runtime contain tensors only",
                   name);
  return TENON_OK;
}

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
  tenon_status_t status = declare_graph(import, &inner, graph, body->dtypes);
  for (size_t i = 0; i < shared_count && status == TENON_OK; i++)
    status = capture_value(import, &body->site, shared[i], &edge);
  if (status == TENON_OK)
    status = tn_import_nodes(import, &inner, graph->nodes.items, graph->nodes.count);
  for (size_t i = 0; i < graph->outputs.count && status == TENON_OK; i++)
    status = find_tensor(import, &inner, graph->outputs.items[i].name, &body->outputs[i]);
  tn_scope_clear(&inner);
  return status;
}

tenon_status_t tn_body_share(tn_import_t *import, tn_body_t *body, tn_ref_t *edge) {
  return find_local(&body->site, edge) ? TENON_OK : capture_value(import, &body->site, edge, &edge);
}

tenon_status_t tn_body_finish(tn_body_t *body, tenon_graph_t **out_graph) {
  for (size_t i = 0; i < body->graph->outputs.count; i++)
    TN_TRY(tenon_builder_output(body->site.builder, body->graph->outputs.items[i].name,
                                body->outputs[i]->id));
  return tenon_builder_finish(body->site.builder, out_graph);
}

void tn_body_clear(tn_body_t *body) { site_clear(&body->site); }

/* The model */

static tenon_status_t list_missing(const tn_import_t *import) {
  tn_text_t text = {0};
  size_t count = 0;
  for (const tn_missing_t *missing = import->missing; missing; missing = missing->next) {
    tn_text_add(&text, "%snode '%.200s'", count++ ? "; " : "", missing->node);
    if (missing->count > 1) tn_text_add(&text, " and %zu more", missing->count - 1);
    tn_text_add(&text, " (%.100s, domain '%.100s', opset %lld): %s", missing->type, missing->domain,
                (long long)missing->version, missing->reason);
  }
  char *list = tn_text_take(&text);
  if (!list) return TENON_MEMORY;
  tenon_status_t status = tn_fail(TENON_UNIMPLEMENTED, "%zu operator%s not supported: %s", count,
                                  count == 1 ? " is" : "s are", list);
  tn_release_memory(list);
  return status;
}

static tenon_status_t check_opsets(const tn_onnx_model_t *model) {
  if (!model->graph)
    return tn_fail(TENON_INVALID, "the file contains no graph: it is not an ONNX model");
  for (size_t i = 0; i < model->opsets.count; i++) {
    const tn_onnx_opset_t *opset = &model->opsets.items[i];
    bool is_onnx = !*opset->domain || strcmp(opset->domain, "ai.onnx") == 0;
    if (is_onnx && (opset->version < 1 || opset->version > TN_OPSET_NEWEST))
      return tn_fail(TENON_UNIMPLEMENTED,
                     "operator set %lld of ONNX is not supported: expected 1 to %d",
                     (long long)opset->version, TN_OPSET_NEWEST);
  }
  return TENON_OK;
}

static tenon_status_t index_functions(tn_import_t *import) {
  for (size_t i = 0; i < import->model.functions.count; i++) {
    const tn_onnx_function_t *function = &import->model.functions.items[i];
    tn_text_t key = {0};
    tn_text_add(&key, "%s\n%s\n%s", function->domain, function->name, function->overload);
    bool is_double = tn_map_get(&import->functions, tn_text_get(&key), key.size) != NULL;
    bool done = !key.failed &&
                tn_map_put(&import->functions, key.data, key.size, (void *)(uintptr_t)function);
    tn_text_clear(&key);
    if (is_double)
      return tn_fail(TENON_INVALID, "function '%.200s' of domain '%.100s' is defined twice",
                     function->name, function->domain);
    if (!done) return tn_no_memory("a function", 0);
  }
  return TENON_OK;
}

static tenon_status_t finish_graph(tn_import_t *import, tn_scope_t *scope,
                                   tenon_graph_t **out_graph) {
  const tn_onnx_graph_t *graph = import->model.graph;
  tn_ref_t *edge;
  for (size_t i = 0; i < graph->outputs.count; i++) {
    const char *name = graph->outputs.items[i].name;
    for (size_t j = 0; j < i; j++)
      if (strcmp(graph->outputs.items[j].name, name) == 0)
        return tn_fail(TENON_INVALID, "output '%.200s' is listed twice", name);
    TN_TRY(find_tensor(import, scope, name, &edge));
    if (!edge->is_missing) TN_TRY(tenon_builder_output(scope->site->builder, name, edge->id));
  }
  if (import->missing) return list_missing(import);
  TN_TRY(tenon_builder_name(scope->site->builder, graph->name));
  return tenon_builder_finish(scope->site->builder, out_graph);
}

static tenon_status_t build_model(tn_import_t *import, tenon_graph_t **out_graph) {
  const tn_onnx_graph_t *graph = import->model.graph;
  tn_site_t site = {0};
  tn_scope_t scope = {NULL, &site, {0}, {0}, &import->model.opsets, NULL, "", 0};
  TN_TRY(index_functions(import));
  TN_TRY(tn_lowerings_index(import));
  TN_TRY(tenon_builder_create(&site.builder));
  tenon_status_t status = declare_graph(import, &scope, graph, NULL);
  if (status == TENON_OK)
    status = tn_import_nodes(import, &scope, graph->nodes.items, graph->nodes.count);
  if (status == TENON_OK) status = finish_graph(import, &scope, out_graph);
  tn_scope_clear(&scope);
  site_clear(&site);
  return status;
}

/* Imports the model in `file`. Takes ownership of the storage. */
static tenon_status_t import_model(tn_storage_t *file, const char *folder,
                                   tenon_graph_t **out_graph) {
  tn_import_t import = {0};
  import.weights = (tn_weights_t){file, folder, { 0 }};
  tenon_status_t status = tn_onnx_read_model((tn_bytes_t){file->data, (size_t)file->size},
                                             &import.arena, &import.model);
  if (status == TENON_OK) status = check_opsets(&import.model);
  if (status == TENON_OK) status = build_model(&import, out_graph);
  for (size_t i = 0; i < import.tensor_count; i++)
    tenon_tensor_release(import.tensors[i]);
  tn_release_memory(import.tensors);
  tn_map_clear(&import.functions);
  tn_map_clear(&import.lowerings);
  tn_weights_clear(&import.weights);
  tn_arena_clear(&import.arena);
  return status;
}

tenon_status_t tn_onnx_load(const char *path, const char *folder, tenon_graph_t **out_graph) {
  tn_storage_t *file;
  const char *slash = strrchr(path, '/');
  char *own = NULL;
  if (!folder) {
    own = slash ? tn_copy_text(path, (size_t)(slash - path)) : tn_copy_text(".", 1);
    folder = own;
  }
  if (!folder) return tn_no_memory("a path", strlen(path));
  tenon_status_t status = tn_weights_map(path, &file);
  if (status == TENON_OK) {
    status = import_model(file, folder, out_graph);
    if (status != TENON_OK) status = tn_prefix(status, "%.300s: ", slash ? slash + 1 : path);
  }
  tn_release_memory(own);
  return status;
}

static void keep_memory(void *context) { (void)context; }

tenon_status_t tenon_graph_read(const void *data, uint64_t size, const tenon_import_t *options,
                                tenon_graph_t **out_graph) {
  tn_storage_t *file;
  *out_graph = NULL;
  TN_TRY(tenon_start());
  if (!data || size > SIZE_MAX / 2)
    return tn_fail(TENON_INVALID, "no model data: expected a pointer to the bytes of a model");
  TN_TRY(tn_storage_create((void *)(uintptr_t)data, size, keep_memory, NULL, &file));
  tenon_status_t status = import_model(file, tn_import_folder(options), out_graph);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "model in memory: ");
}
