/* The ELF reader: 64-bit little-endian shared objects, as the system's loader sees them (segments and the dynamic
 * section); section headers serve only to name functions.  Called by tn_binary_read. Invariant: every byte of the file
 * is reached through take(), which knows the file's size; loops are bounded by it. */
#include <stdio.h>
#include <string.h>

#include "loader/binary.h"
#include "loader/elf.h"

typedef struct machine_t {
  uint16_t number;
  const char *name;
  uint32_t resolver;  /* relocation that calls a function at opening (IRELATIVE) */
  uint32_t init_size; /* most bytes that the compiler's start files put into .init: more is code of others */
} machine_t;

/* clang-format off */
static const machine_t machines[] = {
  {62, "x86-64", 37, 27}, {183, "aarch64", 1032, 28}, {243, "riscv", 58, 64}, {21, "powerpc64", 248, 96},
  {22, "s390x", 61, 96}, {258, "loongarch", 12, 64}, {3, "x86 (32 bits)", 42, 64}, {40, "arm (32 bits)", 160, 64},
  {8, "mips", 0, 96}, {2, "sparc (32 bits)", 0, 64}, {43, "sparc64", 249, 64}, {20, "powerpc (32 bits)", 248, 96},
};
/* clang-format on */

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

/* Initialisers that gcc, clang and their run-time libraries put into a file; they touch only their own tables. */
static const char *const compiler_starters[] = {"frame_dummy", "__do_init", "__cpu_indicator_init",
                                                "init_have_lse_atomics", "__init_cpu_features"};
/* Exported by linkers. */
static const char *const linker_symbols[] = {"_init", "_fini",   "__bss_start", "_edata",
                                             "_end",  "__end__", "__bss_end__"};

/* ---- reading without trust ------------------------------------------------------------------------------------ */

typedef struct part_t { /* a part of the file, known to lie in it */
  uint64_t offset, size;
} part_t;

typedef struct elf_t {
  const tn_file_t *file;
  header_t header;
  const machine_t *machine;
  uint64_t tags[TAGS];
  part_t dynamic, strings, symbols;
  part_t names, name_strings;         /* symbols for people (.symtab), size 0 when stripped */
  uint64_t init_code, init_code_size; /* section .init */
  tn_binary_t *out;
  tn_text_t *offences;
} elf_t;

static bool inside(const elf_t *elf, uint64_t offset, uint64_t size) {
  return offset <= elf->file->size && size <= elf->file->size - offset;
}

static bool take(const elf_t *elf, uint64_t offset, void *out, size_t size) {
  if (!inside(elf, offset, size)) return false;
  memcpy(out, elf->file->data + offset, size);
  return true;
}

/* The i-th item of a part; false past its end. */
static bool item(const elf_t *elf, part_t part, uint64_t i, void *out, size_t size) {
  return i < part.size / size && take(elf, part.offset + i * size, out, size);
}

/* A string table without what follows its last terminator, so that every text in it ends inside. */
static part_t texts(const elf_t *elf, part_t part) {
  while (part.size && elf->file->data[part.offset + part.size - 1]) part.size--;
  return part;
}

static const char *text(const elf_t *elf, part_t strings, uint64_t offset) { /* NULL: not in the table */
  return offset < strings.size ? (const char *)elf->file->data + strings.offset + offset : NULL;
}

static void remember(tn_names_t *names, const char *name) {
  if (names->count < TN_LISTED) names->names[names->count] = name;
  names->count++;
}

static bool is_listed(const char *name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(name, list[i])) return true;
  return false;
}

/* The part of the file that is mapped to an address; false when no segment holds all of it. */
static bool mapped(const elf_t *elf, uint64_t address, uint64_t size, part_t *out) {
  segment_t segment;
  part_t segments = {elf->header.segments_at, (uint64_t)elf->header.segment_count * sizeof segment};
  for (uint64_t i = 0; item(elf, segments, i, &segment, sizeof segment); i++) {
    if (segment.type != SEGMENT_LOAD || address < segment.address) continue;
    uint64_t skip = address - segment.address;
    if (skip > segment.file_size || size > segment.file_size - skip) continue;
    *out = (part_t){segment.offset + skip, size}; /* the segment was found to lie in the file */
    return true;
  }
  return false;
}

