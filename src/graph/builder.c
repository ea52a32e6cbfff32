/* Building graphs, for importers and applications. Invariant: a call that fails undoes what it has
 * begun, so the caller can continue with the same builder. */
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "core/value.h"
#include "graph/graph.h"
#include "graph/passes/pass.h"
#include "operator/attrs.h"

struct tenon_builder_t {
  tenon_graph_t *graph;
  tn_map_t names; /* names of edges that the caller chose */
  tn_map_t output_names;
  bool is_checked; /* infer each node when it is added */
  tn_arena_t lent; /* holds what tenon_builder_value returned last */
};

tenon_status_t tenon_builder_create(tenon_builder_t **out_builder) {
  TN_TRY(tenon_start());
  tenon_builder_t *builder = tn_allocate_zero(1, sizeof *builder);
  if (!builder) return tn_no_memory("a graph builder", sizeof *builder);
  tenon_status_t status = tn_graph_create(&builder->graph);
  if (status != TENON_OK) {
    tn_release_memory(builder);
    return status;
  }
  *out_builder = builder;
  return TENON_OK;
}

void tenon_builder_release(tenon_builder_t *builder) {
  if (!builder) return;
  tenon_graph_release(builder->graph);
  tn_map_clear(&builder->names);
  tn_map_clear(&builder->output_names);
  tn_arena_clear(&builder->lent);
  tn_release_memory(builder);
}

tenon_graph_t *tn_builder_graph(const tenon_builder_t *builder) { return builder->graph; }

tenon_status_t tenon_builder_name(tenon_builder_t *builder, const char *name) {
  const char *own = tn_arena_text(&builder->graph->arena, name, strlen(name));
  if (!own) return tn_no_memory("a name", strlen(name));
  builder->graph->name = own;
  return TENON_OK;
}

static tenon_status_t reserve_name(tenon_builder_t *builder, const char *name) {
  if (!name || !*name) return TENON_OK;
  if (tn_map_get(&builder->names, name, strlen(name)))
    return tn_fail(TENON_EXISTS, "the graph has two values named '%s': names must be unique", name);
  return tn_map_put(&builder->names, name, strlen(name), builder)
             ? TENON_OK
             : tn_no_memory("a graph", strlen(name));
}

tenon_status_t tn_builder_name_value(tenon_builder_t *builder, tenon_edge_t edge,
                                     const char *name) {
  tn_edge_t *of = &builder->graph->edges[edge];
  if (of->name[0] != '%' || !*name || tn_map_get(&builder->names, name, strlen(name)))
    return TENON_OK;
  const char *own = tn_arena_text(&builder->graph->arena, name, strlen(name));
  if (!own) return tn_no_memory("a name", strlen(name));
  TN_TRY(reserve_name(builder, name));
  of->name = own;
  return TENON_OK;
}

tenon_status_t tenon_builder_input(tenon_builder_t *builder, const char *name, tenon_dtype_t dtype,
                                   int32_t ndim, const tenon_axis_t *axes, tenon_edge_t *out_edge) {
  tenon_graph_t *graph = builder->graph;
  tn_edge_t *edge;
  if (ndim < -1 || ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID,
                   "input '%s' has %d dimensions: expected 0 to %d, or -1 for an unknown rank",
                   name ? name : "", (int)ndim, TENON_RANK_MAX);
  const tenon_axis_t any_number = {-1, NULL};
  if (tn_dtype_is(dtype, TENON_LIST) && ndim >= 0 && ndim != 1)
    return tn_fail(TENON_INVALID,
                   "input '%s' is a list with %d dimensions: a list has 1, its number of items",
                   name ? name : "", (int)ndim);
  if (tn_dtype_is(dtype, TENON_LIST) && ndim < 0) {
    ndim = 1;
    axes = &any_number;
  }
  TN_TRY(reserve_name(builder, name));
  if (!tn_grow((void **)&graph->inputs, &graph->input_capacity, graph->input_count,
               sizeof *graph->inputs) ||
      !tn_grow((void **)&graph->input_axes, &graph->axes_capacity, graph->input_count,
               sizeof *graph->input_axes))
    return tn_no_memory("a graph", 0);
  TN_TRY(tn_graph_add_edge(graph, name, &edge, out_edge));
  size_t axis_count = ndim > 0 ? (size_t)ndim : 0;
  edge->input = (int32_t)graph->input_count;
  edge->dtype = dtype;
  edge->ndim = ndim;
  edge->is_stated = dtype.bits != 0;
  edge->dims = tn_arena_array(&graph->arena, axis_count + 1, sizeof *edge->dims);
  tenon_axis_t *kept = tn_arena_array(&graph->arena, axis_count + 1, sizeof *kept);
  if (!edge->dims || !kept) return tn_no_memory("a graph", 0);
  for (size_t i = 0; i < axis_count; i++) {
    kept[i] = axes[i];
    if (axes[i].name &&
        !(kept[i].name = tn_arena_text(&graph->arena, axes[i].name, strlen(axes[i].name))))
      return tn_no_memory("a graph", 0);
    if (axes[i].extent >= 0)
      edge->dims[i] = tenon_extent(axes[i].extent);
    else
      TN_TRY(tn_extents_symbol(graph->extents, axes[i].name, &edge->dims[i]));
  }
  graph->input_axes[graph->input_count] =
      ndim < 0 ? NULL : kept; /* NULL: tenon_builder_finish fills it in */
  graph->inputs[graph->input_count++] = *out_edge;
  return TENON_OK;
}

