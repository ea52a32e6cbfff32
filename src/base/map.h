/* A map from strings to pointers with open addressing. Keys are copied. A map is not thread-safe:
 * its owner locks. */
#ifndef TN_BASE_MAP_H
#define TN_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn_map_entry_t {
  char *key; /* NULL: free */
  size_t key_size;
  uint64_t hash;
  void *value; /* NULL with a key: removed */
} tn_map_entry_t;

typedef struct tn_map_t {
  tn_map_entry_t *entries;
  size_t capacity;
  size_t used;
  /* `used` also counts removed entries */
  size_t count;
} tn_map_t;

/* Returns NULL if the key is absent. */
void *tn_map_get(const tn_map_t *map, const char *key, size_t key_size);
/* Adds or replaces a value. Returns false when memory runs out. */
bool tn_map_put(tn_map_t *map, const char *key, size_t key_size, void *value);
/* Removes a key and returns its value, or NULL if the key is absent. */
void *tn_map_remove(tn_map_t *map, const char *key, size_t key_size);
void tn_map_clear(tn_map_t *map); /* does not free the values: they belong to the caller */
/* Iterates over the map: start with *position = 0; returns NULL at the end. */
void *tn_map_next(const tn_map_t *map, size_t *position, const char **out_key);

#endif
