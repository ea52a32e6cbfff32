/* Custom calls whose targets are Tenon's own. */
#ifndef BRIDGES_STABLEHLO_LOWER_OWN_CALL_H
#define BRIDGES_STABLEHLO_LOWER_OWN_CALL_H

#include "lower/lower.h"

/* Returns whether a target of a custom call is that of tenon.jax. */
bool hlo_is_own_call(const char *target);
/* Lowers the current operation, a custom call with such a target. */
void hlo_lower_own_call(hlo_lower_t *lower, const char *target);

#endif
