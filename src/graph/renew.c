/* Executables whose operators' libraries were reloaded: compiled anew at their next run, from the
 * graph that they were made of. Called by run.c.  Invariant: an executable that runs on other
 * threads meanwhile ends as it began; the caller's handle stays. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/executable.h"

static void *keep(tn_arena_t *arena, const void *items, size_t size, bool *is_fine) {
  void *copy = size ? tn_arena_allocate(arena, size) : NULL;
  if (copy) memcpy(copy, items, size);
  if (size && !copy) *is_fine = false;
  return copy;
}

tenon_status_t tn_executable_keep(tenon_executable_t *e, const tenon_compile_t *options) {
  bool is_fine = true;
  e->options = *options;
  e->options.devices = keep(&e->memory, options->devices,
                            options->device_count * sizeof *options->devices, &is_fine);
  tenon_pin_t *pins = keep(&e->memory, options->pins, options->pin_count * sizeof *pins, &is_fine);
  for (uint32_t i = 0; pins && i < options->pin_count; i++)
    pins[i].node =
        keep(&e->memory, pins[i].node, pins[i].node ? strlen(pins[i].node) + 1 : 0, &is_fine);
  e->options.pins = pins;
  e->options.claims = keep(&e->memory, options->claims,
                           options->claims ? strlen(options->claims) + 1 : 0, &is_fine);
  return is_fine ? TENON_OK : tn_no_memory("an executable", 0);
}

/* Some operator of the graph, or of graphs in it, was reloaded after that. */
static bool has_newer_ops(const tenon_graph_t *graph, uint64_t reloads) {
  for (size_t i = 0; i < graph->op_count; i++) {
    const tenon_op_t *now = tn_op_now(graph->ops[i]);
    if (now->born > reloads || tn_op_has_ended(now)) return true;
  }
  for (size_t i = 0; i < graph->subgraph_count; i++)
    if (has_newer_ops(graph->subgraphs[i], reloads)) return true;
  return false;
}

static bool is_stale(tenon_executable_t *e) {
  const uint64_t reloads = __atomic_load_n(&e->reloads, __ATOMIC_RELAXED);
  bool stale = has_newer_ops(e->source, reloads) ||
               has_newer_ops(e->graph, reloads); /* rewriting brings operators, too */
  tn_mutex_lock(&e->lock);
  for (size_t i = 0; i < e->library_count && !stale; i++)
    stale = __atomic_load_n(&e->libraries[i]->replaced, __ATOMIC_ACQUIRE) > reloads;
  tn_mutex_unlock(&e->lock);
  return stale;
}

/* A subgraph holds its executable, which is no holder of it. */
static bool is_of_source(const tenon_executable_t *e) { return e->source->executable == e; }

static void drop(const tenon_executable_t *e, tenon_executable_t *old) {
  if (old && is_of_source(e)) tenon_graph_retain(e->source);
  tenon_executable_release(old);
}

static tenon_status_t renew(tenon_executable_t *e) {
  tenon_executable_t *fresh = NULL;
  tenon_status_t status = tenon_executable_create(e->source, &e->options, &fresh);
  if (status != TENON_OK)
    return tn_prefix(status, "preparing the executable anew, since a library was reloaded: ");
  if (is_of_source(e))
    __atomic_fetch_sub(&((tenon_graph_t *)(uintptr_t)e->source)->references, 1, __ATOMIC_RELAXED);
  drop(e, e->renewed);
  e->renewed = fresh;
  return TENON_OK;
}

tenon_status_t tn_executable_current(tenon_executable_t *e, tenon_executable_t **out_executable) {
  tn_mutex_lock(&e->renewal);
  tenon_executable_t *now = e->renewed ? e->renewed : e;
  const uint64_t reloads = tn_registry_reloads(); /* before it is looked at */
  tenon_status_t status = TENON_OK;
  if (tn_executable_is_old(now)) {
    if (is_stale(now)) {
      status = renew(e);
      now = e->renewed;
    } else
      __atomic_store_n(&now->reloads, reloads, __ATOMIC_RELAXED);
  }
  if (status == TENON_OK) tenon_executable_retain(*out_executable = now);
  tn_mutex_unlock(&e->renewal);
  return status;
}
