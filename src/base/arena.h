/* An arena: many small blocks, freed together.  Owners: schemas, graphs, calls.  Not safe for
 * threads. */
#ifndef TN_BASE_ARENA_H
#define TN_BASE_ARENA_H

#include <stddef.h>

typedef struct tn_arena_t {
  struct tn_arena_block_t *blocks;
} tn_arena_t;

void *tn_arena_allocate(tn_arena_t *arena,
                        size_t size); /* zeroed, aligned to 16; NULL: out of memory */
void *tn_arena_array(tn_arena_t *arena, size_t count, size_t size);
char *tn_arena_text(tn_arena_t *arena, const char *text, size_t size); /* terminated copy */
void tn_arena_clear(tn_arena_t *arena);

#endif
