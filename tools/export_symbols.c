/* Renames dynamic symbols of an ELF file; see export_symbols.h. The names are changed where they
 * stand, since every one has room for a longer name, and the table by which the system's loader
 * finds names (DT_HASH) is filled again. Nothing else refers to the names. */
#include "export_symbols.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct symbols_t {
  text_t *bytes;
  Elf64_Sym *symbols;
  char *names;
  uint32_t *hash; /* the numbers of buckets and of symbols, then the buckets, then the chains */
} symbols_t;

/* Returns the place in the file of an address of the library; NULL: the file has none. */
static void *at_address(const text_t *bytes, uint64_t address) {
  const Elf64_Ehdr *header = (void *)bytes->data;
  const Elf64_Phdr *parts = (void *)(bytes->data + header->e_phoff);
  for (int i = 0; i < header->e_phnum; i++) {
    const Elf64_Phdr *part = &parts[i];
    const bool is_in = part->p_type == PT_LOAD && address >= part->p_vaddr &&
                       address - part->p_vaddr < part->p_filesz;
    const uint64_t offset = address - part->p_vaddr + part->p_offset;
    if (is_in && offset < bytes->size) return bytes->data + offset;
  }
  return NULL;
}

static bool find_symbols(symbols_t *s) {
  const Elf64_Ehdr *header = (void *)s->bytes->data;
  if (s->bytes->size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_phoff + (uint64_t)header->e_phnum * sizeof(Elf64_Phdr) > s->bytes->size)
    return false;
  const Elf64_Phdr *parts = (void *)(s->bytes->data + header->e_phoff);
  const Elf64_Dyn *entry = NULL;
  for (int i = 0; i < header->e_phnum; i++)
    if (parts[i].p_type == PT_DYNAMIC) entry = at_address(s->bytes, parts[i].p_vaddr);
  for (; entry && entry->d_tag != DT_NULL; entry++) {
    void *place = at_address(s->bytes, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) s->symbols = place;
    if (entry->d_tag == DT_STRTAB) s->names = place;
    if (entry->d_tag == DT_HASH) s->hash = place;
  }
  return s->symbols && s->names && s->hash;
}

/* The hash of the System V ABI. */
static uint32_t hash_of(const char *name) {
  uint32_t hash = 0;
  for (; *name; name++) {
    hash = (hash << 4) + (unsigned char)*name;
    const uint32_t high = hash & 0xf0000000u;
    hash ^= high >> 24;
    hash &= ~high;
  }
  return hash;
}

static void fill_hash(const symbols_t *s) {
  const uint32_t bucket_count = s->hash[0];
  const uint32_t count = s->hash[1];
  uint32_t *buckets = s->hash + 2;
  uint32_t *chains = buckets + bucket_count;
  memset(buckets, 0, (bucket_count + (size_t)count) * sizeof *buckets);
  for (uint32_t i = 1; i < count; i++) {
    if (s->symbols[i].st_shndx == SHN_UNDEF) continue;
    uint32_t *bucket = &buckets[hash_of(s->names + s->symbols[i].st_name) % bucket_count];
    chains[i] = *bucket;
    *bucket = i;
  }
}

/* Returns the number of the slot whose symbol has this name, or -1; `out_name` is where the name of
 * the operator belongs. */
static int find_slot(char *symbol, char **out_name) {
  static const char *const prefixes[] = {"__tvm_ffi_slot_", "__tvm_ffi__metadata_slot_",
                                         "__tvm_ffi__doc_slot_"};
  for (int i = 0; i < 3; i++) {
    const size_t size = strlen(prefixes[i]);
    if (strncmp(symbol, prefixes[i], size) != 0) continue;
    const char digits[3] = {symbol[size], symbol[size + 1], 0};
    *out_name = symbol + size - strlen("slot_");
    return (int)strtol(digits, NULL, 16);
  }
  return -1;
}

bool export_symbols_set(text_t *bytes, const texts_t *names) {
  symbols_t s = {.bytes = bytes};
  if (names->count > EXPORT_SYMBOLS_MOST || !find_symbols(&s)) return false;
  for (uint32_t i = 1; i < s.hash[1]; i++) {
    Elf64_Sym *symbol = &s.symbols[i];
    char *name;
    const int slot = find_slot(s.names + symbol->st_name, &name);
    if (slot < 0) continue;
    if (slot >= names->count) {
      *symbol = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_WEAK, STT_NOTYPE)};
      continue;
    }
    if (strlen(names->items[slot]) > EXPORT_NAME_MOST) return false;
    strcpy(name, names->items[slot]);
  }
  fill_hash(&s);
  return true;
}
