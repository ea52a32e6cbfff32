/* A profile: spans in order of opening, nested by depth.  One run writes to it at a time, from the
 * thread that runs. */
#ifndef TN_DRIVERS_PROFILE_H
#define TN_DRIVERS_PROFILE_H

#include <tenon/tenon.h>

void tn_profile_open(tenon_profile_t *profile, const char *name,
                     const char *kind); /* texts are copied */
void tn_profile_close(tenon_profile_t *profile);
/* So much memory is in use there from now on; the text is copied. */
void tn_profile_level(tenon_profile_t *profile, const char *device, uint64_t bytes);
/* Spans that are open; closes all but so many, those too that a kernel forgot. */
int32_t tn_profile_depth(const tenon_profile_t *profile);
void tn_profile_close_to(tenon_profile_t *profile, int32_t depth);

#endif
