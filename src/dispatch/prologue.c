/* The functions that the table runs before a kernel: they make inputs dense, refuse quantised and
 * sparse tensors, and provide state, workspace, views and the error for a missing kernel.  The
 * entries of the table call them.  Invariant: each function passes the same frame on. */
#include "dispatch/prologue.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "dispatch/keys.h"
#include "dispatch/launch.h"
#include "dispatch/mixed.h"
#include "dispatch/overlap.h"
#include "dispatch/result.h"
#include "dispatch/services.h"
#include "dispatch/watch.h"
#include "operator/kernel.h"
#include "operator/library.h"
#include "operator/state.h"
#include "operator/table.h"
#include "storage/device_memory.h"

static tenon_status_t fail_without_kernel(tenon_call_t *call) {
  uint64_t keys = tn_frame_of(call)->keys;
  return tn_op_missing(call->op, keys ? tn_key_name(tn_key_highest(keys)) : NULL, call->inputs);
}

static tenon_status_t run_missing(tenon_call_t *call) { return fail_without_kernel(call); }

/* Reports that the backend has a fallback, and that the operator denies it. */
static tenon_status_t run_denied(tenon_call_t *call) {
  const tn_kernel_t *denial = tn_frame_of(call)->entry->denial;
  const tenon_op_t *op = call->op;
  const tenon_tensor_t *t = op->dispatch_input >= 0 ? call->inputs[op->dispatch_input] : NULL;
  const char *and_dtype = t ? " and dtype " : "";
  const char *dtype = t ? tn_dtype_name(t->dtype) : "";
  return tn_fail(TENON_UNIMPLEMENTED,
                 "%s: no kernel for %s%s%s, and library %s says that it must not fall back ('%s'): "
                 "add a kernel for %s, or move the arguments to the CPU",
                 op->name, denial->backend->name, and_dtype, dtype, denial->library->name,
                 denial->text, denial->backend->name);
}

static tenon_status_t run_ambiguous(tenon_call_t *call) { return tn_mixed_ambiguous(call); }

/* Meta tensors have shapes and no data: infer has done all there is to do. */
static tenon_status_t run_meta(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  bool knows_shapes =
      op->infer || op->shapes.text || op->traits & TENON_POINTWISE || op->output_count == 0;
  if (!knows_shapes) return fail_without_kernel(call);
  for (uint32_t o = 0; o < op->output_count; o++)
    if (call->outputs[o] && call->outputs[o]->keys & TN_TENSOR_UNSET)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "%s: the shape of result %s depends on data, which meta tensors have not",
                     op->name, op->schema.outputs[o].name);
  return TENON_OK;
}

static tenon_status_t run_fallthrough(tenon_call_t *call) { return tenon_call_next(call); }

/* Passes the call on with copies of inputs that overlap what it writes to. The entry points have
 * made them already, except for tenon_op_run. */
static tenon_status_t write_apart(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  tenon_tensor_t *const *given = call->inputs;
  tenon_tensor_t **inputs;
  uint64_t copies;
  TN_TRY(tn_overlap_find(op, given, call->outputs, &copies));
  if (!copies) return tenon_call_next(call);
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = tn_overlap_part(op, given, copies, &inputs);
  if (status == TENON_OK) {
    call->inputs = inputs;
    status = tenon_call_next(call);
    call->inputs = given;
    for (uint32_t i = 0; i < op->input_count; i++)
      tenon_tensor_release(inputs[i]);
  }
  tn_scratch_reset(mark);
  return status;
}

/* Refuses to write to read-only tensors. After success, counts the writes, so that autograd
 * recognises the values that it saved of that memory as out of date. */
