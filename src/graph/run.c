/* Running: inputs are checked and bound, stages are planned or found fitting, actions run, outputs
 * are handed over. Called by applications, and by kernels through evaluate.  Invariant: a failed
 * run leaves no plan that could be wrong. */
#include "graph/run.h"

#include <string.h>

#include "base/memory.h"
#include "base/poll.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "drivers/profile.h"
#include "graph/eager.h"
#include "graph/executable.h"
#include "graph/recorded.h"
#include "layers/trace.h"
#include "operator/generator.h"
#include "operator/state.h"
#include "storage/place.h"

/* states */

tenon_status_t tn_run_create(tenon_executable_t *executable, tn_run_t **out_run) {
  size_t count = executable->graph->edge_count;
  tn_run_t *run = tn_allocate_zero(1, sizeof *run);
  if (!run || !(run->places = tn_allocate_zero(count + 1, sizeof *run->places))) {
    tn_release_memory(run);
    return tn_no_memory("a run", count * sizeof *run->places);
  }
  run->executable = executable;
  run->place_count = count;
  run->place_capacity = count + 1;
  for (size_t i = 0; i < count; i++) {
    tn_place_t *place = &run->places[i];
    const tn_edge_t *edge = &executable->graph->edges[i];
    place->root = (int32_t)i;
    place->stage = -1;
    if (!edge->constant) continue;
    tenon_tensor_retain(edge->constant);
    place->where = TN_PLACE_CONSTANT;
    place->tensor = (tn_tensor_t *)edge->constant;
  }
  *out_run = run;
  return TENON_OK;
}

void tn_run_release(tn_run_t *run) {
  tn_stages_drop(run, 0);
  for (size_t i = 0; i < run->place_count; i++)
    if (run->places[i].tensor) tenon_tensor_release(&run->places[i].tensor->view);
  tn_release_memory(run->places);
  tn_release_memory(run->stages);
  tn_arena_clear(&run->arena);
  tn_release_memory(run);
}

/* inputs */

static tenon_status_t check_input(const tenon_executable_t *e, size_t i, const tenon_tensor_t *t) {
  const tn_edge_t *edge = &e->source->edges[e->source->inputs[i]];
  const tenon_axis_t *axes = e->source->input_axes[i];
  char found[160];
  if (!t) return tn_fail(TENON_INVALID, "input '%s' is missing", edge->name);
  if (tn_layout(t) != edge->layout)
    return tn_fail(
        TENON_INVALID, "input '%s': expected a %s tensor, found a %s one%s", edge->name,
        tn_layout_name(edge->layout), tn_layout_name(tn_layout(t)),
        edge->layout ? "" : ": the graph says which inputs are sparse (tenon_builder_sparse)");
  if (edge->dtype.bits && !tn_dtype_same(t->dtype, edge->dtype))
    return tn_fail(TENON_INVALID, "input '%s': expected dtype %s, found %s", edge->name,
                   tn_dtype_name(edge->dtype), tn_dtype_name(t->dtype));
  if (edge->ndim >= 0 && t->ndim != edge->ndim)
    return tn_fail(TENON_INVALID, "input '%s': expected %d dimensions, found shape %s", edge->name,
                   (int)edge->ndim, tn_shape_print(t->ndim, t->shape, found, sizeof found));
  for (int32_t d = 0; d < edge->ndim; d++)
    if (axes[d].extent >= 0 && axes[d].extent != t->shape[d])
      return tn_fail(TENON_INVALID, "input '%s': axis %d: expected %lld, found shape %s",
                     edge->name, (int)d, (long long)axes[d].extent,
                     tn_shape_print(t->ndim, t->shape, found, sizeof found));
  return TENON_OK;
}

/* Axes of one name must have one extent. */
static tenon_status_t check_symbols(const tenon_executable_t *e, tenon_tensor_t *const *inputs) {
  const tenon_graph_t *g = e->source;
  for (size_t i = 0; i < g->input_count; i++)
    for (int32_t d = 0; d < g->edges[g->inputs[i]].ndim; d++) {
      const char *name = g->input_axes[i][d].name;
      if (g->input_axes[i][d].extent >= 0 || !name || !*name) continue;
      for (size_t j = 0; j <= i; j++)
        for (int32_t k = 0; k < g->edges[g->inputs[j]].ndim && (j < i || k < d); k++) {
          const tenon_axis_t *other = &g->input_axes[j][k];
          if (other->extent >= 0 || !other->name || strcmp(other->name, name) != 0) continue;
          if (inputs[j]->shape[k] != inputs[i]->shape[d])
            return tn_fail(
                TENON_INVALID, "input '%s': axis %d (%s) is %lld, but input '%s' has %lld there",
                g->edges[g->inputs[i]].name, (int)d, name, (long long)inputs[i]->shape[d],
                g->edges[g->inputs[j]].name, (long long)inputs[j]->shape[k]);
        }
    }
  return TENON_OK;
}

