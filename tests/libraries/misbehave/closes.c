/* Closes every descriptor, then crashes. */
#include <stdlib.h>
#include <unistd.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  for (int i = 0; i < 1024; i++)
    close(i);
  abort();
}

MISBEHAVE(closes, act)
