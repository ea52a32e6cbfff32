/* Reloading: a library that was read anew takes the place of the one that is there. */
#ifndef TN_REGISTRY_RELOAD_H
#define TN_REGISTRY_RELOAD_H

#include "base/text.h"
#include "operator/library.h"

/* Puts a library that was read anew in the place of the newest generation of another, all of it or
 * nothing. */
tenon_status_t tn_registry_replace(tn_library_t *old, const tenon_descriptor_t *descriptor,
                                   const char *path, tn_text_t *offences,
                                   tn_library_t **out_library);
/* How many reloads there were: what was prepared before the last one may be of an older
 * generation. */
uint64_t tn_registry_reloads(void);

#endif
