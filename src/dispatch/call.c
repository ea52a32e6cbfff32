/* The call path: the entry points of tenon.h (run, call, call into) and dispatch through an
 * operator's table.  Applications, the graph's interpreter, and composite kernels (through the
 * service `invoke`) call it.  Invariant: run takes no lock, allocates nothing and looks nothing up
 * by name. */
#include <stddef.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/match.h"
#include "core/value.h"
#include "dispatch/add.h"
#include "dispatch/bound.h"
#include "dispatch/call.h"
#include "dispatch/keys.h"
#include "dispatch/launch.h"
#include "dispatch/overlap.h"
#include "dispatch/prologue.h"
#include "dispatch/result.h"
#include "dispatch/services.h"
#include "dispatch/watch.h"
#include "operator/generator.h"
#include "operator/state.h"
#include "operator/table.h"
#include "storage/device_memory.h"

/* Counts a call of code that may be unloaded.  Afterwards the caller reads the entry again:
 * unloading takes the entry out of the table, makes all threads pass a barrier, and only then
 * reads the counts (tn_registry_unload). */
static void count_at_gate(tn_thread_t *thread, const tn_table_entry_t *entry, uint32_t step) {
  uint32_t *count = &thread->gates[entry->gate];
  if (!entry->gate) return;
  if (!thread->is_shared)
    __atomic_store_n(count, *count + step, __ATOMIC_RELEASE);
  else
    __atomic_fetch_add(count, step, __ATOMIC_SEQ_CST);
}

const tn_table_entry_t *tn_entry_hold(tenon_call_t *call) {
  tn_frame_t *frame = tn_frame_of(call);
  for (;;) {
    const tn_table_entry_t *entry = frame->entry;
    if (!entry->gate) return entry;
    count_at_gate(tn_thread(), entry, 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    const tn_table_entry_t *again = tn_entry_again(call);
    if (again == entry) {
      /* An entry that was used again has another context. */
      call->context = entry->context;
      return entry;
    }
    count_at_gate(tn_thread(), entry, (uint32_t)-1);
    frame->entry = again;
    call->context = tn_entry_context(again);
  }
}

void tn_entry_release(const tn_table_entry_t *entry) {
  count_at_gate(tn_thread(), entry, (uint32_t)-1);
}

static tenon_status_t run_gated(tenon_call_t *call) {
  const tn_table_entry_t *entry = tn_entry_hold(call);
  tenon_status_t status = tn_layer_below(call);
  tn_entry_release(entry);
  return status;
}

static tenon_status_t run_inferred(tenon_call_t *call);

/* Returns whether the call has passed the layers. An entry that is a composite counts as past them,
 * since the layers see the calls that the composite makes. */
static bool is_past_layers(const tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of_const(call);
  uint64_t keys = frame->keys & tn_op_mask(call->op);
  return !(keys >> (TN_BIT_DETAIL + 1)) || frame->entry->resolved == TN_RESOLVED_COMPOSITE ||
         frame->entry->resolved == TN_RESOLVED_EXPLICIT;
}

tenon_status_t tn_entry_run(tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of(call);
  if (__builtin_expect(frame->infers != 0, 0) && is_past_layers(call))
    return call->accumulate ? tn_entry_add(call) : run_inferred(call);
  return __builtin_expect(frame->entry->gate, 0) ? run_gated(call) : tn_layer_below(call);
}

/* Returns whether a frame below the limit of the thread's stack is too deep. The first call after
 * a failure comes here as well (tn_error_age). A frame that is not on
 * the thread's own stack at all (but on a coroutine's stack, or the heap) is not. */
static __attribute__((noinline, cold)) bool is_too_deep(const tenon_op_t *op, tn_thread_t *thread,
                                                        tn_frame_t *frame) {
  frame->temporaries = NULL;
  frame->owned = 0;
  frame->call.op = op;
  tn_error_age(thread, (uintptr_t)frame);
  return (uintptr_t)frame < thread->stack_limit && (uintptr_t)frame >= thread->stack_low;
}

static tenon_status_t __attribute__((noinline, cold)) fail_too_deep(const tenon_op_t *op) {
  return tn_fail(TENON_RANGE,
                 "%s: calls are nested until the thread's stack is nearly full: a kernel, a layer "
                 "or a composite calls the operator that it was called for, instead of passing the "
                 "call on (tenon_call_next)",
                 op->name);
}

/* Fills in a frame at the beginning of a call. Members that begin as 0 are adjacent, so that two
 * calls of memset clear them. */
static inline __attribute__((always_inline)) void
open_frame(tn_frame_t *frame, const tenon_op_t *op, const tenon_value_t *attrs,
           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs, void *state,
           uint64_t keys, const tn_table_entry_t *entry) {
  memset(&frame->call.plan, 0, offsetof(tenon_call_t, uses) - offsetof(tenon_call_t, plan));
  memset(&frame->call.random, 0, offsetof(tn_frame_t, entry) - offsetof(tn_frame_t, call.random));
  frame->call.size = sizeof frame->call;
  frame->call.phase = TENON_PHASE_RUN;
  frame->call.host = &tn_host;
  frame->call.op = op;
  frame->call.attrs = attrs ? attrs : op->defaults;
  frame->call.context = tn_entry_context(entry);
  frame->call.state = state;
  frame->call.inputs = inputs;
  frame->call.outputs = outputs;
  frame->call.uses = op->uses;
  frame->entry = entry;
  frame->keys = keys;
}

/* Runs the entry of the highest key in `all` (tn_keys_of_call) that the operator's mask keeps. */
static inline __attribute__((always_inline)) tenon_status_t
dispatch_keys(const tenon_op_t *op, tn_frame_t *frame, const tenon_value_t *attrs,
              tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs, void *state,
              const tenon_random_t *random, bool infers, uint64_t all) {
  /* Most calls have the key of the CPU alone: its entry is read without looking for the key. */
  const tn_table_entry_t *entry = __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE);
  all &= ~TN_KEY(TN_BIT_CAREFUL);
  uint64_t keys = all & entry->mask;
  if (__builtin_expect(keys != TN_KEY_CPU, 0)) {
    entry = tn_table_entry(op, keys);
    /* The entry is newer than the mask that was read, and its own mask keeps more keys. */
    if (__builtin_expect((all & ~keys & entry->mask) != 0, 0)) {
      keys = all & entry->mask;
      entry = tn_table_entry(op, keys);
    }
  }
  open_frame(frame, op, attrs, inputs, outputs, state, keys, entry);
  frame->call.random = random;
  frame->infers = infers;
  frame->inputs = keys & (TN_KEY_STRIDED | TN_KEY_DETAIL) ? NULL : inputs;
  frame->outputs = outputs;
  if (infers) return tn_entry_run(&frame->call);
  return __builtin_expect(entry->gate, 0) ? run_gated(&frame->call) : entry->run(&frame->call);
}

