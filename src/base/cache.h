/* A cache on disk for files that can be rebuilt, such as compiled programs. An entry's name
 * consists of letters, digits, '-' and '.'. Processes may share one cache folder: a reader sees a
 * complete entry or none, and rebuilds an entry that is damaged. */
#ifndef TN_BASE_CACHE_H
#define TN_BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The cache folder: TENON_CACHE, else XDG_CACHE_HOME/tenon, else HOME/.cache/tenon. Returns false
 * if none of these variables names a folder, or if TENON_CACHE=off. */
bool tn_cache_folder(char *out_path, size_t capacity);
/* Creates the cache folder. Failures are ignored: the cache then stays empty. */
void tn_cache_make_folder(void);
/* Reads an entry that is complete and was written with this key. The caller frees *out_data.
 * Returns false if there is no such entry. */
bool tn_cache_read(const char *name, const void *key, size_t key_size, void **out_data,
                   size_t *out_size);
/* Writes an entry. Failures are ignored. */
void tn_cache_write(const char *name, const void *key, size_t key_size, const void *data,
                    size_t size);
/* A hash for names of entries. It is not cryptographic: it does not resist deliberate
 * collisions. */
uint64_t tn_cache_hash(const void *data, size_t size, uint64_t seed);

#endif
