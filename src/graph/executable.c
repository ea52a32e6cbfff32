/* Executables and run states as objects: their references, the libraries and options that an
 * executable keeps, and their release. Called by the units that compile, plan and run graphs.
 * Invariant: nothing here compiles, plans or runs a graph, so these units never depend on each
 * other through a release. */
#include "graph/executable.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/file_copy.h"
#include "graph/capture.h"
#include "graph/device_region.h"
#include "graph/interpreter.h"
#include "graph/offload.h"
#include "graph/training.h"
#include "operator/names.h"

/* Run states */

tenon_status_t tn_run_create(tenon_executable_t *executable, tn_run_t **out_run) {
  size_t count = executable->graph->edge_count;
  const tn_prepared_t *prepared = executable->graph->prepared;
  if (prepared) TN_TRY(prepared->check(prepared, false));
  tn_run_t *run = tn_allocate_zero(1, sizeof *run);
  if (!run || !(run->allocations = tn_allocate_zero(count + 1, sizeof *run->allocations))) {
    tn_release_memory(run);
    return tn_no_memory("a run", count * sizeof *run->allocations);
  }
  run->executable = executable;
  run->allocation_count = count;
  run->allocation_capacity = count + 1;
  for (size_t i = 0; i < count; i++) {
    tn_allocation_t *allocation = &run->allocations[i];
    const tn_edge_t *edge = &executable->graph->edges[i];
    allocation->root = (int32_t)i;
    allocation->stage = -1;
    if (!edge->constant) continue;
    tenon_tensor_retain(edge->constant);
    allocation->where = TN_ALLOCATION_CONSTANT;
    allocation->tensor = (tn_tensor_t *)edge->constant;
  }
  *out_run = run;
  return TENON_OK;
}

void tn_stages_drop(tn_run_t *run, size_t index) {
  while (run->stage_count > index) {
    tn_stage_t *s = &run->stages[--run->stage_count];
    for (size_t i = 0; i < s->planned_count; i++) {
      tn_allocation_t *allocation = &run->allocations[s->edges[i]];
      allocation->stage = -1;
      allocation->where = TN_ALLOCATION_NONE;
      allocation->bound = NULL;
      if (allocation->tensor) {
        tn_storage_release(allocation->tensor->storage);
        allocation->tensor->storage = NULL;
        allocation->tensor->view.data = NULL;
        allocation->tensor->view.detail = NULL;
      }
    }
    tn_release_memory(s->actions);
    tn_release_memory(s->watches);
    tn_release_memory(s->edges);
    tn_release_aligned(s->arena);
    tn_arena_clear(&s->memory);
  }
  /* Headers of dense copies that the dropped stages had made. */
  while (run->allocation_count > run->executable->graph->edge_count) {
    tn_allocation_t *allocation = &run->allocations[run->allocation_count - 1];
    if (allocation->stage >= 0) break;
    if (allocation->tensor) tenon_tensor_release(&allocation->tensor->view);
    run->allocation_count--;
  }
}

void tn_run_release(tn_run_t *run) {
  tn_stages_drop(run, 0);
  for (size_t i = 0; i < run->allocation_count; i++)
    if (run->allocations[i].tensor) tenon_tensor_release(&run->allocations[i].tensor->view);
  tn_release_memory(run->allocations);
  tn_release_memory(run->stages);
  tn_arena_clear(&run->arena);
  tn_release_memory(run);
}

/* Executables */

void tenon_executable_retain(tenon_executable_t *executable) {
  if (executable) __atomic_fetch_add(&executable->references, 1, __ATOMIC_RELAXED);
}

void tenon_executable_release(tenon_executable_t *executable) {
  if (!executable || __atomic_fetch_sub(&executable->references, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (tn_run_t *run = executable->idle, *next; run; run = next) {
    next = run->next;
    tn_run_release(run);
  }
  for (size_t i = 0; executable->steps && i < executable->graph->node_count; i++) {
    tn_step_t *step = &executable->steps[i];
    if (step->plan && step->release) step->release(step->plan);
    if (step->has_state && step->node->op->destroy) step->node->op->destroy(step->state);
  }
  if (executable->graph) {
    tn_captures_end(&executable->captures);
    tn_interpreter_release(executable);
  }
  tn_training_release(executable);
  tn_offloads_release(executable);
  tn_device_regions_release(&executable->device_regions);
  for (size_t i = 0; i < executable->library_count; i++)
    tn_registry_unuse(executable->libraries[i]);
  tn_release_memory((void *)executable->libraries);
  tn_release_memory(executable->steps);
  tn_release_memory(executable->last_use);
  tn_release_memory(executable->first_output);
  tn_release_memory(executable->same_axes);
  tn_placement_clear(&executable->placement);
  tenon_executable_release(executable->renewed);
  tn_rules_close(&executable->rules);
  tn_arena_clear(&executable->memory);
  tenon_graph_release(executable->graph);
  tenon_graph_release(executable->source);
  tn_release_memory(executable);
}

const tenon_graph_t *tenon_executable_graph(const tenon_executable_t *executable) {
  return executable->source;
}

tenon_status_t tn_executable_use(tenon_executable_t *e, const tn_kernel_t *kernel,
                                 const tenon_op_t *op) {
  /* The graph keeps its operators' own libraries loaded. */
  if (kernel->library == op->library) return TENON_OK;
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&e->lock);
  size_t i = 0;
  while (i < e->library_count && e->libraries[i] != kernel->library)
    i++;
  if (i == e->library_count) {
    if (tn_grow((void **)&e->libraries, &e->library_capacity, e->library_count,
                sizeof *e->libraries)) {
      e->libraries[e->library_count] = kernel->library;
      tn_registry_use(kernel->library);
      e->library_count++;
    } else
      status = tn_no_memory("an executable", sizeof *e->libraries);
  }
  tn_mutex_unlock(&e->lock);
  return status;
}

tenon_status_t tn_executable_recall(const tenon_executable_t *e) {
  TN_TRY(tn_graph_check(e->graph));
  for (size_t i = 0; e->gives_up && i < e->graph->edge_count; i++)
    tn_file_copy_keep(e->graph->edges[i].constant);
  return TENON_OK;
}

/* Copies the array of an option into `arena`; NULL if the option is not set. Clears `*is_fine` if
 * there is no memory. */
static void *copy_option(tn_arena_t *arena, const void *items, size_t size, bool *is_fine) {
  void *copy = size ? tn_arena_allocate(arena, size) : NULL;
  if (copy) memcpy(copy, items, size);
  if (size && !copy) *is_fine = false;
  return copy;
}

tenon_status_t tn_executable_keep_options(tenon_executable_t *e, const tenon_compile_t *options) {
  bool is_fine = true;
  e->options = *options;
  e->options.devices = copy_option(&e->memory, options->devices,
                                   options->device_count * sizeof *options->devices, &is_fine);
  tenon_pin_t *pins =
      copy_option(&e->memory, options->pins, options->pin_count * sizeof *pins, &is_fine);
  for (uint32_t i = 0; pins && i < options->pin_count; i++)
    pins[i].node = copy_option(&e->memory, pins[i].node,
                               pins[i].node ? strlen(pins[i].node) + 1 : 0, &is_fine);
  e->options.pins = pins;
  e->options.claims = copy_option(&e->memory, options->claims,
                                  options->claims ? strlen(options->claims) + 1 : 0, &is_fine);
  e->options.without = copy_option(&e->memory, options->without,
                                   options->without ? strlen(options->without) + 1 : 0, &is_fine);
  return is_fine ? TENON_OK : tn_no_memory("an executable", 0);
}