static inline __attribute__((always_inline)) tenon_status_t
dispatch_call(const tenon_op_t *op, tn_frame_t *frame, const tenon_value_t *attrs,
              tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs, void *state,
              const tenon_random_t *random, bool infers) {
  tn_thread_t *thread = tn_thread();
  if (__builtin_expect((uintptr_t)frame < thread->stack_limit, 0) && is_too_deep(op, thread, frame))
    return fail_too_deep(op);
  uint64_t keys = tn_keys_of_call(op, inputs, outputs, thread->calls.include | tn_key_of_process());
  if (__builtin_expect(!op->input_count, 0))
    keys |= tn_keys_without_tensors(op, attrs ? attrs : op->defaults);
  keys |= op->traits & TN_WRITES;
  return dispatch_keys(op, frame, attrs, inputs, outputs, state, random, infers,
                       keys & ~thread->calls.exclude);
}

tenon_status_t tn_dispatch(const tenon_op_t *op, tn_frame_t *frame, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                           const tenon_random_t *random) {
  tenon_status_t status = dispatch_call(op, frame, attrs, inputs, outputs, NULL, random, false);
  return tn_frame_close(frame, status);
}

tenon_status_t tn_dispatch_adding(const tn_request_t *request, uint64_t add) {
  const tenon_op_t *op = request->op;
  tn_frame_t frame;
  tn_thread_t *thread = tn_thread();
  if ((uintptr_t)&frame < thread->stack_limit && is_too_deep(op, thread, &frame))
    return fail_too_deep(op);
  uint64_t keys = tn_keys_of_call(op, request->inputs, request->outputs,
                                  thread->calls.include | tn_key_of_process());
  if (!op->input_count) keys |= tn_keys_without_tensors(op, request->attrs);
  keys &= ~thread->calls.exclude & tn_op_mask(op);
  open_frame(&frame, op, request->attrs, request->inputs, request->outputs, request->state, keys,
             tn_table_entry(op, keys));
  frame.outputs = request->outputs;
  frame.infers = true;
  frame.call.accumulate = add;
  tenon_status_t status = tn_entry_run(&frame.call);
  return tn_frame_close(&frame, status);
}

