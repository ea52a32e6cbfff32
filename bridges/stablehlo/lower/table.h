/* The table of lowerings: one row for each operation of StableHLO and of CHLO. */
#ifndef BRIDGES_STABLEHLO_LOWER_TABLE_H
#define BRIDGES_STABLEHLO_LOWER_TABLE_H

#include "lower/lower.h"

/* Returns the row of an operation. Operations without one have a row that looks for an operator of
 * a loaded library. */
const hlo_row_t *hlo_row_find(const char *name);

#endif
