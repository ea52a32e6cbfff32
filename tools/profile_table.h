/* Table of where the time of a run was spent: operators, slowest first. Called by `tenon run
 * --profile`. */
#ifndef TOOLS_PROFILE_TABLE_H
#define TOOLS_PROFILE_TABLE_H

#include <tenon/tenon.h>

#include "text.h"

/* Adds a row with a bar for each kind of operator, at most `rows` of them. */
bool profile_table_add(text_t *out, const tenon_profile_t *profile, int32_t rows);

#endif
