/* The dimension numbers of operations. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_DIMENSIONS_H
#define BRIDGES_STABLEHLO_BYTECODE_DIMENSIONS_H

#include "bytecode/bytes.h"

/* Reads the structure with the number `code` of the dialect stablehlo. One that has no meaning for
 * a result is left out. */
void bc_read_dimensions(bc_part_t *part, uint64_t code, hlo_attr_t *out);
/* Puts an axis with a letter, or the spatial axis `number`, into a list of axes of a convolution.
 * Fails if the place is not in the list or is taken. */
void bc_put_axis(bc_part_t *part, hlo_attr_t *list, int64_t place, const char *letter,
                 int64_t number);

#endif
