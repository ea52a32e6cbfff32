/* report.h: what came of the checks, as text, JSON and JUnit's XML. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

#include "runner.h"

void report_begin(void);
void report_outcome(const outcome_t *outcome);
/* Gives the exit code. */
int report_end(void);

#endif
