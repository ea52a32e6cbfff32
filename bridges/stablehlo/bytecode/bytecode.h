/* Reads programs of StableHLO in the form of MLIR bytecode. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_BYTECODE_H
#define BRIDGES_STABLEHLO_BYTECODE_BYTECODE_H

#include "base/arena.h"
#include "parse/module.h"

/* Returns whether the bytes begin as MLIR bytecode does. */
bool bc_is_bytecode(const char *bytes, size_t size);
/* Reads a whole program into what the parser makes of a text. The bytes must outlive *out_module,
 * whose tensors must be released with hlo_module_release.
 *
 * Errors: INVALID, with a section and an offset in it. */
tenon_status_t bc_read_module(const char *bytes, size_t size, tn_arena_t *arena,
                              hlo_module_t *out_module);

#endif
