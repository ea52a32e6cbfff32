/* Reloading: a library that was read again replaces its registered generation. */
#ifndef TN_REGISTRY_RELOAD_H
#define TN_REGISTRY_RELOAD_H

#include "base/text.h"
#include "operator/library.h"

/* Replaces `old`, the newest generation of a library, by the library of a descriptor that was read
 * again: all of it or nothing. */
tenon_status_t tn_registry_replace(tn_library_t *old, const tenon_descriptor_t *descriptor,
                                   const char *path, tn_text_t *offences,
                                   tn_library_t **out_library);
/* The number of reloads so far. What was prepared before the last reload may belong to an older
 * generation. */
uint64_t tn_registry_reloads(void);

#endif