/* The same for a table of the dynamic section: absent tables are empty, bad ones an offence. */
static part_t table(const elf_t *elf, int tag, uint64_t size, const char *what) {
  part_t part = {0, 0};
  uint64_t address = elf->tags[tag];
  if (size == 0 || address == 0) return part;
  if (!mapped(elf, address, size, &part))
    tn_binary_offence(elf->offences,
                      "damaged: its %s (%llu bytes at address 0x%llx) is in no part of the file that is loaded; "
                      "build or copy it again",
                      what, (unsigned long long)size, (unsigned long long)address);
  return part;
}

/* ---- the header ----------------------------------------------------------------------------------------------- */

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
  if (number != OWN_MACHINE)
    tn_binary_offence(elf->offences,
                      "built for %s, this process is %s: rebuild it with `tenon build` on such a machine", out->machine,
                      machine_of(OWN_MACHINE)->name);
}

/* False when nothing more can be read. */
static bool read_header(elf_t *elf) {
  header_t *header = &elf->header;
  if (!take(elf, 0, header, sizeof *header)) {
    tn_binary_offence(elf->offences,
                      "truncated: it has %zu bytes, less than the header of an ELF file; build or copy it again",
                      elf->file->size);
    return false;
  }
  bool is_wide = header->ident[4] == 2, is_little = header->ident[5] == 1;
  elf->out->format = is_wide     ? is_little ? "ELF, 64 bits, little-endian" : "ELF, 64 bits, big-endian"
                     : is_little ? "ELF, 32 bits, little-endian"
                                 : "ELF, 32 bits, big-endian";
  check_machine(elf, !is_little);
  if (!is_wide) tn_binary_offence(elf->offences, "a file of 32 bits, this process has 64: build it with -m64");
  if (!is_little) tn_binary_offence(elf->offences, "a big-endian file, this process is little-endian");
  if (!is_wide || !is_little) return false;
  static const char *const kinds[] = {"file without a kind", "object file", "program", "shared object", "core dump"};
  elf->out->kind = header->type <= TYPE_CORE ? kinds[header->type] : "file of a kind of its own";
  if (header->type == TYPE_SHARED) return true;
  tn_binary_offence(elf->offences, "no shared library: it is a%s %s; %s", header->type == TYPE_OBJECT ? "n" : "",
                    elf->out->kind,
                    header->type == TYPE_OBJECT ? "link it into one (cc -shared)" : "build it with -shared -fPIC");
  return false;
}

/* Every part that the system's loader would map must be in the file: it would crash the process otherwise. */
static bool read_segments(elf_t *elf) {
  header_t *header = &elf->header;
  segment_t segment, dynamic = {0};
  uint64_t end = header->section_count ? header->sections_at : 0, size = elf->file->size;
  part_t segments = {header->segments_at, (uint64_t)header->segment_count * sizeof segment};
  if (header->segment_count == 0 || header->segment_size != sizeof segment ||
      !inside(elf, segments.offset, segments.size)) {
    tn_binary_offence(elf->offences,
                      "damaged or truncated: its table of segments is not in the file's %llu bytes; build or "
                      "copy it again",
                      (unsigned long long)size);
    return false;
  }
  if (end > UINT64_MAX - (uint64_t)header->section_count * sizeof(section_t)) end = UINT64_MAX;
  else end += (uint64_t)header->section_count * sizeof(section_t);
  for (uint64_t i = 0; item(elf, segments, i, &segment, sizeof segment); i++) {
    if (segment.type != SEGMENT_LOAD && segment.type != SEGMENT_DYNAMIC) continue;
    bool overflows = segment.file_size > UINT64_MAX - segment.offset;
    uint64_t segment_end = overflows ? UINT64_MAX : segment.offset + segment.file_size;
    if (segment_end > end) end = segment_end;
    if (segment.type == SEGMENT_DYNAMIC) dynamic = segment;
  }
  if (end > size) {
    tn_binary_offence(elf->offences, "truncated: its parts end at byte %llu, the file has %llu; build or copy it again",
                      (unsigned long long)end, (unsigned long long)size);
    return false;
  }
  if (dynamic.file_size == 0 || !mapped(elf, dynamic.address, dynamic.file_size, &elf->dynamic)) {
    tn_binary_offence(elf->offences, "no shared library: it has no dynamic section; link it with -shared");
    return false;
  }
  return true;
}