static bool is_edge_used(const tenon_graph_t *graph, tenon_edge_t edge) {
  for (size_t n = 0; n < graph->node_count; n++)
    for (uint32_t i = 0; i < graph->nodes[n].op->input_count; i++)
      for (int32_t k = 0; k < graph->nodes[n].operands[i].count; k++)
        if (graph->nodes[n].operands[i].edges[k] == edge) return true;
  return false;
}

tenon_status_t tenon_builder_sparse(tenon_builder_t *builder, tenon_edge_t index, uint32_t layout) {
  tenon_graph_t *graph = builder->graph;
  if (index < 0 || (size_t)index >= graph->edge_count || graph->edges[index].input < 0)
    return tn_fail(TENON_INVALID,
                   "value %d is not an input of this graph: only inputs can be declared sparse, "
                   "other values are sparse if their node makes them so",
                   (int)index);
  tn_edge_t *edge = &graph->edges[index];
  if (is_edge_used(graph, index))
    return tn_fail(TENON_PRECONDITION,
                   "input '%s' is used by a node already: call tenon_builder_sparse before the "
                   "first node that reads it",
                   edge->name);
  tenon_status_t status = tn_layout_check(layout, edge->ndim);
  if (status != TENON_OK) return tn_prefix(status, "input '%s': ", edge->name);
  edge->layout = layout;
  return TENON_OK;
}

tenon_status_t tenon_builder_constant(tenon_builder_t *builder, const char *name,
                                      tenon_tensor_t *tensor, tenon_edge_t *out_edge) {
  tn_edge_t *edge;
  const char *shown = name ? name : "";
  if (!tensor || !tn_tensor_is_owned(tensor))
    return tn_fail(TENON_INVALID, "constant '%s': expected a tensor created by Tenon, found %s",
                   shown, tensor ? "a tensor of another owner" : "NULL");
  if (tensor->device.type != 1) {
    const char *key = tenon_key_for_device(tensor->device);
    return tn_fail(
        TENON_INVALID,
        "constant '%s': expected a tensor in host memory, found one on %s: copy it to the host "
        "with tenon_tensor_copy_to; executables copy constants to their devices",
        shown, key ? key : "another device");
  }
  TN_TRY(reserve_name(builder, name));
  TN_TRY(tn_graph_add_edge(builder->graph, name, &edge, out_edge));
  edge->constant = tensor;
  tenon_tensor_retain(edge->constant);
  edge->dtype = tensor->dtype;
  edge->ndim = tensor->ndim;
  edge->layout = tn_layout(tensor);
  edge->dims = (tenon_dim_t *)(void *)tensor->shape;
  edge->strides = tensor->keys & TN_KEY_STRIDED ? (tenon_dim_t *)(void *)tensor->strides : NULL;
  return TENON_OK;
}

static tenon_status_t check_operands(const tenon_builder_t *builder, const char *name,
                                     const tenon_op_t *op, const tenon_value_t *attrs,
                                     const tenon_operand_t *operands) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tn_argument_t *input = &op->schema.inputs[i];
    bool is_list = input->kind == TENON_KIND_TENSORS;
    int32_t count = operands[i].count;
    if (count < 0 || (!is_list && count > 1))
      return tn_fail(TENON_INVALID, "node '%s' (%s): input %s takes one tensor, found %d", name,
                     op->name, input->name, (int)count);
    if (count == 0 && !is_list && !input->is_optional)
      return tn_fail(TENON_INVALID,
                     "node '%s' (%s): the required input %s is missing; the schema is %s", name,
                     op->name, input->name, op->schema.text);
    int64_t wanted = is_list ? input->count : -1;
    if (is_list && input->count_attr >= 0) wanted = attrs[input->count_attr].as.i;
    if (wanted >= 0 && wanted != count)
      return tn_fail(TENON_INVALID, "node '%s' (%s): input %s takes %lld tensors, found %d", name,
                     op->name, input->name, (long long)wanted, (int)count);
    for (int32_t k = 0; k < count; k++)
      if (operands[i].edges[k] < 0 || (size_t)operands[i].edges[k] >= builder->graph->edge_count)
        return tn_fail(TENON_INVALID, "node '%s' (%s): input %s is not a value of this graph", name,
                       op->name, input->name);
  }
  return TENON_OK;
}

