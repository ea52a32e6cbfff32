/* Host memory over the C library's allocator. Every layer allocates through this file. tests/fault
 * interposes malloc to make single allocations fail. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/large_block.h"
#include "base/poison.h"
#include "base/thread.h"

void *tn_allocate(size_t size) { return malloc(size ? size : 1); }

void *tn_allocate_zero(size_t count, size_t size) {
  /* calloc checks count * size for overflow */
  if (!count) count = 1;
  if (!size) size = 1;
  return calloc(count, size);
}

void *tn_reallocate(void *pointer, size_t size) { return realloc(pointer, size ? size : 1); }

void tn_release_memory(void *pointer) { free(pointer); }

/* aligned blocks, which are counted */

/* Stored directly in front of an aligned block. */
typedef struct block_origin_t {
  void *block; /* what malloc returned */
  size_t size; /* as counted */
} block_origin_t;

/* Bytes that a thread counts by itself at most, so that calls of several threads do not write to
 * one cache line. */
enum { UNCOUNTED_MOST = 1 << 20 };
static int64_t used; /* by all threads, without what they count by themselves */
static uint64_t limit = UINT64_MAX;

static void count_bytes(int64_t bytes) {
  tn_thread_t *thread = tn_thread_block;
  if (thread && !thread->is_shared) {
    thread->uncounted += bytes;
    if (thread->uncounted < UNCOUNTED_MOST && thread->uncounted > -UNCOUNTED_MOST) return;
    bytes = thread->uncounted;
    thread->uncounted = 0;
  }
  __atomic_add_fetch(&used, bytes, __ATOMIC_RELAXED);
}

uint64_t tn_aligned_bytes(void) {
  const tn_thread_t *thread = tn_thread_block;
  const int64_t own = thread && !thread->is_shared ? thread->uncounted : 0;
  const int64_t bytes = __atomic_load_n(&used, __ATOMIC_RELAXED) + own;
  return bytes > 0 ? (uint64_t)bytes : 0;
}
uint64_t tn_aligned_limit(void) { return __atomic_load_n(&limit, __ATOMIC_RELAXED); }
void tn_aligned_limit_set(uint64_t bytes) { __atomic_store_n(&limit, bytes, __ATOMIC_RELAXED); }

void *tn_allocate_aligned(size_t size) {
  if (size > SIZE_MAX / 2) return NULL;
  /* Room in front for the origin; aligned_alloc is not portable. */
  size_t room = size + 2 * TN_ALIGNMENT;
  if (tn_aligned_bytes() + room > tn_aligned_limit()) return NULL;
  char *block = tn_large_block_take(room, &room);
  if (!block) block = malloc(room);
  if (!block && tn_large_blocks_free()) block = malloc(room);
  if (!block) return NULL;
  count_bytes((int64_t)room);
  char *aligned = block + TN_ALIGNMENT - (uintptr_t)block % TN_ALIGNMENT;
  if ((size_t)(aligned - block) < sizeof(block_origin_t)) aligned += TN_ALIGNMENT;
  const block_origin_t origin = {block, room};
  memcpy(aligned - sizeof origin, &origin, sizeof origin);
  return aligned;
}

void tn_release_aligned(void *pointer) {
  if (!pointer) return;
  block_origin_t origin;
  memcpy(&origin, (char *)pointer - sizeof origin, sizeof origin);
  count_bytes(-(int64_t)origin.size);
  if (!tn_large_block_put(origin.block, origin.size)) free(origin.block);
}

/* per-thread caches of blocks */

/* A cached block is poisoned, so that a use after tn_block_put or beyond the requested size is
 * reported. */

/* For a size of 0 the result is beyond every kind. */
static inline size_t kind_of_block(size_t size) { return (size - 1) / TN_ALIGNMENT; }
static inline size_t room_of_kind(size_t kind) { return (kind + 1) * TN_ALIGNMENT; }

void *tn_block_get(size_t size) {
  tn_thread_t *thread = tn_thread_block;
  size_t kind = kind_of_block(size);
  if (kind >= TN_KEPT_KINDS) return tn_allocate_aligned(size);
  if (!thread || !thread->kept[kind].count) {
    char *fresh = tn_allocate_aligned(room_of_kind(kind));
    if (fresh) TN_POISON(fresh + size, room_of_kind(kind) - size);
    return fresh;
  }
  tn_kept_t *kept = &thread->kept[kind];
  void *block = kept->blocks[--kept->count];
  TN_UNPOISON(block, size);
  return block;
}

void tn_block_put(void *block, size_t size) {
  /* The thread's block is not created here: nothing would free it after a shutdown. */
  tn_thread_t *thread = tn_thread_block;
  size_t kind = kind_of_block(size);
  if (!block) return;
  if (kind < TN_KEPT_KINDS && thread && thread->kept[kind].count < thread->most_kept) {
    TN_POISON(block, room_of_kind(kind));
    thread->kept[kind].blocks[thread->kept[kind].count++] = block;
    return;
  }
  if (kind < TN_KEPT_KINDS) TN_UNPOISON(block, room_of_kind(kind));
  tn_release_aligned(block);
}

#ifdef __SANITIZE_ADDRESS__
void *tn_many_get(size_t size) { return tn_block_get(size); }
void tn_many_put(void *block, size_t size) { tn_block_put(block, size); }
#else
void *tn_many_get(size_t size) {
  tn_thread_t *thread = tn_thread_block;
  size_t kind = kind_of_block(size);
  if (kind >= TN_KEPT_KINDS || !thread || !thread->many[kind].first) return tn_block_get(size);
  void *block = thread->many[kind].first;
  memcpy(&thread->many[kind].first, block, sizeof block);
  thread->many[kind].count--;
  return block;
}

void tn_many_put(void *block, size_t size) {
  tn_thread_t *thread = tn_thread_block;
  size_t kind = kind_of_block(size);
  bool is_kept = block && kind < TN_KEPT_KINDS && thread && thread->most_kept &&
                 thread->many[kind].count < TN_MANY_MOST;
  if (!is_kept) {
    tn_block_put(block, size);
    return;
  }
  memcpy(block, &thread->many[kind].first, sizeof block);
  thread->many[kind].first = block;
  thread->many[kind].count++;
}
#endif

void tn_kept_clear(tn_thread_t *thread) {
  for (size_t kind = 0; kind < TN_KEPT_KINDS; kind++)
    while (thread->kept[kind].count) {
      void *block = thread->kept[kind].blocks[--thread->kept[kind].count];
      TN_UNPOISON(block, room_of_kind(kind));
      tn_release_aligned(block);
    }
  for (size_t kind = 0; kind < TN_KEPT_KINDS; kind++)
    for (void *block; (block = thread->many[kind].first);) {
      memcpy(&thread->many[kind].first, block, sizeof block);
      thread->many[kind].count--;
      tn_release_aligned(block);
    }
  __atomic_add_fetch(&used, thread->uncounted, __ATOMIC_RELAXED);
  thread->uncounted = 0;
}

char *tn_copy_text(const char *text, size_t size) {
  char *copy = tn_allocate(size + 1);
  if (!copy) return NULL;
  if (size) memcpy(copy, text, size);
  copy[size] = 0;
  return copy;
}

bool tn_grow(void **items, size_t *capacity, size_t count, size_t item_size) {
  if (count < *capacity) return true;
  size_t room = *capacity ? *capacity * 2 : 8;
  if (room > SIZE_MAX / item_size) return false;
  void *bigger = tn_reallocate(*items, room * item_size);
  if (!bigger) return false;
  *items = bigger;
  *capacity = room;
  return true;
}
