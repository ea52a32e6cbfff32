/* Runs executables: checks and binds inputs, plans stages or reuses plans that still fit, runs
 * their actions, and hands over the outputs. Called by applications, and by kernels through
 * host->evaluate. Invariant: a failed run leaves no plan that could be wrong. */
#include "graph/run.h"

#include <string.h>

#include "base/memory.h"
#include "base/poll.h"
#include "base/reason.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "drivers/profile.h"
#include "drivers/region.h"
#include "graph/capture.h"
#include "graph/device_region.h"
#include "graph/executable.h"
#include "graph/given_outputs.h"
#include "graph/interpreter.h"
#include "graph/picture.h"
#include "graph/plan_text.h"
#include "graph/training.h"
#include "layers/trace.h"
#include "operator/generator.h"
#include "operator/state.h"
#include "storage/device_memory.h"

/* Inputs */

static tenon_status_t check_input(const tenon_executable_t *e, size_t i, const tenon_tensor_t *t) {
  const tn_edge_t *edge = &e->source->edges[e->source->inputs[i]];
  const tenon_axis_t *axes = e->source->input_axes[i];
  char found[160];
  if (!t)
    return tn_fail(TENON_INVALID,
                   "input '%s' is missing: pass a tensor for every input of the graph", edge->name);
  if (tn_layout(t) != edge->layout)
    return tn_fail(
        TENON_INVALID, "input '%s': expected a %s tensor, found a %s tensor%s", edge->name,
        tn_layout_name(edge->layout), tn_layout_name(tn_layout(t)),
        edge->layout ? ""
                     : ": declare sparse inputs with tenon_builder_sparse when the graph is built");
  if (edge->dtype.bits && !tn_dtype_same(t->dtype, edge->dtype))
    return tn_fail(TENON_INVALID, "input '%s': expected dtype %s, found %s", edge->name,
                   tn_dtype_name(edge->dtype), tn_dtype_name(t->dtype));
  if (edge->ndim >= 0 && t->ndim != edge->ndim)
    return tn_fail(TENON_INVALID, "input '%s': expected %d dimensions, found shape %s", edge->name,
                   (int)edge->ndim, tn_shape_print(t->ndim, t->shape, found, sizeof found));
  for (int32_t d = 0; d < edge->ndim; d++)
    if (axes[d].extent >= 0 && axes[d].extent != t->shape[d])
      return tn_fail(TENON_INVALID, "input '%s': expected extent %lld in axis %d, found shape %s",
                     edge->name, (long long)axes[d].extent, (int)d,
                     tn_shape_print(t->ndim, t->shape, found, sizeof found));
  return TENON_OK;
}

/* Axes with the same symbolic name must have the same extent. */
static tenon_status_t check_symbols(const tenon_executable_t *e, tenon_tensor_t *const *inputs) {
  const tenon_graph_t *g = e->source;
  for (size_t i = 0; i < e->same_axes_count; i++) {
    const tn_same_axes_t *same = &e->same_axes[i];
    int64_t found = inputs[same->input]->shape[same->axis];
    int64_t expected = inputs[same->first_input]->shape[same->first_axis];
    if (found != expected)
      return tn_fail(TENON_INVALID,
                     "input '%s': axis %d (%s) has extent %lld, but the axis of the same name of "
                     "input '%s' has %lld",
                     g->edges[g->inputs[same->input]].name, (int)same->axis,
                     g->input_axes[same->input][same->axis].name, (long long)found,
                     g->edges[g->inputs[same->first_input]].name, (long long)expected);
  }
  return TENON_OK;
}

static tenon_status_t check_inputs(const tenon_executable_t *e, tenon_tensor_t *const *inputs) {
  for (size_t i = 0; i < e->graph->input_count; i++)
    TN_TRY(check_input(e, i, inputs[i]));
  return check_symbols(e, inputs);
}

/* Lets a list that the run makes share the memory of this input instead of copying it. */
static void share_storage(tn_allocation_t *allocation, const tn_tensor_t *input) {
  tn_storage_release(allocation->tensor->storage);
  allocation->tensor->storage = input->storage;
  if (input->storage) tn_storage_retain(input->storage);
}

