/* Finds an address in the list of mappings that the kernel keeps, and its symbol in the ELF file;
 * see location.h. The file is mapped again, because the mapped copy may be damaged. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "dump/location.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct mapping_t { /* one line of /proc/self/maps */
  uint64_t start;
  uint64_t end;
  uint64_t offset;
  const char *path;
} mapping_t;

static uint64_t read_hex(const char **at) {
  uint64_t number = 0;
  for (;; ++*at) {
    char c = **at;
    if (c >= '0' && c <= '9')
      number = number * 16 + (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
      number = number * 16 + (uint64_t)(c - 'a' + 10);
    else
      return number;
  }
}

/* Reads "START-END PERMISSIONS OFFSET DEVICE INODE PATH". */
static mapping_t read_mapping(const char *line) {
  mapping_t mapping = {0, 0, 0, ""};
  mapping.start = read_hex(&line);
  line += *line == '-';
  mapping.end = read_hex(&line);
  for (int field = 0; field < 5 && *line; field++) {
    line += strspn(line, " ");
    if (field == 1)
      mapping.offset = read_hex(&line);
    else if (field < 4)
      line += strcspn(line, " ");
  }
  mapping.path = line + strspn(line, " ");
  return mapping;
}

/* Finds the mapping of a file that has the address. */
static bool find_mapping(uintptr_t address, tn_location_t *out, uint64_t *out_file_offset) {
  static char line[8192];
  size_t used = 0;
  char c;
  bool is_found = false;
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  static char block[4096];
  for (ssize_t size; !is_found && (size = read(file, block, sizeof block)) > 0;)
    for (ssize_t i = 0; i < size && !is_found; i++) {
      c = block[i];
      if (c != '\n') {
        if (used + 1 < sizeof line) line[used++] = c;
        continue;
      }
      line[used] = 0;
      used = 0;
      mapping_t mapping = read_mapping(line);
      if (address < mapping.start || address >= mapping.end || mapping.path[0] != '/') continue;
      *out_file_offset = address - mapping.start + mapping.offset;
      strncpy(out->path, mapping.path, sizeof out->path - 1);
      is_found = true;
    }
  close(file);
  return is_found;
}

typedef struct elf_t { /* a file that is mapped for reading */
  const char *data;
  size_t size;
} elf_t;

static const void *part_of(const elf_t *elf, uint64_t offset, uint64_t size) {
  return offset <= elf->size && size <= elf->size - offset ? elf->data + offset : NULL;
}

/* Converts an offset in the file to an address as its symbols state it. */
static uint64_t address_in(const elf_t *elf, const ElfW(Ehdr) * header, uint64_t offset) {
  for (unsigned i = 0; i < header->e_phnum; i++) {
    const ElfW(Phdr) *segment =
        part_of(elf, header->e_phoff + i * sizeof *segment, sizeof *segment);
    if (segment && segment->p_type == PT_LOAD && offset >= segment->p_offset &&
        offset - segment->p_offset < segment->p_filesz)
      return offset - segment->p_offset + segment->p_vaddr;
  }
  return offset;
}

static const char *name_in(const elf_t *elf, const ElfW(Shdr) * strings, uint64_t index) {
  const char *name = index < strings->sh_size ? part_of(elf, strings->sh_offset + index, 1) : NULL;
  if (!name || !memchr(name, 0, elf->size - (size_t)(name - elf->data))) return "";
  return name;
}

static void read_symbols(const elf_t *elf, const ElfW(Shdr) * table, const ElfW(Shdr) * strings,
                         tn_location_t *out) {
  for (uint64_t i = 0; i < table->sh_size / sizeof(ElfW(Sym)); i++) {
    const ElfW(Sym) *symbol = part_of(elf, table->sh_offset + i * sizeof *symbol, sizeof *symbol);
    if (!symbol || (symbol->st_info & 15) != STT_FUNC || !symbol->st_value) continue;
    const char *name = name_in(elf, strings, symbol->st_name);
    out->is_library |= strcmp(name, "tenon_library") == 0 || strcmp(name, "tenon_op_run") == 0;
    if (out->offset < symbol->st_value || out->offset - symbol->st_value >= symbol->st_size)
      continue;
    strncpy(out->function, name, sizeof out->function - 1);
  }
}

static void read_elf(const elf_t *elf, uint64_t file_offset, tn_location_t *out) {
  const ElfW(Ehdr) *header = part_of(elf, 0, sizeof *header);
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  out->offset = address_in(elf, header, file_offset);
  for (unsigned i = 0; i < header->e_shnum; i++) {
    const ElfW(Shdr) *table = part_of(elf, header->e_shoff + i * sizeof *table, sizeof *table);
    if (!table || (table->sh_type != SHT_SYMTAB && table->sh_type != SHT_DYNSYM)) continue;
    const ElfW(Shdr) *strings =
        part_of(elf, header->e_shoff + table->sh_link * sizeof *strings, sizeof *strings);
    if (strings && table->sh_link < header->e_shnum) read_symbols(elf, table, strings, out);
  }
}

bool tn_location_find(uintptr_t address, tn_location_t *out) {
  uint64_t file_offset = 0;
  struct stat info;
  memset(out, 0, sizeof *out);
  if (!find_mapping(address, out, &file_offset)) return false;
  out->offset = file_offset;
  int file = open(out->path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) {
      read_elf(&(elf_t){data, (size_t)info.st_size}, file_offset, out);
      (void)munmap(data, (size_t)info.st_size);
    }
  }
  close(file);
  return true;
}
