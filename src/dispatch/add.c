/* Calls whose results are added to what their outputs hold: tenon_op_call_add.  A kernel that says
 * "accumulates" gets the bits in call->accumulate; for any other kernel the results go to separate
 * tensors, and core::add adds them.  With layers above the kernels these are two calls, so that
 * each layer sees operators that it knows.  Invariant: nothing is added until all results exist. */
#include "dispatch/add.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/match.h"
#include "core/value.h"
#include "dispatch/bound.h"
#include "dispatch/call.h"
#include "dispatch/keys.h"
#include "dispatch/mixed.h"
#include "dispatch/overlap.h"
#include "dispatch/prologue.h"
#include "dispatch/result.h"
#include "operator/kernel.h"
#include "operator/names.h"
#include "operator/state.h"
#include "storage/device_memory.h"

enum { MOST = 64 }; /* most results of an operator */

static bool has_bit(uint64_t bits, uint32_t o) { return bits >> o & 1; }

/* checks */

static tenon_status_t check_result(const tenon_op_t *op, const tenon_op_t *add, uint32_t o,
                                   tenon_tensor_t *t) {
  const tn_argument_t *result = &op->schema.outputs[o];
  const char *name = result->name;
  tn_match_t match;
  if (result->mark)
    return tn_fail(TENON_INVALID,
                   "%s: result %s is an input or a view of one: call it, then core::add", op->name,
                   name);
  if (result->kind == TENON_KIND_TENSORS)
    return tn_fail(TENON_INVALID,
                   "%s: result %s is a list, which nothing is added to: call it, then core::add",
                   op->name, name);
  if (!t)
    return tn_fail(TENON_INVALID, "%s: result %s: no tensor is given, and `add` says to add to it",
                   op->name, name);
  if (t->detail)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: result %s is added: expected a dense tensor, found a %s one", op->name,
                   name, tenon_tensor_layout(t));
  if (tn_tensor_is_read_only(t))
    return tn_fail(TENON_INVALID, "%s: result %s: the tensor that is given is read-only", op->name,
                   name);
  if (!tn_match(add->shapes.matcher, &add->types, add->defaults, (tenon_tensor_t *[]){t, t}, &t,
                false, &match))
    return tn_fail(TENON_INVALID, "%s: result %s is added: core::add has no dtype %s", op->name,
                   name, tn_dtype_name(t->dtype));
  return TENON_OK;
}

static tenon_status_t check_added(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                  tenon_tensor_t *const *outputs, uint64_t bits) {
  const tenon_op_t *add = tn_registry_find("core::add");
  if (!add) return tn_fail(TENON_NOT_FOUND, "core::add: the runtime has shut down");
  if (op->output_count < MOST && bits >> op->output_count)
    return tn_fail(TENON_INVALID, "%s: `add` is 0x%llx: expected bits of its %u results", op->name,
                   (unsigned long long)bits, op->output_count);
  for (uint32_t o = 0; o < op->output_count; o++)
    if (has_bit(bits, o)) TN_TRY(check_result(op, add, o, outputs[o]));
  return tn_overlap_check_outputs(op, inputs, outputs, bits);
}

/* separate results */

static void release_apart(const tenon_op_t *op, uint64_t bits, tenon_tensor_t **all) {
  for (uint32_t o = 0; o < op->output_count; o++)
    if (has_bit(bits, o)) tenon_tensor_release(all[o]);
}

/* Replaces each output that is added to by a new dense tensor. */
static tenon_status_t make_apart(const tenon_op_t *op, uint64_t bits, tenon_tensor_t **all) {
  tenon_status_t status = TENON_OK;
  uint64_t made = 0;
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++) {
    if (!has_bit(bits, o)) continue;
    status = tn_device_tensor_create_like(all[o], false, &all[o]);
    if (status == TENON_OK) made |= (uint64_t)1 << o;
  }
  if (status != TENON_OK) release_apart(op, made, all);
  return status;
}

