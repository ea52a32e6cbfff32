/* What the tests of parallel loops share: a short sleep, and a cancellation callback that counts
 * who asks it. */
#ifndef TN_TEST_BASE_LOOPS_H
#define TN_TEST_BASE_LOOPS_H

#include <time.h>

#include "base/status.h"
#include "base/thread.h"

static void rest(void) {
  const struct timespec time = {0, 200000};
  nanosleep(&time, NULL);
}

/* Ends the call the time that `last` names. */
typedef struct asked_t {
  int64_t caller;
  int times;
  int last;
  int by_others;
} asked_t;

static tenon_status_t ask(void *state) {
  asked_t *asked = state;
  if (tn_thread_id() != asked->caller) asked->by_others++;
  return ++asked->times == asked->last ? TENON_CANCELLED : TENON_OK;
}

#endif
