/* Calls itself until its stack is full. */
#include "misbehave.h"

static int descend(volatile char *above) {
  volatile char room[4096];
  room[0] = above[0];
  return descend(room) + room[1];
}

static tenon_status_t act(tenon_call_t *call) {
  volatile char first[2] = {1, 0};
  return descend(first) ? TENON_OK : tenon_fail(call, TENON_INTERNAL, "it came back");
}

MISBEHAVE(recurses, act)
