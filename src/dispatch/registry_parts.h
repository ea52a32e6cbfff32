/* The registry from inside: what reload.c, waiting.c and suggestion.c need of registry.c.  All with
 * the registry's mutex held, but tn_registry_free. */
#ifndef TN_DISPATCH_REGISTRY_PARTS_H
#define TN_DISPATCH_REGISTRY_PARTS_H

#include "dispatch/definition.h"

tenon_op_t *tn_registry_published(const char *name);
tenon_op_t *tn_registry_next(size_t *position); /* each of them, from 0; NULL past the last */
void tn_registry_name_stubs(const char *like, tn_text_t *text);
/* Hands what was defined over to the library, which frees it from now on. */
bool tn_registry_take_ops(tn_definition_t *definition);
/* Offends for names that libraries other than `but` have. */
bool tn_registry_names_free(tn_definition_t *definition, const tn_library_t *but);
/* Adds the definition's kernels to operators of others: all of them or none. */
bool tn_registry_link(tn_definition_t *definition);
enum {
  TN_FOR_NOW,
  TN_FOR_GOOD,
  TN_QUIETLY,
}; /* QUIETLY: for good, and no call is in the library */
bool tn_registry_withdraw(tn_extension_t *extension, int how);
/* Room for kernels that have to wait: all that others added to the operators of `going`, and
 * more. */
bool tn_registry_make_room(const tn_library_t *going, size_t more);
tn_library_t **tn_registry_at(size_t index); /* the place of a library; NULL past the last */
bool tn_registry_put(
    const tenon_op_t *op); /* under its name; without memory only if the name is new */
void tn_registry_drop(const char *name);
void tn_registry_free(tn_library_t *library); /* one generation, which was never published */

#endif
