/* Kills the process that started it. */
#include <signal.h>
#include <unistd.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  kill(getppid(), SIGKILL);
  return TENON_OK;
}

MISBEHAVE(kills_parent, act)
