/* What a call owns while it runs, and the hooks of folders above that every call may reach.
 * Kernels use it through the services.  Invariant: a frame releases what it keeps when it
 * closes. */
#include "operator/frame.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/reason.h"
#include "base/status.h"

const tenon_host_t *tn_host_services;
tn_autograd_t tn_autograd;
tenon_status_t (*tn_evaluate)(tenon_call_t *, const tenon_graph_t *, uint32_t,
                              tenon_tensor_t *const *, uint32_t, tenon_tensor_t **);

static tn_temporary_t *add_temporary(tn_frame_t *frame, tenon_tensor_t *tensor, void *block) {
  tn_temporary_t *temporary = tn_allocate(sizeof *temporary);
  if (!temporary) return NULL;
  *temporary = (tn_temporary_t){frame->temporaries, tensor, block};
  frame->owned = TN_FRAME_OWNS;
  return frame->temporaries = temporary;
}

tenon_status_t tn_frame_keep(tn_frame_t *frame, tenon_tensor_t *tensor) {
  if (add_temporary(frame, tensor, NULL)) return TENON_OK;
  tenon_tensor_release(tensor);
  return tn_no_memory("a temporary", sizeof(tn_temporary_t));
}

tenon_status_t tn_frame_keep_block(tn_frame_t *frame, void *block) {
  if (add_temporary(frame, NULL, block)) return TENON_OK;
  return tn_no_memory("a temporary", sizeof(tn_temporary_t));
}

void tn_frame_release(tn_frame_t *frame, const tenon_tensor_t *tensor) {
  tn_temporary_t **link = &frame->temporaries;
  while (*link && (*link)->tensor != tensor)
    link = &(*link)->next;
  tn_temporary_t *found = *link;
  if (!found || !tensor) return;
  *link = found->next;
  tenon_tensor_release(found->tensor);
  tn_release_memory(found);
  if (!frame->temporaries) frame->owned = 0;
}

void tn_frame_clean(tn_frame_t *frame) {
  for (tn_temporary_t *t = frame->temporaries, *next; t; t = next) {
    next = t->next;
    tenon_tensor_release(t->tensor);
    tn_release_aligned(t->block);
    tn_release_memory(t);
  }
  frame->temporaries = NULL;
  frame->owned = 0;
}

tenon_status_t tn_frame_fail(tn_frame_t *frame, tenon_status_t status) {
  if (frame->temporaries) tn_frame_clean(frame);
  if (status == TENON_OK) return status;
  return tn_reason_state(status, tn_error_is_within((uintptr_t)frame), frame->call.op->name,
                         "kernel");
}

tenon_status_t tn_nested_too_deep(const tenon_op_t *op) {
  return tn_fail(
      TENON_RANGE,
      "%s: calls are nested more than %d deep: a layer, a mode or a composite calls the operator "
      "that it was called for, instead of passing the call on (tenon_call_next)",
      op->name, TN_NESTING_MOST);
}
