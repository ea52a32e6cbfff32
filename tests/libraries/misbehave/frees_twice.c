/* Frees a block twice. */
#include <stdlib.h>

#include "misbehave.h"

static void *volatile block;

static tenon_status_t act(tenon_call_t *call) {
  (void)call;
  block = malloc(64 << 10);
  void *again = block;
  free(block);
  free(again);
  return TENON_OK;
}

MISBEHAVE(frees_twice, act)
