/* The ELF reader for 64-bit little-endian shared objects. Like the system's loader it relies on
 * segments and the dynamic section; section headers are used only to name functions. Called by
 * tn_binary_read. The invariant of elf_file.c holds here, too. */
#include "loader/elf.h"

#include <string.h>

#include "loader/elf_file.h"

/* Initialisers that gcc, clang and their run-time libraries add to a file. They touch only their
 * own tables. A name alone is not believed: see is_of_compiler. */
static const char *const compiler_initialisers[] = {"frame_dummy", "__do_init",
                                                    "__cpu_indicator_init", "init_have_lse_atomics",
                                                    "__init_cpu_features"};
/* Symbols that linkers export. */
static const char *const linker_symbols[] = {"_init", "_fini",   "__bss_start", "_edata",
                                             "_end",  "__end__", "__bss_end__"};

static bool is_listed(const char *name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(name, list[i])) return true;
  return false;
}

/* Returns: a text of the dynamic section, or "" if it is absent or invalid. */
static const char *tag_text(const elf_t *elf, int tag) {
  const char *found = elf->tags[tag] ? tn_elf_text(elf, elf->strings, elf->tags[tag]) : NULL;
  return found ? found : "";
}

/* Returns: the list to which an entry of the dynamic section adds a name, or NULL. */
static tn_names_t *names_of_tag(tn_binary_t *out, int64_t tag) {
  switch (tag) {
  case TAG_NEEDED:
  case RAW_FILTER:
    return &out->needed;
  case RAW_AUXILIARY:
    return &out->auxiliary;
  case RAW_AUDIT:
  case RAW_DEPENDENT_AUDIT:
  case RAW_CONFIG:
    return &out->audits;
  default:
    return NULL;
  }
}

static void read_needed(elf_t *elf) {
  dynamic_t entry;
  tn_binary_t *out = elf->out;
  for (uint64_t i = 0; tn_elf_item(elf, elf->dynamic, i, &entry, sizeof entry) && entry.tag; i++) {
    tn_names_t *names = names_of_tag(out, entry.tag);
    if (!names) continue;
    const char *name = tn_elf_text(elf, elf->strings, entry.value);
    if (!name) {
      tn_binary_offence(elf->offences,
                        "damaged: the name of a needed library is not in its string table");
      continue;
    }
    tn_elf_remember(names, name);
    const char *slash = strrchr(name, '/');
    if (strncmp(slash ? slash + 1 : name, "libtenon.", 9) == 0) out->tenon = name;
  }
  out->name = tag_text(elf, TAG_NAME);
  out->is_run_path_first = elf->tags[TAG_RPATH] && !elf->tags[TAG_RUNPATH];
  out->run_path = tag_text(elf, out->is_run_path_first ? TAG_RPATH : TAG_RUNPATH);
}

/* Explains, as far as the file shows, why the entry function is missing. */
static void explain_entry(elf_t *elf, const symbol_t *entry) {
  symbol_t symbol;
  const char *name;
  const char *reason = "write TENON_LIBRARY(name, version, ...) in one of its source files";
  if (entry && (entry->info & 15) != IS_FUNCTION) {
    tn_binary_offence(elf->offences,
                      "its symbol " TN_ENTRY " is not a function; let TENON_LIBRARY() define it");
    return;
  }
  for (uint64_t i = 0; i < elf->out->exports.count && i < TN_LISTED; i++)
    if (!strncmp(elf->out->exports.names[i], TN_ENTRY "_", strlen(TN_ENTRY "_")))
      reason =
          "it exports the entry of a statically linked library; build it without -DTENON_STATIC";
  for (uint64_t i = 0; tn_elf_item(elf, elf->names, i, &symbol, sizeof symbol); i++)
    if (symbol.section && (name = tn_elf_text(elf, elf->name_strings, symbol.name)) &&
        !strcmp(name, TN_ENTRY))
      reason = "the function exists but is hidden; link without a version script or visibility "
               "option that hides it";
  elf->out->no_entry = reason;
}

/* Returns: the name of a symbol that the file exports, or NULL. */
static const char *exported_name(const elf_t *elf, const symbol_t *symbol) {
  uint8_t bind = symbol->info >> 4;
  uint8_t visibility = symbol->other & 3;
  bool is_exported = (bind == BIND_GLOBAL || bind == BIND_WEAK || bind == BIND_UNIQUE) &&
                     (visibility == 0 || visibility == 3) && symbol->section &&
                     symbol->section != SECTION_ABSOLUTE;
  return is_exported ? tn_elf_text(elf, elf->strings, symbol->name) : NULL;
}

static void read_symbols(elf_t *elf) {
  symbol_t symbol, entry;
  bool is_seen = false;
  for (uint64_t i = 1; tn_elf_item(elf, elf->symbols, i, &symbol, sizeof symbol); i++) {
    const char *name = exported_name(elf, &symbol);
    if (!name) continue;
    if (symbol.info >> 4 == BIND_UNIQUE) tn_elf_remember(&elf->out->pins, name);
    if (!strcmp(name, TN_ENTRY)) {
      is_seen = true;
      entry = symbol;
      elf->out->has_entry = (symbol.info & 15) == IS_FUNCTION;
    } else if (!is_listed(name, linker_symbols, sizeof linker_symbols / sizeof *linker_symbols)) {
      tn_elf_remember(&elf->out->exports, name);
    }
  }
  if (!elf->out->has_entry) explain_entry(elf, is_seen ? &entry : NULL);
}