/* Infers the whole graph again from the stated inputs: symbols are created afresh, and what was
 * inferred before is forgotten. */
static tenon_status_t infer_anew(tenon_graph_t *graph) {
  tn_extents_t *extents = NULL;
  tenon_dim_t **dims = tn_arena_array(&graph->arena, graph->input_count + 1, sizeof *dims);
  tenon_status_t status = dims ? tn_extents_create(&extents) : tn_no_memory("a graph", 0);
  for (size_t i = 0; i < graph->input_count && status == TENON_OK; i++) {
    const tenon_axis_t *axes = graph->input_axes[i];
    size_t ndim = axes ? (size_t)graph->edges[graph->inputs[i]].ndim : 0;
    if (!(dims[i] = tn_arena_array(&graph->arena, ndim + 1, sizeof **dims)))
      status = tn_no_memory("a graph", 0);
    for (size_t d = 0; d < ndim && status == TENON_OK; d++)
      if (axes[d].extent >= 0)
        dims[i][d] = tenon_extent(axes[d].extent);
      else
        status = tn_extents_symbol(extents, axes[d].name, &dims[i][d]);
  }
  if (status != TENON_OK) {
    /* nothing has been changed yet */
    tn_extents_release(extents);
    return status;
  }
  tn_extents_release(graph->extents);
  graph->extents = extents;
  for (size_t e = 0; e < graph->edge_count; e++) {
    tn_edge_t *edge = &graph->edges[e];
    if (edge->input >= 0) {
      edge->dims = dims[edge->input];
      if (!graph->input_axes[edge->input]) edge->ndim = -1;
      if (!edge->is_stated) edge->dtype = (tenon_dtype_t){0, 0, 0};
    } else if (edge->producer >= 0) {
      edge->dtype = (tenon_dtype_t){0, 0, 0};
      edge->ndim = -1;
      edge->layout = 0;
      edge->dims = NULL;
      edge->strides = NULL;
      edge->values = NULL;
      edge->value_count = 0;
    }
  }
  return tn_pass_infer(graph);
}

/* Forgets what a refused node contributed to symbols and inputs. Keeps `status` and its message. */
static tenon_status_t forget_node(tenon_builder_t *builder, tenon_status_t status) {
  char *message = tn_copy_text(tn_error(), strlen(tn_error()));
  tenon_status_t after = message ? infer_anew(builder->graph) : tn_no_memory("a message", 0);
  if (after == TENON_OK) (void)tn_fail(status, "%s", message);
  tn_release_memory(message);
  return after == TENON_OK ? status : after;
}

tenon_status_t tenon_builder_node(tenon_builder_t *builder, const char *name, const tenon_op_t *op,
                                  const tenon_value_t *attrs, const tenon_operand_t *operands,
                                  tenon_edge_t *out_edges, int32_t output_count) {
  return tn_builder_node_wanted(builder, name, op, attrs, operands, 0, out_edges, output_count);
}

tenon_status_t tn_builder_node_wanted(tenon_builder_t *builder, const char *name,
                                      const tenon_op_t *op, const tenon_value_t *attrs,
                                      const tenon_operand_t *operands, uint64_t wanted,
                                      tenon_edge_t *out_edges, int32_t output_count) {
  tn_node_t *node;
  const char *shown = name && *name ? name : op->schema.name;
  if (!attrs) attrs = op->defaults;
  tenon_status_t status = tn_attrs_check(op, attrs);
  if (status != TENON_OK) return tn_prefix(status, "node '%s': ", shown);
  TN_TRY(check_operands(builder, shown, op, attrs, operands));
  int32_t has = tn_node_output_count(op, attrs);
  if (has < 0) has = output_count;
  if (output_count < 0 || output_count > has)
    return tn_fail(TENON_INVALID, "node '%s' (%s): the operator has %d results, found %d", shown,
                   op->name, (int)has, (int)output_count);
  TN_TRY(tn_graph_add_node(builder->graph, name, op, attrs, operands, has, &node));
  node->wanted = wanted;
  int32_t index = (int32_t)(builder->graph->node_count - 1);
  size_t edges = builder->graph->edge_count;
  for (int32_t o = 0; o < has && status == TENON_OK; o++) {
    tn_edge_t *edge;
    status = tn_graph_add_edge(builder->graph, NULL, &edge, &node->outputs[o]);
    if (status != TENON_OK) break;
    edge->producer = index;
    if (o < output_count) out_edges[o] = node->outputs[o];
  }
  if (status == TENON_OK && builder->is_checked) status = tn_node_infer(builder->graph, node);
  if (status == TENON_OK) return status;
  /* remove the node and its results again */
  builder->graph->node_count--;
  builder->graph->edge_count = edges;
  return builder->is_checked ? forget_node(builder, status) : status;
}

