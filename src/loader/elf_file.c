/* Opens an ELF file: its header, segments and dynamic section, and the tables to which they refer.
 * Called by elf.c and elf_requirements.c. Invariant: every byte of the file is read through
 * tn_elf_take(), which checks the file's size, and this size bounds all loops. */
#include "loader/elf_file.h"

#include <stdio.h>
#include <string.h>

static const machine_t machines[] = {
    {62, "x86-64", 37, 27},       {183, "aarch64", 1032, 28},
    {243, "riscv", 58, 64},       {21, "powerpc64", 248, 96},
    {22, "s390x", 61, 96},        {258, "loongarch", 12, 64},
    {3, "x86 (32 bits)", 42, 64}, {40, "arm (32 bits)", 160, 64},
    {8, "mips", 0, 96},           {2, "sparc (32 bits)", 0, 64},
    {43, "sparc64", 249, 64},     {20, "powerpc (32 bits)", 248, 96},
};

#if defined(__x86_64__)
enum { OWN_MACHINE = 62 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = 183 };
#elif defined(__riscv)
enum { OWN_MACHINE = 243 };
#elif defined(__powerpc64__)
enum { OWN_MACHINE = 21 };
#elif defined(__s390x__)
enum { OWN_MACHINE = 22 };
#elif defined(__loongarch__)
enum { OWN_MACHINE = 258 };
#else
#error "add this machine's ELF number here and to the table above"
#endif

bool tn_elf_inside(const elf_t *elf, uint64_t offset, uint64_t size) {
  return offset <= elf->file->size && size <= elf->file->size - offset;
}

bool tn_elf_take(const elf_t *elf, uint64_t offset, void *out, size_t size) {
  if (!tn_elf_inside(elf, offset, size)) return false;
  memcpy(out, elf->file->data + offset, size);
  return true;
}

bool tn_elf_item(const elf_t *elf, part_t part, uint64_t i, void *out, size_t size) {
  return i < part.size / size && tn_elf_take(elf, part.offset + i * size, out, size);
}

/* Cuts a string table after its last terminator, so that every text in it ends inside. */
part_t tn_elf_texts(const elf_t *elf, part_t part) {
  while (part.size && elf->file->data[part.offset + part.size - 1])
    part.size--;
  return part;
}

/* Returns: the text at an offset, or NULL if the offset is outside the table. */
const char *tn_elf_text(const elf_t *elf, part_t strings, uint64_t offset) {
  return offset < strings.size ? (const char *)elf->file->data + strings.offset + offset : NULL;
}

void tn_elf_remember(tn_names_t *names, const char *name) {
  if (names->count < TN_LISTED) names->names[names->count] = name;
  names->count++;
}

/* Finds the part of the file that is mapped to an address. Returns: false if no segment contains
 * all of it. */
bool tn_elf_mapped(const elf_t *elf, uint64_t address, uint64_t size, part_t *out) {
  segment_t segment;
  part_t segments = {elf->header.segments_at, (uint64_t)elf->header.segment_count * sizeof segment};
  for (uint64_t i = 0; tn_elf_item(elf, segments, i, &segment, sizeof segment); i++) {
    if (segment.type != SEGMENT_LOAD || address < segment.address) continue;
    uint64_t skip = address - segment.address;
    if (skip > segment.file_size || size > segment.file_size - skip) continue;
    *out = (part_t){segment.offset + skip, size}; /* all segments were checked to lie in the file */
    return true;
  }
  return false;
}

/* The same for a table of the dynamic section. An absent table is empty; an invalid one is a
 * reported problem. */
part_t tn_elf_table(const elf_t *elf, int tag, uint64_t size, const char *what) {
  part_t part = {0, 0};
  uint64_t address = elf->tags[tag];
  if (size == 0 || address == 0) return part;
  if (!tn_elf_mapped(elf, address, size, &part))
    tn_binary_offence(elf->offences,
                      "damaged: its %s (%llu bytes at address 0x%llx) is outside all loaded "
                      "segments; build or copy it again",
                      what, (unsigned long long)size, (unsigned long long)address);
  return part;
}

static const machine_t *machine_of(uint16_t number) {
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
    if (machines[i].number == number) return &machines[i];
  return NULL;
}