/* Symbols for people, and where .init is.  A file without section headers is fine. */
static void read_sections(elf_t *elf) {
  const header_t *header = &elf->header;
  section_t section, names;
  part_t sections = {header->sections_at, (uint64_t)header->section_count * sizeof section};
  if (header->section_size != sizeof section || !item(elf, sections, header->section_names, &names, sizeof names))
    return;
  part_t strings = texts(elf, (part_t){names.offset, inside(elf, names.offset, names.size) ? names.size : 0});
  for (uint64_t i = 0; item(elf, sections, i, &section, sizeof section); i++) {
    const char *name = text(elf, strings, section.name);
    if (name && !strcmp(name, ".init")) elf->init_code = section.address, elf->init_code_size = section.size;
    if (section.type != SECTION_SYMBOLS || !inside(elf, section.offset, section.size)) continue;
    if (!item(elf, sections, section.link, &names, sizeof names) || !inside(elf, names.offset, names.size)) continue;
    elf->names = (part_t){section.offset, section.size};
    elf->name_strings = texts(elf, (part_t){names.offset, names.size});
  }
}

/* ---- the dynamic section -------------------------------------------------------------------------------------- */

/* Symbols are not counted anywhere: the hash tables tell, as they do the system's loader. */
static uint64_t count_symbols(const elf_t *elf) {
  uint32_t words[4], last = 0, link;
  part_t hash = table(elf, TAG_HASH, 8, "hash table"), gnu = table(elf, TAG_GNU_HASH, sizeof words, "hash table");
  if (hash.size && take(elf, hash.offset, words, 8)) return words[1];
  if (!gnu.size || !take(elf, gnu.offset, words, sizeof words)) return 0;
  /* buckets, first symbol, words of the Bloom filter, shift; then the filter, the buckets, the chains */
  uint64_t buckets = gnu.offset + sizeof words + (uint64_t)words[2] * 8, chains = buckets + (uint64_t)words[0] * 4;
  if (!inside(elf, buckets, (uint64_t)words[0] * 4)) return 0;
  for (uint32_t i = 0; i < words[0]; i++)
    if (take(elf, buckets + (uint64_t)i * 4, &link, sizeof link) && link > last) last = link;
  if (last < words[1]) return words[1];
  do { /* the chain of the last bucket ends with the last symbol: its low bit is set */
    if (!take(elf, chains + ((uint64_t)last - words[1]) * 4, &link, sizeof link)) return 0;
    last++;
  } while (!(link & 1) && last);
  return last;
}

/* False when the file turns out to be a program. */
static bool read_dynamic(elf_t *elf) {
  dynamic_t entry;
  for (uint64_t i = 0; item(elf, elf->dynamic, i, &entry, sizeof entry) && entry.tag; i++) {
    int64_t tag = entry.tag == RAW_GNU_HASH ? TAG_GNU_HASH : entry.tag == RAW_FLAGS ? TAG_FLAGS : entry.tag;
    if (tag > 0 && tag < TAGS) elf->tags[tag] = entry.value;
  }
  if (elf->tags[TAG_FLAGS] & FLAG_PROGRAM) {
    elf->out->kind = "program";
    tn_binary_offence(elf->offences,
                      "no shared library: it is a position-independent program; build it with -shared -fPIC");
    return false;
  }
  if (elf->tags[TAG_FLAGS] & FLAG_NEVER_UNLOAD) remember(&elf->out->pins, "its flag NODELETE");
  elf->strings = texts(elf, table(elf, TAG_STRINGS, elf->tags[TAG_STRINGS_SIZE], "table of names"));
  uint64_t count = count_symbols(elf);
  elf->symbols = table(elf, TAG_SYMBOLS, count * sizeof(symbol_t), "table of symbols");
  return true;
}

/* Text of the dynamic section, "" when absent or bad. */
static const char *tag_text(const elf_t *elf, int tag) {
  const char *found = elf->tags[tag] ? text(elf, elf->strings, elf->tags[tag]) : NULL;
  return found ? found : "";
}