typedef struct initialisers_t { /* functions of DT_INIT_ARRAY */
  uint64_t count;
  uint64_t known; /* valid entries at the start of `addresses` */
  uint64_t addresses[TN_LISTED];
} initialisers_t;

static void add_initialiser(elf_t *elf, const char *name, uint64_t count, const char *reason) {
  if (elf->out->initialiser_count == TN_LISTED) return;
  elf->out->initialisers[elf->out->initialiser_count++] = (tn_initialiser_t){name, count, reason};
}

/* Reads relocations once: counts resolver functions that opening calls, and finds the functions
 * that the relocations store in the array. */
static uint64_t read_relocations(const elf_t *elf, part_t part, initialisers_t *initialisers) {
  uint64_t resolvers = 0;
  uint64_t array = elf->tags[TAG_INIT_ARRAY];
  relocation_t relocation;
  symbol_t symbol;
  for (uint64_t i = 0; tn_elf_item(elf, part, i, &relocation, sizeof relocation); i++) {
    uint32_t type = (uint32_t)relocation.info;
    uint64_t number = relocation.info >> 32;
    uint64_t place = (relocation.address - array) / 8;
    if (elf->machine && elf->machine->resolver == type && type) resolvers++;
    if (relocation.address < array || place >= initialisers->known) continue;
    symbol.value = 0;
    if (number && !tn_elf_item(elf, elf->symbols, number, &symbol, sizeof symbol)) continue;
    initialisers->addresses[place] = symbol.value + (uint64_t)relocation.addend;
  }
  return resolvers;
}

/* Whether the symbol is one of the compiler's own start files. A file lists its local symbols after
 * the name of their source, and the compiler builds its start files without sizes of functions, so
 * a function that somebody merely called frame_dummy is told apart. */
static bool is_of_compiler(const char *source, const char *name, const symbol_t *symbol) {
  static const char *const sources[] = {"crtstuff.c",  "crtbegin.c", "cpuinfo.c", "lse-init.c",
                                        "cpu_model.c", "x86.c",      "aarch64.c", ""};
  bool has_size = strcmp(name, "frame_dummy") == 0 && symbol->size != 0;
  return is_listed(source, sources, sizeof sources / sizeof *sources) && !has_size &&
         is_listed(name, compiler_initialisers,
                   sizeof compiler_initialisers / sizeof *compiler_initialisers);
}

/* Returns: the name of the function at an address, or NULL. */
static const char *function_at(const elf_t *elf, uint64_t address, bool *out_is_of_compiler) {
  symbol_t symbol;
  const char *source = NULL;
  for (uint64_t i = 0; tn_elf_item(elf, elf->names, i, &symbol, sizeof symbol); i++) {
    const char *name = tn_elf_text(elf, elf->name_strings, symbol.name);
    if ((symbol.info & 15) == IS_SOURCE) source = name;
    if ((symbol.info & 15) != IS_FUNCTION || !symbol.section || symbol.value != address) continue;
    *out_is_of_compiler = source && name && is_of_compiler(source, name, &symbol);
    return name;
  }
  *out_is_of_compiler = false;
  return NULL;
}

/* Whether the bytes at an address are those of a pattern; -1 stands for any byte. */
static bool has_code(const elf_t *elf, uint64_t address, const int16_t *pattern, size_t size) {
  part_t part;
  if (!tn_elf_mapped(elf, address, size, &part)) return false;
  for (size_t i = 0; i < size; i++)
    if (pattern[i] >= 0 && elf->file->data[part.offset + i] != pattern[i]) return false;
  return true;
}

#define HAS_CODE(elf, address, pattern)                                                            \
  has_code(elf, address, pattern, sizeof pattern / sizeof *pattern)

/* Returns: the address after an instruction that marks the target of an indirect jump. */
static uint64_t skip_mark(const elf_t *elf, uint64_t address) {
  static const int16_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
  return HAS_CODE(elf, address, mark) ? address + 4 : address;
}

/* Whether an initialiser of a stripped file is the compiler's frame_dummy: a jump to the function
 * that registers transactional clones. Other machines than x86-64 are not looked at. */