static tenon_status_t bind_inputs(tn_run_t *run, tenon_tensor_t *const *inputs) {
  const tenon_executable_t *e = run->executable;
  TN_TRY(check_inputs(e, inputs));
  for (size_t i = 0; i < e->graph->input_count; i++) {
    tn_allocation_t *allocation = &run->allocations[e->graph->inputs[i]];
    const tenon_tensor_t *t = inputs[i];
    if (!allocation->tensor || allocation->room < t->ndim) {
      tenon_tensor_t *fresh;
      TN_TRY(tn_tensor_unset(t->dtype, t->ndim, &fresh));
      if (allocation->tensor) {
        tn_stages_drop(run, 0); /* actions point to the old header */
        tenon_tensor_release(&allocation->tensor->view);
      }
      allocation->tensor = (tn_tensor_t *)fresh;
      allocation->room = t->ndim;
    }
    tenon_tensor_t *view = &allocation->tensor->view;
    int64_t *shape = view->shape;
    int64_t *strides = view->strides;
    *view = *t;
    view->shape = shape;
    view->strides = strides;
    view->keys |= TN_TENSOR_OWNED | TN_TENSOR_LENT;
    if (t->ndim) {
      memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
      memcpy(strides, t->strides, (size_t)t->ndim * sizeof *shape);
    }
    allocation->where = TN_ALLOCATION_INPUT;
    allocation->stage = -1;
    if (e->has_lists && tn_tensor_is_owned(t)) share_storage(allocation, (const tn_tensor_t *)t);
  }
  return TENON_OK;
}

/* Gives up the references that bind_inputs took. */
static void unbind_inputs(tn_run_t *run) {
  const tenon_graph_t *g = run->executable->graph;
  for (size_t i = 0; run->executable->has_lists && i < g->input_count; i++) {
    tn_tensor_t *t = run->allocations[g->inputs[i]].tensor;
    if (!t) continue;
    tn_storage_release(t->storage);
    t->storage = NULL;
  }
}

/* One stage */

/* Gives a value a storage of its own, or no memory if the kernel states the size when it runs. */
static tenon_status_t bind_own(tn_allocation_t *allocation) {
  tn_tensor_t *t = allocation->tensor;
  tn_storage_release(t->storage);
  t->storage = NULL;
  t->view.data = NULL;
  if (allocation->layout) {
    t->view.detail = tn_sparse_unset(allocation->layout);
    t->view.keys |= TN_TENSOR_UNSET;
    memcpy(t->view.shape, allocation->bound, (size_t)t->view.ndim * sizeof *t->view.shape);
    tn_strides_dense(t->view.ndim, t->view.shape, t->view.strides);
    tn_tensor_mark(&t->view);
    return TENON_OK;
  }
  if (allocation->is_pending) {
    t->view.keys |= TN_TENSOR_UNSET;
    return TENON_OK;
  }
  /* Strings: the texts belong to a storage. */
  TN_TRY(tn_storage_create(NULL, allocation->size, NULL, NULL, &t->storage));
  memset(t->storage->data, 0, (size_t)allocation->size);
  t->storage->string_count = tenon_count(&t->view);
  t->view.data = t->storage->data;
  return TENON_OK;
}

static tenon_status_t bind_output(tn_run_t *run, int32_t edge, tenon_tensor_t **outputs,
                                  uint64_t given) {
  const tenon_executable_t *e = run->executable;
  tn_tensor_t *t = run->allocations[edge].tensor;
  for (int32_t i = e->first_output[edge]; i >= 0; i = e->next_output[i]) {
    bool fits = (given >> (i < 63 ? i : 63) & 1) && outputs[i]->ndim == t->view.ndim &&
                !(outputs[i]->keys & (TN_KEY_STRIDED | TN_TENSOR_UNSET)) &&
                tn_dtype_same(outputs[i]->dtype, t->view.dtype) &&
                (t->view.ndim == 0 || memcmp(outputs[i]->shape, t->view.shape,
                                             (size_t)t->view.ndim * sizeof *t->view.shape) == 0);
    if (!outputs[i])
      TN_TRY(tenon_tensor_create(t->view.dtype, t->view.ndim, t->view.shape, &outputs[i]));
    else if (!fits)
      continue;
    t->view.data = outputs[i]->data;
    return TENON_OK;
  }
  /* An output tensor from the caller whose layout does not fit receives a copy at the end of the
   * run. */
  tn_storage_t *storage;
  TN_TRY(tn_storage_create(NULL, run->allocations[edge].size, NULL, NULL, &storage));
  tn_storage_release(t->storage);
  t->storage = storage;
  t->view.data = storage->data;
  return TENON_OK;
}

