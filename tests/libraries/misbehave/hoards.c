/* Allocates all memory that it can get, writes to it, and then writes to the block that it could
 * not get. */
#include <stdlib.h>
#include <string.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  enum { PIECE = 8 << 20 };
  for (int i = 0; i < 1 << 20; i++)
    memset(malloc(PIECE), i + 1, PIECE);
  return tenon_fail(call, TENON_INTERNAL, "it got everything");
}

MISBEHAVE(hoards, act)
