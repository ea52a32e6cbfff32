/* Calls of kernels on devices of plug-ins: the stream in which a kernel is enqueued, what the
 * stream waits for, and which operator a later failure is blamed on.  It is called in place of
 * the kernel. */
#include "dispatch/launch.h"

#include "device/fused.h"
#include "device/memory.h"
#include "dispatch/prologue.h"
#include "drivers/grid.h"
#include "operator/kernel.h"
#include "operator/table.h"
#include "storage/device_memory.h"

#include "base/status.h"
#include "core/dtype.h"

static tenon_status_t use_memory(const tenon_tensor_t *t, tenon_stream_t *stream, uint64_t ticket,
                                 bool writes, tn_needs_t *needs) {
  tn_memory_t *memory = tn_memory_of(t);
  if (memory) return tn_memory_use(memory, stream, ticket, writes, needs);
  if (!tn_dtype_is(t->dtype, TENON_LIST)) return TENON_OK;
  for (int64_t i = 0; i < t->shape[0]; i++)
    TN_TRY(use_memory(tenon_item(t, i), stream, ticket, writes, needs));
  return TENON_OK;
}

static tenon_status_t use_arguments(const tenon_call_t *call, tenon_stream_t *stream,
                                    uint64_t ticket) {
  const tenon_op_t *op = call->op;
  tn_needs_t needs;
  needs.count = 0;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (call->inputs[i])
      TN_TRY(use_memory(call->inputs[i], stream, ticket, op->schema.inputs[i].is_written, &needs));
  for (uint32_t o = 0; o < op->output_count; o++)
    if (call->outputs[o]) TN_TRY(use_memory(call->outputs[o], stream, ticket, true, &needs));
  return tn_stream_follow(stream, &needs);
}

/* Returns the memory of a dense tensor that owns memory of a plug-in, which may be pinned host
 * memory; NULL for any other tensor. */
static inline tn_memory_t *plain_memory(const tenon_tensor_t *t) {
  if ((t->keys & (TN_TENSOR_OWNED | TN_TENSOR_UNSET | TN_KEY_STRIDED | TN_KEY_DETAIL)) !=
      TN_TENSOR_OWNED)
    return NULL;
  const tn_storage_t *storage = ((const tn_tensor_t *)t)->storage;
  return storage && storage->release == tn_memory_put ? storage->context : NULL;
}

/* Notes that the work of `ticket` uses the memory of these tensors; absent ones are skipped.
 * Returns false if a tensor is not plain or is on another device, or after an error. */
static inline bool use_plain(tenon_tensor_t *const *tensors, uint32_t count, tenon_stream_t *stream,
                             uint64_t ticket, bool writes, tn_needs_t *needs,
                             tenon_status_t *status) {
  for (uint32_t i = 0; i < count; i++) {
    if (!tensors[i]) continue;
    tn_memory_t *m = plain_memory(tensors[i]);
    if (__builtin_expect(!m, 0)) return false;
    if (__builtin_expect(m->stream != stream, 0) && (!m->stream || m->ordinal != stream->ordinal))
      return false;
    if ((*status = tn_memory_use(m, stream, ticket, writes, needs)) != TENON_OK) return false;
  }
  return true;
}

/* Launches the usual call, whose arguments are all dense and in memory of one ordinal. Other calls
 * go through the prologue. */
tenon_status_t tn_launch_directly(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  const tn_table_entry_t *entry = tn_frame_of(call)->entry;
  const tn_kernel_t *kernel =
      entry->by_dtype ? tn_entry_kernel(entry, op, call->inputs, call->outputs) : entry->only;
  tn_memory_t *first = call->inputs[0] ? plain_memory(call->inputs[0]) : NULL;
  /* Memory without a stream is pinned host memory. */
  if (__builtin_expect(!first || !first->stream || (entry->by_dtype && !tn_kernel_is_quick(kernel)),
                       0))
    return tn_layer_prologue(call);
  tn_ordinal_t *ordinal = first->ordinal;
  if (__builtin_expect(__atomic_load_n(&ordinal->state, __ATOMIC_ACQUIRE) != TN_ORDINAL_WORKS ||
                           __atomic_load_n(&op->needs_workspace, __ATOMIC_RELAXED),
                       0))
    return tn_layer_prologue(call);
  tenon_stream_t *stream =
      tn_thread_block->calls.streams ? tn_stream_current(ordinal) : ordinal->first;
  TN_TRY(tn_stream_check(stream));
  uint64_t ticket = tn_stream_ticket(stream, op->name);
  tn_needs_t needs;
  needs.count = 0;
  tenon_status_t status = tn_memory_use(first, stream, ticket, false, &needs);
  bool is_plain =
      status == TENON_OK &&
      use_plain(call->inputs + 1, op->input_count - 1, stream, ticket, false, &needs, &status) &&
      use_plain(call->outputs, op->output_count, stream, ticket, true, &needs, &status);
  if (status == TENON_OK && needs.count) status = tn_stream_follow(stream, &needs);
  /* No work will be enqueued with the ticket. */
  if (__builtin_expect(!is_plain || status != TENON_OK, 0)) {
    tn_stream_ended(stream);
    return status == TENON_OK ? tn_layer_prologue(call) : status;
  }
  tn_frame_of(call)->kernel = kernel;
  call->context = kernel->context;
  call->stream = stream->native;
  call->ticket = ticket;
  call->device = &ordinal->context;
  status = kernel->run(call);
  tn_stream_ended(stream);
  if (__builtin_expect(status == TENON_OK, 1)) return status;
  call->stream = NULL;
  call->ticket = 0;
  call->device = NULL;
  return tn_launch_declined(kernel, call, tn_stream_refused(stream, status, NULL));
}

