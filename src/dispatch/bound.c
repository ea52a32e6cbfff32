/* Bound calls: an operator with attributes, a state of its own, and a device.  They serve programs
 * that often call an operator with state, or one without tensor inputs: the attributes are checked
 * and the state is created once.  Invariant: attributes, state and the operator's library live as
 * long as the binding. */
#include "dispatch/bound.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/value.h"
#include "dispatch/add.h"
#include "dispatch/call.h"
#include "operator/attrs.h"
#include "operator/names.h"
#include "operator/state.h"
#include "storage/device_memory.h"

struct tenon_bound_t {
  const tenon_op_t *op;
  tenon_value_t *attrs;
  void *state;
  tenon_device_t device;
  bool has_device; /* false: the call runs where an unbound call would */
  tn_arena_t arena;
  /* The caller holds references, and so do tape nodes that need the state. Guarded by `lock`. */
  int64_t references;
  tenon_bound_t *next;       /* list of all bound calls that have a state */
  struct renewed_t *renewed; /* states for the successors of op, newest first */
};

typedef struct renewed_t {
  struct renewed_t *next;
  const tenon_op_t *op;
  void *state;
} renewed_t;

static tn_mutex_t lock = TN_MUTEX_INIT;
static tenon_bound_t *bounds;

static bool has_renewed(const tenon_bound_t *bound, const void *state) {
  const renewed_t *r = bound->renewed;
  while (r && r->state != state)
    r = r->next;
  return r != NULL;
}

tenon_bound_t *tn_bound_retain(const void *state) {
  tn_mutex_lock(&lock);
  tenon_bound_t *bound = state ? bounds : NULL;
  while (bound && bound->state != state && !has_renewed(bound, state))
    bound = bound->next;
  if (bound) bound->references++;
  tn_mutex_unlock(&lock);
  return bound;
}

static renewed_t *find_renewed(const tenon_bound_t *bound, const tenon_op_t *op) {
  renewed_t *r = bound->renewed;
  while (r && r->op != op)
    r = r->next;
  return r;
}

/* Creates the state without holding the lock, since that calls code of the library. If two threads
 * create a state at the same time, one of the two states is destroyed. */
static tenon_status_t renew_state(tenon_bound_t *bound, const tenon_op_t *op, void **state) {
  renewed_t *fresh = tn_allocate_zero(1, sizeof *fresh);
  tenon_status_t status = fresh ? TENON_OK : tn_no_memory("a bound call", sizeof *fresh);
  if (status == TENON_OK && op->create) status = tn_state_create(op, bound->attrs, &fresh->state);
  if (status != TENON_OK) {
    tn_release_memory(fresh);
    return status;
  }
  fresh->op = op;
  tn_mutex_lock(&lock);
  renewed_t *known = find_renewed(bound, op);
  if (!known) {
    fresh->next = bound->renewed;
    bound->renewed = fresh;
  }
  tn_mutex_unlock(&lock);
  *state = known ? known->state : fresh->state;
  if (known && op->create && op->destroy) op->destroy(fresh->state);
  if (known) tn_release_memory(fresh);
  return TENON_OK;
}

tenon_status_t tn_bound_renew(const tenon_op_t *op, void **state) {
  tenon_bound_t *bound = tn_bound_retain(*state);
  tenon_status_t status = TENON_OK;
  *state = NULL; /* the call then uses the operator's state for its attributes */
  if (!bound) return TENON_OK;
  tn_mutex_lock(&lock);
  const renewed_t *known = find_renewed(bound, op);
  tn_mutex_unlock(&lock);
  if (known)
    *state = known->state;
  else
    status = renew_state(bound, op, state);
  tenon_bound_release(bound);
  return status;
}

static bool is_last(tenon_bound_t *bound) {
  tn_mutex_lock(&lock);
  bool last = --bound->references == 0;
  tenon_bound_t **at = &bounds;
  while (last && *at && *at != bound)
    at = &(*at)->next;
  if (last && *at) *at = bound->next;
  tn_mutex_unlock(&lock);
  return last;
}

static tenon_status_t bind_attrs(tenon_bound_t *bound, const tenon_value_t *attrs) {
  const tenon_op_t *op = bound->op;
  if (!(bound->attrs = tn_arena_array(&bound->arena, op->schema.attr_count + 1, sizeof *attrs)))
    return tn_no_memory("a bound call", sizeof *attrs);
  for (uint32_t i = 0; i < op->schema.attr_count; i++) {
    if (!tn_value_copy(&attrs[i], &bound->arena, &bound->attrs[i]))
      return tn_no_memory("a bound call", sizeof *attrs);
    if (bound->has_device && op->schema.attrs[i].kind == TENON_KIND_DEVICE)
      bound->attrs[i] = (tenon_value_t){TENON_KIND_DEVICE, 0, {.device = bound->device}};
  }
  return op->create ? tn_state_create(op, bound->attrs, &bound->state) : TENON_OK;
}