static tenon_status_t check_inputs(const tenon_executable_t *e, tenon_tensor_t *const *inputs) {
  for (size_t i = 0; i < e->graph->input_count; i++)
    TN_TRY(check_input(e, i, inputs[i]));
  return check_symbols(e, inputs);
}

static tenon_status_t bind_inputs(tn_run_t *run, tenon_tensor_t *const *inputs) {
  const tenon_executable_t *e = run->executable;
  TN_TRY(check_inputs(e, inputs));
  for (size_t i = 0; i < e->graph->input_count; i++) {
    tn_place_t *place = &run->places[e->graph->inputs[i]];
    const tenon_tensor_t *t = inputs[i];
    if (!place->tensor || place->room < t->ndim) {
      tenon_tensor_t *fresh;
      TN_TRY(tn_tensor_unset(t->dtype, t->ndim, &fresh));
      if (place->tensor) {
        tn_stages_drop(run, 0); /* actions point to the old header */
        tenon_tensor_release(&place->tensor->view);
      }
      place->tensor = (tn_tensor_t *)fresh;
      place->room = t->ndim;
    }
    tenon_tensor_t *view = &place->tensor->view;
    int64_t *shape = view->shape;
    int64_t *strides = view->strides;
    *view = *t;
    view->shape = shape;
    view->strides = strides;
    view->keys |= TN_TENSOR_OWNED;
    if (t->ndim) {
      memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
      memcpy(strides, t->strides, (size_t)t->ndim * sizeof *shape);
    }
    place->where = TN_PLACE_INPUT;
    place->stage = -1;
  }
  return TENON_OK;
}

/* a stage */

static tenon_status_t
bind_own(tn_place_t *place) { /* memory of its own, or none until run says how much */
  tn_tensor_t *t = place->tensor;
  tn_storage_release(t->storage);
  t->storage = NULL;
  t->view.data = NULL;
  if (place->layout) {
    t->view.detail = tn_sparse_unset(place->layout);
    t->view.keys |= TN_TENSOR_UNSET;
    memcpy(t->view.shape, place->bound, (size_t)t->view.ndim * sizeof *t->view.shape);
    tn_strides_dense(t->view.ndim, t->view.shape, t->view.strides);
    tn_tensor_mark(&t->view);
    return TENON_OK;
  }
  if (place->is_pending) {
    t->view.keys |= TN_TENSOR_UNSET;
    return TENON_OK;
  }
  TN_TRY(tn_storage_create(NULL, place->size, NULL, NULL,
                           &t->storage)); /* strings: texts belong to a storage */
  memset(t->storage->data, 0, (size_t)place->size);
  t->storage->string_count = tenon_count(&t->view);
  t->view.data = t->storage->data;
  return TENON_OK;
}

