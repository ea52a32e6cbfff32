/* Graphs: creation, copying and release. Called by the builder, and by the compiler for its copy.
 * Invariant: an operand's edge exists before the node that uses it, so nodes can run in the order
 * in which they are stored. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/file_copy.h"
#include "core/value.h"
#include "operator/names.h"

/* Results of nodes */

int32_t tn_op_result_input(const tenon_op_t *op, uint32_t o) {
  const tn_argument_t *result = &op->schema.outputs[o];
  for (uint32_t i = 0; result->is_written && i < op->input_count; i++)
    if (op->schema.inputs[i].is_written && op->schema.inputs[i].mark == result->mark)
      return (int32_t)i;
  return -1;
}

int32_t tn_op_written(const tenon_op_t *op, int32_t k) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (!op->schema.inputs[i].is_written) continue;
    bool returned = false;
    for (uint32_t o = 0; o < op->output_count; o++)
      returned |= tn_op_result_input(op, o) == (int32_t)i;
    if (!returned && k-- == 0) return (int32_t)i;
  }
  return -1;
}

int32_t tn_node_output_count(const tenon_op_t *op, const tenon_value_t *attrs) {
  int64_t count = 0;
  for (uint32_t o = 0; o < op->output_count; o++) {
    const tn_argument_t *result = &op->schema.outputs[o];
    if (result->kind != TENON_KIND_TENSORS) {
      count++;
    } else {
      int64_t items = result->count_attr >= 0 ? attrs[result->count_attr].as.i : result->count;
      if (items < 0 || items > 1 << 20) return -1;
      count += items;
    }
  }
  for (int32_t k = 0; tn_op_written(op, k) >= 0; k++)
    count++;
  return (int32_t)count;
}

/* Creation */

tenon_status_t tn_graph_create(tenon_graph_t **out_graph) {
  tenon_graph_t *graph = tn_allocate_zero(1, sizeof *graph);
  if (!graph) return tn_no_memory("a graph", sizeof *graph);
  graph->references = 1;
  graph->name = "";
  tenon_status_t status = tn_extents_create(&graph->extents);
  if (status != TENON_OK) {
    tn_release_memory(graph);
    return status;
  }
  *out_graph = graph;
  return TENON_OK;
}

void tenon_graph_retain(const tenon_graph_t *graph) {
  if (graph)
    __atomic_fetch_add(&((tenon_graph_t *)(uintptr_t)graph)->references, 1, __ATOMIC_RELAXED);
}

void tenon_graph_release(const tenon_graph_t *constant) {
  tenon_graph_t *graph = (tenon_graph_t *)(uintptr_t)constant;
  if (!graph || __atomic_fetch_sub(&graph->references, 1, __ATOMIC_ACQ_REL) != 1) return;
  if (graph->executable) graph->release_executable(graph->executable);
  if (graph->prepared) graph->prepared->release(graph->prepared);
  for (size_t i = 0; i < graph->edge_count; i++)
    tenon_tensor_release(graph->edges[i].constant);
  for (size_t i = 0; i < graph->subgraph_count; i++)
    tenon_graph_release(graph->subgraphs[i]);
  for (size_t i = 0; i < graph->kept_count; i++)
    tenon_tensor_release(graph->kept[i]);
  for (size_t i = 0; i < graph->op_count; i++)
    __atomic_fetch_sub(&graph->ops[i]->graphs, 1, __ATOMIC_RELAXED);
  void *arrays[] = {graph->edges,
                    graph->nodes,
                    graph->inputs,
                    graph->outputs,
                    (void *)graph->output_names,
                    graph->input_axes,
                    (void *)graph->subgraphs,
                    graph->kept,
                    graph->ops};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    tn_release_memory(arrays[i]);
  for (size_t i = 0; i < graph->library_count; i++)
    tn_registry_unuse(graph->libraries[i]);
  tn_release_memory((void *)graph->libraries);
  tn_extents_release(graph->extents);
  tn_arena_clear(&graph->arena);
  tn_release_memory(graph);
}

