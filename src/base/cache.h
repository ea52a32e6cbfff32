/* Files that can be made anew: compiled programs.  A name is letters, digits, '-' and '.'; entries
 * of one folder are shared by processes.  A reader sees a whole entry or none, and whoever finds it
 * wrong makes it anew. */
#ifndef TN_BASE_CACHE_H
#define TN_BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folder: TENON_CACHE, else XDG_CACHE_HOME/tenon, else HOME/.cache/tenon.  False: there is
 * none, or TENON_CACHE=off. */
bool tn_cache_folder(char *out_path, size_t capacity);
void tn_cache_make_folder(void); /* as far as that can be done */
/* The bytes of an entry that is whole and has just this key; the caller frees *out_data.  False:
 * there is none. */
bool tn_cache_read(const char *name, const void *key, size_t key_size, void **out_data,
                   size_t *out_size);
/* Stores it, as far as that can be done. */
void tn_cache_write(const char *name, const void *key, size_t key_size, const void *data,
                    size_t size);
/* A hash of bytes, for names of entries: not one that resists who wants to deceive. */
uint64_t tn_cache_hash(const void *data, size_t size, uint64_t seed);

#endif
