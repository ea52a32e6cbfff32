/* Compiles an executable again, at its next run after a library of its operators was reloaded, from
 * the graph that it was made of. Called by run.c. Invariant: runs on other threads finish with the
 * executable that they began with, and the caller's handle stays valid. */
#include "base/status.h"
#include "graph/executable.h"

/* Whether an operator of the graph or of one of its subgraphs was reloaded after the reload number
 * `reloads`. */
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
               has_newer_ops(e->graph, reloads); /* rewriting may have added operators */
  tn_mutex_lock(&e->lock);
  for (size_t i = 0; i < e->library_count && !stale; i++)
    stale = __atomic_load_n(&e->libraries[i]->replaced, __ATOMIC_ACQUIRE) > reloads;
  tn_mutex_unlock(&e->lock);
  return stale;
}

/* Whether this is the executable of a subgraph: the subgraph owns its executable, which therefore
 * does not retain the subgraph. */
static bool is_of_source(const tenon_executable_t *e) { return e->source->executable == e; }

static void release_renewed(const tenon_executable_t *e, tenon_executable_t *old) {
  if (old && is_of_source(e)) tenon_graph_retain(e->source);
  tenon_executable_release(old);
}

static tenon_status_t compile_again(tenon_executable_t *e) {
  tenon_executable_t *fresh = NULL;
  tenon_status_t status = tenon_executable_create(e->source, &e->options, &fresh);
  if (status != TENON_OK)
    return tn_prefix(status, "compiling the executable again after a library was reloaded: ");
  if (is_of_source(e))
    __atomic_fetch_sub(&((tenon_graph_t *)(uintptr_t)e->source)->references, 1, __ATOMIC_RELAXED);
  release_renewed(e, e->renewed);
  e->renewed = fresh;
  return TENON_OK;
}

tenon_status_t tn_executable_current(tenon_executable_t *e, tenon_executable_t **out_executable) {
  tn_mutex_lock(&e->renewal);
  tenon_executable_t *now = e->renewed ? e->renewed : e;
  const uint64_t reloads = tn_registry_reloads(); /* read before the executable is examined */
  tenon_status_t status = TENON_OK;
  if (tn_executable_is_old(now)) {
    if (is_stale(now)) {
      status = compile_again(e);
      now = e->renewed;
    } else
      __atomic_store_n(&now->reloads, reloads, __ATOMIC_RELAXED);
  }
  if (status == TENON_OK) {
    *out_executable = now;
    tenon_executable_retain(*out_executable);
  }
  tn_mutex_unlock(&e->renewal);
  return status;
}