tenon_status_t tn_redispatch(tenon_call_t *call, uint64_t keys) {
  tn_frame_t *frame = tn_frame_of(call);
  const tn_table_entry_t *entry_before = frame->entry;
  const tn_kernel_t *kernel = frame->kernel;
  uint64_t keys_before = frame->keys;
  void *context = call->context;
  void *state = call->state;
  void *workspace = call->workspace;
  uint64_t masked = keys & tn_op_mask(call->op);
  const tn_table_entry_t *entry = tn_table_entry(call->op, masked);
  frame->entry = entry;
  frame->keys = keys;
  frame->kernel = NULL;
  call->context = tn_entry_context(entry);
  bool is_plain =
      masked == TN_KEY_CPU && call->inputs == frame->inputs && call->outputs == frame->outputs;
  tenon_status_t status;
  if (tn_trace_is_on())
    status = tn_trace_hooks.run(call, keys_before >> TN_BIT_TRACE ? "call" : "next");
  else if (is_plain && !frame->infers && !entry->gate)
    status = entry->run(call);
  else
    status = tn_entry_run(call);
  frame->entry = entry_before;
  frame->keys = keys_before;
  frame->kernel = kernel;
  call->context = context;
  call->state = state;
  call->workspace = workspace;
  return status;
}

/* tenon_op_run */

/* Takes the random numbers of a call from the generator of its device. If neither the operator nor
 * infer states how many (`stated` is -1), takes one for each element of the largest output. */
static tenon_random_t take_numbers(const tenon_op_t *op, int64_t stated, const tenon_value_t *attrs,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  tenon_device_t device = tn_device_of(op, attrs, inputs);
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (!outputs[o] || !outputs[o]->data) continue;
    if (device.type == 1) device = outputs[o]->device;
    if (op->draws < 0 && (stated < 0 || !op->infer))
      stated = tenon_count(outputs[o]) > stated ? tenon_count(outputs[o]) : stated;
  }
  return tn_random_take(device, stated);
}

/* Runs an operator that draws random numbers. */
static tenon_status_t run_random(const tenon_op_t *op, const tenon_value_t *attrs,
                                 tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                                 void *state) {
  tn_inference_t inference = {0};
  tn_frame_t frame;
  if (op->infer && op->draws < 0) {
    tenon_meta_t **in, **out;
    tn_scratch_mark_t mark = tn_scratch_mark();
    tenon_status_t status = TENON_OK;
    if (op->create && !state) status = tn_state_get(op, attrs ? attrs : op->defaults, &state);
    if (status == TENON_OK) status = tn_metas_of_inputs(op, inputs, &in);
    if (status == TENON_OK) status = tn_metas_of_results(op, attrs ? attrs : op->defaults, 0, &out);
    if (status == TENON_OK)
      status = tn_infer(&inference, op, attrs ? attrs : op->defaults, state, in, out);
    tn_scratch_reset(mark);
    if (status != TENON_OK) return status;
  }
  int64_t stated = op->draws >= 0 || !op->infer ? op->draws : inference.infer.draws.value;
  tenon_random_t random = take_numbers(op, stated, attrs ? attrs : op->defaults, inputs, outputs);
  tenon_status_t status = dispatch_call(op, &frame, attrs, inputs, outputs, state, &random, false);
  return tn_frame_close(&frame, status);
}

/* Runs any call. `keys`: as for dispatch_keys, or 0 if they are still to be computed. */
static __attribute__((noinline)) tenon_status_t
run_any(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
        tenon_tensor_t *const *outputs, void *state, uint64_t keys) {
  if (op->traits & TENON_RANDOM) return run_random(op, attrs, inputs, outputs, state);
  tn_frame_t frame;
  tenon_status_t status =
      keys && !(op->traits & TN_WRITES) && op->input_count
          ? dispatch_keys(op, &frame, attrs, inputs, outputs, state, NULL, false, keys)
          : dispatch_call(op, &frame, attrs, inputs, outputs, state, NULL, false);
  return tn_frame_close(&frame, status);
}

/* Runs a call that is not on the CPU alone: launches the kernel directly if the call is on one
 * device that allows it, otherwise takes the general way. */
