/* The arena's implementation: a list of blocks. A new block is half as large as all earlier blocks
 * together, but at most 1 MiB unless a single allocation needs more. The first block has 1 KiB. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

typedef struct tn_arena_block_t {
  struct tn_arena_block_t *next;
  size_t used;
  size_t size;
  uint64_t unused;
} tn_arena_block_t;

void *tn_arena_allocate(tn_arena_t *arena, size_t size) {
  if (size > SIZE_MAX / 2) return NULL;
  size = (size + 15) & ~(size_t)15;
  tn_arena_block_t *block = arena->blocks;
  if (!block || block->size - block->used < size) {
    size_t room = block ? 0 : 1024;
    for (const tn_arena_block_t *b = block; b; b = b->next)
      room += b->size / 2;
    if (room > (size_t)1 << 20) room = (size_t)1 << 20;
    if (room < size) room = size;
    tn_arena_block_t *fresh = tn_allocate(sizeof *fresh + room);
    if (!fresh) return NULL;
    *fresh = (tn_arena_block_t){block, 0, room, 0};
    block = arena->blocks = fresh;
  }
  void *pointer = (char *)(block + 1) + block->used;
  block->used += size;
  return memset(pointer, 0, size);
}

void *tn_arena_array(tn_arena_t *arena, size_t count, size_t size) {
  return size && count > SIZE_MAX / size ? NULL : tn_arena_allocate(arena, count * size);
}

char *tn_arena_text(tn_arena_t *arena, const char *text, size_t size) {
  char *copy = tn_arena_allocate(arena, size + 1);
  if (copy && size) memcpy(copy, text, size);
  return copy;
}

void tn_arena_clear(tn_arena_t *arena) {
  for (tn_arena_block_t *block = arena->blocks, *next; block; block = next) {
    next = block->next;
    tn_release_memory(block);
  }
  arena->blocks = NULL;
}
