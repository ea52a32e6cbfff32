/* The cancellation callback, which can end calls early. It belongs to the thread that sets it. */
#include "base/poll.h"

#include "base/status.h"

static const tenon_poll_t *set_poll(const tenon_poll_t *poll, int32_t is_shared) {
  tn_thread_t *thread = tn_thread();
  const tenon_poll_t *before = thread->poll;
  thread->poll = poll;
  thread->is_poll_shared = is_shared;
  return before;
}

const tenon_poll_t *tenon_poll_set(const tenon_poll_t *poll) { return set_poll(poll, 0); }

const tenon_poll_t *tenon_poll_set_shared(const tenon_poll_t *poll) { return set_poll(poll, 1); }

tenon_status_t tn_poll_ask(const tenon_poll_t *poll) {
  const uint64_t errors = tn_error_count();
  const tenon_status_t status = poll->ask(poll->state);
  if (status == TENON_OK || tn_error_count() != errors) return status;
  return tn_fail(status, "cancelled by the caller's callback");
}
