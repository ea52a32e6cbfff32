/* Opens a socket. */
#include <sys/socket.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  int made = socket(AF_INET, SOCK_STREAM, 0);
  return made >= 0 ? TENON_OK : tenon_fail(call, TENON_DENIED, "the socket could not be made");
}

MISBEHAVE(connects, act)
