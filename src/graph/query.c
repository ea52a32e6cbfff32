/* Read-only access to graphs for tools and libraries: ports, nodes and values by index. */
#include <string.h>

#include "base/status.h"
#include "base/thread.h"
#include "core/file_copy.h"
#include "graph/graph.h"

const char *tenon_graph_name(const tenon_graph_t *graph) { return graph->name; }
int32_t tenon_graph_input_count(const tenon_graph_t *graph) { return (int32_t)graph->input_count; }
int32_t tenon_graph_output_count(const tenon_graph_t *graph) {
  return (int32_t)graph->output_count;
}

tenon_status_t tn_port_give(const tenon_port_t *full, tenon_port_t *out_port) {
  uint32_t size = out_port->size < sizeof *full ? out_port->size : (uint32_t)sizeof *full;
  memcpy(out_port, full, size);
  out_port->size = size;
  return TENON_OK;
}

tenon_status_t tn_axes_make(const tenon_graph_t *graph, tenon_edge_t index, tn_arena_t *arena,
                            tenon_axis_t **out_axes) {
  const tn_edge_t *edge = &graph->edges[index];
  size_t count = edge->ndim > 0 ? (size_t)edge->ndim : 0;
  tenon_axis_t *axes = tn_arena_array(arena, count + 1, sizeof *axes);
  if (!axes) return tn_no_memory("a graph", 0);
  for (size_t d = 0; d < count; d++) {
    tenon_dim_t dim = tn_extents_resolve(graph->extents, edge->dims[d]);
    axes[d].extent = tenon_is_known(dim) ? dim.value : -1;
    if (tenon_is_known(dim)) continue;
    tn_text_t text = {0};
    tn_extents_print(graph->extents, dim, &text);
    if (!text.failed) axes[d].name = tn_arena_text(arena, tn_text_get(&text), text.size);
    tn_text_clear(&text);
    if (!axes[d].name) return tn_no_memory("a graph", 0);
  }
  *out_axes = axes;
  return TENON_OK;
}

tenon_status_t tenon_graph_input(const tenon_graph_t *graph, int32_t index,
                                 tenon_port_t *out_port) {
  if (index < 0 || (size_t)index >= graph->input_count)
    return tn_fail(TENON_RANGE, "input %d is out of range: the graph has %zu inputs", (int)index,
                   graph->input_count);
  const tn_edge_t *edge = &graph->edges[graph->inputs[index]];
  tenon_port_t port = {
      sizeof port,          edge->name,  edge->dtype, edge->ndim, graph->input_axes[index],
      graph->inputs[index], edge->layout};
  return tn_port_give(&port, out_port);
}

tenon_status_t tenon_graph_output(const tenon_graph_t *graph, int32_t index,
                                  tenon_port_t *out_port) {
  if (index < 0 || (size_t)index >= graph->output_count)
    return tn_fail(TENON_RANGE, "output %d is out of range: the graph has %zu outputs", (int)index,
                   graph->output_count);
  const tn_edge_t *edge = &graph->edges[graph->outputs[index]];
  tenon_port_t port = {sizeof port, graph->output_names[index], edge->dtype,
                       edge->ndim,  graph->output_axes[index],  graph->outputs[index],
                       edge->layout};
  return tn_port_give(&port, out_port);
}

int32_t tenon_graph_node_count(const tenon_graph_t *graph) { return (int32_t)graph->node_count; }

tenon_status_t tenon_graph_node(const tenon_graph_t *graph, int32_t index,
                                tenon_graph_part_t *out_node) {
  if (index < 0 || (size_t)index >= graph->node_count)
    return tn_fail(TENON_RANGE, "node %d is out of range: the graph has %zu nodes", (int)index,
                   graph->node_count);
  const tn_node_t *node = &graph->nodes[index];
  TN_TRY(tn_graph_check(graph)); /* attributes may be tensors */
  uint32_t size = out_node->size < sizeof *out_node ? out_node->size : (uint32_t)sizeof *out_node;
  tenon_graph_part_t full = {size,        node->output_count, node->name,   node->op,
                             node->attrs, node->operands,     node->outputs};
  memcpy(out_node, &full, size);
  return TENON_OK;
}

tenon_status_t tenon_graph_edge(const tenon_graph_t *graph, tenon_edge_t index,
                                tenon_graph_edge_t *out_edge, char **out_type) {
  tn_text_t text = {0};
  if (index < 0 || (size_t)index >= graph->edge_count)
    return tn_fail(TENON_RANGE, "value %d is out of range: the graph has %zu values", (int)index,
                   graph->edge_count);
  const tn_edge_t *edge = &graph->edges[index];
  uint32_t size = out_edge->size < sizeof *out_edge ? out_edge->size : (uint32_t)sizeof *out_edge;
  if (edge->constant) TN_TRY(tn_graph_check(graph));
  tn_file_copy_keep(edge->constant);
  tenon_graph_edge_t full = {size, edge->producer, edge->input, edge->name, edge->constant};
  memcpy(out_edge, &full, size);
  if (!out_type) return TENON_OK;
  tn_edge_print(graph, edge, &text);
  *out_type = tn_text_take(&text);
  return *out_type ? TENON_OK : TENON_MEMORY;
}

/* guards value_axes and the arenas of finished graphs */
static tn_mutex_t axes_lock = TN_MUTEX_INIT;

tenon_status_t tenon_graph_value(const tenon_graph_t *constant, tenon_edge_t index,
                                 tenon_port_t *out_port) {
  tenon_graph_t *graph = (tenon_graph_t *)(uintptr_t)constant;
  tenon_status_t status = TENON_OK;
  if (index < 0 || (size_t)index >= graph->edge_count)
    return tn_fail(TENON_RANGE, "value %d is out of range: the graph has %zu values", (int)index,
                   graph->edge_count);
  const tn_edge_t *edge = &graph->edges[index];
  tn_mutex_lock(&axes_lock);
  if (!graph->value_axes)
    graph->value_axes = tn_arena_array(&graph->arena, graph->edge_count, sizeof *graph->value_axes);
  if (!graph->value_axes)
    status = tn_no_memory("axes", graph->edge_count);
  else if (!graph->value_axes[index])
    status = tn_axes_make(graph, index, &graph->arena, &graph->value_axes[index]);
  tn_mutex_unlock(&axes_lock);
  if (status != TENON_OK) return status;
  tenon_port_t port = {sizeof port, edge->name,  edge->dtype, edge->ndim, graph->value_axes[index],
                       index,       edge->layout};
  return tn_port_give(&port, out_port);
}
