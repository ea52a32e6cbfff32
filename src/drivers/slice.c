/* Calls on some of the rows of arguments, see slice.h. */
#include "drivers/slice.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "drivers/row.h"

static const tenon_tensor_t *operand_of(const tenon_call_t *call, uint32_t i) {
  const uint32_t inputs = call->op->input_count;
  return i < inputs ? call->inputs[i] : call->outputs[i - inputs];
}

/* Gives the operand a header whose extents are those of a slice. */
static tenon_status_t begin_operand(tn_slice_t *s, const tenon_tensor_t *t, uint32_t i,
                                    int64_t rows, char *tile) {
  tenon_tensor_t *header = &s->headers[i];
  *header = *t;
  header->keys &= ~TN_TENSOR_OWNED;
  s->data[i] = tile ? tile : t->data;
  s->step[i] = 0;
  header->data = s->data[i];
  if (s->axes[i] < 0) return TENON_OK;
  if (!tile) s->step[i] = tenon_count(t) / rows * (t->dtype.bits * t->dtype.lanes / 8);
  int64_t *room = tn_scratch(2 * (size_t)t->ndim * sizeof *room);
  if (!room) return tn_no_memory("rows", 0);
  memcpy(room, t->shape, (size_t)t->ndim * sizeof *room);
  for (int32_t k = 0; k < s->axes[i]; k++)
    room[k] = 1;
  header->shape = room;
  header->strides = room + t->ndim;
  return TENON_OK;
}

tenon_status_t tn_slice_begin(const tn_frame_t *frame, int64_t rows, const int32_t *axes,
                              char *const *tiles, tn_slice_t *s) {
  const tenon_op_t *op = frame->call.op;
  const uint32_t n = op->input_count + op->output_count;
  *s = (tn_slice_t){.frame = *frame, .axes = axes};
  s->headers = tn_scratch(n * sizeof *s->headers);
  s->data = tn_scratch(n * sizeof *s->data);
  s->step = tn_scratch(n * sizeof *s->step);
  tenon_tensor_t **arguments = tn_scratch(n * sizeof *arguments);
  if (!s->headers || !s->data || !s->step || !arguments) return tn_no_memory("rows", n);
  for (uint32_t i = 0; i < n; i++) {
    const tenon_tensor_t *t = operand_of(&frame->call, i);
    arguments[i] = t ? &s->headers[i] : NULL;
    if (t) TN_TRY(begin_operand(s, t, i, rows, tiles[i]));
  }
  s->frame.call.inputs = arguments;
  s->frame.call.outputs = arguments + op->input_count;
  return TENON_OK;
}

static void set_extents(tn_slice_t *s, uint32_t n, int64_t count) {
  for (uint32_t i = 0; i < n; i++) {
    tenon_tensor_t *header = &s->headers[i];
    if (!operand_of(&s->frame.call, i) || s->axes[i] < 0) continue;
    header->shape[s->axes[i]] = count;
    tn_strides_dense(header->ndim, header->shape, header->strides);
  }
  s->count = count;
}

tenon_status_t tn_slice_run(tn_slice_t *s, int64_t first, int64_t count) {
  tenon_call_t *call = &s->frame.call;
  const uint32_t n = call->op->input_count + call->op->output_count;
  if (s->count != count) set_extents(s, n, count);
  for (uint32_t i = 0; i < n; i++)
    if (operand_of(call, i)) s->headers[i].data = s->data[i] + first * s->step[i];
  const tn_kernel_t *kernel = s->frame.kernel;
  tenon_status_t status =
      kernel->kind == TN_KIND_ROW ? tn_row_run_from(call, first) : kernel->run(call);
  if (s->frame.temporaries) tn_frame_clean(&s->frame);
  return status;
}
