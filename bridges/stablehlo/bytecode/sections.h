/* The tables at the beginning of a file of MLIR bytecode. */
#ifndef BRIDGES_STABLEHLO_BYTECODE_SECTIONS_H
#define BRIDGES_STABLEHLO_BYTECODE_SECTIONS_H

#include "bytecode/bytes.h"

/* Reads the head and all tables; file->status tells whether they are whole. Nothing of attributes,
 * types and operations is read yet. */
void bc_read_sections(bc_file_t *file);
/* Reads the head of a section: its number, its size, and the bytes that align it. Returns its
 * bytes as a part of the section that `part` belongs to. */
bc_part_t bc_section(bc_part_t *part, size_t *out_number);

#endif