static __attribute__((noinline)) tenon_status_t
run_elsewhere(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
              tenon_tensor_t *const *outputs, void *state, uint64_t keys, uint64_t mask) {
  uint64_t masked = keys & mask & ~TN_KEY(TN_BIT_CAREFUL);
  uint64_t device = masked & ~TN_KEY_CPU;
  bool is_one = device && device < TN_KEY(TN_BIT_OTHERS) && !(device & (device - 1));
  const tn_table_entry_t *entry = is_one ? tn_table_own(op, tn_key_highest(device)) : NULL;
  if (!entry || entry->run != tn_launch_directly || entry->gate ||
      keys & ~masked & entry->mask & ~TN_KEY(TN_BIT_CAREFUL))
    return run_any(op, attrs, inputs, outputs, state, keys);
  tn_frame_t frame;
  open_frame(&frame, op, attrs, inputs, outputs, state, masked, entry);
  frame.inputs = inputs;
  frame.outputs = outputs;
  tenon_status_t status = tn_launch_directly(&frame.call);
  return tn_frame_close(&frame, status);
}

/* Dispatches a call of plain tensors on the CPU, for which only the kernel runs and nothing is kept
 * for layers. Other calls go on in run_elsewhere or run_any. */
static inline __attribute__((always_inline)) tenon_status_t
run_call(const tenon_op_t *op, const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
         tenon_tensor_t *const *outputs, void *state) {
  tn_frame_t frame;
  const tn_thread_t *thread = tn_thread_block;
  if (__builtin_expect(!thread || (uintptr_t)&frame < thread->stack_limit, 0))
    return run_any(op, attrs, inputs, outputs, state, 0);
  uint64_t keys = tn_keys_of_call(op, inputs, outputs, thread->calls.include | tn_key_of_process());
  const tn_table_entry_t *entry = __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE);
  keys &= ~thread->calls.exclude;
  if (__builtin_expect((keys & entry->mask) != TN_KEY_CPU || entry->gate, 0))
    return run_elsewhere(op, attrs, inputs, outputs, state, keys, entry->mask);
  open_frame(&frame, op, attrs, inputs, outputs, state, TN_KEY_CPU, entry);
  tenon_status_t status = entry->run(&frame.call);
  return tn_frame_close(&frame, status);
}

tenon_status_t tenon_op_run(const tenon_op_t *op, const tenon_value_t *attrs,
                            tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  return run_call(op, attrs, inputs, outputs, NULL);
}

/* layers */

/* Returns the keys that the thread adds to its calls, without those that every call has. */
static inline uint64_t included(void) { return tn_thread()->calls.include & ~TN_KEY_ALWAYS; }

/* Returns the keys of a call that has no outputs yet: only those that the operator's mask keeps. */
static uint64_t keys_of_request(const tenon_op_t *op, tenon_tensor_t *const *inputs) {
  uint64_t keys = tn_keys_of_inputs(op, inputs, included() | TN_KEY_CPU);
  return keys & ~tn_thread()->calls.exclude & tn_op_mask(op);
}

/* Returns whether a layer other than autograd may change the call, so that its outputs stay
 * unallocated until the call has passed the layers. An operator that returns a list is excluded:
 * its lists are created first, since nothing else tells how many tensors they have. */
static bool gets_unallocated(const tenon_op_t *op, uint64_t keys) {
  if (!(keys & TN_KEY_LAYERS & ~TN_KEY(TN_BIT_AUTOGRAD))) return false;
  const tn_table_entry_t *entry = tn_table_entry(op, keys);
  /* Layers see the calls that a composite makes. */
  if (entry->resolved == TN_RESOLVED_COMPOSITE || entry->resolved == TN_RESOLVED_EXPLICIT)
    return false;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return false;
  return true;
}