static tenon_status_t bind_stage(tn_run_t *run, tn_stage_t *stage, tenon_tensor_t **outputs,
                                 uint64_t given) {
  for (size_t i = 0; i < stage->planned_count; i++) {
    int32_t edge = stage->edges[i];
    tn_allocation_t *allocation = &run->allocations[edge];
    tenon_tensor_t *t = &allocation->tensor->view;
    if (allocation->bound && allocation->where != TN_ALLOCATION_OWN) {
      memcpy(t->shape, allocation->bound, (size_t)t->ndim * sizeof *t->shape);
      tn_strides_dense(t->ndim, t->shape, t->strides);
      tn_tensor_mark(t);
    }
    tenon_status_t status = TENON_OK;
    switch (allocation->where) {
    case TN_ALLOCATION_ARENA:
      t->data = (char *)stage->arena + allocation->offset;
      break;
    case TN_ALLOCATION_OUTPUT:
      status = bind_output(run, edge, outputs, given);
      break;
    case TN_ALLOCATION_OWN:
      status = bind_own(allocation);
      break;
    case TN_ALLOCATION_PART:
      t->data = (char *)run->allocations[allocation->block].tensor->view.data + allocation->delta;
      break;
    case TN_ALLOCATION_VIEW:
      t->data = (char *)run->allocations[allocation->root].tensor->view.data + allocation->delta;
      break;
    default:
      break;
    }
    if (allocation->source != edge)
      t->detail = run->allocations[allocation->source].tensor->view.detail;
    if (status == TENON_OK) continue;
    const tenon_graph_t *g = run->executable->graph;
    const tn_node_t *node =
        edge < (int32_t)g->edge_count ? &g->nodes[g->edges[edge].producer] : NULL;
    return node ? tn_prefix(status, "node '%s' (%s): ", node->name, node->op->name) : status;
  }
  return TENON_OK;
}

static tenon_status_t check_sparse_results(const tn_action_t *action) {
  const tenon_call_t *call = &action->frame.call;
  for (uint32_t o = 0; o < call->op->output_count; o++)
    if (call->outputs[o] && tn_layout(call->outputs[o]) && call->outputs[o]->keys & TN_TENSOR_UNSET)
      return tn_fail(TENON_INTERNAL,
                     "%s: its run function returned without making the sparse result %s: call "
                     "host->sparse or host->assign",
                     call->op->name, call->op->schema.outputs[o].name);
  return TENON_OK;
}

/* If the trace, failure dumps or the search for NaN watch calls, the node runs as a call that they
 * can see. */
static __attribute__((noinline, cold)) tenon_status_t
run_watched(const tenon_executable_t *executable, tn_action_t *action, const char *node) {
  const char *before = tn_thread()->graph_node;
  TN_TRY(tn_executable_recall(executable)); /* what watches a call may read all of its inputs */
  tn_thread()->graph_node = node;
  tenon_status_t status = tn_watch_run_node(&action->frame.call, node);
  tn_thread()->graph_node = before;
  return status;
}

static tenon_status_t run_region(const tn_run_t *run, tn_action_t *action,
                                 tenon_profile_t *profile) {
  if (!profile) return tn_region_run(action->region);
  const int32_t depth = tn_profile_depth(profile);
  tn_profile_open(profile, run->executable->steps[action->step].node->name, action->label);
  tn_profile_work(profile, depth, tn_region_work(action->region));
  tenon_status_t status = tn_region_run(action->region);
  tn_profile_close_to(profile, depth);
  return status;
}

static void open_span(tenon_profile_t *profile, const tn_node_t *node, const tn_action_t *action) {
  const tenon_call_t *call = &action->frame.call;
  const int32_t depth = tn_profile_depth(profile);
  tn_work_t work = {0, 0};
  if (action->kernel) {
    work = tn_work_of_tensors(call->op, call->inputs, call->outputs);
  } else {
    const tn_size_t copied = tn_size_of_tensor(action->outputs[0]);
    work.bytes = 2 * tn_size_bytes(&copied);
  }
  tn_profile_open(profile, node->name, action->kernel ? node->op->name : "copy");
  tn_profile_work(profile, depth, work);
}

