/* Reads the tables that the system's loader has already accepted; see symbols.h. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols.h"

typedef struct tables_t {
  const ElfW(Sym) * symbols;
  const char *names;
  const uint32_t *hash;     /* DT_HASH */
  const uint32_t *gnu_hash; /* DT_GNU_HASH */
} tables_t;

static void read_tables(const struct link_map *map, tables_t *out) {
  for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
    const void *address = (const void *)entry->d_un.d_ptr; /* glibc has added l_addr */
    if (entry->d_tag == DT_SYMTAB) out->symbols = address;
    if (entry->d_tag == DT_STRTAB) out->names = address;
    if (entry->d_tag == DT_HASH) out->hash = address;
    if (entry->d_tag == DT_GNU_HASH) out->gnu_hash = address;
  }
}

/* Counts the symbols by the hash table of GNU: the last chain ends with the last symbol. */
static uint32_t count_gnu_symbols(const uint32_t *table) {
  const uint32_t bucket_count = table[0];
  const uint32_t first = table[1];
  const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof *table);
  const uint32_t *chains = buckets + bucket_count;
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; i++)
    if (buckets[i] > last) last = buckets[i];
  if (last < first) return first;
  while (!(chains[last - first] & 1))
    last++;
  return last + 1;
}

bool symbols_each(void *handle, void (*each)(void *context, const char *name, bool is_defined),
                  void *context) {
  struct link_map *map = NULL;
  tables_t tables = {NULL, NULL, NULL, NULL};
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map) return false;
  read_tables(map, &tables);
  if (!tables.symbols || !tables.names || !(tables.hash || tables.gnu_hash)) return false;
  uint32_t count = tables.hash ? tables.hash[1] : count_gnu_symbols(tables.gnu_hash);
  for (uint32_t i = 1; i < count; i++)
    each(context, tables.names + tables.symbols[i].st_name, tables.symbols[i].st_shndx != 0);
  return true;
}
