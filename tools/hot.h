/* Where the time of a run went: the operators of a profile, the slowest first.  Called by run
 * --profile. */
#ifndef TOOLS_HOT_H
#define TOOLS_HOT_H

#include <tenon/tenon.h>

#include "text.h"

/* A table with a bar for each kind of operator, at most `rows` of them. */
bool hot_add_table(text_t *out, const tenon_profile_t *profile, int32_t rows);

#endif
