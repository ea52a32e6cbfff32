/* A profile: spans in order of opening, nested by depth.  One run writes to it at a time, from the
 * thread that runs. */
#ifndef TN_DRIVERS_PROFILE_H
#define TN_DRIVERS_PROFILE_H

#include <tenon/tenon.h>

#include "operator/work.h"

/* Opens a span; copies the texts. */
void tn_profile_open(tenon_profile_t *profile, const char *name, const char *kind);
/* Records what is done in the open span of this depth. */
void tn_profile_work(tenon_profile_t *profile, int32_t depth, tn_work_t work);
void tn_profile_close(tenon_profile_t *profile);
/* Records that so many bytes of memory are in use on a device from now on; copies the text. */
void tn_profile_level(tenon_profile_t *profile, const char *device, uint64_t bytes);
/* tn_profile_depth returns the number of open spans; tn_profile_close_to closes spans until `depth`
 * of them are left, also spans that a kernel forgot to close. */
int32_t tn_profile_depth(const tenon_profile_t *profile);
void tn_profile_close_to(tenon_profile_t *profile, int32_t depth);

#endif
