/* Crash reports: the text on stderr when a function of a library crashes the process. */
#ifndef TN_RECORD_CRASH_H
#define TN_RECORD_CRASH_H

#include "dump/stack.h"

typedef struct tn_crash_t {
  int signal;      /* 0: exit() was called */
  int exit_status; /* the argument of exit() */
  int code;
  uintptr_t address;
  uintptr_t program_counter;
  int64_t thread;
  uintptr_t stack_low; /* of the thread; 0: unknown */
  tn_stack_t stack;
} tn_crash_t;

/* Writes what happened, in which call, and its arguments, without allocating or locking. Returns:
 * false if the thread was not in a call. */
bool tn_crash_write_call(const tn_crash_t *crash);
/* Writes what happened, and the function and file of the crash. For a process whose heap and stack
 * are destroyed. Returns: false, if `only_libraries` and the file is not an operator library. */
bool tn_crash_write_location(const tn_crash_t *crash, bool only_libraries);
/* Write what needs a working process, in a copy of the one that crashed: the names of the functions
 * on the stack, and a dump of the call. Returns: false if nothing was written. */
bool tn_crash_write_frames(const tn_crash_t *crash);
bool tn_crash_save_call(const tn_crash_t *crash);

void tn_crash_write(const char *text, size_t size); /* to stderr */
void tn_crash_start(void); /* reads the environment; called by tenon_start */

#endif