static void check_machine(elf_t *elf, bool is_swapped) {
  uint16_t number = elf->header.machine;
  if (is_swapped) number = (uint16_t)(number << 8 | number >> 8);
  elf->machine = machine_of(number);
  tn_binary_t *out = elf->out;
  snprintf(out->machine_text, sizeof out->machine_text, "machine number %u", (unsigned)number);
  out->machine = elf->machine ? elf->machine->name : out->machine_text;
  out->is_of_this_machine = number == OWN_MACHINE;
  if (number != OWN_MACHINE)
    tn_binary_offence(
        elf->offences,
        "built for %s, this process is %s: rebuild it with `tenon build` on such a machine",
        out->machine, machine_of(OWN_MACHINE)->name);
}

/* Returns: false if nothing more can be read. */
static bool read_header(elf_t *elf) {
  header_t *header = &elf->header;
  if (!tn_elf_take(elf, 0, header, sizeof *header)) {
    tn_binary_offence(
        elf->offences,
        "truncated: it has %zu bytes, fewer than the header of an ELF file; build or copy it again",
        elf->file->size);
    return false;
  }
  bool is_wide = header->ident[4] == 2;
  bool is_little = header->ident[5] == 1;
  static const char *const formats[2][2] = {
      {"ELF, 32 bits, big-endian", "ELF, 32 bits, little-endian"},
      {"ELF, 64 bits, big-endian", "ELF, 64 bits, little-endian"}};
  elf->out->format = formats[is_wide][is_little];
  check_machine(elf, !is_little);
  if (!is_wide)
    tn_binary_offence(elf->offences, "a file of 32 bits, this process has 64: build it with -m64");
  if (!is_little)
    tn_binary_offence(elf->offences, "a big-endian file, this process is little-endian");
  if (!is_wide || !is_little) return false;
  static const char *const kinds[] = {"file without a type", "object file", "program",
                                      "shared object", "core dump"};
  elf->out->kind = header->type <= TYPE_CORE ? kinds[header->type] : "file of an unknown type";
  if (header->type == TYPE_SHARED) return true;
  if (header->type == TYPE_OBJECT)
    tn_binary_offence(elf->offences,
                      "not a shared library: it is an %s; link it into one (cc -shared)",
                      elf->out->kind);
  else
    tn_binary_offence(elf->offences,
                      "not a shared library: it is a %s; build it with -shared -fPIC",
                      elf->out->kind);
  return false;
}

/* Checks that every part that the system's loader would map lies in the file. Otherwise the loader
 * would crash the process. */
static bool read_segments(elf_t *elf) {
  header_t *header = &elf->header;
  segment_t segment;
  segment_t dynamic = {0};
  uint64_t end = header->section_count ? header->sections_at : 0;
  uint64_t size = elf->file->size;
  part_t segments = {header->segments_at, (uint64_t)header->segment_count * sizeof segment};
  if (header->segment_count == 0 || header->segment_size != sizeof segment ||
      !tn_elf_inside(elf, segments.offset, segments.size)) {
    tn_binary_offence(elf->offences,
                      "damaged or truncated: its table of segments is not within the file's %llu "
                      "bytes; build or copy it again",
                      (unsigned long long)size);
    return false;
  }
  if (end > UINT64_MAX - (uint64_t)header->section_count * sizeof(section_t))
    end = UINT64_MAX;
  else
    end += (uint64_t)header->section_count * sizeof(section_t);
  for (uint64_t i = 0; tn_elf_item(elf, segments, i, &segment, sizeof segment); i++) {
    if (segment.type != SEGMENT_LOAD && segment.type != SEGMENT_DYNAMIC) continue;
    bool overflows = segment.file_size > UINT64_MAX - segment.offset;
    uint64_t segment_end = overflows ? UINT64_MAX : segment.offset + segment.file_size;
    if (segment_end > end) end = segment_end;
    if (segment.type == SEGMENT_DYNAMIC) dynamic = segment;
  }
  if (end > size) {
    tn_binary_offence(elf->offences,
                      "truncated: its parts end at byte %llu, but the file has %llu bytes; build "
                      "or copy it again",
                      (unsigned long long)end, (unsigned long long)size);
    return false;
  }
  if (dynamic.file_size == 0 ||
      !tn_elf_mapped(elf, dynamic.address, dynamic.file_size, &elf->dynamic)) {
    tn_binary_offence(elf->offences,
                      "not a shared library: it has no dynamic section; link it with -shared");
    return false;
  }
  return true;
}