static bool is_frame_dummy(const elf_t *elf, uint64_t address) {
  static const int16_t jump[] = {0xe9, -1, -1, -1, -1};
  static const int16_t clones[] = {0x48, 0x8d, 0x3d, -1,   -1,   -1,   -1,   0x48, 0x8d, 0x35,
                                   -1,   -1,   -1,   -1,   0x48, 0x29, 0xfe, 0x48, 0x89, 0xf0,
                                   0x48, 0xc1, 0xee, 0x3f, 0x48, 0xc1, 0xf8, 0x03, 0x48, 0x01,
                                   0xc6, 0x48, 0xd1, 0xfe, 0x74, 0x14, 0x48, 0x8b, 0x05};
  part_t part;
  int32_t distance;
  if (elf->header.machine != MACHINE_X86_64) return true;
  address = skip_mark(elf, address);
  if (!HAS_CODE(elf, address, jump) || !tn_elf_mapped(elf, address + 1, 4, &part)) return false;
  memcpy(&distance, elf->file->data + part.offset, sizeof distance);
  return HAS_CODE(elf, address + 5 + (uint64_t)(int64_t)distance, clones);
}

/* Whether .init holds what the C library's start files put there: a call of __gmon_start__ if there
 * is one (glibc), or nothing (musl). Other machines than x86-64 are believed by the size. */
static bool is_plain_init(const elf_t *elf, uint64_t address) {
  static const int16_t glibc[] = {0x48, 0x83, 0xec, 0x08, 0x48, 0x8b, 0x05, -1,
                                  -1,   -1,   -1,   0x48, 0x85, 0xc0, 0x74, 0x02,
                                  0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};
  static const int16_t musl[] = {0x50, 0x58, 0xc3};
  if (elf->header.machine != MACHINE_X86_64) return true;
  address = skip_mark(elf, address);
  return HAS_CODE(elf, address, glibc) || HAS_CODE(elf, address, musl);
}

/* gcc and clang add one entry of their own (frame_dummy of crtbegin) if they put code into
 * .init. */
static void read_array(elf_t *elf, const initialisers_t *initialisers) {
  static const char reason[] = "DT_INIT_ARRAY";
  uint64_t unnamed = initialisers->count - initialisers->known;
  uint64_t own = 0;
  for (uint64_t i = 0; i < initialisers->known; i++) {
    bool is_own;
    const char *name = function_at(elf, initialisers->addresses[i], &is_own);
    if (!name)
      unnamed++;
    else if (is_own)
      own++;
    else
      add_initialiser(elf, name, 1, reason);
  }
  bool is_stripped = elf->names.size == 0 && elf->tags[TAG_INIT];
  if (unnamed && !own && is_stripped && initialisers->known &&
      is_frame_dummy(elf, initialisers->addresses[0]))
    unnamed--;
  if (unnamed) add_initialiser(elf, NULL, unnamed, reason);
}

static void read_initialisers(elf_t *elf) {
  initialisers_t initialisers = {0};
  part_t rela = tn_elf_table(elf, TAG_RELA, elf->tags[TAG_RELA_SIZE], "relocation table");
  part_t plt = tn_elf_table(elf, TAG_PLT, elf->tags[TAG_PLT_SIZE], "relocation table of calls");
  part_t array =
      tn_elf_table(elf, TAG_INIT_ARRAY, elf->tags[TAG_INIT_SIZE], "list of initialisers");
  initialisers.count = array.size / 8;
  while (initialisers.known < TN_LISTED &&
         tn_elf_item(elf, array, initialisers.known, &initialisers.addresses[initialisers.known],
                     sizeof *initialisers.addresses))
    initialisers.known++;
  uint64_t resolvers =
      read_relocations(elf, rela, &initialisers) + read_relocations(elf, plt, &initialisers);
  symbol_t symbol;
  for (uint64_t i = 1; tn_elf_item(elf, elf->symbols, i, &symbol, sizeof symbol); i++)
    resolvers += symbol.section && (symbol.info & 15) == IS_RESOLVED;
  uint64_t code = elf->tags[TAG_INIT];
  bool ignored;
  if (code && (code != elf->init_code || !elf->machine ||
               elf->init_code_size > elf->machine->init_size || !is_plain_init(elf, code)))
    add_initialiser(elf, function_at(elf, code, &ignored), 1,
                    elf->init_code ? "DT_INIT" : "DT_INIT (no section headers show whose it is)");
  read_array(elf, &initialisers);
  if (resolvers) add_initialiser(elf, NULL, resolvers, "GNU_IFUNC");
}

void tn_elf_read(const tn_file_t *file, tn_binary_t *out_binary, tn_text_t *offences) {
  elf_t elf = {.file = file, .out = out_binary, .offences = offences};
  if (!tn_elf_open(&elf)) return;
  read_needed(&elf);
  read_symbols(&elf);
  read_initialisers(&elf);
  tn_elf_requirements(&elf);
}

bool tn_elf_exports(const tn_file_t *file, const char *name, bool is_prefix) {
  const size_t size = strlen(name) + !is_prefix;
  tn_binary_t ignored = {.format = ""};
  tn_text_t offences = {0};
  symbol_t symbol;
  bool is_found = false;
  elf_t elf = {.file = file, .out = &ignored, .offences = &offences};
  if (tn_elf_open(&elf))
    for (uint64_t i = 1; !is_found && tn_elf_item(&elf, elf.symbols, i, &symbol, sizeof symbol);
         i++) {
      const char *own = exported_name(&elf, &symbol);
      is_found = own && !strncmp(own, name, size);
    }
  tn_text_clear(&offences);
  return is_found;
}