tenon_status_t tenon_builder_output(tenon_builder_t *builder, const char *name, tenon_edge_t edge) {
  tenon_graph_t *graph = builder->graph;
  if (edge < 0 || (size_t)edge >= graph->edge_count)
    return tn_fail(TENON_INVALID, "output '%s' is not a value of this graph", name ? name : "");
  const char *kept = name && *name ? name : graph->edges[edge].name;
  if (tn_map_get(&builder->output_names, kept, strlen(kept)))
    return tn_fail(TENON_EXISTS, "the graph has two outputs named '%s': names must be unique",
                   kept);
  if (!tn_grow((void **)&graph->outputs, &graph->output_capacity, graph->output_count,
               sizeof *graph->outputs) ||
      !tn_grow((void **)&graph->output_names, &graph->name_capacity, graph->output_count,
               sizeof *graph->output_names) ||
      !(kept = tn_arena_text(&graph->arena, kept, strlen(kept))) ||
      !tn_map_put(&builder->output_names, kept, strlen(kept), builder))
    return tn_no_memory("a graph", 0);
  graph->outputs[graph->output_count] = edge;
  graph->output_names[graph->output_count++] = kept;
  return TENON_OK;
}

/* Creates the axes of outputs, and of inputs whose rank was deduced. */
static tenon_status_t make_ports(tenon_graph_t *graph) {
  graph->output_axes =
      tn_arena_array(&graph->arena, graph->output_count + 1, sizeof *graph->output_axes);
  if (!graph->output_axes) return tn_no_memory("a graph", 0);
  for (size_t i = 0; i < graph->output_count; i++)
    TN_TRY(tn_axes_make(graph, graph->outputs[i], &graph->arena, &graph->output_axes[i]));
  for (size_t i = 0; i < graph->input_count; i++)
    if (!graph->input_axes[i] && graph->edges[graph->inputs[i]].ndim >= 0)
      TN_TRY(tn_axes_make(graph, graph->inputs[i], &graph->arena, &graph->input_axes[i]));
  return TENON_OK;
}

void tenon_builder_check(tenon_builder_t *builder, int32_t is_on) {
  builder->is_checked = is_on != 0;
}

tenon_status_t tn_builder_infer(tenon_builder_t *builder) {
  if (builder->is_checked) return TENON_OK;
  TN_TRY(tn_pass_infer(builder->graph));
  builder->is_checked = true;
  return TENON_OK;
}

tenon_status_t tenon_builder_finish(tenon_builder_t *builder, tenon_graph_t **out_graph) {
  tenon_graph_t *fresh;
  TN_TRY(tn_pass_infer(builder->graph));
  TN_TRY(make_ports(builder->graph));
  TN_TRY(tn_graph_create(&fresh));
  *out_graph = builder->graph;
  builder->graph = fresh;
  tn_map_clear(&builder->names);
  tn_map_clear(&builder->output_names);
  return TENON_OK;
}

tenon_status_t tenon_builder_value(tenon_builder_t *builder, tenon_edge_t index,
                                   tenon_port_t *out_port) {
  tenon_axis_t *axes;
  if (index < 0 || (size_t)index >= builder->graph->edge_count)
    return tn_fail(TENON_RANGE, "value %d is out of range: the graph has %zu values", (int)index,
                   builder->graph->edge_count);
  const tn_edge_t *edge = &builder->graph->edges[index];
  tn_arena_clear(&builder->lent);
  TN_TRY(tn_axes_make(builder->graph, index, &builder->lent, &axes));
  tenon_port_t port = {sizeof port, edge->name, edge->dtype, edge->ndim, axes, index, edge->layout};
  return tn_port_give(&port, out_port);
}
