/* Never returns. */
#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  for (volatile int i = 0;; i++) {
  }
  return TENON_OK;
}

MISBEHAVE(loops, act)