static bool has_dtype(const uint32_t *list, uint32_t id) {
  while (list && *list && *list != id)
    list++;
  return !list || *list;
}

const char *tn_kernel_lacks(const tn_kernel_t *kernel, const tn_ordinal_t *ordinal) {
  const tenon_device_properties_t *has = &ordinal->properties;
  uint32_t needs = kernel->words.flags & TN_KERNEL_NEEDS;
  if (needs & TN_KERNEL_DOUBLES && !has_dtype(has->computes, TENON_F64)) return "doubles";
  if (needs & TN_KERNEL_HALVES && !has_dtype(has->computes, TENON_F16)) return "halves";
  if (needs & TN_KERNEL_WIDE_ATOMICS && !(has->features & TENON_DEVICE_WIDE_ATOMICS))
    return "wide_atomics";
  return NULL;
}

tenon_status_t tn_launch(const tn_kernel_t *kernel, tenon_call_t *call) {
  tn_ordinal_t *ordinal;
  TN_TRY(tn_ordinal_get(tn_call_device(call), &ordinal));
  const char *lack =
      kernel->words.flags & TN_KERNEL_NEEDS ? tn_kernel_lacks(kernel, ordinal) : NULL;
  if (lack)
    return tn_fail(TENON_UNIMPLEMENTED, "%s: its source kernel needs %s, which %s:%d has not",
                   call->op->name, lack, ordinal->plugin->name, (int)ordinal->context.ordinal);
  tenon_stream_t *stream = tn_stream_current(ordinal);
  TN_TRY(tn_stream_check(stream));
  uint64_t ticket = tn_stream_ticket(stream, call->op->name);
  tenon_status_t status = use_arguments(call, stream, ticket);
  if (status != TENON_OK) {
    tn_stream_ended(stream);
    return status;
  }
  call->stream = stream->native;
  call->ticket = ticket;
  call->device = &ordinal->context;
  status = kernel->run(call);
  call->stream = NULL;
  call->ticket = 0;
  call->device = NULL;
  tn_stream_ended(stream);
  return status == TENON_OK ? status : tn_stream_refused(stream, status, NULL);
}

static tenon_status_t use_fused(const tn_fused_launch_t *l, tenon_stream_t *stream,
                                uint64_t ticket) {
  tn_needs_t needs;
  needs.count = 0;
  for (uint32_t i = 0; i < l->input_count; i++)
    TN_TRY(use_memory(l->inputs[i], stream, ticket, false, &needs));
  for (uint32_t o = 0; o < l->output_count; o++)
    TN_TRY(use_memory(l->outputs[o], stream, ticket, true, &needs));
  return tn_stream_follow(stream, &needs);
}

static tenon_status_t enqueue_fused(const tn_fused_launch_t *l, tn_ordinal_t *ordinal, void *kernel,
                                    tenon_stream_t *stream, uint64_t ticket) {
  enum { ARGUMENTS = TN_FUSED_OPERANDS + 1 };
  tenon_kernel_argument_t arguments[ARGUMENTS];
  uint32_t count = 0;
  TN_TRY(use_fused(l, stream, ticket));
  for (uint32_t i = 0; i < l->input_count; i++)
    arguments[count++] = tenon_in(l->inputs[i]);
  for (uint32_t o = 0; o < l->output_count; o++)
    arguments[count++] = tenon_out(l->outputs[o]);
  arguments[count++] = tenon_bytes(l->bytes, l->byte_count);
  return tn_grid_launch_each(ordinal, stream->native, ticket, kernel, l->elements, arguments,
                             count);
}

tenon_status_t tn_launch_fused(const tn_fused_launch_t *l, bool *out_compiled) {
  tn_ordinal_t *ordinal;
  void *kernel;
  *out_compiled = false;
  TN_TRY(tn_ordinal_get(l->device, &ordinal));
  TN_TRY(tn_program_kernel(ordinal, l->code, 0, NULL, &kernel));
  *out_compiled = true;
  tenon_stream_t *stream = tn_stream_current(ordinal);
  TN_TRY(tn_stream_check(stream));
  const uint64_t ticket = tn_stream_ticket(stream, l->name);
  const tenon_status_t status = enqueue_fused(l, ordinal, kernel, stream, ticket);
  tn_stream_ended(stream);
  return status == TENON_OK ? status : tn_stream_refused(stream, status, l->name);
}

void tn_launch_install(void) { tn_table_run_set(TN_RUN_LAUNCH, tn_launch_directly); }
