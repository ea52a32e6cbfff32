/* Prints the outcome of checks as text, JSON and JUnit XML. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include "runner.h"

void report_begin(void);
void report_outcome(const outcome_t *outcome);
/* Returns the exit status. */
int report_end(void);

#endif
