/* Comparison of tensors of random numbers, whose elements differ from draw to draw. Called by
 * verify. */
#ifndef TOOLS_DISTRIBUTION_H
#define TOOLS_DISTRIBUTION_H

#include <tenon/tenon.h>

#include "text.h"

/* Returns true if two tensors of equal dtype and shape may be samples of one distribution, by the
 * test of Kolmogorov and Smirnov at a level of 0.001; else `why` states the difference. Strings,
 * lists and complex numbers are not compared. */
bool distribution_compare(const tenon_tensor_t *expected, const tenon_tensor_t *found, text_t *why);

#endif
