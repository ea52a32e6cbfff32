/* Memory that is freed as one: what is read of a file. */
#ifndef BRIDGES_MXNET_ARENA_H
#define BRIDGES_MXNET_ARENA_H

#include <stddef.h>

typedef struct arena_t { /* starts as zeros */
  struct arena_block_t *blocks;
  size_t left; /* of the newest block */
} arena_t;

/* `count` items of `size` bytes, zeros, aligned for anything; NULL: no memory. */
void *arena_take(arena_t *arena, size_t count, size_t size);
/* A copy that ends with 0. */
char *arena_text(arena_t *arena, const char *text, size_t size);
void arena_clear(arena_t *arena);

#endif
