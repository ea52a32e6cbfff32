/* The cancellation callback of tenon_poll_set. The runtime calls it between the nodes of a run and
 * between the pieces of a parallel-for. */
#ifndef TN_BASE_POLL_H
#define TN_BASE_POLL_H

#include <tenon/tenon.h>

#include "base/thread.h"

tenon_status_t tn_poll_ask(const tenon_poll_t *poll);

static inline tenon_status_t tn_poll(void) {
  const tenon_poll_t *poll = tn_thread()->poll;
  return poll ? tn_poll_ask(poll) : TENON_OK;
}

#endif
