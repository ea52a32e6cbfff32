/* Forks without end. */
#include <unistd.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  for (;;)
    if (fork() < 0) return TENON_INTERNAL;
}

MISBEHAVE(forks, act)
