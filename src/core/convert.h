/* Conversions between the narrow floats (f16, bf16, 8-bit kinds) and the floats that loops compute
 * in. */
#ifndef TN_CORE_CONVERT_H
#define TN_CORE_CONVERT_H

#include <stdbool.h>
#include <tenon/op.h>

/* May a loop that wants `to` be given `from`, widened, and write back narrowed? */
bool tn_widens(tenon_dtype_t from, tenon_dtype_t to);
/* Dense arrays; one of the two dtypes widens to the other.  Rounds once, to nearest even; what does
 * not fit becomes infinite, or the largest number in the 8-bit kinds without infinity.  f8e8m0
 * takes magnitudes. */
void tn_convert(const void *from, tenon_dtype_t from_dtype, void *to, tenon_dtype_t to_dtype,
                int64_t count);

#endif
