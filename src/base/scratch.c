/* The scratch stack: a list of blocks whose last block is current. A reset frees all blocks except
 * the first. The thread's block holds the list: cache[0] owns the first block, and `scratch` points
 * to the current one. */
#include "base/scratch.h"

#include "base/memory.h"
#include "base/thread.h"

typedef struct tn_scratch_block_t {
  struct tn_scratch_block_t *before;
  size_t used;
  size_t size;
  char unused[40];
} tn_scratch_block_t;

_Static_assert(sizeof(tn_scratch_block_t) == 64, "the header of a block fills one cache line");
enum { FIRST = 256 * 1024 };

static tn_scratch_block_t *current_block(tn_thread_t *thread) {
  return thread->scratch ? thread->scratch : (tn_scratch_block_t *)thread->cache[0];
}

tn_scratch_mark_t tn_scratch_mark(void) {
  tn_scratch_block_t *block = current_block(tn_thread());
  return (tn_scratch_mark_t){block, block ? block->used : 0};
}

void *tn_scratch(size_t size) {
  tn_thread_t *thread = tn_thread();
  tn_scratch_block_t *block = current_block(thread);
  if (size > SIZE_MAX / 4) return NULL;
  size = (size + 63) & ~(size_t)63;
  if (!block || block->size - block->used < size) {
    size_t room = size > FIRST ? size : FIRST;
    tn_scratch_block_t *fresh = tn_allocate_aligned(sizeof *fresh + room);
    if (!fresh) return NULL;
    *fresh = (tn_scratch_block_t){block, 0, room, {0}};
    if (!block) thread->cache[0] = fresh;
    thread->scratch = block = fresh;
  }
  void *pointer = (char *)(block + 1) + block->used;
  block->used += size;
  return pointer;
}

void tn_scratch_reset(tn_scratch_mark_t mark) {
  tn_thread_t *thread = tn_thread();
  tn_scratch_block_t *block = current_block(thread);
  if (!block) return;
  tn_scratch_block_t *stop = mark.block ? mark.block : thread->cache[0];
  while (block != stop) {
    tn_scratch_block_t *before = block->before;
    tn_release_aligned(block);
    block = before;
  }
  block->used = mark.block ? mark.used : 0;
  thread->scratch = block;
}
