/* The structures and constants of the ELF format that elf.c needs: System V ABI, chapters 4 and 5,
 * 64 bits. They are written out here because <elf.h> is not part of C. Invariant: the structures
 * have the file's own layout, without padding. */
#ifndef TN_LOADER_ELF_H
#define TN_LOADER_ELF_H

#include <stdint.h>

typedef struct header_t {
  uint8_t ident[16];
  uint16_t type;
  uint16_t machine;
  uint32_t version;
  uint64_t entry;
  uint64_t segments_at;
  uint64_t sections_at;
  uint32_t flags;
  uint16_t header_size;
  uint16_t segment_size;
  uint16_t segment_count;
  uint16_t section_size;
  uint16_t section_count;
  uint16_t section_names;
} header_t;

typedef struct segment_t {
  uint32_t type;
  uint32_t flags;
  uint64_t offset;
  uint64_t address;
  uint64_t physical;
  uint64_t file_size;
  uint64_t memory_size;
  uint64_t align;
} segment_t;

typedef struct section_t {
  uint32_t name;
  uint32_t type;
  uint64_t flags;
  uint64_t address;
  uint64_t offset;
  uint64_t size;
  uint32_t link;
  uint32_t info;
  uint64_t align;
  uint64_t item_size;
} section_t;

typedef struct symbol_t {
  uint32_t name;
  uint8_t info;
  uint8_t other;
  uint16_t section;
  uint64_t value;
  uint64_t size;
} symbol_t;

typedef struct relocation_t {
  uint64_t address;
  uint64_t info;
  int64_t addend;
} relocation_t;

typedef struct dynamic_t {
  int64_t tag;
  uint64_t value;
} dynamic_t;

enum { MACHINE_X86_64 = 62 };
enum {
  TYPE_OBJECT = 1,
  TYPE_PROGRAM = 2,
  TYPE_SHARED = 3,
  TYPE_CORE = 4,
};
enum {
  SEGMENT_LOAD = 1,
  SEGMENT_DYNAMIC = 2,
  SECTION_SYMBOLS = 2,
};
enum {
  BIND_GLOBAL = 1,
  BIND_WEAK = 2,
  BIND_UNIQUE = 10,
  IS_FUNCTION = 2,
  IS_SOURCE = 4, /* names the source of the local symbols after it */
  IS_RESOLVED = 10,
  SECTION_ABSOLUTE = 0xfff1,
};
/* Tags of the dynamic section. The tags with large numbers (RAW_...) are stored at unused small
 * numbers. */
enum {
  TAG_NEEDED = 1,
  TAG_PLT_SIZE = 2,
  TAG_HASH = 4,
  TAG_STRINGS = 5,
  TAG_SYMBOLS = 6,
  TAG_RELA = 7,
  TAG_RELA_SIZE = 8,
  TAG_STRINGS_SIZE = 10,
  TAG_INIT = 12,
  TAG_NAME = 14,
  TAG_RPATH = 15,
  TAG_PLT = 23,
  TAG_INIT_ARRAY = 25,
  TAG_INIT_SIZE = 27,
  TAG_RUNPATH = 29,
  TAG_TEXT_RELOCATIONS = 22,
  TAG_MORE_FLAGS = 30,
  TAG_GNU_HASH = 40,
  TAG_FLAGS = 41,
  TAGS = 42,
};
/* Tags that name more libraries. The system's loader opens a filter like a needed library, and an
 * auxiliary library if it is found; it opens those of audits in a program's name. */
#define RAW_CONFIG 0x6ffffefa
#define RAW_DEPENDENT_AUDIT 0x6ffffefb
#define RAW_AUDIT 0x6ffffefc
#define RAW_AUXILIARY 0x7ffffffd
#define RAW_FILTER 0x7fffffff
#define RAW_GNU_HASH 0x6ffffef5
#define RAW_FLAGS 0x6ffffffb
#define FLAG_NEVER_UNLOAD 0x8u
#define FLAG_PROGRAM 0x8000000u /* position-independent program */

#endif
