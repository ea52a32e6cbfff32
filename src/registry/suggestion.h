/* Names like one that was not found, for messages. */
#ifndef TN_REGISTRY_SUGGESTION_H
#define TN_REGISTRY_SUGGESTION_H

#include "base/text.h"

/* Appends ", did you mean 'x'?" and the loaded libraries, for a name that was not found. */
void tn_registry_suggest(const char *name, tn_text_t *text);
/* Appends the names of a few operators that have stubs, the most similar to `like` first.  With the
 * registry's mutex held. */
void tn_registry_name_stubs(const char *like, tn_text_t *text);

#endif