static tenon_status_t bind_output(tn_run_t *run, int32_t edge, tenon_tensor_t **outputs,
                                  uint64_t given) {
  const tenon_graph_t *g = run->executable->graph;
  tn_tensor_t *t = run->places[edge].tensor;
  for (size_t i = 0; i < g->output_count; i++) {
    if (g->outputs[i] != edge) continue;
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
  tn_storage_t *storage; /* a given output of another form gets a copy in the end */
  TN_TRY(tn_storage_create(NULL, run->places[edge].size, NULL, NULL, &storage));
  tn_storage_release(t->storage);
  t->storage = storage;
  t->view.data = storage->data;
  return TENON_OK;
}

static tenon_status_t bind_stage(tn_run_t *run, tn_stage_t *stage, tenon_tensor_t **outputs,
                                 uint64_t given) {
  for (size_t i = 0; i < stage->placed_count; i++) {
    int32_t edge = stage->edges[i];
    tn_place_t *place = &run->places[edge];
    tenon_tensor_t *t = &place->tensor->view;
    if (place->bound && place->where != TN_PLACE_OWN) {
      memcpy(t->shape, place->bound, (size_t)t->ndim * sizeof *t->shape);
      tn_strides_dense(t->ndim, t->shape, t->strides);
      tn_tensor_mark(t);
    }
    tenon_status_t status = TENON_OK;
    switch (place->where) {
    case TN_PLACE_ARENA:
      t->data = (char *)stage->arena + place->offset;
      break;
    case TN_PLACE_OUTPUT:
      status = bind_output(run, edge, outputs, given);
      break;
    case TN_PLACE_OWN:
      status = bind_own(place);
      break;
    case TN_PLACE_VIEW:
      t->data = (char *)run->places[place->root].tensor->view.data + place->delta;
      break;
    default:
      break;
    }
    if (place->source != edge) t->detail = run->places[place->source].tensor->view.detail;
    if (status == TENON_OK) continue;
    const tenon_graph_t *g = run->executable->graph;
    const tn_node_t *node =
        edge < (int32_t)g->edge_count ? &g->nodes[g->edges[edge].producer] : NULL;
    return node ? tn_prefix(status, "node '%s' (%s): ", node->name, node->op->name) : status;
  }
  return TENON_OK;
}

static tenon_status_t check_sparse(const tn_action_t *action) {
  const tenon_call_t *call = &action->frame.call;
  for (uint32_t o = 0; o < call->op->output_count; o++)
    if (call->outputs[o] && tn_layout(call->outputs[o]) && call->outputs[o]->keys & TN_TENSOR_UNSET)
      return tn_fail(TENON_INTERNAL,
                     "%s: run did not make sparse result %s (host->sparse, host->assign)",
                     call->op->name, call->op->schema.outputs[o].name);
  return TENON_OK;
}

/* Where something watches calls, a node is one. */
static __attribute__((noinline, cold)) tenon_status_t run_watched(tn_action_t *action,
                                                                  const char *node) {
  const char *before = tn_thread()->graph_node;
  tn_thread()->graph_node = node;
  tenon_status_t status = tn_watch_run(&action->frame.call, action->kernel->run);
  tn_thread()->graph_node = before;
  return status;
}

static tenon_status_t run_action(tn_run_t *run, tn_action_t *action, tenon_profile_t *profile) {
  tn_step_t *step = &run->executable->steps[action->step];
  tenon_status_t status;
  tenon_random_t random;
  int32_t depth = profile ? tn_profile_depth(profile) : 0;
  if (profile)
    tn_profile_open(profile, step->node->name, action->kernel ? step->node->op->name : "copy");
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
      status = run_watched(action, step->node->name);
    else
      status = action->kernel->run(&action->frame.call);
    if (serial) tn_mutex_unlock(&step->lock);
    tn_frame_close(&action->frame);
    if (action->makes_sparse && status == TENON_OK) status = check_sparse(action);
  }
  if (profile) tn_profile_close_to(profile, depth);
  return status == TENON_OK
             ? status
             : tn_prefix(status, "node '%s' (%s): ", step->node->name, step->node->op->name);
}

static tenon_status_t check_made(const tn_run_t *run, const tn_stage_t *stage) {
  for (size_t i = 0; i < stage->placed_count; i++) {
    const tn_place_t *place = &run->places[stage->edges[i]];
    if (!(place->tensor->view.keys & TN_TENSOR_UNSET)) continue;
    const tn_node_t *node =
        &run->executable->graph->nodes[run->executable->graph->edges[stage->edges[i]].producer];
    return tn_fail(TENON_INTERNAL, "node '%s' (%s): run did not state the shape of a result",
                   node->name, node->op->name);
  }
  return TENON_OK;
}

/* Bytes of values that live while each action runs, as the plan placed them. */
static int64_t *levels_of(const tn_run_t *run, const tn_stage_t *stage) {
  int64_t *changes = tn_allocate_zero(stage->action_count + 2, sizeof *changes);
  for (size_t i = 0; changes && i < stage->placed_count; i++) {
    const tn_place_t *place = &run->places[stage->edges[i]];
    if (place->where != TN_PLACE_ARENA && place->where != TN_PLACE_OUTPUT) continue;
    changes[place->first] += (int64_t)place->size;
    if (place->where == TN_PLACE_ARENA &&
        (size_t)place->last < stage->action_count) /* else it stays to the end */
      changes[place->last + 1] -= (int64_t)place->size;
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
      return tn_fail(TENON_INTERNAL, "node '%s' (%s): its inputs never become known", node->name,
                     node->op->name);
    }
    TN_TRY(bind_stage(run, stage, outputs, given));
    TN_TRY(run_actions(run, stage, profile));
    TN_TRY(check_made(run, stage));
    at = stage->end;
  }
  return TENON_OK;
}

