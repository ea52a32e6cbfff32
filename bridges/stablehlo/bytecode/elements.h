/* The elements of constants in MLIR bytecode. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_ELEMENTS_H
#define BRIDGES_STABLEHLO_BYTECODE_ELEMENTS_H

#include "bytecode/bytes.h"

/* Makes a constant of bytes: all elements, one that all equal, or one bit for each bool. */
void bc_elements(bc_part_t *part, const bc_type_t *type, const uint8_t *bytes, size_t size,
                 hlo_attr_t *out);
/* Reads the number of a resource and makes a constant of its bytes. */
void bc_resource_elements(bc_part_t *part, const bc_type_t *type, hlo_attr_t *out);
/* Makes a list of the elements of an array, `count` integers, floats or bools. */
void bc_array_elements(bc_part_t *part, const bc_type_t *type, uint64_t count, hlo_attr_t *out);
/* Returns the integer or float that the lowest bits of a number stand for. */
void bc_scalar(bc_part_t *part, const bc_type_t *type, uint64_t bits, hlo_attr_t *out);

#endif
