/* The cache of large blocks: which blocks are given out again, and that it stays within its limit,
 * also with several threads. */
#include <pthread.h>
#include <string.h>

#include "base/large_block.h"
#include "base/memory.h"
#include "check.h"

enum {
  MIB = 1 << 20,
};

TEST("a large block is given out again for its size, or one that is at most a fifth smaller") {
  char *first = tn_allocate_aligned(MIB);
  tn_release_aligned(first);
  char *second = tn_allocate_aligned(MIB);
  CHECK(second == first);
  memset(second, 1, MIB);
  tn_release_aligned(second);
  char *smaller = tn_allocate_aligned(MIB - MIB / 8);
  CHECK(smaller == first);
  memset(smaller, 1, MIB - MIB / 8);
  tn_release_aligned(smaller);
  char *small = tn_allocate_aligned(MIB / 2);
  char *larger = tn_allocate_aligned(MIB + 4096);
  CHECK(small && larger && small != first && larger != first);
  tn_release_aligned(small);
  tn_release_aligned(larger);
  CHECK(tn_large_blocks_free() && !tn_large_blocks_free());
}

TEST("cached blocks do not count as used memory, and the limit does not count them") {
  const uint64_t before = tn_aligned_bytes();
  tn_release_aligned(tn_allocate_aligned(8 * MIB));
  CHECK(tn_aligned_bytes() == before);
  tn_aligned_limit_set(before + 4 * MIB);
  CHECK(!tn_allocate_aligned(8 * MIB));
  void *block = tn_allocate_aligned(2 * MIB);
  CHECK(block);
  tn_release_aligned(block);
  tn_aligned_limit_set(UINT64_MAX);
  tn_large_blocks_free();
}

TEST("blocks beyond the limit of the cache are freed") {
  void *blocks[20];
  for (int i = 0; i < 20; i++)
    CHECK((blocks[i] = tn_allocate_aligned(8 * MIB)) != NULL);
  for (int i = 0; i < 20; i++)
    tn_release_aligned(blocks[i]);
  size_t room, sum = 0;
  for (void *block; (block = tn_large_block_take(8 * MIB, &room)) != NULL;) {
    sum += room;
    tn_release_memory(block);
  }
  CHECK(sum > TN_LARGE_MOST / 2 && sum <= TN_LARGE_MOST);
  tn_large_blocks_limit(0);
  tn_release_aligned(tn_allocate_aligned(8 * MIB));
  CHECK(!tn_large_blocks_free());
  tn_large_blocks_limit(TN_LARGE_MOST);
}

static void *use_blocks(void *seed) {
  for (size_t i = 0; i < 2000; i++) {
    const size_t size = MIB / 4 + (i * 7919 + (size_t)seed) % 5 * (MIB / 8);
    char *block = tn_allocate_aligned(size);
    if (!block) return seed;
    block[0] = block[size - 1] = (char)(size_t)seed;
    if (block[0] != block[size - 1]) return seed;
    tn_release_aligned(block);
  }
  return NULL;
}

TEST("threads take and put blocks at once") {
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++)
    CHECK(pthread_create(&threads[i], NULL, use_blocks, (void *)(i + 1)) == 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    CHECK(pthread_join(threads[i], &failed) == 0 && !failed);
  }
  size_t room;
  void *block = tn_large_block_take(MIB / 4, &room);
  CHECK(block && room >= MIB / 4);
  tn_release_memory(block);
  tn_large_blocks_free();
}
