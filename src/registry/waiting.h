/* Kernels for operators that no library defines yet: they are added when the operator comes.  All
 * functions are called with the registry's mutex held. */
#ifndef TN_REGISTRY_WAITING_H
#define TN_REGISTRY_WAITING_H

#include "base/text.h"
#include "registry/definition.h"

/* Without room tn_waiting_add fails only for want of memory; with it, never. */
bool tn_waiting_make_room(size_t more);
bool tn_waiting_add(const tn_dangling_t *one);
void tn_waiting_forget(const tn_library_t *library);
/* Adds the kernels whose operator is there now; those that do not fit it stay, with the reason. */
void tn_waiting_resolve(void);
/* What did not fit an operator that has gone may fit the next of that name. */
void tn_waiting_reset_reasons(void);
int32_t tn_waiting_count(const tn_library_t *library);
void tn_waiting_describe(tn_text_t *text); /* a line each */
void tn_waiting_clear(void);

#endif
