/* One line on the terminal that shows the progress of a long verb; nothing if stderr is not a
 * terminal. Callers must erase the line by progress_clear before anything else is printed. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdint.h>

/* Shows "WHAT 12/345 NAME", at most ten times per second. */
void progress_show(const char *what, int64_t done, int64_t count, const char *name);
void progress_clear(void);

#endif
