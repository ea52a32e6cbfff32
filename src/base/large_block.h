/* A cache of large blocks of all threads. The C library gives a large block back to the system when
 * it is freed, and the system clears the pages of the next one: for a result that is computed again
 * and again this costs as much as computing it. */
#ifndef TN_BASE_LARGE_BLOCK_H
#define TN_BASE_LARGE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* Returns a cached block with room for `size` bytes, without much more; NULL: there is none. The
 * caller owns the block, whose contents are undefined. */
void *tn_large_block_take(size_t size, size_t *out_room);
/* Caches a block of malloc with room for `room` bytes. Returns false if the caller keeps it,
 * because its size does not suit or the cache is full. */
bool tn_large_block_put(void *block, size_t room);
/* How many bytes all cached blocks have together at most; with 0 none is cached. Blocks that are
 * cached already stay. Tests that make allocations fail set it. */
enum { TN_LARGE_MOST = 64 << 20 };
void tn_large_blocks_limit(size_t most);
/* Frees all cached blocks. Returns whether there were any. */
bool tn_large_blocks_free(void);

#endif
