/* What reductions, windows and scatters share: what a region with two arguments computes. */
#ifndef BRIDGES_STABLEHLO_LOWER_REDUCE_H
#define BRIDGES_STABLEHLO_LOWER_REDUCE_H

#include "lower/lower.h"

/* Returns the name of the only operation of a region, if it is applied to the region's two
 * arguments and its result is returned; else "". */
const char *hlo_region_operation(const hlo_region_t *region);
/* Returns whether a value is a constant that changes nothing under the operation. */
bool hlo_is_neutral(hlo_lower_t *lower, int32_t operand, const char *operation);
/* Applies a region to two lists of `count` tensors. */
bool hlo_combine(hlo_lower_t *lower, const hlo_region_t *region, const tenon_edge_t *a,
                 const tenon_edge_t *b, int32_t count, tenon_edge_t *out);

#endif
