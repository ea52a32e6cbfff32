/* Conversions between f16 and f32 by instructions of the processor. half_x86.c or half_other.c is
 * compiled. */
#ifndef TN_CORE_HALF_H
#define TN_CORE_HALF_H

#include <stdint.h>

/* Convert the first elements of an array, as many as fit into whole vectors, as convert.c does.
 * Returns: the number of elements converted; 0 if the processor has no such instructions, or
 * TENON_CPU_CAPABILITY excluded them when the process asked first. */
int64_t tn_half_widen(const uint16_t *from, float *to, int64_t count);
int64_t tn_half_narrow(const float *from, uint16_t *to, int64_t count);

#endif