static tenon_status_t run_versions(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tenon_tensor_t *t = op->schema.inputs[i].is_written ? call->inputs[i] : NULL;
    bool is_read_only = t && tn_tensor_is_read_only(t);
    for (int64_t k = 0; t && tn_dtype_is(t->dtype, TENON_LIST) && k < t->shape[0]; k++)
      is_read_only |= tn_tensor_is_read_only(tenon_item(t, k));
    if (is_read_only)
      return tn_fail(TENON_INVALID, "%s: argument %s is written to, and its tensor is read-only",
                     op->name, op->schema.inputs[i].name);
  }
  TN_TRY(write_apart(call));
  for (uint32_t i = 0; i < op->input_count; i++) {
    tenon_tensor_t *t = call->inputs[i];
    if (!t || !op->schema.inputs[i].is_written) continue;
    tn_tensor_written(t);
    for (int64_t k = 0; tn_dtype_is(t->dtype, TENON_LIST) && k < t->shape[0]; k++)
      tn_tensor_written(tenon_item(t, k));
  }
  return TENON_OK;
}

static tenon_status_t run_gradient(tenon_call_t *call) {
  return tn_autograd.record ? tn_autograd.record(call) : tenon_call_next(call);
}

/* backends that share a bit */

/* Adds the backends of a tensor, or of the items of a list, to `found`, which holds the first two
 * different ones. */
static void add_backends(const tenon_tensor_t *t, const tn_backend_t *found[2]) {
  if (!t || !(t->keys & TN_KEY(TN_BIT_OTHERS))) return;
  for (int64_t i = 0; tn_dtype_is(t->dtype, TENON_LIST) && i < t->shape[0]; i++)
    add_backends(tenon_item(t, i), found);
  const tn_backend_t *backend = tn_dtype_is(t->dtype, TENON_LIST) ? NULL : tn_backend_of(t->device);
  if (backend && !found[0])
    found[0] = backend;
  else if (backend && backend != found[0] && !found[1])
    found[1] = backend;
}

static void backends_of(const tenon_call_t *call, const tn_backend_t *found[2]) {
  found[0] = found[1] = NULL;
  for (uint32_t i = 0; i < call->op->input_count; i++)
    add_backends(call->inputs[i], found);
  for (uint32_t o = 0; o < call->op->output_count; o++)
    add_backends(call->outputs[o], found);
  /* The key of a call without inputs was found by its device. */
  if (!found[0] && !call->op->input_count) found[0] = tn_backend_of(tn_call_device(call));
}

static void count_lookup(void) {
  uint64_t *count = &tn_thread()->lookups;
  __atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
}

tenon_status_t tn_layer_others(tenon_call_t *call) {
  tn_frame_t *frame = tn_frame_of(call);
  const tn_backend_t *found[2];
  count_lookup();
  backends_of(call, found);
  if (found[1]) return tn_mixed_ambiguous(call);
  const tn_table_entry_t *entry = tn_table_others(call->op, found[0]);
  if (entry->resolved == TN_RESOLVED_MISSING)
    return tn_op_missing(call->op, found[0] ? found[0]->name : "other", call->inputs);
  frame->entry = entry;
  call->context = tn_entry_context(entry);
  return tn_trace_next(call);
}

static tenon_status_t run_autograd_others(tenon_call_t *call) {
  tn_frame_t *frame = tn_frame_of(call);
  const tn_backend_t *found[2];
  count_lookup();
  backends_of(call, found);
  frame->entry = tn_table_autograd(call->op, found[0]);
  call->context = tn_entry_context(frame->entry);
  return tn_trace_next(call);
}

const tn_table_entry_t *tn_entry_again(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  const tn_backend_t *found[2];
  const tn_table_entry_t *entry = tn_table_entry(op, tn_frame_of(call)->keys & tn_op_mask(op));
  tenon_run_fn run = tn_entry_function(entry);
  if (run != tn_layer_others && run != run_autograd_others) return entry;
  backends_of(call, found);
  return run == tn_layer_others ? tn_table_others(op, found[0]) : tn_table_autograd(op, found[0]);
}

/* layouts */

