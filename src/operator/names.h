/* Operators and libraries by name, and the mutex that guards them and their tables.  Calls never
 * take that mutex. */
#ifndef TN_OPERATOR_NAMES_H
#define TN_OPERATOR_NAMES_H

#include "operator/library.h"

/* For code that walks the kernels of an operator outside a call: with the mutex held, no library is
 * added or removed. */
void tn_registry_lock(void);
void tn_registry_unlock(void);
tn_mutex_t *tn_registry_mutex(void);

/* operators */

const tenon_op_t *tn_registry_find(const char *name);
/* Lists all operators, sorted by name. The caller releases the list with tenon_ops_release. */
tenon_status_t tn_registry_list(const tenon_op_t *const **out_ops, int32_t *out_count);
/* The caller of the functions below holds the mutex. */
tenon_op_t *tn_registry_published(const char *name);
/* Iterates over the operators, from position 0 on; NULL past the last. */
tenon_op_t *tn_registry_next(size_t *position);
/* Publishes the operator under its name. Memory can run out only if the name is new. */
bool tn_registry_put(const tenon_op_t *op);
void tn_registry_drop(const char *name);

/* libraries */

/* Calls `visit` for each library, in the order in which they were added, until it returns false.
 * The mutex is held. */
void tn_registry_walk(bool (*visit)(void *context, tn_library_t *library), void *context);
/* Begin and end the use of a library by a bound call, a graph, or a plan with kernels of the
 * library. */
void tn_registry_use(const tn_library_t *library);
void tn_registry_unuse(const tn_library_t *library);
/* Ends one use of a library, and frees a library that was unloaded and has no other use. The
 * registry sets the hook when the process starts. */
extern void (*tn_library_unused)(tn_library_t *library);
/* The caller of the functions below holds the mutex. */
size_t tn_registry_count(void);
tn_library_t **tn_registry_at(size_t index); /* position of a library; NULL past the last */
/* Makes room for one more library; false: no memory. */
bool tn_registry_reserve(void);
void tn_registry_append(tn_library_t *library); /* the caller has called tn_registry_reserve */
void tn_registry_remove(size_t index);
void tn_names_clear(void); /* at shutdown, when no libraries are left */

#endif