/* Infers a call as the layers left it, creates its outputs, and runs it. */
static tenon_status_t run_inferred(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  tn_frame_t *frame = tn_frame_of(call);
  tn_inference_t inference;
  tenon_random_t own;
  tenon_tensor_t *const *inputs = call->inputs;
  tenon_tensor_t **outputs = (tenon_tensor_t **)(uintptr_t)call->outputs;
  tenon_tensor_t **dense = NULL;
  const tenon_random_t *random = call->random;
  void *state = call->state;
  uint64_t wanted = (uint64_t)1 << 63;
  uint64_t made = 0;
  bool are_unallocated = true;
  tn_scratch_mark_t mark = tn_scratch_mark();
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (!outputs[o]) continue;
    wanted |= (uint64_t)1 << o;
    are_unallocated = are_unallocated && outputs[o]->keys & TN_TENSOR_UNSET;
  }
  tenon_status_t status = op->is_view && tn_inputs_need_dense(op, inputs)
                              ? tn_inputs_dense(op, inputs, &dense)
                              : TENON_OK;
  if (status != TENON_OK) dense = NULL;
  if (dense) call->inputs = dense;
  if (status == TENON_OK && op->create && !state)
    status = tn_state_get(op, call->attrs, &call->state);
  tn_request_t request = {.op = op,
                          .attrs = call->attrs,
                          .state = call->state,
                          .inputs = call->inputs,
                          .outputs = outputs,
                          .wanted = wanted};
  if (status == TENON_OK)
    status = tn_results_make(&inference, &request,
                             tn_view_has_kernel(op, frame->keys, call->inputs), &made);
  if (status == TENON_OK && op->traits & TENON_RANDOM && !random) {
    own = take_numbers(op, inference.infer.draws.value, call->attrs, call->inputs, outputs);
    call->random = &own;
  }
  frame->infers = false;
  if (status == TENON_OK && !(are_unallocated && frame->entry->resolved == TN_RESOLVED_VIEW))
    status = tn_entry_run(call);
  frame->infers = true;
  call->inputs = inputs;
  call->random = random;
  call->state = state;
  for (uint32_t i = 0; dense && i < op->input_count; i++)
    tenon_tensor_release(dense[i]);
  tn_scratch_reset(mark);
  return status;
}

/* inferred calls */

static tenon_status_t __attribute__((noinline, cold))
fail_read_only(const tenon_op_t *op, uint32_t o) {
  return tn_fail(TENON_INVALID, "%s: result %s: the tensor that is given is read-only", op->name,
                 op->schema.outputs[o].name);
}

/* State of an inferred call in progress: bit sets of its outputs, and how they are created. */
typedef struct progress_t {
  uint64_t given;   /* the caller gave these outputs */
  uint64_t made;    /* created here, and released if the call fails */
  uint64_t written; /* these outputs are inputs that are written to */
  /* Layers get unallocated outputs; inference runs when the call has passed them. */
  bool is_unallocated;
  bool owns; /* the outputs of a view operator get memory of their own */
  bool has_run;
} progress_t;

/* Finds which outputs are given and which are wanted. */
static tenon_status_t find_given(tn_request_t *r, progress_t *p) {
  const tenon_op_t *op = r->op;
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (r->outputs[o])
      p->given |= (uint64_t)1 << o;
    else if (!r->may_create && !op->schema.outputs[o].is_optional)
      return tn_fail(TENON_INVALID, "%s: result %s: no tensor is given", op->name,
                     op->schema.outputs[o].name);
  }
  if (r->wanted || !r->may_create) r->wanted |= p->given; /* 0 means all */
  if (!r->may_create && !r->wanted) r->wanted = (uint64_t)1 << 63;
  return TENON_OK;
}

static tenon_status_t call_inferred(tn_request_t *r);

/* Makes the call with inputs of its own, which are released. */
static tenon_status_t call_with_copies(tn_request_t *r, tenon_tensor_t **copies) {
  r->inputs = copies;
  tenon_status_t status = call_inferred(r);
  for (uint32_t i = 0; i < r->op->input_count; i++)
    tenon_tensor_release(copies[i]);
  return status;
}

/* Calls a view operator with dense copies of its inputs. */
static tenon_status_t call_on_dense(const tn_request_t *request) {
  tn_request_t r = *request;
  tenon_tensor_t **dense;
  TN_TRY(tn_inputs_dense(r.op, r.inputs, &dense));
  r.random = NULL;
  return call_with_copies(&r, dense);
}

/* Makes the call with copies of the inputs that it would overwrite before it has read them. */
static __attribute__((noinline, cold)) tenon_status_t call_apart(const tn_request_t *request,
                                                                 uint64_t copies) {
  tn_request_t r = *request;
  tenon_tensor_t **inputs;
  TN_TRY(tn_overlap_part(r.op, r.inputs, copies, &inputs));
  r.is_apart = true;
  return call_with_copies(&r, inputs);
}