static void read_needed(elf_t *elf) {
  dynamic_t entry;
  tn_binary_t *out = elf->out;
  for (uint64_t i = 0; item(elf, elf->dynamic, i, &entry, sizeof entry) && entry.tag; i++) {
    if (entry.tag != TAG_NEEDED) continue;
    const char *name = text(elf, elf->strings, entry.value);
    if (!name) {
      tn_binary_offence(elf->offences, "damaged: the name of a needed library is not in its table of names");
      continue;
    }
    remember(&out->needed, name);
    const char *slash = strrchr(name, '/');
    if (strncmp(slash ? slash + 1 : name, "libtenon.", 9) == 0) out->tenon = name;
  }
  out->name = tag_text(elf, TAG_NAME);
  out->is_run_path_first = elf->tags[TAG_RPATH] && !elf->tags[TAG_RUNPATH];
  out->run_path = tag_text(elf, out->is_run_path_first ? TAG_RPATH : TAG_RUNPATH);
}

/* ---- symbols -------------------------------------------------------------------------------------------------- */

/* Why the entry is not there, as far as the file shows. */
static void explain_entry(elf_t *elf, const symbol_t *entry) {
  symbol_t symbol;
  const char *name, *reason = "write TENON_LIBRARY(name, version, ...) in one of its files";
  if (entry && (entry->info & 15) != IS_FUNCTION) {
    tn_binary_offence(elf->offences, "its symbol " TN_ENTRY " is no function; let TENON_LIBRARY() define it");
    return;
  }
  for (uint64_t i = 0; i < elf->out->exports.count && i < TN_LISTED; i++)
    if (!strncmp(elf->out->exports.names[i], TN_ENTRY "_", strlen(TN_ENTRY "_")))
      reason = "it exports the entry of a linked-in library; build it without -DTENON_STATIC";
  for (uint64_t i = 0; item(elf, elf->names, i, &symbol, sizeof symbol); i++)
    if (symbol.section && (name = text(elf, elf->name_strings, symbol.name)) && !strcmp(name, TN_ENTRY))
      reason = "it is there but hidden; link without a version script or visibility that hides it";
  elf->out->no_entry = reason;
}

/* Name of a symbol that the file exports; NULL: it is none. */
static const char *exported(const elf_t *elf, const symbol_t *symbol) {
  uint8_t bind = symbol->info >> 4, visibility = symbol->other & 3;
  bool is_exported = (bind == BIND_GLOBAL || bind == BIND_WEAK || bind == BIND_UNIQUE) &&
                     (visibility == 0 || visibility == 3) && symbol->section && symbol->section != SECTION_ABSOLUTE;
  return is_exported ? text(elf, elf->strings, symbol->name) : NULL;
}

static void read_symbols(elf_t *elf) {
  symbol_t symbol, entry;
  bool is_seen = false;
  for (uint64_t i = 1; item(elf, elf->symbols, i, &symbol, sizeof symbol); i++) {
    const char *name = exported(elf, &symbol);
    if (!name) continue;
    if (symbol.info >> 4 == BIND_UNIQUE) remember(&elf->out->pins, name);
    if (!strcmp(name, TN_ENTRY)) {
      is_seen = true, entry = symbol;
      elf->out->has_entry = (symbol.info & 15) == IS_FUNCTION;
    } else if (!is_listed(name, linker_symbols, sizeof linker_symbols / sizeof *linker_symbols)) {
      remember(&elf->out->exports, name);
    }
  }
  if (!elf->out->has_entry) explain_entry(elf, is_seen ? &entry : NULL);
}

/* ---- initialisers --------------------------------------------------------------------------------------------- */

typedef struct starters_t { /* functions of DT_INIT_ARRAY */
  uint64_t count, known;    /* known: entries of `addresses`, the first ones */
  uint64_t addresses[TN_LISTED];
} starters_t;

static void add_starter(elf_t *elf, const char *name, uint64_t count, const char *way) {
  if (elf->out->starter_count == TN_LISTED) return;
  elf->out->starters[elf->out->starter_count++] = (tn_starter_t){name, count, way};
}