static tenon_status_t run_action(tn_run_t *run, tn_action_t *action, tenon_profile_t *profile) {
  if (action->region) return run_region(run, action, profile);
  tn_step_t *step = &run->executable->steps[action->step];
  tenon_status_t status;
  tenon_random_t random;
  const uint64_t errors = tn_error_count();
  int32_t depth = profile ? tn_profile_depth(profile) : 0;
  if (profile) open_span(profile, step->node, action);
  if (!action->kernel) {
    status = tn_tensor_copy_into(action->inputs[0], action->outputs[0]);
  } else {
    bool serial = action->kernel->words.flags & TN_KERNEL_SERIAL;
    if (step->node->op->traits & TENON_RANDOM) {
      random = tn_random_take((tenon_device_t){1, 0}, action->draws);
      action->frame.call.random = &random;
    }
    if (serial) tn_mutex_lock(&step->lock);
    if (__builtin_expect(tn_watch_is_on(), 0))
      status = run_watched(run->executable, action, step->node->name);
    else
      status = action->kernel->run(&action->frame.call);
    if (serial) tn_mutex_unlock(&step->lock);
    if (action->frame.temporaries) tn_frame_clean(&action->frame);
    if (__builtin_expect(status != TENON_OK, 0))
      status = tn_reason_complete(status, errors, step->node->op->name, "kernel");
    if (action->makes_sparse && status == TENON_OK) status = check_sparse_results(action);
  }
  if (profile) tn_profile_close_to(profile, depth);
  return status == TENON_OK
             ? status
             : tn_prefix(status, "node '%s' (%s): ", step->node->name, step->node->op->name);
}

static tenon_status_t check_made(const tn_run_t *run, const tn_stage_t *stage) {
  for (size_t i = 0; i < stage->planned_count; i++) {
    const tn_allocation_t *allocation = &run->allocations[stage->edges[i]];
    if (!(allocation->tensor->view.keys & TN_TENSOR_UNSET)) continue;
    const tn_node_t *node =
        &run->executable->graph->nodes[run->executable->graph->edges[stage->edges[i]].producer];
    return tn_fail(TENON_INTERNAL,
                   "node '%s' (%s): its run function returned without stating the shape of a "
                   "result: call host->resize",
                   node->name, node->op->name);
  }
  return TENON_OK;
}

/* For each action, the change in the number of planned bytes that are alive. */
static int64_t *levels_of(const tn_run_t *run, const tn_stage_t *stage) {
  int64_t *changes = tn_allocate_zero(stage->action_count + 2, sizeof *changes);
  for (size_t i = 0; changes && i < stage->planned_count; i++) {
    const tn_allocation_t *allocation = &run->allocations[stage->edges[i]];
    if (allocation->where != TN_ALLOCATION_ARENA && allocation->where != TN_ALLOCATION_OUTPUT)
      continue;
    changes[allocation->first] += (int64_t)allocation->size;
    /* otherwise it is alive to the end of the stage */
    if (allocation->where == TN_ALLOCATION_ARENA && (size_t)allocation->last < stage->action_count)
      changes[allocation->last + 1] -= (int64_t)allocation->size;
  }
  return changes;
}

static tenon_status_t run_actions(tn_run_t *run, tn_stage_t *stage, tenon_profile_t *profile) {
  int64_t *changes = profile ? levels_of(run, stage) : NULL;
  int64_t level = 0;
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < stage->action_count && status == TENON_OK; i++) {
    if (changes) tn_profile_level(profile, "cpu", (uint64_t)(level += changes[i]));
    status = tn_poll();
    if (status == TENON_OK) status = run_action(run, &stage->actions[i], profile);
  }
  tn_release_memory(changes);
  return status;
}

