/* Access to one element of a dense array as a number. Slow but general: for example inputs and
 * checks. */
#ifndef TN_CORE_ELEMENT_H
#define TN_CORE_ELEMENT_H

#include <tenon/op.h>

/* tn_element_put rounds, and clamps to the limits of integer types. `imaginary` is the second part
 * of a complex number. A sub-byte float is written as its bit pattern. Strings and lists are not
 * supported. */
void tn_element_put(tenon_dtype_t dtype, void *data, int64_t index, double number,
                    double imaginary);
double tn_element_get(tenon_dtype_t dtype, const void *data, int64_t index, double *out_imaginary);

#endif
