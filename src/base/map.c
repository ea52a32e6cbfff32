/* The map from strings to pointers: FNV-1a hash, linear probing, at most 3/4 full. Used by the
 * registry and the importers. */
#include "base/map.h"

#include <string.h>

#include "base/memory.h"

static uint64_t hash_key(const char *key, size_t size) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)key[i]) * 1099511628211u;
  return hash;
}

static tn_map_entry_t *find_entry(const tn_map_t *map, const char *key, size_t size,
                                  uint64_t hash) {
  if (!map->capacity) return NULL;
  for (size_t i = hash & (map->capacity - 1);; i = (i + 1) & (map->capacity - 1)) {
    tn_map_entry_t *entry = &map->entries[i];
    if (!entry->key) return entry;
    if (entry->hash == hash && entry->key_size == size && memcmp(entry->key, key, size) == 0)
      return entry;
  }
}

void *tn_map_get(const tn_map_t *map, const char *key, size_t key_size) {
  const tn_map_entry_t *entry = find_entry(map, key, key_size, hash_key(key, key_size));
  return entry && entry->key ? entry->value : NULL;
}

static bool grow_map(tn_map_t *map) {
  if (map->capacity && (map->used + 1) * 4 <= map->capacity * 3) return true;
  tn_map_t bigger = {NULL, map->capacity ? map->capacity : 16, 0, 0};
  while (bigger.capacity < map->count * 2 + 2)
    bigger.capacity *= 2;
  if (!(bigger.entries = tn_allocate_zero(bigger.capacity, sizeof *bigger.entries))) return false;
  for (size_t i = 0; i < map->capacity; i++) {
    tn_map_entry_t *old = &map->entries[i];
    if (old->key && !old->value) tn_release_memory(old->key);
    if (!old->key || !old->value) continue;
    *find_entry(&bigger, old->key, old->key_size, old->hash) = *old;
    bigger.used++;
    bigger.count++;
  }
  tn_release_memory(map->entries);
  *map = bigger;
  return true;
}

bool tn_map_put(tn_map_t *map, const char *key, size_t key_size, void *value) {
  const uint64_t hash = hash_key(key, key_size);
  tn_map_entry_t *entry = find_entry(map, key, key_size, hash);
  /* replacing an existing value needs no memory */
  if (!entry || !entry->key) {
    if (!grow_map(map)) return false;
    entry = find_entry(map, key, key_size, hash);
    char *copy = tn_copy_text(key, key_size);
    if (!copy) return false;
    *entry = (tn_map_entry_t){copy, key_size, hash, NULL};
    map->used++;
  }
  if (!entry->value) map->count++;
  entry->value = value;
  return true;
}

void *tn_map_remove(tn_map_t *map, const char *key, size_t key_size) {
  tn_map_entry_t *entry = find_entry(map, key, key_size, hash_key(key, key_size));
  if (!entry || !entry->key || !entry->value) return NULL;
  void *value = entry->value;
  entry->value = NULL;
  map->count--;
  return value;
}

void tn_map_clear(tn_map_t *map) {
  for (size_t i = 0; i < map->capacity; i++)
    tn_release_memory(map->entries[i].key);
  tn_release_memory(map->entries);
  *map = (tn_map_t){0};
}

void *tn_map_next(const tn_map_t *map, size_t *position, const char **out_key) {
  while (*position < map->capacity) {
    const tn_map_entry_t *entry = &map->entries[(*position)++];
    if (!entry->key || !entry->value) continue;
    if (out_key) *out_key = entry->key;
    return entry->value;
  }
  return NULL;
}
