/* Operations without a lowering, as operators of loaded libraries. */
#ifndef BRIDGES_STABLEHLO_LOWER_CUSTOM_H
#define BRIDGES_STABLEHLO_LOWER_CUSTOM_H

#include "lower/lower.h"

/* Lowers "domain.name" to the operator domain::name. */
void hlo_lower_custom(hlo_lower_t *lower);
/* Lowers the current operation to an operator by name. `attrs` is a DICT; NULL: none. Returns
 * false, without a failure, if no loaded library has the operator. */
bool hlo_lower_operator(hlo_lower_t *lower, const char *name, const hlo_attr_t *attrs);

#endif
