/* The bytes of a file of MLIR bytecode, and what all files of this folder use: numbers, bounds,
 * memory and failures. A failure is sticky: after the first one every function here returns a
 * harmless value and consumes nothing.
 *
 * Each file of bytecode/ calls only files that are listed before it:
 *   bytes.c       numbers, bounds, memory, and messages with a section and an offset
 *   sections.c    sections, strings, names of dialects and operations, tables of offsets
 *   types.c       types
 *   elements.c    the elements of constants
 *   dimensions.c  the dimension numbers of products, windows and convolutions
 *   attributes.c  attributes
 *   properties.c  the names of the attributes that operations keep as properties
 *   upgrade.c     operations of VHLO as those of StableHLO
 *   operations.c  operations, regions, functions and the module */
#ifndef BRIDGES_STABLEHLO_BYTECODE_BYTES_H
#define BRIDGES_STABLEHLO_BYTECODE_BYTES_H

#include "base/arena.h"
#include "parse/module.h"

enum {
  BC_DEPTH_MAX = 64, /* Levels of nested regions, attributes and types. */
  BC_VERSION_MAX = 6,
  BC_SECTIONS = 9,
};

enum { /* Sections by their numbers in the file. */
       BC_STRINGS,
       BC_DIALECTS,
       BC_ATTRIBUTES,
       BC_ATTRIBUTE_OFFSETS,
       BC_IR,
       BC_RESOURCES,
       BC_RESOURCE_OFFSETS,
       BC_DIALECT_VERSIONS,
       BC_PROPERTIES,
};

typedef struct bc_part_t { /* A part of a section that is being read. */
  struct bc_file_t *file;
  const char *name;     /* Of the section. */
  const uint8_t *begin; /* Of the section. */
  const uint8_t *at;
  const uint8_t *end;
} bc_part_t;

typedef struct bc_text_t {
  const char *text; /* Ends with a 0 that `size` does not count. */
  size_t size;
} bc_text_t;

typedef struct bc_op_name_t {
  const char *text;     /* "vhlo.add_v1" */
  const char *upgraded; /* "stablehlo.add"; NULL: no operation has the name yet. */
  bool has_plain_attrs; /* Its properties are one dictionary. */
} bc_op_name_t;

typedef struct bc_type_t {
  hlo_type_t type;
  uint32_t bits;       /* Of an integer or a float, else 0. */
  const char *refused; /* The name of an element type that is not supported; NULL: it is. */
} bc_type_t;

typedef enum bc_state_t { BC_UNREAD, BC_READING, BC_READ } bc_state_t;

typedef struct bc_entry_t { /* An attribute or a type. It is read when something asks for it. */
  const uint8_t *at;
  const uint8_t *end;
  const char *dialect;
  const hlo_attr_t *attr;
  const bc_type_t *type;
  bc_state_t state;
  bool is_text; /* Written as in a text. */
} bc_entry_t;

typedef struct bc_resource_t { /* Bytes of a dialect, which constants may name. */
  const char *key;
  const uint8_t *bytes;
  size_t size;
  const hlo_attr_t *attr; /* The constant that was made of them; NULL: none yet. */
} bc_resource_t;

typedef struct bc_file_t {
  const uint8_t *begin;
  const uint8_t *end;
  tn_arena_t *arena;
  hlo_module_t *module;
  uint64_t version;
  bc_part_t sections[BC_SECTIONS]; /* Without a name: the file does not have it. */
  bc_text_t *strings;
  const char **dialects;
  bc_op_name_t *op_names;
  bc_entry_t *attrs;
  bc_entry_t *types;
  bc_part_t *properties;
  bc_resource_t *resources;
  size_t string_count;
  size_t dialect_count;
  size_t op_name_count;
  size_t attr_count;
  size_t type_count;
  size_t property_count;
  size_t resource_count;
  int32_t depth;
  tenon_status_t status;
} bc_file_t;

bool bc_failed(const bc_part_t *part);
/* Reports a failure with the name of the section and the offset in it. */
void bc_fail(bc_part_t *part, const char *format, ...) TENON_FORMAT(2, 3);
/* Zeroed memory of the arena; NULL: the file has failed. */
void *bc_take(bc_part_t *part, size_t count, size_t size);
/* Begins and ends a level of nesting; bc_enter fails if there are too many. */
bool bc_enter(bc_part_t *part);
void bc_leave(bc_part_t *part);

size_t bc_left(const bc_part_t *part);
uint8_t bc_byte(bc_part_t *part);
/* Reads a number of 1 to 9 bytes. */
uint64_t bc_number(bc_part_t *part);
/* Reads a number whose lowest bit is a flag. */
uint64_t bc_flagged(bc_part_t *part, bool *out_flag);
int64_t bc_signed(bc_part_t *part);
/* Reads the number of items that follow, each of which takes a byte or more. */
size_t bc_count(bc_part_t *part, const char *what);
/* Fails unless `count` items, each of which takes a byte or more, can follow. Returns `count`, or 0
 * after a failure. */
size_t bc_check_count(bc_part_t *part, uint64_t count, const char *what);
/* Reads an index below `count`; 0 after a failure. */
size_t bc_index(bc_part_t *part, size_t count, const char *what);
size_t bc_check_index(bc_part_t *part, uint64_t index, size_t count, const char *what);
/* Takes `size` bytes; NULL: there are fewer. */
const uint8_t *bc_bytes(bc_part_t *part, uint64_t size);
/* Reads a size and as many bytes. */
const uint8_t *bc_blob(bc_part_t *part, size_t *out_size);
/* Skips the bytes that fill the space up to a multiple of `alignment`. */
void bc_align(bc_part_t *part, uint64_t alignment);
/* Reads the index of a string and returns the string; "" after a failure. */
const char *bc_string(bc_part_t *part);
/* Returns a part of the same section. */
bc_part_t bc_part_of(const bc_part_t *part, const uint8_t *at, const uint8_t *end);

#endif
