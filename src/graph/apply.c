/* Applies graph transforms of libraries: a pass, or the strategies of a partitioner one after the
 * other. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "dispatch/services.h"
#include "graph/partition.h"
#include "operator/names.h"

/* The functions that libraries receive */

static const char *op_name(const tenon_op_t *op) { return op->name; }
static int32_t edge_count(const tenon_graph_t *graph) { return (int32_t)graph->edge_count; }

const tenon_graphs_t tn_graphs = {.size = sizeof tn_graphs,
                                  .op_name = op_name,
                                  .op_find = tenon_op_find,
                                  .input_count = tenon_graph_input_count,
                                  .output_count = tenon_graph_output_count,
                                  .node_count = tenon_graph_node_count,
                                  .edge_count = edge_count,
                                  .input = tenon_graph_input,
                                  .output = tenon_graph_output,
                                  .node = tenon_graph_node,
                                  .edge = tenon_graph_edge,
                                  .value = tenon_graph_value,
                                  .retain = tenon_graph_retain,
                                  .release = tenon_graph_release,
                                  .tensor_create = tenon_tensor_create,
                                  .tensor_release = tenon_tensor_release,
                                  .attrs_create = tenon_attrs_create,
                                  .attrs_release = tenon_attrs_release,
                                  .attrs_set = tenon_attrs_set,
                                  .attrs_parse = tenon_attrs_parse,
                                  .attrs_values = tenon_attrs_values,
                                  .builder_create = tenon_builder_create,
                                  .builder_release = tenon_builder_release,
                                  .builder_name = tenon_builder_name,
                                  .builder_input = tenon_builder_input,
                                  .builder_constant = tenon_builder_constant,
                                  .builder_node = tenon_builder_node,
                                  .builder_output = tenon_builder_output,
                                  .builder_finish = tenon_builder_finish,
                                  .builder_copy_inputs = tenon_builder_copy_inputs,
                                  .builder_copy_node = tenon_builder_copy_node,
                                  .builder_copy_outputs = tenon_builder_copy_outputs};

/* Applying a transform */

static tenon_status_t run_pass(const tenon_graph_t *graph, const tenon_pass_t *pass,
                               const tn_library_t *library, const tenon_option_t *options,
                               int32_t count, tenon_graph_t **out_graph) {
  tenon_pass_call_t call = {
      sizeof call, TENON_PHASE_PASS, &tn_host, &tn_graphs, library->context, pass,
      graph,       options,          count,    0};
  tenon_graph_t *made = NULL;
  TN_TRY(pass->run(&call, &made));
  if (!made) return tn_fail(TENON_INTERNAL, "its run function returned TENON_OK, but no graph");
  *out_graph = made;
  return TENON_OK;
}

static tenon_status_t run_strategies(const tenon_graph_t *graph,
                                     const tenon_partitioner_t *partitioner,
                                     const tn_library_t *library, const tenon_option_t *options,
                                     int32_t count, tenon_graph_t **out_graph) {
  tenon_status_t status = TENON_OK;
  tenon_graph_retain(graph);
  for (const tenon_strategy_t *const *s = partitioner->strategies; *s && status == TENON_OK; s++) {
    tenon_cut_t cut = {sizeof cut,
                       TENON_PHASE_PASS,
                       &tn_host,
                       &tn_graphs,
                       library->context,
                       partitioner,
                       *s,
                       graph,
                       options,
                       count,
                       0,
                       NULL};
    tenon_graph_t *next = NULL;
    status = tn_partition_apply(&cut, library, &next);
    if (status != TENON_OK) status = tn_prefix(status, "strategy %s: ", (*s)->name);
    tenon_graph_release(graph);
    graph = next;
  }
  if (status == TENON_OK) *out_graph = (tenon_graph_t *)(uintptr_t)graph;
  return status;
}

static tenon_status_t check_options(const tenon_option_t *options, int32_t count) {
  if (count < 0 || (count && !options))
    return tn_fail(TENON_INVALID, "invalid options: %d options, but no array of them", (int)count);
  for (int32_t i = 0; i < count; i++) {
    if (!options[i].name || !*options[i].name || !options[i].value)
      return tn_fail(TENON_INVALID, "option %d has no name or no value: expected both", (int)i);
    for (int32_t k = 0; k < i; k++)
      if (strcmp(options[i].name, options[k].name) == 0)
        return tn_fail(TENON_INVALID, "option '%s' is given twice", options[i].name);
  }
  return TENON_OK;
}

tenon_status_t tenon_graph_apply(const tenon_graph_t *graph, const char *name,
                                 const tenon_option_t *options, int32_t count,
                                 tenon_graph_t **out_graph) {
  const tn_transform_t *transform;
  const tn_library_t *library;
  TN_TRY(check_options(options, count));
  TN_TRY(tn_transform_find(name, &transform, &library));
  tenon_status_t status =
      transform->pass
          ? run_pass(graph, transform->pass, library, options, count, out_graph)
          : run_strategies(graph, transform->partitioner, library, options, count, out_graph);
  if (status != TENON_OK) status = tn_prefix(status, "%s: ", name);
  tn_registry_unuse(library);
  return status;
}
