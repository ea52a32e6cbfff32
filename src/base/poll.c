/* The cancellation callback, which can end calls early. It belongs to the thread that sets it and
 * runs only on that thread. */
#include "base/poll.h"

#include "base/status.h"

const tenon_poll_t *tenon_poll_set(const tenon_poll_t *poll) {
  tn_thread_t *thread = tn_thread();
  const tenon_poll_t *before = thread->poll;
  thread->poll = poll;
  return before;
}

tenon_status_t tn_poll_ask(const tenon_poll_t *poll) {
  tenon_status_t status = poll->ask(poll->state);
  return status == TENON_OK ? status : tn_fail(status, "cancelled by the caller's callback");
}
