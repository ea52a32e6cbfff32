/* Writes other bytes each time over the page that its tensors lie in, and the pages around them: over the mailbox. */
#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  static uint32_t state = 12345;
  unsigned char *post = (unsigned char *)((uintptr_t)call->outputs[0]->data & ~(uintptr_t)0xfffff);
  state += (uint32_t)(uintptr_t)post + (uint32_t)((float *)call->inputs[0]->data)[0] * 2654435761u;
  for (long i = -(64 << 10); i < 256 << 10; i += 4) { /* the head of the post if it is slot 0, and the slot's message */
    state = state * 1664525u + 1013904223u;
    *(volatile uint32_t *)(post + i) = state >> 29 ? state : state % 7;
  }
  return TENON_OK;
}

MISBEHAVE(scribbles, act)
