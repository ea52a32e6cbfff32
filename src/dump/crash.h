/* What is said on stderr when a function of a library crashes the process. */
#ifndef TN_RECORD_CRASH_H
#define TN_RECORD_CRASH_H

#include "dump/stack.h"

typedef struct tn_crash_t {
  int signal;
  int code;
  uintptr_t address;
  uintptr_t program_counter;
  int64_t thread;
  uintptr_t stack_low; /* of the thread; 0: not known */
  tn_stack_t stack;
} tn_crash_t;

/* Writes what happened, in which call, with which arguments; calls nothing that allocates or locks.
 * False: in no call. */
bool tn_crash_say(const tn_crash_t *crash);
/* The same for what a healthy process is needed for, in a copy of the one that crashed: the names
 * of functions on the stack; a recording of the call.  False: nothing was written. */
bool tn_crash_say_frames(const tn_crash_t *crash);
bool tn_crash_record(const tn_crash_t *crash);

void tn_crash_write(const char *text, size_t size); /* to stderr */
void tn_crash_start(void); /* reads the environment; called by tenon_start */

#endif
