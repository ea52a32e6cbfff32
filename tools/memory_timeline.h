/* Memory use over the time of a profile: one line of characters for each device, from ' ' for none
 * to '#' for the peak. Called by `tenon run --profile`. */
#ifndef TOOLS_MEMORY_TIMELINE_H
#define TOOLS_MEMORY_TIMELINE_H

#include <tenon/tenon.h>

#include "text.h"

bool memory_timeline_add(text_t *out, const tenon_profile_t *profile);

#endif