/* Makes a dense copy of one tensor, or of the items of a list; the frame owns the copies. */
static tenon_status_t dense_input(tn_frame_t *frame, tenon_tensor_t *tensor,
                                  tenon_tensor_t **out_tensor) {
  *out_tensor = tensor;
  if (!(tensor->keys & TN_KEY_STRIDED)) return TENON_OK;
  if (!tn_dtype_is(tensor->dtype, TENON_LIST)) {
    TN_TRY(tn_device_tensor_create_like(tensor, true, out_tensor));
    (*out_tensor)->detail = tensor->detail;
    tn_tensor_mark(*out_tensor);
    return tn_frame_keep(frame, *out_tensor);
  }
  int64_t count = tensor->shape[0];
  tenon_tensor_t **items =
      frame->call.host->allocate(&frame->call, (uint64_t)count * sizeof *items);
  if (!items) return TENON_MEMORY;
  for (int64_t i = 0; i < count; i++)
    TN_TRY(dense_input(frame, tenon_item(tensor, i), &items[i]));
  tenon_tensor_t *list = frame->call.host->allocate(&frame->call, sizeof *list);
  if (!list) return TENON_MEMORY;
  *list = *tensor;
  list->data = items;
  list->keys &= ~(TN_KEY_STRIDED | TN_TENSOR_OWNED);
  *out_tensor = list;
  return TENON_OK;
}

/* Copies the elements of a written input from its dense copy back to its own memory. */
static tenon_status_t copy_written(const tenon_tensor_t *dense, tenon_tensor_t *tensor) {
  if (dense == tensor) return TENON_OK;
  if (!tn_dtype_is(tensor->dtype, TENON_LIST)) return tn_device_tensor_copy(dense, tensor);
  for (int64_t i = 0; i < tensor->shape[0]; i++)
    TN_TRY(copy_written(tenon_item(dense, i), tenon_item(tensor, i)));
  return TENON_OK;
}

static bool is_of_device(const tn_kernel_t *kernel) {
  return kernel->words.at == TN_AT_BACKEND && kernel->backend != &tn_backend_cpu &&
         kernel->backend != &tn_backend_meta && !(kernel->words.flags & TN_KERNEL_FALLBACK);
}

static bool is_of_plugin(const tn_kernel_t *kernel, const tenon_call_t *call) {
  if (kernel->kind == TN_KIND_SOURCE) return tn_call_device(call).type > 1;
  return is_of_device(kernel) && kernel->kind != TN_KIND_COMPOSITE &&
         __atomic_load_n(&kernel->backend->has_plugin, __ATOMIC_RELAXED);
}

tenon_status_t tn_launch_declined(const tn_kernel_t *kernel, tenon_call_t *call,
                                  tenon_status_t status) {
  tn_frame_t *frame = tn_frame_of(call);
  /* tn_entry_add handles calls that accumulate. */
  if (status != TENON_UNIMPLEMENTED || call->accumulate) return status;
  const tn_kernel_t *source = tn_entry_source(frame->entry, call->op, kernel, call->inputs);
  if (source) return tn_kernel_call(source, frame);
  if (frame->entry->denial) return status;
  const tn_backend_t *backend = tn_backend_of(tn_call_device(call));
  const tn_table_entry_t *row = backend ? tn_table_row(backend) : NULL;
  if (!row || row->resolved != TN_RESOLVED_FALLBACK) return status;
  frame->entry = row;
  call->context = row->context;
  return row->run(call);
}

static __attribute__((noinline)) tenon_status_t run_on_plugin(const tn_kernel_t *kernel,
                                                              tenon_call_t *call) {
  return tn_launch_declined(kernel, call, tn_launch(kernel, call));
}

static inline __attribute__((always_inline)) tenon_status_t
run_kernel_there(const tn_kernel_t *kernel, tenon_call_t *call) {
  return is_of_plugin(kernel, call) ? run_on_plugin(kernel, call) : kernel->run(call);
}

static inline __attribute__((always_inline)) tenon_status_t run_kernel(const tn_kernel_t *kernel,
                                                                       tenon_call_t *call) {
  if (!(kernel->words.flags & TN_KERNEL_SERIAL)) return run_kernel_there(kernel, call);
  tn_mutex_t *serial = &((tenon_op_t *)(uintptr_t)call->op)->serial;
  tn_mutex_lock(serial);
  tenon_status_t status = run_kernel_there(kernel, call);
  tn_mutex_unlock(serial);
  return status;
}

