/* Evaluation of regions and functions within the graph that is being built. */
#ifndef BRIDGES_STABLEHLO_LOWER_REGION_H
#define BRIDGES_STABLEHLO_LOWER_REGION_H

#include "lower/lower.h"

/* Lowers the operations of a region. Copies what its return states to `out`, which has room for
 * `count` values. Returns false if the region has another number of arguments or results. */
bool hlo_inline_region(hlo_lower_t *lower, const hlo_region_t *region, const hlo_bound_t *args,
                       int32_t arg_count, hlo_bound_t *out, int32_t count);
/* The same for a region for single elements, which is applied to whole real tensors. */
bool hlo_inline_elements(hlo_lower_t *lower, const hlo_region_t *region, const tenon_edge_t *args,
                         int32_t arg_count, tenon_edge_t *out, int32_t count);
/* Lowers one operation, whose operands have been lowered. */
void hlo_lower_one(hlo_lower_t *lower, const hlo_op_t *op);
/* Lowers the body of a function with the values of the current operation's operands. */
void hlo_inline_function(hlo_lower_t *lower, const char *name);
/* Lowers a function whose arguments are given; the results are in `out`. */
bool hlo_inline_body(hlo_lower_t *lower, const hlo_function_t *function, const hlo_bound_t *args,
                     int32_t arg_count, hlo_bound_t *out, int32_t count);
const hlo_function_t *hlo_function_find(const hlo_module_t *module, const char *name);
/* Returns the region of the current operation; NULL: it does not exist, which was reported. */
const hlo_region_t *hlo_region(hlo_lower_t *lower, int32_t index);

#endif
