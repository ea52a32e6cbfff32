/* Formulas of element-wise operations. */
#ifndef BRIDGES_STABLEHLO_WRITE_FORMULA_H
#define BRIDGES_STABLEHLO_WRITE_FORMULA_H

#include "write/operation.h"

/* Writes a formula such as "select(LT(a, 0), multiply($alpha, a), a)". The language:
 *   formula = operation "(" formula {"," formula} ")" | letter | number | "$" attribute
 * a, b, c, ... are `values`, broadcast to the shape of `like`. Operations are those of StableHLO
 * without "stablehlo.", those of CHLO with "chlo.", and the directions of comparisons. Numbers and
 * attributes have the dtype of `like`. */
hlo_val_t hlo_formula(hlo_write_t *w, const char *text, const hlo_val_t *values, int32_t count,
                      const hlo_val_t *like);

#endif
