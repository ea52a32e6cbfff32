/* Saves the calls that the suite would try, so that another program can compute the expected
 * results. */
#ifndef CHECK_RECORDED_H
#define CHECK_RECORDED_H

#include "suite.h"

/* Saves each call as a folder `to`/ns::name.NNN with inputs and attributes and without results
 * (docs/debugging.md). Returns false after printing the reason. */
bool samples_save(const subject_t *subject, const char *to);

#endif
