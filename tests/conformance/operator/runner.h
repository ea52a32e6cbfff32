/* Runs the checks of all operators in child processes and reports the outcome of each. */
#ifndef CHECK_RUNNER_H
#define CHECK_RUNNER_H

#include "board.h"
#include "suite.h"

typedef struct said_t { /* a finding or a note */
  bool is_note;
  bool is_by_the_way; /* observed during a check of something else */
  const char *id;
  const char *label;
  const char *called;
  const char *expected;
  const char *found;
  const char *advice;
} said_t;

enum {
  PASSED,
  FAILED,
  SKIPPED,
};
typedef struct outcome_t {
  const subject_t *subject;
  const check_t *check;
  int32_t kind;
  const char *why; /* reason if SKIPPED */
  const said_t *said;
  int32_t said_count;
} outcome_t;

/* Calls `tell` for each check of each operator. Returns false after printing the reason if child
 * processes cannot be created. */
bool run_all(const subject_t *subjects, int32_t count, void (*tell)(const outcome_t *outcome));
/* Whether --case selects this id. */
bool is_chosen(const char *id);

#endif
