/* The registry: adding and removing libraries.  Adding is all or nothing: everything is parsed,
 * checked and resolved first, every offence is collected, and then the names are published.
 * Calls never take its mutex. */
#ifndef TN_REGISTRY_REGISTRY_H
#define TN_REGISTRY_REGISTRY_H

#include "base/text.h"
#include "operator/names.h"
#include "registry/definition.h"

/* A hook that may return a descriptor to register instead of the given one; NULL: no hook. The
 * operator checker sets it. */
extern const tenon_descriptor_t *(*tn_registry_around)(const tenon_descriptor_t *descriptor);
/* Checks a descriptor, and builds and publishes its library, which the loader has opened or which
 * is linked in. On failure nothing is registered: offences are appended to `offences`, one per
 * line, and INVALID (or the status of the only offence) is returned. `path` is "" for a library
 * that is linked in. `flags`: TN_OVERRIDE_... and TN_ADD_... */
tenon_status_t tn_registry_add(const tenon_descriptor_t *descriptor, const char *path,
                               void *context, tenon_free_fn destroy, int flags, tn_text_t *offences,
                               tn_library_t **out_library);
/* Unloads an unloadable library whose only holder is the caller, and takes the caller's reference.
 * Otherwise it fails, and the message names the holders. */
tenon_status_t tn_registry_unload(tn_library_t *library);
/* Takes the library's kernels out of the tables, and its names out of the registry. The records
 * stay until shutdown. Returns false, with nothing changed, if memory runs out. */
bool tn_registry_undo(tn_library_t *library);
/* The number of the library's extensions that were added to their operators. *out_waiting (may be
 * NULL) gets the number of those that wait. */
int32_t tn_registry_extended(const tn_library_t *library, int32_t *out_waiting);
/* Appends a line for each extension whose operator does not exist, or whose kernels do not fit the
 * operator. */
void tn_registry_dangling(tn_text_t *text);
/* Releases a reference; tn_registry_add gives the first one. After the last reference, an
 * unloadable library is closed as soon as nothing uses it. Any other library is closed at shutdown,
 * or at once if shutdown is over. */
void tn_registry_release(tn_library_t *library);
/* Returns the library that was loaded from this path (as the loader gave it), with one more
 * reference, or NULL. */
tn_library_t *tn_registry_library(const char *path);
/* The bridges of the loaded libraries, in the order of loading; NULL past the last. */
const tenon_bridge_table_t *tn_registry_bridge(size_t index);
void tn_registry_clear(void); /* at shutdown: closes every library, in reverse order */

/* for reload.c and waiting.c; all with the mutex held, except tn_registry_free */

/* Hands the operators and extensions of the definition over to the library, which frees them from
 * now on. Returns false if memory runs out. */
bool tn_registry_take_ops(tn_definition_t *definition);
/* Adds an offence for each operator whose name a library other than `but` has published. Returns
 * false when there is one. */
bool tn_registry_names_free(tn_definition_t *definition, const tn_library_t *but);
/* Adds the kernels of the definition to operators that exist already: all of them or none. */
bool tn_registry_link(tn_definition_t *definition);
/* How tn_registry_withdraw takes kernels out: TN_FOR_NOW if they may come back; TN_FOR_GOOD if not;
 * TN_QUIETLY if, besides, no call is in the library. */
enum { TN_FOR_NOW, TN_FOR_GOOD, TN_QUIETLY };
bool tn_registry_withdraw(tn_extension_t *extension, int how);
/* Reserves room for kernels that will wait: those that libraries added to the operators of `going`,
 * and `more`. */
bool tn_registry_make_room(const tn_library_t *going, size_t more);
/* Frees one generation that was never published. */
void tn_registry_free(tn_library_t *library);

/* Sets the hooks of operator/names.h. */
void tn_registry_install(void);

#endif