static tenon_status_t use_library(tenon_graph_t *graph, const tn_library_t *library) {
  for (size_t i = 0; i < graph->library_count; i++)
    if (graph->libraries[i] == library) return TENON_OK;
  if (!tn_grow((void **)&graph->libraries, &graph->library_capacity, graph->library_count,
               sizeof *graph->libraries))
    return tn_no_memory("a graph", sizeof *graph->libraries);
  graph->libraries[graph->library_count] = library;
  tn_registry_use(library);
  graph->library_count++;
  return TENON_OK;
}

tenon_status_t tn_graph_use_op(tenon_graph_t *graph, const tenon_op_t *op) {
  for (size_t i = 0; i < graph->op_count; i++)
    if (graph->ops[i] == op) return TENON_OK;
  if (!tn_grow((void **)&graph->ops, &graph->op_capacity, graph->op_count, sizeof *graph->ops))
    return tn_no_memory("a graph", sizeof *graph->ops);
  TN_TRY(use_library(graph, op->library));
  graph->ops[graph->op_count] = (tenon_op_t *)(uintptr_t)op;
  __atomic_fetch_add(&graph->ops[graph->op_count++]->graphs, 1, __ATOMIC_RELAXED);
  return TENON_OK;
}

tenon_status_t tn_graph_add_edge(tenon_graph_t *graph, const char *name, tn_edge_t **out_edge,
                                 tenon_edge_t *out_index) {
  char made[32];
  if (!name || !*name) {
    snprintf(made, sizeof made, "%%%zu", graph->edge_count);
    name = made;
  }
  if (graph->edge_count >= INT32_MAX || !tn_grow((void **)&graph->edges, &graph->edge_capacity,
                                                 graph->edge_count, sizeof *graph->edges))
    return tn_no_memory("a graph", graph->edge_capacity * sizeof *graph->edges);
  tn_edge_t *edge = &graph->edges[graph->edge_count];
  *edge = (tn_edge_t){.name = tn_arena_text(&graph->arena, name, strlen(name)),
                      .producer = -1,
                      .input = -1,
                      .ndim = -1};
  if (!edge->name) return tn_no_memory("a graph", strlen(name));
  *out_index = (tenon_edge_t)graph->edge_count++;
  if (out_edge) *out_edge = edge;
  return TENON_OK;
}

static tenon_status_t keep_value_tensors(tenon_graph_t *graph, const tenon_value_t *value) {
  tenon_tensor_t *one[1] = {value->kind == TENON_KIND_TENSOR ? value->as.tensor : NULL};
  tenon_tensor_t *const *tensors = value->kind == TENON_KIND_TENSORS ? value->as.tensors : one;
  uint32_t count = value->kind == TENON_KIND_TENSORS ? value->count : one[0] != NULL;
  for (uint32_t i = 0; i < count; i++) {
    if (!tn_grow((void **)&graph->kept, &graph->kept_capacity, graph->kept_count,
                 sizeof *graph->kept))
      return tn_no_memory("a graph", sizeof *graph->kept);
    graph->kept[graph->kept_count] = tensors[i];
    tenon_tensor_retain(tensors[i]);
    graph->kept_count++;
  }
  if (value->kind != TENON_KIND_GRAPH || !value->as.graph) return TENON_OK;
  if (!tn_grow((void **)&graph->subgraphs, &graph->subgraph_capacity, graph->subgraph_count,
               sizeof *graph->subgraphs))
    return tn_no_memory("a graph", sizeof *graph->subgraphs);
  graph->subgraphs[graph->subgraph_count] = value->as.graph;
  tenon_graph_retain(value->as.graph);
  graph->subgraph_count++;
  return TENON_OK;
}