static tenon_status_t create_bound(const tenon_op_t *op, const tenon_value_t *attrs,
                                   const tenon_device_t *device, tenon_bound_t **out_bound) {
  *out_bound = NULL;
  op = tn_op_now(op);
  if (tn_op_has_ended(op)) return tn_op_ended(op);
  if (!attrs) attrs = op->defaults;
  TN_TRY(tn_attrs_check(op, attrs));
  if (device && !tn_backend_of(*device))
    return tn_fail(TENON_INVALID, "%s: device (type %d, id %d) belongs to no backend", op->name,
                   (int)device->type, (int)device->id);
  tenon_bound_t *bound = tn_allocate_zero(1, sizeof *bound);
  if (!bound) return tn_no_memory("a bound call", sizeof *bound);
  bound->op = op;
  bound->references = 1;
  bound->has_device = device != NULL;
  if (device) bound->device = *device;
  tenon_status_t status = bind_attrs(bound, attrs);
  if (status != TENON_OK) {
    tn_arena_clear(&bound->arena);
    tn_release_memory(bound);
    return status;
  }
  tn_values_retain(bound->attrs, op->schema.attr_count);
  tn_registry_use(op->library);
  __atomic_fetch_add(&((tenon_op_t *)(uintptr_t)op)->bounds, 1, __ATOMIC_RELAXED);
  tn_mutex_lock(&lock);
  if (bound->state) {
    bound->next = bounds;
    bounds = bound;
  }
  tn_mutex_unlock(&lock);
  *out_bound = bound;
  return TENON_OK;
}

tenon_status_t tenon_bound_create(const tenon_op_t *op, const tenon_value_t *attrs,
                                  tenon_bound_t **out_bound) {
  return create_bound(op, attrs, NULL, out_bound);
}

tenon_status_t tenon_bound_create_on(tenon_device_t device, const tenon_op_t *op,
                                     const tenon_value_t *attrs, tenon_bound_t **out_bound) {
  return create_bound(op, attrs, &device, out_bound);
}

void tenon_bound_release(tenon_bound_t *bound) {
  if (!bound || !is_last(bound)) return;
  const tn_library_t *library = bound->op->library;
  if (bound->op->create && bound->op->destroy) bound->op->destroy(bound->state);
  for (renewed_t *r = bound->renewed, *next; r; r = next) {
    next = r->next;
    if (r->op->create && r->op->destroy) r->op->destroy(r->state);
    tn_release_memory(r);
  }
  __atomic_fetch_sub(&((tenon_op_t *)(uintptr_t)bound->op)->bounds, 1, __ATOMIC_RELAXED);
  tn_values_release(bound->attrs, bound->op->schema.attr_count);
  tn_arena_clear(&bound->arena);
  tn_release_memory(bound);
  tn_registry_unuse(library);
}

/* calls on a device */

static tenon_status_t fail_elsewhere(const tenon_bound_t *bound, tenon_device_t device) {
  const tn_backend_t *here = tn_backend_of(device);
  const tn_backend_t *wanted = tn_backend_of(bound->device);
  return tn_fail(TENON_INVALID, "%s: bound to %s:%d, but its arguments are on %s:%d",
                 bound->op->name, wanted->name, (int)(bound->device.id & 255),
                 here ? here->name : "no backend", (int)(device.id & 255));
}

/* The functions that call a bound operator: tenon_bound_run, tenon_bound_call_into and so on. */
typedef enum way_t {
  RUN,
  CALL_INTO,
  CALL_ADD,
  CALL,
} way_t;

/* `wanted`: for CALL_ADD the outputs that are added to, for CALL the optional outputs that are
 * wanted. */
static tenon_status_t go_bound(const tenon_bound_t *b, way_t way, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **outputs, uint64_t wanted) {
  if (way == RUN) return tn_run_with(b->op, b->attrs, b->state, inputs, outputs);
  tn_request_t request = {.op = b->op,
                          .attrs = b->attrs,
                          .state = b->state,
                          .inputs = inputs,
                          .outputs = outputs,
                          .wanted = way == CALL ? wanted : 0,
                          .may_create = way == CALL};
  return way == CALL_ADD ? tn_call_add(&request, wanted) : tn_call_request(&request);
}

/* Makes the binding's device the thread's default device for this call. Tensors decide where a call
 * runs; the default device decides for a call without tensors. */
static __attribute__((noinline)) tenon_status_t go_on_device(const tenon_bound_t *bound, way_t way,
                                                             tenon_tensor_t *const *inputs,
                                                             tenon_tensor_t **outputs,
                                                             uint64_t wanted) {
  tn_thread_calls_t *calls = &tn_thread()->calls;
  int32_t type = calls->device_type;
  int32_t id = calls->device_id;
  calls->device_type = bound->device.type;
  calls->device_id = bound->device.id;
  tenon_device_t device = tn_device_of(bound->op, bound->attrs, inputs);
  tenon_status_t status = device.type == bound->device.type && device.id == bound->device.id
                              ? go_bound(bound, way, inputs, outputs, wanted)
                              : fail_elsewhere(bound, device);
  calls->device_type = type;
  calls->device_id = id;
  return status;
}

static inline tenon_status_t enter_bound(const tenon_bound_t *bound, way_t way,
                                         tenon_tensor_t *const *inputs,
                                         tenon_tensor_t *const *outputs, uint64_t wanted) {
  tenon_tensor_t **results = (tenon_tensor_t **)(uintptr_t)outputs;
  return bound->has_device ? go_on_device(bound, way, inputs, results, wanted)
                           : go_bound(bound, way, inputs, results, wanted);
}

tenon_status_t tenon_bound_run(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                               tenon_tensor_t *const *outputs) {
  return enter_bound(bound, RUN, inputs, outputs, 0);
}

tenon_status_t tenon_bound_call_into(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                     tenon_tensor_t *const *outputs) {
  return enter_bound(bound, CALL_INTO, inputs, outputs, 0);
}

tenon_status_t tenon_bound_call_add(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t *const *outputs, uint64_t add) {
  return enter_bound(bound, CALL_ADD, inputs, outputs, add);
}

tenon_status_t tenon_bound_call(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                tenon_tensor_t **outputs, uint64_t wanted) {
  return enter_bound(bound, CALL, inputs, outputs, wanted);
}
