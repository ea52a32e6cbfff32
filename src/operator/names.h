/* Operators and libraries by name, and the mutex that guards them and their tables.  Calls never
 * take that mutex. */
#ifndef TN_OPERATOR_NAMES_H
#define TN_OPERATOR_NAMES_H

#include "operator/library.h"

/* For code that walks the kernels of an operator outside a call: libraries come and go. */
void tn_registry_lock(void);
void tn_registry_unlock(void);
tn_mutex_t *tn_registry_mutex(void);

/* operators */

const tenon_op_t *tn_registry_find(const char *name);
/* All operators, sorted by name, in memory of the caller. */
tenon_status_t tn_registry_list(const tenon_op_t *const **out_ops, int32_t *out_count);
/* The functions below are called with the mutex held. */
tenon_op_t *tn_registry_published(const char *name);
tenon_op_t *tn_registry_next(size_t *position); /* each of them, from 0; NULL past the last */
/* Publishes the operator under its name.  Can run out of memory only if the name is new. */
bool tn_registry_put(const tenon_op_t *op);
void tn_registry_drop(const char *name);

/* libraries */

/* Shows the libraries in the order in which they came, with the mutex held, until visit returns
 * false. */
void tn_registry_walk(bool (*visit)(void *context, tn_library_t *library), void *context);
/* A bound call, a graph, or a plan with kernels of the library uses it from here to there. */
void tn_registry_use(const tn_library_t *library);
void tn_registry_unuse(const tn_library_t *library);
/* Frees a library that nothing uses any more; the registry sets it when the process starts. */
extern void (*tn_library_unused)(tn_library_t *library);
/* The functions below are called with the mutex held. */
size_t tn_registry_count(void);
tn_library_t **tn_registry_at(size_t index);    /* the position of a library; NULL past the last */
bool tn_registry_reserve(void);                 /* room for one more library; false: no memory */
void tn_registry_append(tn_library_t *library); /* after tn_registry_reserve */
void tn_registry_remove(size_t index);
void tn_names_clear(void); /* at shutdown, when there are no libraries any more */

#endif
