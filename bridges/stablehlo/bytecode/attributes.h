/* Attributes of MLIR bytecode. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_ATTRIBUTES_H
#define BRIDGES_STABLEHLO_BYTECODE_ATTRIBUTES_H

#include "bytecode/bytes.h"

/* Reads the number of an attribute and returns the attribute; a harmless one after a failure. */
const hlo_attr_t *bc_attr(bc_part_t *part);
const hlo_attr_t *bc_attr_at(bc_part_t *part, uint64_t index);
/* Returns the name that a location states, such as "x" of loc("x"); NULL: it states none. */
const char *bc_location_name(bc_part_t *part, uint64_t index);

#endif
