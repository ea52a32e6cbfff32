/* The registry: adding and removing libraries.  Adding is all or nothing: everything is parsed,
 * checked and resolved first, every offence is collected, and then the names are published.
 * Calls never take its mutex. */
#ifndef TN_REGISTRY_REGISTRY_H
#define TN_REGISTRY_REGISTRY_H

#include "base/text.h"
#include "operator/names.h"
#include "registry/definition.h"

/* Gives a descriptor to take in the place of one that is to be added; NULL: none.  The checker of
 * operators sets it. */
extern const tenon_descriptor_t *(*tn_registry_around)(const tenon_descriptor_t *descriptor);
/* Builds and publishes the library of a descriptor that the loader has verified (size, major
 * version, layout, features) or that is linked in (verified here too).  Offences are appended to
 * `offences`, one line each, and INVALID (or the code of the only one) is returned with nothing
 * registered.  `path` "" when linked in. */
tenon_status_t tn_registry_add(const tenon_descriptor_t *descriptor, const char *path,
                               void *context, tenon_free_fn destroy, int flags, tn_text_t *offences,
                               tn_library_t **out_library);
/* Unloads an unloadable library whose only holder is the caller: takes that reference, or says who
 * holds it. */
tenon_status_t tn_registry_unload(tn_library_t *library);
/* Takes the library's kernels out of the tables, and its names; what it was made of stays until
 * shutdown.  False: without memory nothing was done. */
bool tn_registry_undo(tn_library_t *library);
/* Operators that it adds kernels to, and those that are not there yet (may be NULL). */
int32_t tn_registry_extended(const tn_library_t *library, int32_t *out_waiting);
/* A line for each extension whose operator is not there, or whose kernels did not fit it. */
void tn_registry_dangling(tn_text_t *text);
/* Gives a reference back (tn_registry_add gives the first).  With the last one an unloadable
 * library that nothing uses is closed; one that is used goes when that ends, any other at shutdown
 * (or now, if shutdown was before). */
void tn_registry_release(tn_library_t *library);
/* Library with that path (as the loader gave it) with one more reference, or NULL. */
tn_library_t *tn_registry_library(const char *path);
/* The bridges among the libraries, in the order in which they came; NULL past the last. */
const tenon_bridge_table_t *tn_registry_bridge(size_t index);
void tn_registry_clear(void); /* at shutdown: every library, in reverse order */

/* for reload.c and waiting.c; all with the mutex held, except tn_registry_free */

/* Hands what was defined over to the library, which frees it from now on. */
bool tn_registry_take_ops(tn_definition_t *definition);
/* Adds an offence for each name that a library other than `but` has. */
bool tn_registry_names_free(tn_definition_t *definition, const tn_library_t *but);
/* Adds the definition's kernels to operators of other libraries: all of them or none. */
bool tn_registry_link(tn_definition_t *definition);
/* QUIETLY: for good, and no call is in the library. */
enum { TN_FOR_NOW, TN_FOR_GOOD, TN_QUIETLY };
bool tn_registry_withdraw(tn_extension_t *extension, int how);
/* Room for kernels that have to wait: those that others added to the operators of `going`, and
 * `more`. */
bool tn_registry_make_room(const tn_library_t *going, size_t more);
/* Frees one generation, which was never published. */
void tn_registry_free(tn_library_t *library);

/* Sets the hooks of operator/names.h. */
void tn_registry_install(void);

#endif
