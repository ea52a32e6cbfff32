/* Types of MLIR bytecode. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_TYPES_H
#define BRIDGES_STABLEHLO_BYTECODE_TYPES_H

#include "bytecode/bytes.h"

/* Reads the number of a type and returns the type; a harmless one after a failure. */
const bc_type_t *bc_type(bc_part_t *part);
const bc_type_t *bc_type_at(bc_part_t *part, uint64_t index);
/* Returns the type of a value; fails if values of this type are not supported. */
const hlo_type_t *bc_value_type(bc_part_t *part, uint64_t index);

#endif