static inline __attribute__((always_inline)) tenon_status_t
call_dense(const tn_kernel_t *kernel, tn_frame_t *frame, uint64_t keys) {
  tenon_call_t *call = &frame->call;
  const tenon_op_t *op = call->op;
  if (!(keys & TN_KEY_STRIDED) || kernel->words.flags & TN_KERNEL_STRIDED ||
      kernel->kind == TN_KIND_LOOP)
    return run_kernel(kernel, call);
  tn_scratch_mark_t mark = tn_scratch_mark();
  size_t n = op->input_count + op->output_count;
  tenon_tensor_t **all = tn_scratch(n * sizeof *all + 64);
  if (!all) return tn_no_memory("a call", n * sizeof *all);
  tenon_tensor_t **inputs = all;
  tenon_tensor_t **outputs = all + op->input_count;
  tenon_tensor_t *const *given = call->outputs;
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++) {
    inputs[i] = call->inputs[i];
    if (inputs[i]) status = dense_input(frame, call->inputs[i], &inputs[i]);
  }
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++) {
    int32_t same = tn_result_input(op, o);
    outputs[o] = given[o];
    if (same >= 0 && call->inputs[same] && given[o]) outputs[o] = inputs[same];
    if (outputs[o] != given[o] || !given[o] || !(given[o]->keys & TN_KEY_STRIDED)) continue;
    status = tn_device_tensor_create_like(given[o], call->accumulate >> o & 1, &outputs[o]);
    if (status == TENON_OK) status = tn_frame_keep(frame, outputs[o]);
  }
  if (status == TENON_OK) {
    tenon_tensor_t *const *before = call->inputs;
    call->inputs = inputs;
    call->outputs = outputs;
    status = run_kernel(kernel, call);
    call->inputs = before;
    call->outputs = given;
  }
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++)
    if (inputs[i] && op->schema.inputs[i].is_written)
      status = copy_written(inputs[i], call->inputs[i]);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++) {
    int32_t same = tn_result_input(op, o);
    bool is_input = same >= 0 && call->inputs[same];
    if (outputs[o] != given[o] && !is_input) status = tn_device_tensor_copy(outputs[o], given[o]);
  }
  tn_scratch_reset(mark);
  return status;
}

/* Marks sparse outputs that the caller gave as unallocated: run creates their contents anew. */
static tenon_status_t begin_sparse(const tenon_call_t *call, uint64_t *out_given) {
  const tenon_op_t *op = call->op;
  for (uint32_t o = 0; o < op->output_count; o++) {
    tenon_tensor_t *t = call->outputs[o];
    if (!t || !tn_layout(t) || t->keys & TN_TENSOR_UNSET || op->schema.outputs[o].is_written)
      continue;
    const char *name = op->schema.outputs[o].name;
    if (!op->infer)
      return tn_fail(TENON_INVALID,
                     "%s: result %s is dense: expected such a tensor, found a sparse one", op->name,
                     name);
    if (!tn_tensor_is_owned(t))
      return tn_fail(TENON_INVALID,
                     "%s: result %s is a sparse view on the stack: expected a tensor of the host",
                     op->name, name);
    for (uint32_t i = 0; i < op->input_count; i++)
      if (call->inputs[i] == t)
        return tn_fail(
            TENON_INVALID,
            "%s: result %s is input %s, and a sparse result is made anew: give another tensor",
            op->name, name, op->schema.inputs[i].name);
    *out_given |= (uint64_t)1 << o;
  }
  for (uint32_t o = 0; o < op->output_count; o++)
    if (*out_given >> o & 1) call->outputs[o]->keys |= TN_TENSOR_UNSET;
  return TENON_OK;
}

