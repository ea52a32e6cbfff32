/* What a graph would make of inputs that are not its own: inference through it, for operators whose
 * body it is.  Called while others are inferred, with symbols or with numbers.  Invariant: the
 * graph is not changed. */
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "dispatch/infer.h"
#include "graph/graph.h"
#include "graph/passes/pass.h"
#include "graph/run.h"

static tenon_dim_t *own(tenon_graph_t *graph, const tenon_dim_t *dims, uint32_t count) {
  tenon_dim_t *copy = tn_arena_array(&graph->arena, (size_t)count + 1, sizeof *copy);
  if (copy && count) memcpy(copy, dims, count * sizeof *copy);
  return copy;
}

static tenon_status_t set_input(tenon_graph_t *copy, const tenon_graph_t *graph, size_t i,
                                const tenon_meta_t *meta) {
  tn_edge_t *edge = &copy->edges[copy->inputs[i]];
  const tn_edge_t *stated = &graph->edges[graph->inputs[i]];
  if (stated->is_stated && meta->dtype.bits && !tn_dtype_same(stated->dtype, meta->dtype))
    return tn_fail(TENON_INVALID, "input %s of its graph is %s, found %s", edge->name,
                   tn_dtype_name(stated->dtype), tn_dtype_name(meta->dtype));
  edge->dtype = meta->dtype;
  edge->ndim = meta->ndim;
  edge->strides = NULL;
  edge->layout = meta->layout;
  uint32_t rank = meta->ndim > 0 ? (uint32_t)meta->ndim : 0;
  if (!(edge->dims = own(copy, meta->dims, rank)) ||
      (meta->strides && !(edge->strides = own(copy, meta->strides, rank))))
    return tn_no_memory("inference", rank);
  if (meta->values && meta->value_count) {
    if (!(edge->values = own(copy, meta->values, meta->value_count)))
      return tn_no_memory("inference", rank);
    edge->value_count = meta->value_count;
  }
  return TENON_OK;
}

/* Numbers are given as they are; a concrete result with an extent that only run knows is wholly
 * unknown. */
static void give(const tenon_graph_t *copy, size_t i, bool is_symbolic, tenon_meta_t *out) {
  const tn_edge_t *edge = &copy->edges[copy->outputs[i]];
  out->dtype = edge->dtype;
  out->ndim = edge->ndim;
  out->layout = edge->layout;
  for (int32_t d = 0; d < edge->ndim && out->ndim >= 0; d++) {
    out->dims[d] = tn_extents_resolve(copy->extents, edge->dims[d]);
    if (!is_symbolic && !tenon_is_known(out->dims[d])) out->ndim = -1;
  }
}

static tenon_status_t infer(tenon_graph_t *copy, const tenon_graph_t *graph, bool is_symbolic,
                            tenon_meta_t *const *inputs, tenon_meta_t *const *outputs) {
  for (size_t i = 0; i < graph->input_count; i++)
    TN_TRY(set_input(copy, graph, i, inputs[i]));
  TN_TRY(tn_pass_infer(copy));
  for (size_t i = 0; i < graph->output_count; i++)
    if (outputs[i]) give(copy, i, is_symbolic, outputs[i]);
  return TENON_OK;
}

static tenon_status_t infer_graph(const tenon_graph_t *graph, const tn_inference_t *inference,
                                  uint32_t input_count, tenon_meta_t *const *inputs,
                                  uint32_t output_count, tenon_meta_t *const *outputs) {
  tenon_graph_t *copy;
  if (input_count < graph->input_count || output_count != graph->output_count)
    return tn_fail(TENON_INVALID,
                   "%s: its graph has %zu inputs and %zu outputs, but %u and %u were given",
                   inference->infer.op->name, graph->input_count, graph->output_count, input_count,
                   output_count);
  TN_TRY(tn_graph_copy(graph, &copy));
  tn_extents_t *extents = copy->extents;
  if (inference->extents)
    copy->extents = inference->extents; /* symbols of inputs are of that table */
  tenon_status_t status = infer(copy, graph, inference->extents != NULL, inputs, outputs);
  for (size_t n = 0; n < copy->node_count; n++)
    if (copy->nodes[n].is_bounded) ((tn_inference_t *)(uintptr_t)inference)->is_bounded = true;
  copy->extents = extents;
  tenon_graph_release(copy);
  return status == TENON_OK ? status : tn_prefix(status, "%s: ", inference->infer.op->name);
}

void tn_body_start(void) { tn_graph_infer = infer_graph; }