/* Checks the shape of a separate result: the kernel may have resized it. */
static tenon_status_t check_shape(const tenon_op_t *op, uint32_t o, const tenon_tensor_t *made,
                                  const tenon_tensor_t *to) {
  char expected[160], found[160];
  bool same = made->ndim == to->ndim;
  for (int32_t d = 0; d < to->ndim && same; d++)
    same = made->shape[d] == to->shape[d];
  return same ? TENON_OK
              : tn_fail(TENON_INVALID, "%s: result %s is added: expected shape %s, found %s",
                        op->name, op->schema.outputs[o].name,
                        tn_shape_print(to->ndim, to->shape, expected, sizeof expected),
                        tn_shape_print(made->ndim, made->shape, found, sizeof found));
}

/* Adds the separate results to the given outputs after the call, unless the call failed, and
 * releases the separate results.
 *
 * `counts`: the addition counts as a write to the outputs; otherwise the caller has counted the
 * write (tn_tensor_written). */
static tenon_status_t add_apart(const tenon_op_t *op, uint64_t bits, tenon_tensor_t **all,
                                tenon_tensor_t *const *given, bool counts, tenon_status_t status) {
  const tenon_op_t *add = tn_registry_find("core::add");
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    if (has_bit(bits, o)) status = check_shape(op, o, all[o], given[o]);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++) {
    if (!has_bit(bits, o)) continue;
    tenon_tensor_t *both[2] = {given[o], all[o]};
    tenon_tensor_t *sum = given[o];
    status =
        counts ? tenon_op_call_into(add, NULL, both, &sum) : tenon_op_run(add, NULL, both, &sum);
    if (status != TENON_OK)
      status = tn_prefix(status, "%s: result %s is added: ", op->name, op->schema.outputs[o].name);
  }
  release_apart(op, bits, all);
  return status;
}

/* calls whose kernel is known */

static bool reads_what_it_adds_to(const tenon_call_t *call) {
  for (uint32_t o = 0; o < call->op->output_count; o++)
    for (uint32_t i = 0; i < call->op->input_count && has_bit(call->accumulate, o); i++) {
      const tenon_tensor_t *t = call->inputs[i];
      if (t && (tn_dtype_is(t->dtype, TENON_LIST) || tn_tensors_overlap(t, call->outputs[o])))
        return true;
    }
  return false;
}

/* Runs the rest of the call with separate outputs, then adds them. */
static tenon_status_t run_apart(tenon_call_t *call) {
  tn_frame_t *frame = tn_frame_of(call);
  tenon_tensor_t *all[MOST];
  tenon_tensor_t *const *given = call->outputs;
  uint64_t bits = call->accumulate;
  memcpy(all, given, call->op->output_count * sizeof *all);
  TN_TRY(make_apart(call->op, bits, all));
  call->outputs = all;
  call->accumulate = 0;
  frame->infers = false;
  tenon_status_t status = tn_entry_run(call);
  call->outputs = given;
  call->accumulate = bits;
  frame->infers = true;
  return add_apart(call->op, bits, all, given, false, status);
}

/* A kernel that accumulates may still decline the call: it returns UNIMPLEMENTED before it has
 * written anything. */
tenon_status_t tn_entry_add(tenon_call_t *call) {
  const tn_table_entry_t *entry = tn_frame_of(call)->entry;
  tenon_run_fn run = tn_entry_function(entry);
  bool leads_on = run == tn_layer_layout || run == tn_layer_others ||
                  entry->resolved == TN_RESOLVED_FALLTHROUGH;
  if (leads_on) return run(call);
  entry = tn_entry_hold(call);
  const tn_kernel_t *kernel = entry->only || entry->by_dtype
                                  ? tn_entry_kernel(entry, call->op, call->inputs, call->outputs)
                                  : NULL;
  bool accumulates =
      kernel && kernel->kind == TN_KIND_DEVICE && kernel->words.flags & TN_KERNEL_ACCUMULATES;
  bool serves = accumulates && !tn_is_mixed(call) && !reads_what_it_adds_to(call);
  tenon_status_t status = serves ? tn_layer_below(call) : TENON_UNIMPLEMENTED;
  tn_entry_release(entry);
  return status == TENON_UNIMPLEMENTED ? run_apart(call) : status;
}

/* entry points */

/* Returns whether some kernel accumulates and no layer stands above the kernels. Operators that
 * draw random numbers or write to inputs are excluded, since a call that the kernel declines runs a
 * second time. */