static tenon_status_t end_sparse(const tenon_call_t *call, uint64_t given, tenon_status_t status) {
  const tenon_op_t *op = call->op;
  for (uint32_t o = 0; o < op->output_count; o++) {
    tenon_tensor_t *t = call->outputs[o];
    if (!t || !tn_layout(t) || !(t->keys & TN_TENSOR_UNSET)) continue;
    if (given >> o & 1) t->keys &= ~TN_TENSOR_UNSET; /* as before the call */
    if (status == TENON_OK)
      status = tn_fail(TENON_INTERNAL,
                       "%s: run did not make sparse result %s (host->sparse, host->assign)",
                       op->name, op->schema.outputs[o].name);
  }
  return status;
}

static __attribute__((noinline, cold)) tenon_status_t
call_with_details(const tn_kernel_t *kernel, tn_frame_t *frame, uint64_t keys) {
  uint64_t given = 0;
  TN_TRY(tn_op_check_details(frame->call.op, kernel, frame->call.inputs, frame->call.outputs));
  TN_TRY(begin_sparse(&frame->call, &given));
  return end_sparse(&frame->call, given, call_dense(kernel, frame, keys));
}

tenon_status_t tn_kernel_call(const tn_kernel_t *kernel, tn_frame_t *frame) {
  tenon_call_t *call = &frame->call;
  const tenon_op_t *op = call->op;
  frame->kernel = kernel;
  call->context = kernel->context;
  uint64_t keys = tn_keys_of_call(op, call->inputs, call->outputs, 0);
  return __builtin_expect((keys & TN_KEY_DETAIL) != 0, 0) ? call_with_details(kernel, frame, keys)
                                                          : call_dense(kernel, frame, keys);
}

/* Returns which layouts of the arguments a kernel may not be able to read. */
static uint64_t layouts_of(const tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  uint64_t keys = tn_keys_of_call(op, call->inputs, call->outputs, 0);
  return keys & (TN_KEY_STRIDED | TN_KEY_DETAIL) & tn_frame_of_const(call)->entry->mask;
}

tenon_status_t tn_layer_below(tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of(call);
  const tn_table_entry_t *entry = frame->entry;
  bool is_kernel = (entry->only || entry->by_dtype) && frame->keys < TN_KEY(TN_BIT_META + 1);
  return is_kernel && layouts_of(call) ? tn_layer_prologue(call) : entry->run(call);
}

/* Passes the call to the entry below, which handles layouts before its kernels run. */
tenon_status_t tn_layer_layout(tenon_call_t *call) {
  tn_frame_t *frame = tn_frame_of(call);
  frame->keys = tn_key_below(frame->keys, tn_key_highest(frame->keys));
  frame->entry = tn_table_entry(call->op, frame->keys & tn_op_mask(call->op));
  call->context = tn_entry_context(frame->entry);
  return tn_trace_next(call);
}

/* Returns the backend's fallback if it serves dtypes for which the backend has no kernel; NULL: it
 * does not. It comes before composites only if it is preferred. */
static const tn_table_entry_t *fallback_of_dtype(tenon_call_t *call, const tn_kernel_t *kernel) {
  const tn_frame_t *frame = tn_frame_of(call);
  const tn_backend_t *found[2] = {tn_backend_of_keys(frame->keys), NULL};
  if (tn_key_shares_bit(frame->keys)) backends_of(call, found);
  const tn_backend_t *backend = found[0];
  const tn_table_entry_t *row = tn_table_row(backend);
  if (!backend || row->resolved == TN_RESOLVED_MISSING || (kernel && frame->entry->denial))
    return NULL;
  bool serves = !kernel || row->is_preferred;
  return serves ? row : NULL;
}

static __attribute__((noinline)) tenon_status_t make_workspace(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tn_inference_t inference = {0};
  tenon_meta_t **inputs, **outputs;
  tenon_status_t status = tn_metas_of_inputs(op, call->inputs, &inputs);
  if (status == TENON_OK) status = tn_metas_of_results(op, call->attrs, 0, &outputs);
  if (status == TENON_OK)
    status = tn_infer(&inference, op, call->attrs, call->state, inputs, outputs);
  tn_scratch_reset(mark);
  if (status != TENON_OK) return status;
  int64_t size = inference.infer.workspace.value;
  return size <= 0 || (call->workspace = tn_host.allocate(call, (uint64_t)size)) ? TENON_OK
                                                                                 : TENON_MEMORY;
}

