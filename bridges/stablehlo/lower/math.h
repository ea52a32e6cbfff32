/* Functions that the core operators lack, composed of core operators. */
#ifndef BRIDGES_STABLEHLO_LOWER_MATH_H
#define BRIDGES_STABLEHLO_LOWER_MATH_H

#include "lower/lower.h"

/* Lowers the current operation by the texts of its row. */
void hlo_lower_text(hlo_lower_t *lower);
tenon_edge_t hlo_atan2(hlo_lower_t *lower, tenon_edge_t y, tenon_edge_t x);
/* The logarithm of the gamma function's size, and the derivative of this logarithm. */
tenon_edge_t hlo_gamma_log(hlo_lower_t *lower, tenon_edge_t x);
tenon_edge_t hlo_digamma(hlo_lower_t *lower, tenon_edge_t x);
/* Integers in the total order of floats: -NaN < -Inf < ... < -0 < 0 < ... < NaN. */
tenon_edge_t hlo_total_order(hlo_lower_t *lower, tenon_edge_t x);
/* Calls the text of one of three kinds of comparison, such as EQ, GE or LT. */
tenon_edge_t hlo_compare(hlo_lower_t *lower, const char *direction, tenon_edge_t a, tenon_edge_t b);
/* The dtype of integers with as many bits. */
tenon_dtype_t hlo_integers_like(tenon_dtype_t dtype, bool is_signed);

#endif