tenon_status_t tn_graph_add_node(tenon_graph_t *graph, const char *name, const tenon_op_t *op,
                                 const tenon_value_t *attrs, const tenon_operand_t *operands,
                                 int32_t output_count, tn_node_t **out_node) {
  char made[64];
  if (!name || !*name) {
    snprintf(made, sizeof made, "%s_%zu", op->schema.name, graph->node_count);
    name = made;
  }
  if (!tn_grow((void **)&graph->nodes, &graph->node_capacity, graph->node_count,
               sizeof *graph->nodes))
    return tn_no_memory("a graph", graph->node_capacity * sizeof *graph->nodes);
  op = tn_op_now(op); /* the library may have been reloaded since the caller looked `op` up */
  if (tn_op_has_ended(op)) return tn_op_ended(op);
  TN_TRY(tn_graph_use_op(graph, op));
  uint32_t attr_count = op->schema.attr_count;
  tenon_value_t *values = tn_arena_array(&graph->arena, attr_count + 1, sizeof *values);
  tenon_operand_t *own = tn_arena_array(&graph->arena, op->input_count + 1, sizeof *own);
  tn_node_t node = {
      .name = tn_arena_text(&graph->arena, name, strlen(name)),
      .op = op,
      .attrs = values,
      .operands = own,
      .output_count = output_count,
      .outputs = tn_arena_array(&graph->arena, (size_t)output_count + 1, sizeof *node.outputs)};
  if (!values || !own || !node.name || !node.outputs) return tn_no_memory("a graph", 0);
  for (uint32_t i = 0; i < attr_count; i++) {
    if (!tn_value_copy(&attrs[i], &graph->arena, &values[i])) return tn_no_memory("a graph", 0);
    TN_TRY(keep_value_tensors(graph, &values[i]));
  }
  for (uint32_t i = 0; i < op->input_count; i++) {
    tenon_edge_t *edges =
        tn_arena_array(&graph->arena, (size_t)operands[i].count + 1, sizeof *edges);
    if (!edges) return tn_no_memory("a graph", 0);
    if (operands[i].count)
      memcpy(edges, operands[i].edges, (size_t)operands[i].count * sizeof *edges);
    own[i] = (tenon_operand_t){operands[i].count, edges};
  }
  graph->nodes[graph->node_count] = node;
  *out_node = &graph->nodes[graph->node_count++];
  return TENON_OK;
}

tenon_status_t tn_node_set_graph(tenon_graph_t *graph, tn_node_t *node, uint32_t attr,
                                 const tenon_graph_t *body) {
  tenon_value_t *value = (tenon_value_t *)(uintptr_t)&node->attrs[attr];
  const tenon_value_t kept = {TENON_KIND_GRAPH, 0, {.graph = (tenon_graph_t *)(uintptr_t)body}};
  TN_TRY(keep_value_tensors(graph, &kept));
  *value = kept;
  return TENON_OK;
}

/* Copies for the compiler */

static tenon_status_t copy_edge(const tn_edge_t *from, tenon_graph_t *to) {
  tn_edge_t *edge;
  tenon_edge_t index;
  TN_TRY(tn_graph_add_edge(to, from->name, &edge, &index));
  edge->producer = from->producer;
  edge->input = from->input;
  edge->is_stated = from->is_stated;
  /* its type is inferred again, with symbols of the copy */
  if (from->producer >= 0) return TENON_OK;
  edge->dtype = from->dtype;
  edge->ndim = from->ndim;
  edge->dims = from->dims;
  edge->strides = from->strides;
  edge->layout = from->layout;
  edge->constant = from->constant;
  tenon_tensor_retain(edge->constant);
  tn_file_copy_recall(edge->constant);
  return TENON_OK;
}

