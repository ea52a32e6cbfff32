/* Runs an offloaded subgraph: infers the shapes of its results with the inference of its nodes,
 * allocates memory for them, and enqueues one piece of work on the stream. The work is ordered, and
 * failures are attributed, as for kernel launches. */
#include "graph/offload.h"

#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/tensor.h"
#include "device/memory.h"
#include "dispatch/infer.h"
#include "storage/device_memory.h"

void tn_offloads_release(tenon_executable_t *e) {
  for (size_t i = 0; i < e->offload_count; i++) {
    tn_group_release(e->offloads[i].group);
    tn_arena_clear(&e->offloads[i].arena);
  }
  tn_release_memory(e->offloads);
  tn_release_memory(e->offload_report);
  e->offloads = NULL;
  e->offload_report = NULL;
  e->offload_count = 0;
}

/* Shapes */

static bool has_known_shape(const tenon_meta_t *edge) {
  for (int32_t d = 0; d < edge->ndim; d++)
    if (!tenon_is_known(edge->dims[d])) return false;
  return true;
}

static bool has_known_outputs(const tenon_graph_view_t *view) {
  for (uint32_t i = 0; i < view->output_count; i++)
    if (!has_known_shape(view->edges[view->outputs[i]])) return false;
  return true;
}

/* Lists the metas of a node's arguments, which point to the metas of the view's edges. */
static tenon_status_t argument_metas(const tn_node_t *node, const tenon_graph_node_t *seen,
                                     tenon_meta_t *edges, tenon_meta_t ***out_inputs) {
  tenon_meta_t **slots = tn_scratch((seen->argument_count + 1) * sizeof *slots);
  if (!slots) return tn_no_memory("inference", seen->argument_count);
  for (uint32_t i = 0; i < seen->argument_count; i++) {
    const uint32_t *list = seen->inputs + seen->starts[i];
    uint32_t count = seen->starts[i + 1] - seen->starts[i];
    bool is_list = node->op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    slots[i] = count && !is_list ? &edges[*list] : NULL;
    if (!is_list) continue;
    tenon_meta_t **items = tn_scratch((count + 1) * sizeof *items);
    if (!items || !(slots[i] = tn_scratch(sizeof **slots))) return tn_no_memory("inference", count);
    for (uint32_t k = 0; k < count; k++)
      items[k] = &edges[list[k]];
    *slots[i] = (tenon_meta_t){.size = sizeof **slots,
                               .dtype = tenon_dtype(TENON_LIST),
                               .ndim = 1,
                               .count = count,
                               .device = {1, 0},
                               .items = items};
  }
  *out_inputs = slots;
  return TENON_OK;
}

static tenon_status_t infer_node(const tenon_device_t *device, const tn_step_t *step,
                                 const tenon_graph_node_t *seen, tenon_meta_t *edges) {
  const tn_node_t *node = step->node;
  tn_inference_t inference = {.device = device};
  tenon_meta_t **inputs, **outputs;
  TN_TRY(argument_metas(node, seen, edges, &inputs));
  TN_TRY(tn_metas_of_results(node->op, node->attrs, 0, &outputs));
  TN_TRY(tn_infer(&inference, node->op, node->attrs, step->state, inputs, outputs));
  for (uint32_t o = 0, at = 0; o < node->op->output_count; o++) {
    uint32_t count = outputs[o]->items ? outputs[o]->count : 1;
    for (uint32_t k = 0; k < count && at < seen->output_count; k++, at++)
      edges[seen->outputs[at]] = outputs[o]->items ? *outputs[o]->items[k] : *outputs[o];
  }
  return TENON_OK;
}

static tenon_status_t infer_subgraph(const tenon_executable_t *e, const tn_offload_t *offload,
                                     int32_t first, tenon_tensor_t *const *inputs,
                                     tenon_meta_t *edges) {
  const tenon_graph_view_t *view = &offload->view.view;
  for (uint32_t i = 0; i < view->edge_count; i++)
    if (view->edges[i]->value)
      TN_TRY(
          tn_meta_of_tensor((tenon_tensor_t *)(uintptr_t)view->edges[i]->value, true, &edges[i]));
  for (uint32_t i = 0; i < view->input_count; i++)
    TN_TRY(tn_meta_of_tensor(inputs[i], false, &edges[view->inputs[i]]));
  for (uint32_t n = 0; n < view->node_count; n++) {
    tenon_status_t status =
        infer_node(&offload->group->device, &e->steps[first + (int32_t)n], view->nodes[n], edges);
    if (status != TENON_OK)
      return tn_prefix(status, "node '%s' (%s): ", view->nodes[n]->name, view->nodes[n]->op);
  }
  return TENON_OK;
}

