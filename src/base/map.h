/* A map from text to pointer: open addressing, keys copied.  Not safe for threads: its owner
 * locks. */
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
  size_t count; /* used: with removed ones */
} tn_map_t;

void *tn_map_get(const tn_map_t *map, const char *key, size_t key_size); /* NULL: absent */
bool tn_map_put(tn_map_t *map, const char *key, size_t key_size,
                void *value); /* replaces; false: out of memory */
void *tn_map_remove(tn_map_t *map, const char *key,
                    size_t key_size); /* gives the value back, or NULL */
void tn_map_clear(tn_map_t *map);     /* values are the caller's */
/* Walks the map: start with *position 0; NULL at the end. */
void *tn_map_next(const tn_map_t *map, size_t *position, const char **out_key);

#endif
