/* Calls abort(). */
#include <stdlib.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  abort();
}

MISBEHAVE(aborts, act)
