/* A check of the environment variables whose values are numbers or words. */
#ifndef TN_BASE_ENVIRONMENT_CHECK_H
#define TN_BASE_ENVIRONMENT_CHECK_H

#include "base/text.h"

/* The value of a variable as a number from 1 to `most`; 0 if it is not set or not such a number. */
long tn_environment_number(const char *name, long most);
/* Prints to stderr that a variable is ignored, and why, and keeps the line for
 * tn_environment_problems until the next start. */
void tn_environment_ignored(const char *name, const char *reason);
/* Adds a line for each variable that is ignored because of its value: "TENON_THREADS is ignored:
 * 'abc': expected a number from 1 to 1024". */
void tn_environment_problems(tn_text_t *text);
/* Prints the lines of the variables that this unit reads, and forgets the others. Called when the
 * runtime starts. Errors: INVALID for a value of TENON_STRICT that is unknown, because nobody
 * should rely on a check that is off. */
tenon_status_t tn_environment_check(void);
/* Lets tn_environment_check print nothing. The worker processes of isolation have the environment
 * of their host, which has printed the lines. */
void tn_environment_silence(void);

#endif
