/* Stops itself, so that the process neither runs nor ends. */
#include <signal.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  raise(SIGSTOP);
  return TENON_OK;
}

MISBEHAVE(stops, act)