/* One pass over relocations: resolvers that opening calls, and the functions that it will put into the array. */
static uint64_t read_relocations(const elf_t *elf, part_t part, starters_t *starters) {
  uint64_t resolvers = 0, array = elf->tags[TAG_INIT_ARRAY];
  relocation_t relocation;
  symbol_t symbol;
  for (uint64_t i = 0; item(elf, part, i, &relocation, sizeof relocation); i++) {
    uint32_t type = (uint32_t)relocation.info;
    uint64_t number = relocation.info >> 32, place = (relocation.address - array) / 8;
    if (elf->machine && elf->machine->resolver == type && type) resolvers++;
    if (relocation.address < array || place >= starters->known) continue;
    symbol.value = 0;
    if (number && !item(elf, elf->symbols, number, &symbol, sizeof symbol)) continue;
    starters->addresses[place] = symbol.value + (uint64_t)relocation.addend;
  }
  return resolvers;
}

static const char *function_at(const elf_t *elf, uint64_t address) { /* NULL: no name */
  symbol_t symbol;
  for (uint64_t i = 0; item(elf, elf->names, i, &symbol, sizeof symbol); i++)
    if ((symbol.info & 15) == IS_FUNCTION && symbol.section && symbol.value == address)
      return text(elf, elf->name_strings, symbol.name);
  return NULL;
}

/* gcc and clang put one entry of their own there (frame_dummy of crtbegin) when they put code into .init. */
static void read_array(elf_t *elf, const starters_t *starters) {
  static const char way[] = "DT_INIT_ARRAY";
  uint64_t unnamed = starters->count - starters->known, own = 0;
  for (uint64_t i = 0; i < starters->known; i++) {
    const char *name = function_at(elf, starters->addresses[i]);
    if (!name) unnamed++;
    else if (is_listed(name, compiler_starters, sizeof compiler_starters / sizeof *compiler_starters)) own++;
    else add_starter(elf, name, 1, way);
  }
  if (unnamed && !own && elf->names.size == 0 && elf->tags[TAG_INIT]) unnamed--;
  if (unnamed) add_starter(elf, NULL, unnamed, way);
}

static void read_starters(elf_t *elf) {
  starters_t starters = {0};
  part_t rela = table(elf, TAG_RELA, elf->tags[TAG_RELA_SIZE], "table of relocations");
  part_t plt = table(elf, TAG_PLT, elf->tags[TAG_PLT_SIZE], "table of relocations of calls");
  part_t array = table(elf, TAG_INIT_ARRAY, elf->tags[TAG_INIT_SIZE], "list of initialisers");
  starters.count = array.size / 8;
  while (starters.known < TN_LISTED &&
         item(elf, array, starters.known, &starters.addresses[starters.known], sizeof *starters.addresses))
    starters.known++;
  uint64_t resolvers = read_relocations(elf, rela, &starters) + read_relocations(elf, plt, &starters);
  symbol_t symbol;
  for (uint64_t i = 1; item(elf, elf->symbols, i, &symbol, sizeof symbol); i++)
    resolvers += symbol.section && (symbol.info & 15) == IS_RESOLVED;
  uint64_t code = elf->tags[TAG_INIT];
  if (code && (code != elf->init_code || !elf->machine || elf->init_code_size > elf->machine->init_size))
    add_starter(elf, function_at(elf, code), 1,
                elf->init_code ? "DT_INIT" : "DT_INIT (no section headers that show whose it is)");
  read_array(elf, &starters);
  if (resolvers) add_starter(elf, NULL, resolvers, "GNU_IFUNC");
}

void tn_elf_read(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences) {
  elf_t elf = {.file = file, .out = out_binary, .offences = offences};
  if (!read_header(&elf) || !read_segments(&elf)) return;
  read_sections(&elf);
  if (!read_dynamic(&elf)) return;
  read_needed(&elf);
  read_symbols(&elf);
  read_starters(&elf);
}

bool tn_elf_exports(const tn_file_t *file, const char *name) {
  tn_binary_t ignored = {.format = ""};
  tn_text_t offences = {0};
  symbol_t symbol;
  bool is_found = false;
  elf_t elf = {.file = file, .out = &ignored, .offences = &offences};
  if (read_header(&elf) && read_segments(&elf) && read_dynamic(&elf))
    for (uint64_t i = 1; !is_found && item(&elf, elf.symbols, i, &symbol, sizeof symbol); i++) {
      const char *own = exported(&elf, &symbol);
      is_found = own && !strcmp(own, name);
    }
  tn_text_clear(&offences);
  return is_found;
}