tenon_status_t tn_kernel_serve(tenon_call_t *call, const tn_kernel_t *kernel) {
  const tenon_op_t *op = call->op;
  if (op->create && !call->state) TN_TRY(tn_state_get(op, call->attrs, &call->state));
  /* A fallback needs no workspace: the call that it makes on the CPU gets one. */
  bool is_fallback = kernel->words.flags & TN_KERNEL_FALLBACK;
  if (__atomic_load_n(&op->needs_workspace, __ATOMIC_RELAXED) && !call->workspace && !is_fallback)
    TN_TRY(make_workspace(call));
  return tn_kernel_call(kernel, tn_frame_of(call));
}

/* Runs operators with state, workspace, or kernels by dtype, and kernels of devices. */
tenon_status_t tn_layer_prologue(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  tn_frame_t *frame = tn_frame_of(call);
  const tn_kernel_t *kernel = tn_entry_kernel(frame->entry, op, call->inputs, call->outputs);
  const tn_table_entry_t *fallback = NULL;
  if (__builtin_expect(!kernel || kernel->kind == TN_KIND_COMPOSITE, 0) &&
      frame->entry->resolved == TN_RESOLVED_DIRECT) {
    const tn_table_entry_t *now;
    uint64_t last;
    do {
      last = tn_table_last_change();
      now = tn_entry_again(call);
      fallback = fallback_of_dtype(call, kernel);
    } while (tn_table_has_changed(last));
    if (now != frame->entry) {
      frame->entry = now;
      call->context = tn_entry_context(now);
      return tn_entry_run(call);
    }
  }
  if (fallback && frame->entry->denial) return run_denied(call);
  if (fallback) {
    frame->entry = fallback;
    call->context = fallback->context;
    return tn_trace_next(call);
  }
  if (!kernel) return fail_without_kernel(call);
  return is_of_device(kernel) && tn_is_mixed(call) ? tn_mixed_run(call, kernel)
                                                   : tn_kernel_serve(call, kernel);
}

/* Runs an operator without kernels whose outputs are views.  Outputs that the call created are
 * views already; outputs that the caller gave get a copy. */
static tenon_status_t run_view(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  tn_inference_t inference = {0};
  tenon_meta_t **inputs, **outputs;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = tn_metas_of_inputs(op, call->inputs, &inputs);
  if (status == TENON_OK) status = tn_metas_of_results(op, call->attrs, 0, &outputs);
  if (status == TENON_OK)
    status = tn_infer(&inference, op, call->attrs, call->state, inputs, outputs);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++) {
    tenon_tensor_t *made = NULL;
    if (!call->outputs[o]) continue;
    status = tn_result_create(&inference, outputs[o], call->inputs, &made);
    if (status == TENON_OK) status = tn_device_tensor_copy(made, call->outputs[o]);
    tenon_tensor_release(made);
    if (status != TENON_OK) status = tn_prefix(status, "%s: ", op->name);
  }
  tn_scratch_reset(mark);
  return status;
}

void tn_prologue_install(void) {
  tn_table_run_set(TN_RUN_MISSING, run_missing);
  tn_table_run_set(TN_RUN_DENIED, run_denied);
  tn_table_run_set(TN_RUN_AMBIGUOUS, run_ambiguous);
  tn_table_run_set(TN_RUN_META, run_meta);
  tn_table_run_set(TN_RUN_FALLTHROUGH, run_fallthrough);
  tn_table_run_set(TN_RUN_VERSIONS, run_versions);
  tn_table_run_set(TN_RUN_GRADIENT, run_gradient);
  tn_table_run_set(TN_RUN_AUTOGRAD_OTHERS, run_autograd_others);
  tn_table_run_set(TN_RUN_LAYOUT, tn_layer_layout);
  tn_table_run_set(TN_RUN_VIEW, run_view);
  tn_table_run_set(TN_RUN_OTHERS, tn_layer_others);
  tn_table_run_set(TN_RUN_PROLOGUE, tn_layer_prologue);
}