/* outputs */

static tenon_status_t give_output(tn_run_t *run, size_t i, tenon_tensor_t **outputs) {
  const tenon_graph_t *g = run->executable->graph;
  const tn_tensor_t *tensor = run->places[g->outputs[i]].tensor;
  if (!tensor)
    return tn_fail(TENON_INVALID, "output '%s' is a result that its node does not have",
                   g->output_names[i]);
  tenon_tensor_t *made = (tenon_tensor_t *)(uintptr_t)&tensor->view;
  if (!outputs[i] && tn_layout(made) && tensor->storage) /* the next run makes other parts */
    return tn_tensor_view_of(made, made->dtype, 0, made->ndim, made->shape, made->strides,
                             &outputs[i]);
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
  TN_TRY(bind_inputs(run, inputs));
  bool *was_given = tn_scratch(count + 1);
  if (!was_given) return tn_no_memory("a run", count);
  for (size_t i = 0; i < count; i++)
    was_given[i] = outputs[i] != NULL;
  tenon_status_t status = run_stages(run, outputs, given, profile);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = give_output(run, i, outputs);
  if (status == TENON_OK) return status;
  for (size_t i = 0; i < count; i++)
    if (!was_given[i]) {
      tenon_tensor_release(outputs[i]);
      outputs[i] = NULL;
    }
  return status;
}

static bool is_away(const tenon_tensor_t *t) { return t && t->keys & TN_KEY_DEVICES; }

static bool any_away(tenon_tensor_t *const *tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_away(tensors[i])) return true;
  return false;
}