static tenon_status_t run_stages(tn_run_t *run, tenon_tensor_t **outputs, uint64_t given,
                                 tenon_profile_t *profile) {
  int32_t count = (int32_t)run->executable->graph->node_count;
  size_t index = 0;
  for (int32_t at = 0; at < count; index++) {
    if (index < run->stage_count && !tn_stage_fits(run, &run->stages[index]))
      tn_stages_drop(run, index);
    if (index == run->stage_count) TN_TRY(tn_stage_plan(run, at));
    tn_stage_t *stage = &run->stages[index];
    if (stage->end <= at) {
      const tn_node_t *node = run->executable->steps[at].node;
      return tn_fail(TENON_INTERNAL,
                     "node '%s' (%s): its inputs never become known, so it cannot be planned",
                     node->name, node->op->name);
    }
    TN_TRY(bind_stage(run, stage, outputs, given));
    TN_TRY(run_actions(run, stage, profile));
    TN_TRY(check_made(run, stage));
    at = stage->end;
  }
  return TENON_OK;
}

/* Outputs */

static tenon_status_t deliver_output(tn_run_t *run, size_t i, tenon_tensor_t **outputs) {
  const tenon_graph_t *g = run->executable->graph;
  const tn_tensor_t *tensor = run->allocations[g->outputs[i]].tensor;
  if (!tensor)
    return tn_fail(TENON_INVALID,
                   "output '%s' is an optional result that its node does not compute",
                   g->output_names[i]);
  tenon_tensor_t *made = (tenon_tensor_t *)(uintptr_t)&tensor->view;
  /* the next run replaces the parts of this header */
  if (!outputs[i] && tn_layout(made) && tensor->storage)
    return tn_tensor_view_of(made, made->dtype, 0, made->ndim, made->shape, made->strides,
                             &outputs[i]);
  if (tn_dtype_is(made->dtype, TENON_LIST) && !outputs[i]) return tn_list_keep(made, &outputs[i]);
  if (!outputs[i]) return tenon_tensor_copy(made, &outputs[i]);
  if (outputs[i]->data == made->data && made->data) return TENON_OK;
  tenon_status_t status = tn_tensor_copy_into(made, outputs[i]);
  return status == TENON_OK ? status : tn_prefix(status, "output '%s': ", g->output_names[i]);
}

static tenon_status_t run_all(tn_run_t *run, tenon_tensor_t *const *inputs,
                              tenon_tensor_t **outputs, tenon_profile_t *profile) {
  size_t count = run->executable->graph->output_count;
  uint64_t given = 0;
  for (size_t i = 0; i < count && i < 63; i++)
    given |= (uint64_t)(outputs[i] != NULL) << i;
  bool *was_given = tn_scratch(count + 1);
  if (!was_given) return tn_no_memory("a run", count);
  for (size_t i = 0; i < count; i++)
    was_given[i] = outputs[i] != NULL;
  tenon_status_t status = bind_inputs(run, inputs);
  if (status == TENON_OK) status = run_stages(run, outputs, given, profile);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = deliver_output(run, i, outputs);
  unbind_inputs(run);
  if (status == TENON_OK) return status;
  for (size_t i = 0; i < count; i++)
    if (!was_given[i]) {
      tenon_tensor_release(outputs[i]);
      outputs[i] = NULL;
    }
  return status;
}

static bool is_on_device(const tenon_tensor_t *t) { return t && t->keys & TN_KEY_DEVICES; }

static bool any_on_device(tenon_tensor_t *const *tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_on_device(tensors[i])) return true;
  return false;
}

/* Runs on the CPU with tensors that are on devices: inputs are copied to the host before the run,
 * results to the devices after it. */
static tenon_status_t run_on_host(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                  tenon_tensor_t **outputs, tenon_profile_t *profile) {
  size_t n = e->source->input_count;
  size_t m = e->source->output_count;
  tenon_tensor_t **here = tn_allocate_zero(2 * n + m + 1, sizeof *here);
  tenon_tensor_t **copies = here + n;
  tenon_tensor_t **out = copies + n;
  if (!here) return tn_no_memory("a run", n + m);
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < n && status == TENON_OK; i++) {
    if (is_on_device(inputs[i]))
      status = tenon_tensor_copy_to(inputs[i], (tenon_device_t){1, 0}, &copies[i]);
    here[i] = copies[i] ? copies[i] : inputs[i];
  }
  for (size_t o = 0; o < m; o++)
    out[o] = is_on_device(outputs[o]) ? NULL : outputs[o];
  if (status == TENON_OK) status = tenon_executable_run(e, here, out, profile);
  for (size_t o = 0; o < m; o++) {
    if (!is_on_device(outputs[o])) continue;
    if (status == TENON_OK && (status = tn_device_tensor_copy(out[o], outputs[o])) != TENON_OK)
      status = tn_prefix(status, "output '%s': ", e->source->output_names[o]);
    tenon_tensor_release(out[o]);
  }
  for (size_t o = 0; o < m; o++) {
    if (outputs[o]) continue;
    if (status == TENON_OK)
      outputs[o] = out[o];
    else
      tenon_tensor_release(out[o]);
  }
  for (size_t i = 0; i < n; i++)
    tenon_tensor_release(copies[i]);
  tn_release_memory(here);
  return status;
}

