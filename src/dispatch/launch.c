/* Calls of kernels on devices of plug-ins: the stream that they enqueue on, what it waits for, and whom a failure is blamed
 * on.  Called in place of the kernel. */
#include "device/memory.h"
#include "dispatch/call.h"
#include "dispatch/place.h"

#include "base/status.h"
#include "core/dtype.h"

static tenon_status_t use(const tenon_tensor_t *t, tenon_stream_t *stream, uint64_t ticket, bool writes,
                          tn_needs_t *needs) {
  tn_memory_t *memory = tn_memory_of(t);
  if (memory) return tn_memory_use(memory, stream, ticket, writes, needs);
  if (!tn_dtype_is(t->dtype, TENON_LIST)) return TENON_OK;
  for (int64_t i = 0; i < t->shape[0]; i++) TN_TRY(use(tenon_item(t, i), stream, ticket, writes, needs));
  return TENON_OK;
}

static tenon_status_t use_all(const tenon_call_t *call, tenon_stream_t *stream, uint64_t ticket) {
  const tenon_op_t *op = call->op;
  tn_needs_t needs;
  needs.count = 0;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (call->inputs[i]) TN_TRY(use(call->inputs[i], stream, ticket, op->schema.inputs[i].is_written, &needs));
  for (uint32_t o = 0; o < op->output_count; o++)
    if (call->outputs[o]) TN_TRY(use(call->outputs[o], stream, ticket, true, &needs));
  return tn_stream_follow(stream, &needs);
}

tenon_status_t tn_launch(const tn_kernel_t *kernel, tenon_call_t *call) {
  tn_ordinal_t *ordinal;
  TN_TRY(tn_ordinal_get(tn_call_device(call), &ordinal));
  tenon_stream_t *stream = tn_stream_current(ordinal);
  TN_TRY(tn_stream_check(stream));
  uint64_t ticket = tn_stream_ticket(stream, call->op->name);
  tenon_status_t status = use_all(call, stream, ticket);
  if (status != TENON_OK) return tn_stream_ended(stream), status;
  call->stream = stream->native, call->ticket = ticket, call->device = &ordinal->context;
  status = kernel->run(call);
  call->stream = NULL, call->ticket = 0, call->device = NULL;
  tn_stream_ended(stream);
  return status == TENON_OK ? status : tn_stream_refused(stream, status, NULL);
}