static tenon_status_t make_outputs(const tenon_executable_t *e, const tn_offload_t *offload,
                                   int32_t first, tenon_tensor_t *const *inputs,
                                   tenon_tensor_t **outputs) {
  const tenon_graph_view_t *view = &offload->view.view;
  tenon_meta_t *edges = NULL;
  if (!has_known_outputs(view)) {
    if (!(edges = tn_scratch((view->edge_count + 1) * sizeof *edges)))
      return tn_no_memory("inference", view->edge_count);
    TN_TRY(infer_subgraph(e, offload, first, inputs, edges));
  }
  for (uint32_t i = 0; i < view->output_count; i++) {
    const tenon_meta_t *meta = edges ? &edges[view->outputs[i]] : view->edges[view->outputs[i]];
    if (meta->ndim < 0 || !has_known_shape(meta))
      return tn_fail(
          TENON_INTERNAL,
          "value '%s' of an offloaded subgraph: its shape is not known before it is computed",
          view->names[view->outputs[i]]);
    TN_TRY(tn_device_tensor_create(offload->group->device, meta->dtype, meta->ndim,
                                   (const int64_t *)(const void *)meta->dims, &outputs[i]));
  }
  return TENON_OK;
}

/* The work */

static tenon_status_t use_memory(tenon_tensor_t *const *tensors, uint32_t count,
                                 tenon_stream_t *stream, uint64_t ticket, bool writes,
                                 tn_needs_t *needs) {
  for (uint32_t i = 0; i < count; i++) {
    tn_memory_t *memory = tn_memory_of(tensors[i]);
    if (memory) TN_TRY(tn_memory_use(memory, stream, ticket, writes, needs));
  }
  return TENON_OK;
}

static tenon_status_t enqueue_subgraph(const tn_offload_t *offload, tn_ordinal_t *o,
                                       tenon_tensor_t *const *inputs,
                                       tenon_tensor_t *const *outputs) {
  const tenon_graph_view_t *view = &offload->view.view;
  tenon_stream_t *stream = tn_stream_current(o);
  tn_needs_t needs = {0};
  TN_TRY(tn_stream_check(stream));
  uint64_t ticket = tn_stream_ticket(stream, offload->group->name);
  tenon_status_t status = use_memory(inputs, view->input_count, stream, ticket, false, &needs);
  if (status == TENON_OK)
    status = use_memory(outputs, view->output_count, stream, ticket, true, &needs);
  if (status == TENON_OK) status = tn_stream_follow(stream, &needs);
  if (status != TENON_OK) {
    tn_stream_ended(stream);
    return status;
  }
  tenon_group_run_t run = {.size = sizeof run,
                           .input_count = view->input_count,
                           .output_count = view->output_count,
                           .ticket = ticket,
                           .group = offload->group->native,
                           .inputs = inputs,
                           .outputs = outputs};
  const uint64_t errors = tn_error_count();
  status = o->table->group_run(&o->context, stream->native, &run);
  status = tn_ordinal_complete(o, errors, "group_run", status);
  tn_stream_ended(stream);
  return status == TENON_OK ? status : tn_stream_refused(stream, status, NULL);
}

/* Makes inputs row-major. The caller owns `inputs`, also after a failure. */
static tenon_status_t make_inputs_dense(const tn_offload_t *offload, tenon_tensor_t *const *given,
                                        tenon_tensor_t **inputs) {
  const tenon_graph_view_t *view = &offload->view.view;
  for (uint32_t i = 0; i < view->input_count; i++) {
    if (given[i]->keys & TN_KEY_DETAIL)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "value '%s' is %s, but an offloaded subgraph takes dense tensors only: "
                     "compile without offloading (claims = \"off\")",
                     view->names[view->inputs[i]], tenon_tensor_layout(given[i]));
    if (given[i]->keys & TN_KEY_STRIDED)
      TN_TRY(tn_device_tensor_create_like(given[i], true, &inputs[i]));
    else {
      inputs[i] = given[i];
      tenon_tensor_retain(inputs[i]);
    }
  }
  return TENON_OK;
}

tenon_status_t tn_offload_run(const tenon_executable_t *e, const tn_offload_t *offload,
                              int32_t first, tenon_tensor_t *const *given,
                              tenon_tensor_t **outputs) {
  const tenon_graph_view_t *view = &offload->view.view;
  tn_ordinal_t *o;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t **inputs = tn_scratch((view->input_count + 1) * sizeof *inputs);
  if (!inputs) return tn_no_memory("a run", view->input_count);
  memset(inputs, 0, (view->input_count + 1) * sizeof *inputs);
  memset(outputs, 0, view->output_count * sizeof *outputs);
  tenon_status_t status = tn_ordinal_get(offload->group->device, &o);
  if (status == TENON_OK && !offload->group->ordinal)
    status =
        tn_fail(TENON_PRECONDITION,
                "its device was stopped after the graph was compiled: compile the graph again");
  if (status == TENON_OK) status = make_inputs_dense(offload, given, inputs);
  if (status == TENON_OK) status = make_outputs(e, offload, first, inputs, outputs);
  if (status == TENON_OK) status = enqueue_subgraph(offload, o, inputs, outputs);
  for (uint32_t i = 0; i < view->input_count; i++)
    tenon_tensor_release(inputs[i]);
  for (uint32_t i = 0; i < view->output_count && status != TENON_OK; i++) {
    tenon_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  tn_scratch_reset(mark);
  return status;
}
