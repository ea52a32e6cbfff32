/* Where the time of a run went: the operators of a profile, the slowest first.  Called by run
 * --profile. */
#ifndef TOOLS_PROFILE_TABLE_H
#define TOOLS_PROFILE_TABLE_H

#include <tenon/tenon.h>

#include "text.h"

/* A table with a bar for each kind of operator, at most `rows` of them. */
bool profile_table_add(text_t *out, const tenon_profile_t *profile, int32_t rows);

#endif
