/* Invariant: what was taken stays where it is until arena_clear. */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_SIZE = 64 << 10, ALIGNMENT = 16 };

struct arena_block_t {
  struct arena_block_t *next;
  size_t size;
  _Alignas(ALIGNMENT) char room[];
};

void *arena_take(arena_t *arena, size_t count, size_t size) {
  if (size && count > (SIZE_MAX / 2 - BLOCK_SIZE) / size) return NULL;
  size_t bytes = (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (!arena->blocks || bytes > arena->left) {
    size_t room = bytes > BLOCK_SIZE ? bytes : BLOCK_SIZE;
    struct arena_block_t *block = calloc(1, sizeof *block + room);
    if (!block) return NULL;
    block->next = arena->blocks, block->size = room;
    arena->blocks = block, arena->left = room;
  }
  arena->left -= bytes;
  return arena->blocks->room + (arena->blocks->size - arena->left - bytes);
}

char *arena_text(arena_t *arena, const char *text, size_t size) {
  char *copy = arena_take(arena, size + 1, 1);
  if (copy) memcpy(copy, text, size);
  return copy;
}

void arena_clear(arena_t *arena) {
  while (arena->blocks) {
    struct arena_block_t *next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
  arena->left = 0;
}