/* Sets outputs that are inputs written in place, and creates unallocated outputs. */
static tenon_status_t begin_outputs(const tn_request_t *r, progress_t *p) {
  const tenon_op_t *op = r->op;
  for (uint32_t o = 0; o < op->output_count; o++) {
    int32_t same = tn_result_input(op, o);
    bool is_left_out = r->wanted && op->schema.outputs[o].is_optional && !(r->wanted >> o & 1);
    if (r->outputs[o] || is_left_out) continue;
    if (same >= 0 && r->inputs[same]) {
      r->outputs[o] = r->inputs[same];
      p->written |= (uint64_t)1 << o;
    } else if (p->is_unallocated) {
      TN_TRY(tn_tensor_unset((tenon_dtype_t){0, 0, 0}, TENON_RANK_MAX, &r->outputs[o]));
      p->made |= (uint64_t)1 << o;
    }
  }
  return TENON_OK;
}

static tenon_status_t run_request(const tn_request_t *r, progress_t *p,
                                  const tn_inference_t *inference) {
  const tenon_op_t *op = r->op;
  const tenon_random_t *random = r->random;
  tenon_random_t own;
  tn_frame_t frame;
  tenon_status_t status = TENON_OK;
  if (op->traits & TENON_RANDOM && !random && !p->is_unallocated) {
    own = take_numbers(op, inference->infer.draws.value, r->attrs, r->inputs, r->outputs);
    random = &own;
  }
  /* Writes are counted before the call, so that outputs which autograd saves during the call have
   * the new version. */
  for (uint32_t o = 0; p->given && o < op->output_count; o++)
    if (p->given >> o & 1 && !tn_tensor_written(r->outputs[o])) status = fail_read_only(op, o);
  if (status != TENON_OK) return status;
  status = dispatch_call(op, &frame, r->attrs, r->inputs, r->outputs, r->state, random,
                         p->is_unallocated);
  status = tn_frame_close(&frame, status);
  p->has_run = true;
  return status;
}

/* Gives each output that is a written input a reference to that input, or a copy if the input
 * cannot be retained. */
static tenon_status_t keep_written(const tn_request_t *r, progress_t *p, tenon_status_t status) {
  for (uint32_t o = 0; o < r->op->output_count; o++) {
    if (!(p->written >> o & 1)) continue;
    tenon_tensor_t *input = r->outputs[o];
    r->outputs[o] = NULL;
    if (status != TENON_OK) continue;
    if (tn_tensor_is_owned(input)) {
      tenon_tensor_retain(input);
      r->outputs[o] = input;
    } else {
      status = tenon_tensor_copy_to(input, input->device, &r->outputs[o]);
    }
    if (status == TENON_OK) p->made |= (uint64_t)1 << o;
  }
  return status;
}

static void release_outputs(const tenon_op_t *op, tenon_tensor_t **outputs, uint64_t made) {
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (!(made >> o & 1)) continue;
    tenon_tensor_release(outputs[o]);
    outputs[o] = NULL;
  }
}

/* Makes a call through metas and inference. Changes `wanted` of the request. */
static tenon_status_t call_inferred(tn_request_t *r) {
  const tenon_op_t *op = r->op;
  tn_inference_t inference;
  uint64_t keys = keys_of_request(op, r->inputs);
  progress_t p = {.is_unallocated = gets_unallocated(op, keys),
                  .owns = tn_view_has_kernel(op, keys, r->inputs)};
  TN_TRY(find_given(r, &p));
  if ((p.given || op->traits & TN_WRITES) && !r->is_apart) {
    uint64_t copies;
    TN_TRY(tn_overlap_find(op, r->inputs, r->outputs, &copies));
    if (copies) return call_apart(r, copies);
  }
  if (op->is_view && !p.is_unallocated && tn_inputs_need_dense(op, r->inputs))
    return call_on_dense(r);
  tenon_status_t status = begin_outputs(r, &p);
  if (status == TENON_OK && !p.is_unallocated)
    status = tn_results_make(&inference, r, p.owns, &p.made);
  /* A view operator runs only if a kernel makes the view, the caller gave an output, or a layer has
   * to see the call. */
  bool is_view_only = op->is_view && !p.owns && !p.given && !(keys & TN_KEY_LAYERS);
  if (status == TENON_OK && !is_view_only) status = run_request(r, &p, &inference);
  if (__builtin_expect(status != TENON_OK, 0) && !p.has_run && tn_trace_is_on())
    tn_trace_hooks.refused(op, r->attrs, r->inputs, status);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    if (r->outputs[o] && r->outputs[o]->keys & TN_TENSOR_UNSET)
      status = tn_fail(TENON_INTERNAL, "%s: %s did not state the shape of result %s", op->name,
                       p.is_unallocated ? "a layer or run" : "run", op->schema.outputs[o].name);
  if (p.written) status = keep_written(r, &p, status);
  if (status != TENON_OK) release_outputs(op, r->outputs, p.made);
  return status;
}