/* Runs an executable that is not planned: replays a captured graph if there is one for these inputs
 * or one can be captured, otherwise runs node by node. A profile needs the times of single nodes,
 * so a profiled run never replays. */
static tenon_status_t run_unplanned(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t **outputs, tenon_profile_t *profile) {
  bool ran = false;
  TN_TRY(check_inputs(executable, inputs));
  if (!profile && __atomic_load_n(&executable->captures.is_on, __ATOMIC_ACQUIRE)) {
    tenon_status_t status = tn_captures_run(executable, inputs, outputs, &ran);
    if (status != TENON_OK || ran) return status;
  }
  return tn_interpreter_run(executable, inputs, outputs, profile);
}

static tenon_status_t run_executable(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                     tenon_tensor_t **outputs, tenon_profile_t *profile) {
  if (!executable->is_planned) return run_unplanned(executable, inputs, outputs, profile);
  if (__builtin_expect(any_on_device(inputs, executable->source->input_count) ||
                           any_on_device(outputs, executable->source->output_count),
                       0))
    return run_on_host(executable, inputs, outputs, profile);
  tn_mutex_lock(&executable->lock);
  tn_run_t *run = executable->idle;
  if (run) executable->idle = run->next;
  tn_mutex_unlock(&executable->lock);
  if (!run) TN_TRY(tn_run_create(executable, &run));
  tn_scratch_mark_t mark = tn_scratch_mark();
  void *before = tn_thread()->profile;
  tn_thread()->profile = profile;
  tenon_status_t status = run_all(run, inputs, outputs, profile);
  tn_thread()->profile = before;
  if (status != TENON_OK) tn_stages_drop(run, 0);
  tn_scratch_reset(mark);
  tn_mutex_lock(&executable->lock);
  run->next = executable->idle;
  executable->idle = run;
  tn_mutex_unlock(&executable->lock);
  return status;
}

/* Outputs that share memory */

/* Runs with copies of the inputs that given outputs would overwrite before the last node has read
 * them. */
static tenon_status_t run_with_copies(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                      const bool *is_overwritten, tenon_tensor_t **outputs,
                                      tenon_profile_t *profile) {
  size_t count = e->source->input_count;
  tenon_tensor_t **apart = tn_allocate_zero(2 * count + 1, sizeof *apart);
  if (!apart) return tn_no_memory("a run", count);
  tenon_tensor_t **copies = apart + count;
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < count && status == TENON_OK; i++) {
    if (is_overwritten[i]) status = tn_device_tensor_create_like(inputs[i], true, &copies[i]);
    if (copies[i]) {
      copies[i]->detail = inputs[i]->detail;
      tn_tensor_mark(copies[i]);
    }
    apart[i] = copies[i] ? copies[i] : inputs[i];
  }
  if (status == TENON_OK) status = run_executable(e, apart, outputs, profile);
  for (size_t i = 0; i < count; i++)
    tenon_tensor_release(copies[i]);
  tn_release_memory(apart);
  return status;
}

static tenon_status_t run_apart(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                tenon_tensor_t **outputs, tenon_profile_t *profile) {
  bool any = false;
  tn_scratch_mark_t mark = tn_scratch_mark();
  bool *is_overwritten = tn_scratch(e->source->input_count + 1);
  tenon_status_t status = is_overwritten ? TENON_OK : tn_no_memory("a run", 0);
  if (status == TENON_OK)
    status = tn_given_outputs_check(e->source, inputs, outputs, is_overwritten, &any);
  if (status == TENON_OK)
    status = any ? run_with_copies(e, inputs, is_overwritten, outputs, profile)
                 : run_executable(e, inputs, outputs, profile);
  tn_scratch_reset(mark);
  return status;
}