/* Finds the symbols for people (.symtab) and the section .init. A file without section headers is
 * valid. */
static void read_sections(elf_t *elf) {
  const header_t *header = &elf->header;
  section_t section, names;
  part_t sections = {header->sections_at, (uint64_t)header->section_count * sizeof section};
  if (header->section_size != sizeof section ||
      !tn_elf_item(elf, sections, header->section_names, &names, sizeof names))
    return;
  part_t strings = tn_elf_texts(
      elf, (part_t){names.offset, tn_elf_inside(elf, names.offset, names.size) ? names.size : 0});
  for (uint64_t i = 0; tn_elf_item(elf, sections, i, &section, sizeof section); i++) {
    const char *name = tn_elf_text(elf, strings, section.name);
    if (name && !strcmp(name, ".init")) {
      elf->init_code = section.address;
      elf->init_code_size = section.size;
    }
    if (section.type != SECTION_SYMBOLS || !tn_elf_inside(elf, section.offset, section.size))
      continue;
    if (!tn_elf_item(elf, sections, section.link, &names, sizeof names) ||
        !tn_elf_inside(elf, names.offset, names.size))
      continue;
    elf->names = (part_t){section.offset, section.size};
    elf->name_strings = tn_elf_texts(elf, (part_t){names.offset, names.size});
  }
}

/* Counts the symbols. Their number is not stored; like the system's loader, this function derives
 * it from a hash table. */
static uint64_t count_symbols(const elf_t *elf) {
  uint32_t words[4];
  uint32_t last = 0;
  uint32_t link;
  part_t hash = tn_elf_table(elf, TAG_HASH, 8, "hash table");
  part_t gnu = tn_elf_table(elf, TAG_GNU_HASH, sizeof words, "hash table");
  if (hash.size && tn_elf_take(elf, hash.offset, words, 8)) return words[1];
  if (!gnu.size || !tn_elf_take(elf, gnu.offset, words, sizeof words)) return 0;
  /* The GNU hash table has four words (buckets, first symbol, words of the Bloom filter, shift),
   * then the filter, the buckets and the chains. */
  uint64_t buckets = gnu.offset + sizeof words + (uint64_t)words[2] * 8;
  uint64_t chains = buckets + (uint64_t)words[0] * 4;
  if (!tn_elf_inside(elf, buckets, (uint64_t)words[0] * 4)) return 0;
  for (uint32_t i = 0; i < words[0]; i++)
    if (tn_elf_take(elf, buckets + (uint64_t)i * 4, &link, sizeof link) && link > last) last = link;
  if (last < words[1]) return words[1];
  /* The chain of the last bucket ends with the last symbol, whose low bit is set. */
  do {
    if (!tn_elf_take(elf, chains + ((uint64_t)last - words[1]) * 4, &link, sizeof link)) return 0;
    last++;
  } while (!(link & 1) && last);
  return last;
}

/* Returns: false if the file is a program. */
static bool read_dynamic(elf_t *elf) {
  dynamic_t entry;
  for (uint64_t i = 0; tn_elf_item(elf, elf->dynamic, i, &entry, sizeof entry) && entry.tag; i++) {
    int64_t tag = entry.tag;
    if (tag == RAW_GNU_HASH) tag = TAG_GNU_HASH;
    if (tag == RAW_FLAGS) tag = TAG_FLAGS;
    if (tag > 0 && tag < TAGS) elf->tags[tag] = entry.value;
  }
  if (elf->tags[TAG_FLAGS] & FLAG_PROGRAM) {
    elf->out->kind = "program";
    tn_binary_offence(
        elf->offences,
        "not a shared library: it is a position-independent program; build it with -shared -fPIC");
    return false;
  }
  if (elf->tags[TAG_FLAGS] & FLAG_NEVER_UNLOAD)
    tn_elf_remember(&elf->out->pins, "its flag NODELETE");
  elf->strings = tn_elf_texts(
      elf, tn_elf_table(elf, TAG_STRINGS, elf->tags[TAG_STRINGS_SIZE], "string table"));
  uint64_t count = count_symbols(elf);
  elf->symbols = tn_elf_table(elf, TAG_SYMBOLS, count * sizeof(symbol_t), "symbol table");
  return true;
}

bool tn_elf_open(elf_t *elf) {
  if (!read_header(elf) || !read_segments(elf)) return false;
  read_sections(elf);
  return read_dynamic(elf);
}
