/* Makes graphs of parts of a graph; see part.h. */
#include "graph/part.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

tenon_status_t tn_part_mark(const tenon_graph_t *graph, const tn_part_t *part, bool *out_needed) {
  bool *wanted = tn_allocate_zero(2 * graph->edge_count + 1, sizeof *wanted);
  if (!wanted) return tn_no_memory("a part of a graph", graph->edge_count);
  bool *is_given = wanted + graph->edge_count;
  for (size_t i = 0; i < part->given_count; i++)
    is_given[part->given[i]] = true;
  for (size_t i = 0; i < part->result_count; i++)
    wanted[part->results[i]] = true;
  for (size_t n = graph->node_count; n-- > 0;) {
    const tn_node_t *node = &graph->nodes[n];
    for (int32_t o = 0; o < node->output_count; o++)
      out_needed[n] |= wanted[node->outputs[o]] && !is_given[node->outputs[o]];
    for (uint32_t i = 0; out_needed[n] && i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        wanted[node->operands[i].edges[k]] = true;
  }
  tn_release_memory(wanted);
  return TENON_OK;
}

static tenon_status_t add_given(const tenon_graph_t *graph, tenon_edge_t index,
                                tenon_builder_t *builder, tenon_edge_t *edges) {
  const tn_edge_t *edge = &graph->edges[index];
  const bool is_stated = edge->input < 0 || edge->is_stated;
  const tenon_dtype_t dtype = is_stated ? edge->dtype : (tenon_dtype_t){0, 0, 0};
  const char *name = *edge->name == '%' ? NULL : edge->name; /* the builder makes such names */
  tn_arena_t arena = {0};
  tenon_axis_t *axes;
  tenon_status_t status = tn_axes_make(graph, index, &arena, &axes);
  if (status == TENON_OK)
    status = tenon_builder_input(builder, name, dtype, edge->ndim, axes, &edges[index]);
  tn_arena_clear(&arena);
  if (status != TENON_OK || !edge->layout) return status;
  return tenon_builder_sparse(builder, edges[index], edge->layout);
}

static tenon_status_t copy_part(const tenon_graph_t *graph, const tn_part_t *part,
                                const bool *needed, tenon_builder_t *builder, tenon_edge_t *edges) {
  char name[32];
  TN_TRY(tenon_builder_name(builder, graph->name));
  for (size_t i = 0; i < part->given_count; i++)
    TN_TRY(add_given(graph, part->given[i], builder, edges));
  for (size_t n = 0; n < graph->node_count; n++)
    if (needed[n]) TN_TRY(tenon_builder_copy_node(builder, graph, (int32_t)n, edges));
  for (size_t i = 0; i < part->result_count; i++) {
    snprintf(name, sizeof name, "result %zu", i);
    TN_TRY(tn_builder_copy_constant(builder, graph, part->results[i], edges));
    TN_TRY(tenon_builder_output(builder, name, edges[part->results[i]]));
  }
  return TENON_OK;
}

tenon_status_t tn_part_make(const tenon_graph_t *graph, const tn_part_t *part,
                            tenon_graph_t **out_graph) {
  tenon_builder_t *builder = NULL;
  bool *needed = tn_allocate_zero(graph->node_count + 1, sizeof *needed);
  tenon_edge_t *edges = tn_allocate((graph->edge_count + 1) * sizeof *edges);
  tenon_status_t status = TENON_OK;
  if (!needed || !edges) status = tn_no_memory("a part of a graph", graph->edge_count);
  if (edges) memset(edges, -1, (graph->edge_count + 1) * sizeof *edges);
  if (status == TENON_OK) status = tn_part_mark(graph, part, needed);
  if (status == TENON_OK) status = tenon_builder_create(&builder);
  if (status == TENON_OK) status = copy_part(graph, part, needed, builder, edges);
  if (status == TENON_OK) status = tenon_builder_finish(builder, out_graph);
  tenon_builder_release(builder);
  tn_release_memory(needed);
  tn_release_memory(edges);
  return status;
}
