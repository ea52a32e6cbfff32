/* What an ELF file requires of a process besides files: symbols, versions of symbols, and memory
 * that is both writable and executable. Called by elf.c and missing.c. The invariant of elf_file.c
 * holds here, too. */
#include <string.h>

#include "loader/elf_file.h"

typedef struct need_t { /* Verneed: versions needed of one library */
  uint16_t version;
  uint16_t count;
  uint32_t file;
  uint32_t first;
  uint32_t next;
} need_t;

typedef struct need_version_t { /* Vernaux: one of these versions */
  uint32_t hash;
  uint16_t flags;
  uint16_t other;
  uint32_t name;
  uint32_t next;
} need_version_t;

/* Verdef. Its first name, two words at `first`, is the version. */
typedef struct definition_t {
  uint16_t version;
  uint16_t flags;
  uint16_t index;
  uint16_t count;
  uint32_t hash;
  uint32_t first;
  uint32_t next;
} definition_t;

enum {
  VERSION_WEAK = 2,
  FLAG_TEXT_RELOCATIONS = 4,
  MOST = 100000,
};
#define RAW_NEEDS 0x6ffffffe
#define RAW_DEFINITIONS 0x6ffffffc
#define SEGMENT_STACK 0x6474e551u

static uint64_t dynamic_value(const elf_t *elf, int64_t tag) {
  dynamic_t entry;
  for (uint64_t i = 0; tn_elf_item(elf, elf->dynamic, i, &entry, sizeof entry) && entry.tag; i++)
    if (entry.tag == tag) return entry.value;
  return 0;
}

static bool open_quietly(const tn_file_t *file, elf_t *elf, tn_binary_t *binary,
                         tn_text_t *offences) {
  *binary = (tn_binary_t){.format = ""};
  *elf = (elf_t){.file = file, .out = binary, .offences = offences};
  return tn_elf_open(elf);
}

void tn_elf_requirements(elf_t *elf) {
  segment_t segment;
  part_t segments = {elf->header.segments_at, (uint64_t)elf->header.segment_count * sizeof segment};
  for (uint64_t i = 0; tn_elf_item(elf, segments, i, &segment, sizeof segment); i++)
    if (segment.type == SEGMENT_STACK && segment.flags & 1) elf->out->has_executable_stack = true;
  elf->out->has_text_relocations = dynamic_value(elf, TAG_TEXT_RELOCATIONS) ||
                                   dynamic_value(elf, TAG_MORE_FLAGS) & FLAG_TEXT_RELOCATIONS;
}

void tn_elf_undefined(const tn_file_t *file, void (*each)(void *context, const char *name),
                      void *context) {
  tn_binary_t ignored;
  tn_text_t offences = {0};
  symbol_t symbol;
  elf_t elf;
  if (open_quietly(file, &elf, &ignored, &offences))
    for (uint64_t i = 1; tn_elf_item(&elf, elf.symbols, i, &symbol, sizeof symbol); i++) {
      const char *name = tn_elf_text(&elf, elf.strings, symbol.name);
      if (!symbol.section && symbol.info >> 4 == BIND_GLOBAL && name && *name) each(context, name);
    }
  tn_text_clear(&offences);
}

static void read_need(const elf_t *elf, uint64_t at, const need_t *need,
                      void (*each)(void *context, const char *library, const char *version),
                      void *context) {
  part_t part;
  need_version_t version;
  const char *library = tn_elf_text(elf, elf->strings, need->file);
  at += need->first;
  for (uint32_t i = 0; library && i < need->count && tn_elf_mapped(elf, at, sizeof version, &part);
       i++) {
    if (!tn_elf_take(elf, part.offset, &version, sizeof version)) return;
    const char *name = tn_elf_text(elf, elf->strings, version.name);
    if (name && !(version.flags & VERSION_WEAK)) each(context, library, name);
    if (!version.next) return;
    at += version.next;
  }
}

void tn_elf_versions(const tn_file_t *file,
                     void (*each)(void *context, const char *library, const char *version),
                     void *context) {
  tn_binary_t ignored;
  tn_text_t offences = {0};
  need_t need;
  part_t part;
  elf_t elf;
  if (open_quietly(file, &elf, &ignored, &offences)) {
    uint64_t at = dynamic_value(&elf, RAW_NEEDS);
    for (int i = 0; at && i < MOST && tn_elf_mapped(&elf, at, sizeof need, &part); i++) {
      if (!tn_elf_take(&elf, part.offset, &need, sizeof need)) break;
      read_need(&elf, at, &need, each, context);
      at = need.next ? at + need.next : 0;
    }
  }
  tn_text_clear(&offences);
}

bool tn_elf_defines_version(const tn_file_t *file, const char *version) {
  tn_binary_t ignored;
  tn_text_t offences = {0};
  definition_t definition;
  part_t part;
  elf_t elf;
  uint32_t name;
  bool found = false;
  if (open_quietly(file, &elf, &ignored, &offences)) {
    uint64_t at = dynamic_value(&elf, RAW_DEFINITIONS);
    for (int i = 0; at && i < MOST && !found && tn_elf_mapped(&elf, at, sizeof definition, &part);
         i++) {
      if (!tn_elf_take(&elf, part.offset, &definition, sizeof definition)) break;
      bool has_name = definition.count &&
                      tn_elf_mapped(&elf, at + definition.first, sizeof name, &part) &&
                      tn_elf_take(&elf, part.offset, &name, sizeof name);
      const char *own = has_name ? tn_elf_text(&elf, elf.strings, name) : NULL;
      found = own && !strcmp(own, version);
      at = definition.next ? at + definition.next : 0;
    }
  }
  tn_text_clear(&offences);
  return found;
}
