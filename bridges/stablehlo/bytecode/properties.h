/* The attributes that operations keep as properties. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_PROPERTIES_H
#define BRIDGES_STABLEHLO_BYTECODE_PROPERTIES_H

#include "bytecode/bytes.h"

/* Reads the properties with the number `index` of an operation into the dictionary `out`. Those of
 * the dialects sdy and mpmd have no meaning for a result and are left out. */
void bc_read_properties(bc_part_t *part, const bc_op_name_t *op, uint64_t index, hlo_attr_t *out);

#endif
