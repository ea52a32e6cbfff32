/* An ELF file that is being read (elf_file.c), and safe access to its parts. */
#ifndef TN_LOADER_ELF_FILE_H
#define TN_LOADER_ELF_FILE_H

#include "loader/binary.h"
#include "loader/elf.h"

typedef struct machine_t {
  uint16_t number;
  const char *name;
  uint32_t resolver; /* relocation type that calls a function when the file is opened (IRELATIVE) */
  /* Bytes that the compiler's start files put into .init. More bytes mean other code. */
  uint32_t init_size;
} machine_t;

typedef struct part_t { /* a range of the file, checked to lie in it */
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
  part_t name_strings; /* symbols for people (.symtab); size 0 when stripped */
  uint64_t init_code;
  uint64_t init_code_size; /* of section .init */
  tn_binary_t *out;
  tn_text_t *offences;
} elf_t;

/* Fills `elf`, in which the caller has set file, out and offences. Returns: false if nothing more
 * can be read; the reason is then reported. */
bool tn_elf_open(elf_t *elf);
bool tn_elf_inside(const elf_t *elf, uint64_t offset, uint64_t size);
bool tn_elf_take(const elf_t *elf, uint64_t offset, void *out, size_t size);
/* Reads the i-th item of a part. Returns: false beyond its end. */
bool tn_elf_item(const elf_t *elf, part_t part, uint64_t i, void *out, size_t size);
/* Cuts a string table after its last terminator, so that every text in it ends inside. */
part_t tn_elf_texts(const elf_t *elf, part_t part);
/* Returns: the text at an offset, or NULL if the offset is outside the table. */
const char *tn_elf_text(const elf_t *elf, part_t strings, uint64_t offset);
/* Finds the part of the file that is mapped to an address. Returns: false if no segment contains
 * all of it. */
bool tn_elf_mapped(const elf_t *elf, uint64_t address, uint64_t size, part_t *out);
/* The same for a table of the dynamic section. An absent table is empty; an invalid one is a
 * reported problem. */
part_t tn_elf_table(const elf_t *elf, int tag, uint64_t size, const char *what);
/* Finds out whether the file needs an executable stack or writable code (elf_requirements.c). */
void tn_elf_requirements(elf_t *elf);
void tn_elf_remember(tn_names_t *names, const char *name);

#endif