/* plain calls */

/* Does for plain operators what call_inferred does, but without metas. Returns false, and has done
 * nothing, if the call is not plain or inference has to report its error. */
static inline __attribute__((always_inline)) bool call_plain(const tn_request_t r,
                                                             tenon_status_t *out_status) {
  const tenon_op_t *op = r.op;
  uint64_t to_make = 0;
  uint64_t made = 0;
  tn_match_t match;
  const tn_matcher_t *matcher = op->shapes.matcher;
  if (!(op->traits & TN_PLAIN) || (op->traits & TN_STATEFUL && !r.state) ||
      !tn_match(matcher, &op->types, r.attrs, r.inputs, r.outputs, true, &match))
    return false;
  /* These keys need inference: outputs may keep the inputs' layout, belong on the inputs' device,
   * or stay unallocated for layers. */
  uint64_t keys = tn_keys_of_inputs(op, r.inputs, included());
  if (keys & ~(TN_KEY_CPU | TN_TENSOR_OWNED | TN_KEY(TN_BIT_AUTOGRAD))) return false;
  for (uint32_t o = 0; o < op->output_count; o++) {
    bool is_left_out = r.wanted && !(r.wanted >> o & 1) && op->schema.outputs[o].is_optional;
    if (!r.outputs[o] && !is_left_out) to_make |= (uint64_t)1 << o;
    if (!r.outputs[o]) continue;
    if (tn_output_touches(op, r.inputs, r.outputs, o) &&
        !tn_overlap_is_harmless(op, r.inputs, r.outputs))
      return false;
    if (!tn_tensor_written(r.outputs[o])) {
      *out_status = fail_read_only(op, o);
      return true;
    }
  }
  tenon_status_t status = TENON_OK;
  bool fits = true;
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK && fits; o++) {
    int32_t ndim;
    if (!(to_make >> o & 1)) continue;
    const int64_t *shape = tn_match_shape(&match, matcher, o, r.inputs, &ndim);
    uint32_t id = tn_match_dtype(&match, &op->types, r.attrs, o);
    fits = shape && id;
    if (fits) status = tenon_tensor_create(tenon_dtype(id), ndim, shape, &r.outputs[o]);
    if (fits && status == TENON_OK) made |= (uint64_t)1 << o;
  }
  if (status == TENON_OK && fits) {
    tn_frame_t frame;
    status = dispatch_call(op, &frame, r.attrs, r.inputs, r.outputs, r.state, r.random, false);
    status = tn_frame_close(&frame, status);
  }
  if (status != TENON_OK || !fits) release_outputs(op, r.outputs, made);
  *out_status = status;
  return fits;
}

static __attribute__((noinline, cold)) tenon_status_t enter_successor(tn_request_t *r);

/* Makes a call that is not plain. Changes the request. */
static tenon_status_t enter_inferred(tn_request_t *r) {
  tenon_status_t status = TENON_OK;
  tn_scratch_mark_t mark = tn_scratch_mark();
  if (r->op->create && !r->state) status = tn_state_get(r->op, r->attrs, &r->state);
  if (status == TENON_OK) status = call_inferred(r);
  tn_scratch_reset(mark);
  return status;
}

static inline bool has_successor(const tenon_op_t *op) {
  return __builtin_expect(__atomic_load_n(&op->successor, __ATOMIC_ACQUIRE) != NULL, 0);
}

/* Replaces NULL attributes by the defaults. If an attribute without a default is missing, the error
 * names it. */
static inline __attribute__((always_inline)) tenon_status_t
find_attrs(const tenon_op_t *op, const tenon_value_t **attrs) {
  if (*attrs) return TENON_OK;
  if (op->schema.needs_attrs) TN_TRY(tn_values_check(&op->schema, op->defaults));
  *attrs = op->defaults;
  return TENON_OK;
}

/* Does what tn_call_request does, but keeps the request in registers while the call is plain. */
static inline __attribute__((always_inline)) tenon_status_t enter(tn_request_t r) {
  tenon_status_t status = TENON_OK;
  if (has_successor(r.op)) {
    tn_request_t request = r;
    return enter_successor(&request);
  }
  TN_TRY(find_attrs(r.op, &r.attrs));
  if (call_plain(r, &status)) return status;
  tn_request_t request = r;
  return enter_inferred(&request);
}

