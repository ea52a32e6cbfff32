/* An arena: many small allocations that are freed together. Schemas, graphs and calls own arenas.
 * An arena is not thread-safe. */
#ifndef TN_BASE_ARENA_H
#define TN_BASE_ARENA_H

#include <stddef.h>

typedef struct tn_arena_t {
  struct tn_arena_block_t *blocks;
} tn_arena_t;

/* Returns zeroed memory aligned to 16 bytes, or NULL when memory runs out. */
void *tn_arena_allocate(tn_arena_t *arena, size_t size);
void *tn_arena_array(tn_arena_t *arena, size_t count, size_t size);
/* Returns a copy of `size` bytes with a terminating 0, or NULL when memory runs out. */
char *tn_arena_text(tn_arena_t *arena, const char *text, size_t size);
void tn_arena_clear(tn_arena_t *arena);

#endif
