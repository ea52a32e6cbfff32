/* Integers of fewer bits than a byte. */
#ifndef BRIDGES_STABLEHLO_LOWER_NARROW_H
#define BRIDGES_STABLEHLO_LOWER_NARROW_H

#include "lower/lower.h"

/* Keeps the lowest bits of integers of 8 bits: with a sign, the highest one of them is repeated;
 * else the bits above become 0. bits = 0: returns the edge. */
tenon_edge_t hlo_narrow(hlo_lower_t *lower, tenon_edge_t edge, int bits, bool is_signed);
/* Records that the current operation is not supported if it has such elements and is not known to
 * be right for them. */
void hlo_narrow_check(hlo_lower_t *lower);
/* Brings the results of the current operation into range. */
void hlo_narrow_results(hlo_lower_t *lower);

#endif