static bool has_given(const tenon_executable_t *e, tenon_tensor_t *const *outputs) {
  for (size_t o = 0; o < e->source->output_count; o++)
    if (outputs[o]) return true;
  return false;
}

static tenon_status_t run_recorded(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                   tenon_tensor_t **outputs, tenon_profile_t *profile) {
  return has_given(e, outputs) ? run_apart(e, inputs, outputs, profile)
                               : run_executable(e, inputs, outputs, profile);
}

/* Kernels that call operators, of inputs that require gradients, record nothing either unless the
 * executable was compiled to. */
static tenon_status_t run_current(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                  tenon_tensor_t **outputs, tenon_profile_t *profile) {
  if (e->has_gradients) {
    bool has_run = false;
    if (!has_given(e, outputs)) TN_TRY(tn_training_run(e, inputs, outputs, profile, &has_run));
    return has_run ? TENON_OK : run_recorded(e, inputs, outputs, profile);
  }
  const int32_t before = tenon_grad_mode_set(0);
  const tenon_status_t status = run_recorded(e, inputs, outputs, profile);
  (void)tenon_grad_mode_set(before);
  return status;
}

tenon_status_t tenon_executable_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t **outputs, tenon_profile_t *profile) {
  if (__builtin_expect(!tn_executable_is_old(executable), 1))
    return run_current(executable, inputs, outputs, profile);
  tenon_executable_t *now;
  TN_TRY(tn_executable_current(executable, &now));
  tenon_status_t status = run_current(now, inputs, outputs, profile);
  tenon_executable_release(now);
  return status;
}

/* Subgraphs */

static tn_mutex_t subgraph_lock = TN_MUTEX_INIT;

static tenon_status_t evaluate_subgraph(tenon_call_t *call, const tenon_graph_t *graph,
                                        uint32_t input_count, tenon_tensor_t *const *inputs,
                                        uint32_t output_count, tenon_tensor_t **outputs) {
  tenon_graph_t *g = (tenon_graph_t *)(uintptr_t)graph;
  tenon_status_t status = TENON_OK;
  if (input_count != g->input_count || output_count != g->output_count)
    return tn_fail(
        TENON_INVALID,
        "%s: its subgraph has %zu inputs and %zu outputs, found %u inputs and %u outputs",
        call->op->name, g->input_count, g->output_count, input_count, output_count);
  tn_mutex_lock(&subgraph_lock);
  if (!g->executable) {
    const tenon_compile_t options = {
        .size = sizeof options, .flags = g->body_flags, .without = g->body_without};
    status = tenon_executable_create(graph, &options, &g->executable);
    g->release_executable = tenon_executable_release;
    if (status == TENON_OK) /* the executable of a subgraph does not retain it */
      __atomic_fetch_sub(&g->references, 1, __ATOMIC_RELAXED);
  }
  tn_mutex_unlock(&subgraph_lock);
  if (status != TENON_OK) return status;
  size_t count = g->output_count;
  tn_scratch_mark_t mark = tn_scratch_mark();
  bool *made = tn_scratch(count + 1);
  if (!made) return tn_no_memory("a subgraph", count);
  for (size_t i = 0; i < count; i++)
    made[i] = outputs[i] == NULL;
  status = tenon_executable_run(g->executable, inputs, outputs, NULL);
  bool has_run = status == TENON_OK;
  /* The call's frame must take ownership of all outputs; an output that it could not take has been
   * released. */
  for (size_t i = 0; i < count && has_run; i++) {
    tenon_status_t kept = made[i] ? tn_frame_keep(tn_frame_of(call), outputs[i]) : TENON_OK;
    if (kept != TENON_OK) {
      status = kept;
      outputs[i] = NULL;
    }
  }
  tn_scratch_reset(mark);
  return status;
}

tenon_status_t tn_graph_start(void) {
  tn_evaluate = evaluate_subgraph;
  tn_graph_references = (tn_graph_references_t){tenon_graph_retain, tenon_graph_release};
  tn_subgraph_infer_start();
  return tn_rules_start();
}

void tn_graph_stop(void) { tn_rules_clear(); }

/* Dumps */

