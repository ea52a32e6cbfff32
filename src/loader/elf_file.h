/* An ELF file that is being read: elf_file.c. */
#ifndef TN_LOADER_ELF_FILE_H
#define TN_LOADER_ELF_FILE_H

#include "loader/binary.h"
#include "loader/elf.h"

typedef struct machine_t {
  uint16_t number;
  const char *name;
  uint32_t resolver; /* relocation that calls a function at opening (IRELATIVE) */
  uint32_t
      /* most bytes that the compiler's start files put into .init: more is code of others */
      init_size;
} machine_t;

typedef struct part_t { /* a part of the file, known to lie in it */
  uint64_t offset;
  uint64_t size;
} part_t;

typedef struct elf_t {
  const tn_file_t *file;
  header_t header;
  const machine_t *machine;
  uint64_t tags[TAGS];
  part_t dynamic;
  part_t strings;
  part_t symbols;
  part_t names;
  part_t name_strings; /* symbols for people (.symtab), size 0 when stripped */
  uint64_t init_code;
  uint64_t init_code_size; /* section .init */
  tn_binary_t *out;
  tn_text_t *offences;
} elf_t;

/* Fills in the rest of `elf`, of which file, out and offences are set.  False when nothing more can
 * be read, which is an offence. */
bool tn_elf_open(elf_t *elf);
bool tn_elf_inside(const elf_t *elf, uint64_t offset, uint64_t size);
bool tn_elf_take(const elf_t *elf, uint64_t offset, void *out, size_t size);
/* The i-th item of a part; false past its end. */
bool tn_elf_item(const elf_t *elf, part_t part, uint64_t i, void *out, size_t size);
/* A string table without what follows its last terminator, so that every text in it ends inside. */
part_t tn_elf_texts(const elf_t *elf, part_t part);
const char *tn_elf_text(const elf_t *elf, part_t strings,
                        uint64_t offset); /* NULL: not in the table */
/* The part of the file that is mapped to an address; false when no segment holds all of it. */
bool tn_elf_mapped(const elf_t *elf, uint64_t address, uint64_t size, part_t *out);
/* The same for a table of the dynamic section: absent tables are empty, bad ones an offence. */
part_t tn_elf_table(const elf_t *elf, int tag, uint64_t size, const char *what);
void tn_elf_demands(elf_t *elf); /* fills in what it demands of memory: demands.c */
void tn_elf_remember(tn_names_t *names, const char *name);

#endif
