/* Tables of where the time of a run was spent, and how far that is from what the machine allows.
 * Called by `tenon run --profile`. */
#ifndef TOOLS_PROFILE_TABLE_H
#define TOOLS_PROFILE_TABLE_H

#include <tenon/tenon.h>

#include "machine.h"
#include "text.h"

/* Adds a row with a bar for each kind of operator and then one for each of the slowest nodes, at
 * most `rows` of both; the last line compares the whole run with the machine. machine: NULL: leave
 * out the shares of its peak. */
bool profile_table_add(text_t *out, const tenon_profile_t *profile, int32_t rows,
                       const machine_t *machine);

#endif