static void print_plan(tenon_executable_t *e, tn_text_t *text) {
  if (e->device_regions.of_node) {
    tn_device_regions_print(e, text);
    return;
  }
  tn_mutex_lock(&e->lock);
  const tn_run_t *run = e->idle;
  if (!run || !run->stage_count) tn_text_add(text, "no memory plan: run the executable first");
  for (size_t s = 0; run && s < run->stage_count; s++)
    tn_plan_print(run, s, text);
  tn_mutex_unlock(&e->lock);
}

/* Draws what needs a plan: "plan", or its "memory". */
static tenon_status_t draw_plan(tenon_executable_t *e, bool is_memory, bool is_whole,
                                tn_text_t *text) {
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&e->lock);
  const tn_run_t *run = e->idle;
  if (!run || !run->stage_count)
    status = tn_fail(TENON_INVALID, "there is no plan to draw: %s",
                     e->is_planned ? "run the executable first"
                                   : "an executable on devices runs node by node, without a plan");
  else if (is_memory)
    tn_picture_memory(run, text);
  else
    status = tn_picture_graph(e, run, is_whole, text);
  tn_mutex_unlock(&e->lock);
  return status;
}

/* Draws one of the pictures. Sets *out_is_one to false if `what` names none. */
static tenon_status_t draw_executable(tenon_executable_t *e, const char *what, tn_text_t *text,
                                      bool *out_is_one) {
  const bool is_whole = strstr(what, "-whole.") != NULL;
  *out_is_one = true;
  if (strcmp(what, "graph.dot") == 0 || strcmp(what, "graph-whole.dot") == 0)
    return tn_picture_graph(e, NULL, is_whole, text);
  if (strcmp(what, "plan.dot") == 0 || strcmp(what, "plan-whole.dot") == 0)
    return draw_plan(e, false, is_whole, text);
  if (strcmp(what, "memory.svg") == 0) return draw_plan(e, true, false, text);
  *out_is_one = false;
  return TENON_OK;
}

static tenon_status_t dump_executable(tenon_executable_t *e, const char *what, char **out_text) {
  tn_text_t text = {0};
  bool is_picture;
  if (strcmp(what, "graph") == 0) return tenon_graph_dump(e->graph, out_text);
  const tenon_status_t drawn = draw_executable(e, what, &text, &is_picture);
  if (drawn != TENON_OK) tn_text_clear(&text);
  TN_TRY(drawn);
  if (is_picture) {
    /* it is in the text already */
  } else if (strcmp(what, "plan") == 0) {
    print_plan(e, &text);
  } else if (strcmp(what, "gradients") == 0) {
    tn_training_print(e, &text);
  } else if (strcmp(what, "rewrites") == 0) {
    tn_rules_print(&e->rules, &text);
  } else if (strcmp(what, "offload") == 0 || strcmp(what, "claims") == 0) {
    tn_text_add(&text, "%s",
                e->offload_report ? e->offload_report : "offload: no device was asked\n");
  } else if (strcmp(what, "shapes") == 0) {
    for (size_t i = 0; i < e->graph->edge_count; i++) {
      const tn_edge_t *edge = &e->graph->edges[i];
      if (edge->producer < 0 && edge->input < 0) continue;
      tn_text_add(&text, "%s: ", edge->name);
      tn_edge_print(e->graph, edge, &text);
      tn_text_add(&text, "\n");
    }
  } else if (strcmp(what, "placement") == 0) {
    if (!e->placement.device_count)
      tn_text_add(&text, "placement: all nodes on the CPU\n");
    else
      tn_placement_print(&e->placement, e->graph, &text);
    tn_captures_print(&e->captures, &text);
  } else {
    return tn_fail(
        TENON_INVALID,
        "dump '%s' is unknown: expected graph, shapes, rewrites, gradients, offload (or claims), "
        "placement, plan, or a picture: graph.dot, graph-whole.dot, plan.dot, plan-whole.dot, "
        "memory.svg",
        what);
  }
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

tenon_status_t tenon_executable_dump(tenon_executable_t *executable, const char *what,
                                     char **out_text) {
  tenon_executable_t *now;
  TN_TRY(tn_executable_current(executable, &now));
  tenon_status_t status = dump_executable(now, what, out_text);
  tenon_executable_release(now);
  return status;
}
