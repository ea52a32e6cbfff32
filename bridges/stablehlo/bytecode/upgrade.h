/* Operations of VHLO as those of StableHLO. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_UPGRADE_H
#define BRIDGES_STABLEHLO_BYTECODE_UPGRADE_H

#include "bytecode/bytes.h"

/* Returns the name of an operation without its version: stablehlo.add for vhlo.add_v1. */
const char *bc_upgraded_name(bc_part_t *part, const char *name);
/* Adds the attributes that StableHLO makes of several ones of VHLO, such as the dimension numbers
 * of a product. */
void bc_upgrade(bc_part_t *part, hlo_op_t *op);

#endif