/* Calls the successor of an operator whose library was reloaded. The outputs may have other shapes,
 * so they are always inferred anew. */
static tenon_status_t enter_successor(tn_request_t *r) {
  r->op = tn_op_now(r->op);
  if (tn_op_has_ended(r->op)) return tn_op_ended(r->op);
  TN_TRY(tn_bound_renew(r->op, &r->state));
  return tn_call_request(r);
}

static tenon_status_t run_successor(tenon_call_t *call) {
  return enter_successor(&(tn_request_t){.op = call->op,
                                         .attrs = call->attrs,
                                         .state = call->state,
                                         .inputs = call->inputs,
                                         .outputs = (tenon_tensor_t **)(uintptr_t)call->outputs});
}

/* entry points */

static __attribute__((noinline)) tenon_status_t call_given(tn_request_t *r) {
  if (has_successor(r->op)) return enter_successor(r);
  TN_TRY(find_attrs(r->op, &r->attrs));
  return enter_inferred(r);
}

static __attribute__((noinline)) tenon_status_t call_creating(tn_request_t *r) { return enter(*r); }

tenon_status_t tn_call_request(tn_request_t *r) {
  return r->may_create ? call_creating(r) : call_given(r);
}

tenon_status_t tn_call(const tenon_op_t *op, const tenon_value_t *attrs,
                       tenon_tensor_t *const *inputs, tenon_tensor_t **outputs, uint64_t wanted,
                       const tenon_random_t *random) {
  tn_thread_t *thread = tn_thread();
  if (thread->nesting >= TN_NESTING_MOST) return tn_nested_too_deep(op);
  thread->nesting++;
  tenon_status_t status = tn_call_request(
      &(tn_request_t){op, attrs, NULL, inputs, outputs, wanted, true, random, false});
  thread->nesting--;
  return status;
}

tenon_status_t tn_run_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  return run_call(op, attrs, inputs, outputs, state);
}

tenon_status_t tenon_op_call(const tenon_op_t *op, const tenon_value_t *attrs,
                             tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                             uint64_t wanted) {
  return enter((tn_request_t){op, attrs, NULL, inputs, outputs, wanted, true, NULL, false});
}

static __attribute__((noinline)) tenon_status_t call_into_inferred(const tenon_op_t *op,
                                                                   const tenon_value_t *attrs,
                                                                   tenon_tensor_t *const *inputs,
                                                                   tenon_tensor_t *const *outputs) {
  tenon_tensor_t **results = (tenon_tensor_t **)(uintptr_t)outputs;
  return call_given(&(tn_request_t){op, attrs, NULL, inputs, results, 0, false, NULL, false});
}

tenon_status_t tenon_op_call_into(const tenon_op_t *op, const tenon_value_t *attrs,
                                  tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs) {
  tn_match_t match;
  uint64_t kind = op->traits & (TN_PLAIN | TN_STATEFUL | (attrs ? 0 : TN_NEEDS_ATTRS));
  if (kind == TN_PLAIN && !__atomic_load_n(&op->successor, __ATOMIC_ACQUIRE) && !included() &&
      tn_match(op->shapes.matcher, &op->types, attrs ? attrs : op->defaults, inputs, outputs, false,
               &match)) {
    for (uint32_t o = 0; o < op->output_count; o++) {
      if (!outputs[o]) continue;
      if (tn_output_touches(op, inputs, outputs, o) && !tn_overlap_is_harmless(op, inputs, outputs))
        return call_into_inferred(op, attrs, inputs, outputs);
      if (!tn_tensor_written(outputs[o])) return fail_read_only(op, o);
    }
    if (op->traits & TENON_RANDOM) return run_random(op, attrs, inputs, outputs, NULL);
    tn_frame_t frame;
    tenon_status_t status = dispatch_call(op, &frame, attrs, inputs, outputs, NULL, NULL, false);
    status = tn_frame_close(&frame, status);
    return status;
  }
  return call_into_inferred(op, attrs, inputs, outputs);
}

static tenon_status_t call_to_place(const tenon_op_t *op, const tenon_value_t *attrs,
                                    tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  return tn_call(op, attrs, inputs, outputs, 0, NULL);
}

void tn_call_install(void) {
  tn_device_calls = (tn_device_calls_t){tenon_op_run, call_to_place};
  tn_table_run_set(TN_RUN_MOVED, run_successor);
}
