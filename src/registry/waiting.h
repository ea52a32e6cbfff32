/* Kernels for operators that no library defines yet: they are added when the operator is defined.
 * All functions are called with the registry's mutex held. */
#ifndef TN_REGISTRY_WAITING_H
#define TN_REGISTRY_WAITING_H

#include "base/text.h"
#include "registry/definition.h"

/* Reserves room for `more` kernels. Without reserved room, tn_waiting_add fails if memory runs out;
 * with it, never. */
bool tn_waiting_make_room(size_t more);
bool tn_waiting_add(const tn_dangling_t *one);
void tn_waiting_forget(const tn_library_t *library);
/* Adds the kernels whose operator exists now. Kernels that do not fit it stay, with the reason. */
void tn_waiting_resolve(void);
/* Forgets why kernels did not fit an operator that was removed: they may fit the next one of its
 * name. */
void tn_waiting_reset_reasons(void);
int32_t tn_waiting_count(const tn_library_t *library);
void tn_waiting_describe(tn_text_t *text); /* one line each */
void tn_waiting_clear(void);

#endif
