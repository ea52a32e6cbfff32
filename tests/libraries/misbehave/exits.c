/* Ends the process with a successful exit status. */
#include <stdlib.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  exit(0);
}

MISBEHAVE(exits, act)
