/* Names that resemble a name that was not found, for messages. */
#ifndef TN_REGISTRY_SUGGESTION_H
#define TN_REGISTRY_SUGGESTION_H

#include "base/text.h"

/* Appends "; did you mean 'x'?" if the name of an operator is similar enough, and the names of the
 * loaded libraries. */
void tn_registry_suggest(const char *name, tn_text_t *text);
/* Appends "; did you mean 'x'?" if the name of an operator is similar enough. */
void tn_registry_suggest_name(const char *name, tn_text_t *text);
/* Appends the names of a few operators that have stubs, the most similar to `like` first. The
 * registry's mutex must be held. */
void tn_registry_name_stubs(const char *like, tn_text_t *text);

#endif