/* On the CPU, with copies of what is on devices: of inputs before, into outputs after. */
static tenon_status_t run_beside(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                 tenon_tensor_t **outputs, tenon_profile_t *profile) {
  size_t n = e->source->input_count;
  size_t m = e->source->output_count;
  tenon_tensor_t **here = tn_allocate_zero(2 * n + m + 1, sizeof *here);
  tenon_tensor_t **copies = here + n;
  tenon_tensor_t **out = copies + n;
  if (!here) return tn_no_memory("a run", n + m);
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < n && status == TENON_OK; i++) {
    if (is_away(inputs[i]))
      status = tenon_tensor_copy_to(inputs[i], (tenon_device_t){1, 0}, &copies[i]);
    here[i] = copies[i] ? copies[i] : inputs[i];
  }
  for (size_t o = 0; o < m; o++)
    out[o] = is_away(outputs[o]) ? NULL : outputs[o];
  if (status == TENON_OK) status = tenon_executable_run(e, here, out, profile);
  for (size_t o = 0; o < m; o++) {
    if (!is_away(outputs[o])) continue;
    if (status == TENON_OK && (status = tn_place_copy_into(out[o], outputs[o])) != TENON_OK)
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

static tenon_status_t run_executable(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                     tenon_tensor_t **outputs, tenon_profile_t *profile) {
  if (!executable->is_planned) {
    TN_TRY(check_inputs(executable, inputs));
    return tn_eager_run(executable, inputs, outputs, profile);
  }
  if (__builtin_expect(any_away(inputs, executable->source->input_count) ||
                           any_away(outputs, executable->source->output_count),
                       0))
    return run_beside(executable, inputs, outputs, profile);
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

tenon_status_t tenon_executable_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t **outputs, tenon_profile_t *profile) {
  if (__builtin_expect(!tn_executable_is_old(executable), 1))
    return run_executable(executable, inputs, outputs, profile);
  tenon_executable_t *now;
  TN_TRY(tn_executable_current(executable, &now));
  tenon_status_t status = run_executable(now, inputs, outputs, profile);
  tenon_executable_release(now);
  return status;
}

/* subgraphs */

static tn_mutex_t subgraph_lock = TN_MUTEX_INIT;

static tenon_status_t evaluate(tenon_call_t *call, const tenon_graph_t *graph, uint32_t input_count,
                               tenon_tensor_t *const *inputs, uint32_t output_count,
                               tenon_tensor_t **outputs) {
  tenon_graph_t *g = (tenon_graph_t *)(uintptr_t)graph;
  tenon_status_t status = TENON_OK;
  if (input_count != g->input_count || output_count != g->output_count)
    return tn_fail(TENON_INVALID,
                   "%s: its graph has %zu inputs and %zu outputs, but %u and %u were given",
                   call->op->name, g->input_count, g->output_count, input_count, output_count);
  tn_mutex_lock(&subgraph_lock);
  if (!g->executable) {
    status = tenon_executable_create(graph, NULL, &g->executable);
    if (status == TENON_OK)
      __atomic_fetch_sub(&g->references, 1, __ATOMIC_RELAXED); /* its own executable is no holder */
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
  for (size_t i = 0; i < count && has_run; i++) { /* the frame has all of them, or they are gone */
    tenon_status_t kept = made[i] ? tn_frame_keep(tn_frame_of(call), outputs[i]) : TENON_OK;
    if (kept != TENON_OK) {
      status = kept;
      outputs[i] = NULL;
    }
  }
  tn_scratch_reset(mark);
  return status;
}

void tn_graph_start(void) {
  tn_evaluate = evaluate;
  tn_graph_references = (tn_graph_references_t){tenon_graph_retain, tenon_graph_release};
  tn_body_start();
}

/* dumps */

static void print_plan(tenon_executable_t *e, tn_text_t *text) {
  static const char *const names[] = {"none",  "input",  "constant", "known",
                                      "arena", "output", "view",     "own"};
  tn_mutex_lock(&e->lock);
  const tn_run_t *run = e->idle;
  if (!run || !run->stage_count) tn_text_add(text, "no plan: run it first\n");
  for (size_t s = 0; run && s < run->stage_count; s++) {
    const tn_stage_t *stage = &run->stages[s];
    tn_text_add(
        text,
        "stage %zu: nodes %d to %d, %zu actions, arena %llu bytes, lower bound %llu (%.1f %%)\n", s,
        (int)stage->begin, (int)stage->end - 1, stage->action_count,
        (unsigned long long)stage->arena_size, (unsigned long long)stage->arena_bound,
        stage->arena_bound ? 100.0 * (double)stage->arena_size / (double)stage->arena_bound
                           : 100.0);
    for (size_t i = 0; i < stage->placed_count; i++) {
      const tn_place_t *p = &run->places[stage->edges[i]];
      const char *name = stage->edges[i] < (int32_t)e->graph->edge_count
                             ? e->graph->edges[stage->edges[i]].name
                             : "(dense copy)";
      char shape[160];
      tn_text_add(text, "  %-40s %-8s %s%s", name, names[p->where],
                  tn_dtype_name(p->tensor->view.dtype),
                  tn_shape_print(p->tensor->view.ndim, p->tensor->view.shape, shape, sizeof shape));
      if (p->where == TN_PLACE_ARENA)
        tn_text_add(text, " offset %llu size %llu alive %d..%d", (unsigned long long)p->offset,
                    (unsigned long long)p->size, (int)p->first,
                    p->last == INT32_MAX ? (int)stage->action_count : (int)p->last);
      tn_text_add(text, "\n");
    }
  }
  tn_mutex_unlock(&e->lock);
}

static tenon_status_t dump(tenon_executable_t *e, const char *what, char **out_text) {
  tn_text_t text = {0};
  if (strcmp(what, "graph") == 0) return tenon_graph_dump(e->graph, out_text);
  if (strcmp(what, "plan") == 0) {
    print_plan(e, &text);
  } else if (strcmp(what, "claims") == 0) {
    tn_text_add(&text, "%s",
                e->claim_report ? e->claim_report : "claims: none: no device was asked\n");
  } else if (strcmp(what, "shapes") == 0) {
    for (size_t i = 0; i < e->graph->edge_count; i++) {
      const tn_edge_t *edge = &e->graph->edges[i];
      if (edge->producer < 0 && edge->input < 0) continue;
      tn_text_add(&text, "%s: ", edge->name);
      tn_edge_print(e->graph, edge, &text);
      tn_text_add(&text, "\n");
    }
  } else if (strcmp(what, "placement") == 0) {
    if (!e->place.home_count)
      tn_text_add(&text, "placement: all on the CPU\n");
    else
      tn_placement_print(&e->place, e->graph, &text);
    tn_recorded_print(&e->recorded, &text);
  } else {
    return tn_fail(TENON_INVALID, "dump '%s': expected graph, shapes, claims, placement or plan",
                   what);
  }
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

tenon_status_t tenon_executable_dump(tenon_executable_t *executable, const char *what,
                                     char **out_text) {
  tenon_executable_t *now;
  TN_TRY(tn_executable_current(executable, &now));
  tenon_status_t status = dump(now, what, out_text);
  tenon_executable_release(now);
  return status;
}
