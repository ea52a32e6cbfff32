/* Copies parts of one graph into the builder of another: used by passes and partitioners for
 * everything that they leave unchanged. */
#include "base/memory.h"
#include "base/status.h"
#include "core/file_copy.h"
#include "graph/graph.h"

/* The name of a value, or NULL if the name was generated: the new graph generates its own. */
static const char *given_name(const tn_edge_t *edge) {
  return *edge->name == '%' ? NULL : edge->name;
}

tenon_status_t tn_builder_copy_constant(tenon_builder_t *builder, const tenon_graph_t *graph,
                                        tenon_edge_t index, tenon_edge_t *edges) {
  const tn_edge_t *edge = &graph->edges[index];
  if (edges[index] >= 0) return TENON_OK;
  TN_TRY(tn_graph_check(graph));
  if (!edge->constant)
    return tn_fail(TENON_INVALID,
                   "value '%s' is used before the node that makes it was copied: copy nodes in the "
                   "order of the graph",
                   edge->name);
  tn_file_copy_recall(edge->constant);
  return tenon_builder_constant(builder, given_name(edge), edge->constant, &edges[index]);
}

tenon_status_t tenon_builder_copy_inputs(tenon_builder_t *builder, const tenon_graph_t *graph,
                                         tenon_edge_t *edges) {
  for (int32_t i = 0; i < (int32_t)graph->input_count; i++) {
    tenon_port_t port = {.size = sizeof port};
    TN_TRY(tenon_graph_input(graph, i, &port));
    const tn_edge_t *edge = &graph->edges[port.edge];
    tenon_dtype_t dtype = edge->is_stated ? port.dtype : (tenon_dtype_t){0, 0, 0};
    TN_TRY(tenon_builder_input(builder, port.name, dtype, port.ndim, port.axes, &edges[port.edge]));
    if (edge->layout) TN_TRY(tenon_builder_sparse(builder, edges[port.edge], edge->layout));
  }
  return TENON_OK;
}

tenon_status_t tenon_builder_copy_node(tenon_builder_t *builder, const tenon_graph_t *graph,
                                       int32_t index, tenon_edge_t *edges) {
  if (index < 0 || (size_t)index >= graph->node_count)
    return tn_fail(TENON_RANGE, "node %d is out of range: the graph has %zu nodes", (int)index,
                   graph->node_count);
  TN_TRY(tn_graph_check(graph));
  const tn_node_t *node = &graph->nodes[index];
  size_t total = (size_t)node->output_count;
  size_t at = 0;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    total += (size_t)node->operands[i].count;
  tenon_edge_t *room = tn_allocate((total + 1) * sizeof *room +
                                   (node->op->input_count + 1) * sizeof(tenon_operand_t) + 8);
  if (!room) return tn_no_memory("a node", total);
  tenon_operand_t *operands = (tenon_operand_t *)(void *)((char *)room + (total + 2) / 2 * 8);
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < node->op->input_count && status == TENON_OK; i++) {
    operands[i] = (tenon_operand_t){node->operands[i].count, &room[at]};
    for (int32_t k = 0; k < node->operands[i].count && status == TENON_OK; k++) {
      tenon_edge_t edge = node->operands[i].edges[k];
      status = tn_builder_copy_constant(builder, graph, edge, edges);
      room[at++] = edges[edge];
    }
  }
  tenon_edge_t *outputs = &room[at];
  if (status == TENON_OK)
    status = tn_builder_node_wanted(builder, node->name, node->op, node->attrs, operands,
                                    node->wanted, outputs, node->output_count);
  for (int32_t o = 0; o < node->output_count && status == TENON_OK; o++)
    edges[node->outputs[o]] = outputs[o];
  tn_release_memory(room);
  return status == TENON_OK ? status
                            : tn_prefix(status, "node '%s' (%s): ", node->name, node->op->name);
}

tenon_status_t tenon_builder_copy_outputs(tenon_builder_t *builder, const tenon_graph_t *graph,
                                          tenon_edge_t *edges) {
  for (size_t i = 0; i < graph->output_count; i++) {
    TN_TRY(tn_builder_copy_constant(builder, graph, graph->outputs[i], edges));
    TN_TRY(tenon_builder_output(builder, graph->output_names[i], edges[graph->outputs[i]]));
  }
  return TENON_OK;
}
