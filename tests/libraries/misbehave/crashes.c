/* Writes to address 0. */
#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  volatile int *nowhere =
      (volatile int *)(call->outputs[0]->shape[0] < 0 ? call->outputs[0]->data : 0);
  *nowhere = 1;
  return TENON_OK;
}

MISBEHAVE(crashes, act)
