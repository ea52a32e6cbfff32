/* Integers that stand for floats. */
#ifndef BRIDGES_STABLEHLO_LOWER_QUANTISED_H
#define BRIDGES_STABLEHLO_LOWER_QUANTISED_H

#include "lower/lower.h"

/* Returns whether the current operation has operands or results of quantised types. */
bool hlo_has_quantised(const hlo_lower_t *lower);
/* Lowers the current operation, which has such types: one that moves elements runs as it is, an
 * element-wise one on floats, and all others are recorded as missing. */
void hlo_lower_quantised(hlo_lower_t *lower);

#endif
