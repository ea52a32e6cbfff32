/* Conversions between the narrow float formats (f16, bf16, 8 bits) and the floats in which loops
 * compute. */
#ifndef TN_CORE_CONVERT_H
#define TN_CORE_CONVERT_H

#include <stdbool.h>
#include <tenon/op.h>

/* Whether a loop that computes in `to` can read `from` by widening and write it back by
 * narrowing. */
bool tn_widens(tenon_dtype_t from, tenon_dtype_t to);
/* Converts dense arrays; one of the two dtypes must widen to the other. Rounds once, to nearest
 * even. Values out of range become infinite, or the largest number in 8-bit formats without
 * infinity. For f8e8m0 the sign is dropped. */
void tn_convert(const void *from, tenon_dtype_t from_dtype, void *to, tenon_dtype_t to_dtype,
                int64_t count);

#endif
