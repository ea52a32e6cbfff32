/* Prints the outcome of checks as text, JSON and JUnit XML. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include "runner.h"

void report_begin(void);
void report_outcome(const outcome_t *outcome);
bool report_has_outcome(void); /* whether there was one */
/* Reports that the library cannot be checked, on stderr and in the JSON. Returns 2. */
int report_refusal(const char *format, ...) TENON_FORMAT(1, 2);
/* Returns the exit status. */
int report_end(void);

#endif