static tenon_status_t copy_input(const tenon_graph_t *from, size_t i, tenon_graph_t *to) {
  tn_edge_t *edge = &to->edges[from->inputs[i]];
  const tenon_axis_t *axes = from->input_axes[i];
  if (!tn_grow((void **)&to->inputs, &to->input_capacity, to->input_count, sizeof *to->inputs) ||
      !tn_grow((void **)&to->input_axes, &to->axes_capacity, to->input_count,
               sizeof *to->input_axes))
    return tn_no_memory("a graph", 0);
  /* the executable keeps the original graph alive as long as the copy */
  to->input_axes[to->input_count] = (tenon_axis_t *)(uintptr_t)axes;
  to->inputs[to->input_count++] = from->inputs[i];
  edge->dims = tn_arena_array(&to->arena, TENON_RANK_MAX, sizeof *edge->dims);
  if (!edge->dims) return tn_no_memory("a graph", 0);
  for (int32_t d = 0; d < edge->ndim; d++) {
    if (axes[d].extent >= 0)
      edge->dims[d] = tenon_extent(axes[d].extent);
    else
      TN_TRY(tn_extents_symbol(to->extents, axes[d].name, &edge->dims[d]));
  }
  return TENON_OK;
}

static tenon_status_t copy_into(const tenon_graph_t *from, tenon_graph_t *to) {
  for (size_t i = 0; i < from->edge_count; i++)
    TN_TRY(copy_edge(&from->edges[i], to));
  for (size_t i = 0; i < from->input_count; i++)
    TN_TRY(copy_input(from, i, to));
  for (size_t i = 0; i < from->node_count; i++) {
    const tn_node_t *n = &from->nodes[i];
    tn_node_t *node;
    TN_TRY(tn_graph_add_node(to, n->name, n->op, n->attrs, n->operands, n->output_count, &node));
    memcpy(node->outputs, n->outputs, (size_t)n->output_count * sizeof *n->outputs);
  }
  for (size_t i = 0; i < from->output_count; i++) {
    if (!tn_grow((void **)&to->outputs, &to->output_capacity, i, sizeof *to->outputs) ||
        !tn_grow((void **)&to->output_names, &to->name_capacity, i, sizeof *to->output_names) ||
        !(to->output_names[i] =
              tn_arena_text(&to->arena, from->output_names[i], strlen(from->output_names[i]))))
      return tn_no_memory("a graph", 0);
    to->outputs[i] = from->outputs[i];
    to->output_count = i + 1;
  }
  return TENON_OK;
}

tenon_status_t tn_graph_copy(const tenon_graph_t *graph, tenon_graph_t **out_graph) {
  tenon_graph_t *copy;
  TN_TRY(tn_graph_check(graph));
  TN_TRY(tn_graph_create(&copy));
  tenon_status_t status = copy_into(graph, copy);
  if (status != TENON_OK)
    tenon_graph_release(copy);
  else
    *out_graph = copy;
  return status;
}

tenon_status_t tn_graph_uses(const tenon_graph_t *graph, int32_t **out_uses) {
  int32_t *uses = tn_allocate_zero(graph->edge_count + 1, sizeof *uses);
  if (!uses) return tn_no_memory("a graph", graph->edge_count * sizeof *uses);
  for (size_t n = 0; n < graph->node_count; n++) {
    const tn_node_t *node = &graph->nodes[n];
    for (uint32_t i = 0; node->op && i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        uses[node->operands[i].edges[k]]++;
  }
  for (size_t i = 0; i < graph->output_count; i++)
    uses[graph->outputs[i]]++;
  *out_uses = uses;
  return TENON_OK;
}

uint64_t tn_node_wanted(const tn_node_t *node, const int32_t *uses) {
  uint64_t wanted = 0;
  int32_t at = 0;
  for (uint32_t o = 0; o < node->op->output_count; o++) {
    const tn_argument_t *result = &node->op->schema.outputs[o];
    int32_t count = 1;
    if (result->kind == TENON_KIND_TENSORS)
      count = node->output_count - at - (int32_t)(node->op->output_count - o - 1);
    bool used = !result->is_optional;
    for (int32_t k = 0; k < count && at < node->output_count; k++)
      used |= uses[node->outputs[at++]] > 0;
    if (used && o < 63) wanted |= (uint64_t)1 << o;
  }
  return wanted | (uint64_t)1 << 63; /* never 0, which would mean all results */
}
