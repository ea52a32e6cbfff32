/* Prepares a graph for differentiation; see gradient_source.h. */
#include "graph/gradient_source.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/passes/pass.h"
#include "graph/passes/rules.h"

static tenon_status_t find_value(const tenon_graph_t *graph, const char *name,
                                 tenon_edge_t *out_edge) {
  for (size_t e = 0; e < graph->edge_count; e++) {
    const tn_edge_t *edge = &graph->edges[e];
    if (edge->producer >= 0 || strcmp(edge->name, name) != 0) continue;
    *out_edge = (tenon_edge_t)e;
    if (tn_is_differentiable(edge->dtype)) return TENON_OK;
    return tn_fail(TENON_INVALID,
                   "value '%s' has dtype %s: expected a float, since others have no gradient", name,
                   edge->dtype.bits ? tn_dtype_name(edge->dtype) : "unknown");
  }
  return tn_fail(TENON_NOT_FOUND,
                 "the graph has no input and no constant named '%s': tenon_graph_dump lists them",
                 name);
}

/* Makes an input of a constant. */
static tenon_status_t lift_constant(const tenon_graph_t *graph, tenon_edge_t index,
                                    tenon_builder_t *builder, tenon_edge_t *edges) {
  const tn_edge_t *edge = &graph->edges[index];
  tenon_axis_t axes[TENON_RANK_MAX];
  for (int32_t d = 0; d < edge->ndim; d++)
    axes[d] = (tenon_axis_t){edge->constant->shape[d], NULL};
  return tenon_builder_input(builder, edge->name, edge->dtype, edge->ndim, axes, &edges[index]);
}

static tenon_status_t lift_values(const tenon_graph_t *graph,
                                  const tenon_graph_gradients_t *options, tenon_builder_t *builder,
                                  tenon_edge_t *edges) {
  for (int32_t i = 0; i < options->value_count; i++) {
    tenon_edge_t edge;
    TN_TRY(find_value(graph, options->values[i], &edge));
    for (int32_t k = 0; k < i; k++)
      if (strcmp(options->values[k], options->values[i]) == 0)
        return tn_fail(TENON_INVALID, "value '%s' is listed twice", options->values[i]);
    if (graph->edges[edge].input < 0) TN_TRY(lift_constant(graph, edge, builder, edges));
  }
  return TENON_OK;
}

static tenon_status_t copy_graph(const tenon_graph_t *graph, const tenon_graph_gradients_t *options,
                                 tenon_builder_t *builder, tenon_edge_t *edges) {
  TN_TRY(tenon_builder_name(builder, graph->name));
  TN_TRY(tenon_builder_copy_inputs(builder, graph, edges));
  TN_TRY(lift_values(graph, options, builder, edges));
  for (int32_t n = 0; n < (int32_t)graph->node_count; n++)
    TN_TRY(tenon_builder_copy_node(builder, graph, n, edges));
  return tenon_builder_copy_outputs(builder, graph, edges);
}

static tenon_status_t rewrite(tenon_graph_t *graph) {
  tn_rules_t rules = {0};
  tenon_status_t status = tn_rules_open(&rules, NULL);
  if (status == TENON_OK) status = tn_pass_fold(graph);
  if (status == TENON_OK) status = tn_pass_dead_code(graph);
  if (status == TENON_OK) status = tn_rules_apply(&rules, TN_RULES_SIMPLIFY, graph);
  if (status == TENON_OK) status = tn_rules_apply(&rules, TN_RULES_FORMULAS, graph);
  if (status == TENON_OK) status = tn_pass_dead_code(graph);
  if (status == TENON_OK) status = tn_pass_infer(graph);
  tn_rules_close(&rules);
  return status;
}

tenon_status_t tn_gradient_source(const tenon_graph_t *graph,
                                  const tenon_graph_gradients_t *options,
                                  tenon_graph_t **out_graph) {
  const size_t count = graph->edge_count + 1;
  tenon_builder_t *builder;
  tenon_graph_t *made = NULL;
  TN_TRY(tenon_builder_create(&builder));
  tenon_edge_t *edges = tn_allocate(count * sizeof *edges);
  tenon_status_t status = edges ? TENON_OK : tn_no_memory("a gradient", count * sizeof *edges);
  if (edges) memset(edges, -1, count * sizeof *edges);
  if (status == TENON_OK) status = copy_graph(graph, options, builder, edges);
  if (status == TENON_OK) status = tenon_builder_finish(builder, &made);
  if (status == TENON_OK && !(options->flags & TENON_GRADIENTS_PLAIN)) status = rewrite(made);
  tenon_builder_release(builder);
  tn_release_memory(edges);
  if (status == TENON_OK)
    *out_graph = made;
  else
    tenon_graph_release(made);
  return status;
}
