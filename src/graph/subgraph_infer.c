/* Inference through a subgraph, for operators whose attribute holds a graph (If, Loop and the
 * like). Called while the operator's node is inferred, with symbols or with numbers. Invariant: the
 * graph itself is not changed; inference works on a copy. */
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "dispatch/infer.h"
#include "graph/graph.h"
#include "graph/passes/pass.h"
#include "graph/run.h"

static tenon_dim_t *copy_dims(tenon_graph_t *graph, const tenon_dim_t *dims, uint32_t count) {
  tenon_dim_t *copy = tn_arena_array(&graph->arena, (size_t)count + 1, sizeof *copy);
  if (copy && count) memcpy(copy, dims, count * sizeof *copy);
  return copy;
}

static tenon_status_t set_input(tenon_graph_t *copy, const tenon_graph_t *graph, size_t i,
                                const tenon_meta_t *meta) {
  tn_edge_t *edge = &copy->edges[copy->inputs[i]];
  const tn_edge_t *stated = &graph->edges[graph->inputs[i]];
  if (stated->is_stated && meta->dtype.bits && !tn_dtype_same(stated->dtype, meta->dtype))
    return tn_fail(TENON_INVALID, "input %s of its subgraph: expected dtype %s, found %s",
                   edge->name, tn_dtype_name(stated->dtype), tn_dtype_name(meta->dtype));
  edge->dtype = meta->dtype;
  edge->ndim = meta->ndim;
  edge->strides = NULL;
  edge->layout = meta->layout;
  uint32_t rank = meta->ndim > 0 ? (uint32_t)meta->ndim : 0;
  if (!(edge->dims = copy_dims(copy, meta->dims, rank)) ||
      (meta->strides && !(edge->strides = copy_dims(copy, meta->strides, rank))))
    return tn_no_memory("inference", rank);
  if (meta->values && meta->value_count) {
    if (!(edge->values = copy_dims(copy, meta->values, meta->value_count)))
      return tn_no_memory("inference", rank);
    edge->value_count = meta->value_count;
  }
  return TENON_OK;
}

/* Copies the inferred type of output `i` to `out`. In concrete inference, an extent that is known
 * only after running makes the whole shape unknown. */
static void copy_output(const tenon_graph_t *copy, size_t i, bool is_symbolic, tenon_meta_t *out) {
  const tn_edge_t *edge = &copy->edges[copy->outputs[i]];
  out->dtype = edge->dtype;
  out->ndim = edge->ndim;
  out->layout = edge->layout;
  for (int32_t d = 0; d < edge->ndim && out->ndim >= 0; d++) {
    out->dims[d] = tn_extents_resolve(copy->extents, edge->dims[d]);
    if (!is_symbolic && !tenon_is_known(out->dims[d])) out->ndim = -1;
  }
}

static tenon_status_t infer_copy(tenon_graph_t *copy, const tenon_graph_t *graph, bool is_symbolic,
                                 tenon_meta_t *const *inputs, tenon_meta_t *const *outputs) {
  for (size_t i = 0; i < graph->input_count; i++)
    TN_TRY(set_input(copy, graph, i, inputs[i]));
  TN_TRY(tn_pass_infer(copy));
  for (size_t i = 0; i < graph->output_count; i++)
    if (outputs[i]) copy_output(copy, i, is_symbolic, outputs[i]);
  return TENON_OK;
}

static tenon_status_t infer_subgraph(const tenon_graph_t *graph, const tn_inference_t *inference,
                                     uint32_t input_count, tenon_meta_t *const *inputs,
                                     uint32_t output_count, tenon_meta_t *const *outputs) {
  tenon_graph_t *copy;
  if (input_count < graph->input_count || output_count != graph->output_count)
    return tn_fail(
        TENON_INVALID,
        "%s: its subgraph has %zu inputs and %zu outputs, found %u inputs and %u outputs",
        inference->infer.op->name, graph->input_count, graph->output_count, input_count,
        output_count);
  TN_TRY(tn_graph_copy(graph, &copy));
  tn_extents_t *extents = copy->extents;
  if (inference->extents)
    copy->extents = inference->extents; /* symbols of the inputs belong to that table */
  tenon_status_t status = infer_copy(copy, graph, inference->extents != NULL, inputs, outputs);
  for (size_t n = 0; n < copy->node_count; n++)
    if (copy->nodes[n].is_bounded) ((tn_inference_t *)(uintptr_t)inference)->is_bounded = true;
  copy->extents = extents;
  tenon_graph_release(copy);
  return status == TENON_OK ? status : tn_prefix(status, "%s: ", inference->infer.op->name);
}

void tn_subgraph_infer_start(void) { tn_graph_infer = infer_subgraph; }
