/* Calls without the interpreter lock, during which signals are handled. */
#ifndef TENON_PYTHON_UNLOCKED_H
#define TENON_PYTHON_UNLOCKED_H

#include "core.h"

typedef struct unlocked_t {
  PyThreadState *state;
  tenon_poll_t poll;
  const tenon_poll_t *before;
  int64_t next;                              /* when to check for signals next, in milliseconds */
  const struct cancellation_t *cancellation; /* that the thread has entered; NULL: none */
  bool is_watched;
  bool is_main; /* this is Python's main thread */
  bool is_raised;
} unlocked_t;
bool unlocked_start(void);
/* unlocked_begin releases the interpreter lock before a call, and unlocked_end takes it again. */
void unlocked_begin(unlocked_t *unlocked);
/* Returns false with the exception set if a signal handler raised, whatever the status of the
 * call. */
bool unlocked_end(unlocked_t *unlocked);
/* Whether this thread is between the two. */
bool unlocked_is_open(void);

#endif
