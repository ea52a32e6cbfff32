/* States of operators that are called without a binding: one state for each set of attribute
 * values, created on first use and kept with the operator.  Invariant: a state, and the values
 * that it was created from, live until the operator goes. */
#include "operator/state.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/reason.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/value.h"
#include "operator/frame.h"

typedef struct tn_states_t {
  struct tn_states_t *next;
  tenon_value_t *attrs;
  void *state;
  tn_arena_t arena;
} tn_states_t;

static tn_mutex_t lock = TN_MUTEX_INIT;

tn_graph_references_t tn_graph_references;

tn_mutex_t *tn_states_mutex(void) { return &lock; }

static void hold_value(const tenon_value_t *value, bool retain) {
  const tenon_graph_t *graph = value->kind == TENON_KIND_GRAPH ? value->as.graph : NULL;
  tenon_tensor_t *one = value->kind == TENON_KIND_TENSOR ? value->as.tensor : NULL;
  tenon_tensor_t *const *tensors = value->kind == TENON_KIND_TENSORS ? value->as.tensors : &one;
  uint32_t count = value->kind == TENON_KIND_TENSORS ? value->count : 1;
  for (uint32_t i = 0; i < count; i++)
    retain ? tenon_tensor_retain(tensors[i]) : tenon_tensor_release(tensors[i]);
  if (graph) (retain ? tn_graph_references.retain : tn_graph_references.release)(graph);
}

void tn_values_retain(const tenon_value_t *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    hold_value(&values[i], true);
}

void tn_values_release(const tenon_value_t *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    hold_value(&values[i], false);
}

tenon_status_t tn_state_create(const tenon_op_t *op, const tenon_value_t *attrs, void **out_state) {
  tenon_node_t node = {.size = sizeof node,
                       .phase = TENON_PHASE_CREATE,
                       .host = tn_host_services,
                       .op = op,
                       .attrs = attrs,
                       .context = op->context,
                       .device = {1, 0}};
  const uint64_t errors = tn_error_count();
  TN_TRY(tn_reason_complete(op->create(&node), errors, op->name, "create"));
  *out_state = node.state;
  return TENON_OK;
}

static const tn_states_t *find_state(const tn_states_t *list, const tn_states_t *end,
                                     uint32_t count, const tenon_value_t *attrs) {
  for (; list != end; list = list->next) {
    uint32_t i = 0;
    while (i < count && tn_value_equal(&list->attrs[i], &attrs[i]))
      i++;
    if (i == count) return list;
  }
  return NULL;
}

static tenon_status_t add_state(tenon_op_t *op, const tenon_value_t *attrs, void **out_state) {
  tn_states_t *fresh = tn_allocate_zero(1, sizeof *fresh);
  if (!fresh) return tn_no_memory("a state", sizeof *fresh);
  uint32_t count = op->schema.attr_count;
  tenon_status_t status = TENON_OK;
  if (!(fresh->attrs = tn_arena_array(&fresh->arena, count + 1, sizeof *attrs)))
    status = tn_no_memory("a state", count);
  for (uint32_t i = 0; i < count && status == TENON_OK; i++)
    if (!tn_value_copy(&attrs[i], &fresh->arena, &fresh->attrs[i]))
      status = tn_no_memory("a state", sizeof *attrs);
  if (status == TENON_OK) status = tn_state_create(op, fresh->attrs, &fresh->state);
  if (status != TENON_OK) {
    tn_arena_clear(&fresh->arena);
    tn_release_memory(fresh);
    return status;
  }
  tn_values_retain(fresh->attrs, count);
  fresh->next = op->states;
  __atomic_store_n(&op->states, fresh, __ATOMIC_RELEASE);
  *out_state = fresh->state;
  return TENON_OK;
}

tenon_status_t tn_state_get(const tenon_op_t *op, const tenon_value_t *attrs, void **out_state) {
  /* The list only grows at its head. */
  tn_states_t *seen = __atomic_load_n(&op->states, __ATOMIC_ACQUIRE);
  const tn_states_t *known = find_state(seen, NULL, op->schema.attr_count, attrs);
  if (known) {
    *out_state = known->state;
    return TENON_OK;
  }
  tn_mutex_lock(&lock);
  known = find_state(op->states, seen, op->schema.attr_count, attrs);
  tenon_status_t status = TENON_OK;
  if (known)
    *out_state = known->state;
  else
    status = add_state((tenon_op_t *)(uintptr_t)op, attrs, out_state);
  tn_mutex_unlock(&lock);
  return status;
}

void tn_states_release(tenon_op_t *op) {
  for (tn_states_t *s = op->states, *next; s; s = next) {
    next = s->next;
    if (op->destroy) op->destroy(s->state);
    tn_values_release(s->attrs, op->schema.attr_count);
    tn_arena_clear(&s->arena);
    tn_release_memory(s);
  }
  op->states = NULL;
}
