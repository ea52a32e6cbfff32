/* One line on the terminal that says how far a long verb is; nothing where stderr is no terminal.
 * It is gone before anything else is printed: callers end it with progress_clear. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdint.h>

/* "WHAT 12/345 NAME", at most ten times a second. */
void progress_show(const char *what, int64_t done, int64_t count, const char *name);
void progress_clear(void);

#endif
