/* recorded.h: the calls to try of an operator, in folders for others. */
#ifndef CHECK_RECORDED_H
#define CHECK_RECORDED_H

#include "suite.h"

/* One folder for each, `to`/ns::name.NNN, with inputs and attributes and without results
 * (docs/debugging.md).  False: the reason was printed. */
bool samples_save(const subject_t *subject, const char *to);

#endif
