/* One element of a dense array as a number, for code that is slow and takes every dtype: samples,
 * checks. */
#ifndef TN_CORE_ELEMENT_H
#define TN_CORE_ELEMENT_H

#include <tenon/op.h>

/* Rounds, and stops at the limits of integers.  Of complex numbers `imaginary` is the second part.
 * Sub-byte floats are their code.  No strings, no lists. */
void tn_element_put(tenon_dtype_t dtype, void *data, int64_t index, double number,
                    double imaginary);
double tn_element_get(tenon_dtype_t dtype, const void *data, int64_t index, double *out_imaginary);

#endif