static bool asks_kernel(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                        tenon_tensor_t *const *outputs) {
  const tn_thread_calls_t *calls = &tn_thread()->calls;
  if (!__atomic_load_n(&op->accumulates, __ATOMIC_RELAXED) ||
      op->traits & (TENON_RANDOM | TN_WRITES))
    return false;
  uint64_t keys = tn_keys_of_call(op, inputs, outputs, calls->include);
  return !(keys & ~calls->exclude & TN_KEY_LAYERS);
}

/* Returns whether results that overwrite their outputs overwrite inputs too, or two results are
 * added to the same memory. */
static bool needs_parting(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                          tenon_tensor_t *const *outputs, uint64_t bits) {
  tenon_tensor_t *overwritten[MOST] = {NULL};
  for (uint32_t o = 0; o < op->output_count; o++)
    if (!has_bit(bits, o)) overwritten[o] = outputs[o];
  return !tn_overlap_is_harmless(op, inputs, overwritten) ||
         tn_overlap_check_outputs(op, inputs, outputs, 0) != TENON_OK;
}

/* Makes the call as tenon_op_call does, but without layers. */
static tenon_status_t call_kernel(tn_request_t r, uint64_t given, uint64_t bits) {
  const tenon_op_t *op = r.op;
  tn_inference_t inference;
  uint64_t made = 0;
  if (!r.attrs && op->schema.needs_attrs)
    TN_TRY(tn_values_check(&op->schema, op->defaults)); /* names the missing attributes */
  if (!r.attrs) r.attrs = op->defaults;
  r.wanted = given | (uint64_t)1 << 63;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = TENON_OK;
  if (op->create && !r.state) status = tn_state_get(op, r.attrs, &r.state);
  if (status == TENON_OK) status = tn_results_make(&inference, &r, false, &made);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    if (has_bit(given, o) && !tn_tensor_written(r.outputs[o]))
      status = tn_fail(TENON_INVALID, "%s: result %s: the tensor that is given is read-only",
                       op->name, op->schema.outputs[o].name);
  if (status == TENON_OK) status = tn_dispatch_adding(&r, bits);
  tn_scratch_reset(mark);
  for (uint32_t o = 0; o < op->output_count && status != TENON_OK; o++)
    if (has_bit(made, o)) {
      tenon_tensor_release(r.outputs[o]);
      r.outputs[o] = NULL;
    }
  return status;
}

tenon_status_t tn_call_add(const tn_request_t *request, uint64_t bits) {
  tn_request_t r = *request;
  tenon_tensor_t *all[MOST];
  uint64_t given = 0;
  if (__atomic_load_n(&r.op->successor, __ATOMIC_ACQUIRE)) {
    r.op = tn_op_now(r.op);
    if (tn_op_has_ended(r.op)) return tn_op_ended(r.op);
    TN_TRY(tn_bound_renew(r.op, &r.state));
  }
  const tenon_op_t *op = r.op;
  tenon_tensor_t *const *outputs = request->outputs;
  if (bits) TN_TRY(check_added(op, r.inputs, outputs, bits));
  for (uint32_t o = 0; o < op->output_count; o++) {
    all[o] = outputs[o];
    if (all[o]) given |= (uint64_t)1 << o;
  }
  r.outputs = all;
  tenon_status_t status = TENON_OK;
  if (bits && asks_kernel(op, r.inputs, outputs) && !needs_parting(op, r.inputs, outputs, bits)) {
    status = call_kernel(r, given, bits);
  } else if ((status = make_apart(op, bits, all)) == TENON_OK) {
    r.wanted = given | (uint64_t)1 << 63;
    r.may_create = true;
    status = tn_call_request(&r);
    if (bits) status = add_apart(op, bits, all, outputs, true, status);
  }
  for (uint32_t o = 0; o < op->output_count; o++)
    if (!has_bit(given, o)) tenon_tensor_release(all[o]);
  return status;
}

tenon_status_t tenon_op_call_add(const tenon_op_t *op, const tenon_value_t *attrs,
                                 tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                                 uint64_t add) {
  return tn_call_add(&(tn_request_t){.op = op,
                                     .attrs = attrs,
                                     .inputs = inputs,
                                     .outputs = (tenon_tensor_t **)(uintptr_t)outputs},
                     add);
}
