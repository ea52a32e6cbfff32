/* Memory: allocation that can be made to fail, checked sizes, growing arrays, arenas, scratch
 * stacks and growing texts. */
#include "base/memory.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/memory_limit.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "check.h"
#include "faults.h"

/* allocation */

TEST("a test can make the n-th allocation fail, once or from then on") {
  for (int sticky = 0; sticky < 2; sticky++) {
    void *made[5];
    fault_memory(3, sticky);
    made[0] = tn_allocate(8);
    made[1] = tn_allocate_zero(2, 8);
    made[2] = tn_allocate(8);
    made[3] = tn_reallocate(NULL, 8);
    made[4] = tn_allocate_aligned(8);
    CHECK(fault_count(FAULT_MEMORY) == 5);
    fault_end();
    CHECK(made[0] && made[1] && !made[2] && (made[3] == NULL) == sticky &&
          (made[4] == NULL) == sticky);
    for (int i = 0; i < 4; i++)
      tn_release_memory(made[i]);
    tn_release_aligned(made[4]);
  }
  void *after = tn_allocate(8);
  CHECK(after);
  tn_release_memory(after);
}

TEST("sizes that overflow give NULL, and empty blocks have addresses of their own") {
  void *a = tn_allocate(0);
  void *b = tn_allocate(0);
  void *c = tn_allocate_zero(0, 8);
  void *d = tn_allocate_aligned(0);
  CHECK(a && b && c && d && a != b);
  CHECK(tn_allocate_zero(SIZE_MAX / 2, 4) == NULL && tn_allocate_aligned(SIZE_MAX - 10) == NULL);
  tn_release_memory(a);
  tn_release_memory(b);
  tn_release_memory(c);
  tn_release_aligned(d);
  tn_release_memory(NULL);
  tn_release_aligned(NULL);
}

TEST("aligned blocks are aligned and as large as requested") {
  for (size_t size = 1; size < 5000; size = size * 3 + 1) {
    char *block = tn_allocate_aligned(size);
    CHECK((uintptr_t)block % TN_ALIGNMENT == 0);
    memset(block, 1, size);
    tn_release_aligned(block);
  }
}

TEST("a block that was put back is given out again for its size, up to seven blocks") {
  enum { MANY = 20 };
  char *blocks[MANY], *again[MANY];
  tn_thread_drop();
  /* This call makes the thread's own structure, which keeps the blocks. */
  (void)tn_error();
  for (size_t size = 1; size <= 1024; size += 341) {
    int found = 0;
    for (int i = 0; i < MANY; i++) {
      blocks[i] = tn_block_get(size);
      CHECK(blocks[i] && (uintptr_t)blocks[i] % TN_ALIGNMENT == 0);
      memset(blocks[i], i, size);
    }
    for (int i = 0; i < MANY; i++)
      tn_block_put(blocks[i], size);
    for (int i = 0; i < 7; i++) {
      again[i] = tn_block_get(size);
      for (int k = 0; k < 7; k++)
        found += again[i] == blocks[k];
    }
    CHECK(found == 7);
    for (int i = 0; i < 7; i++)
      tn_block_put(again[i], size);
  }
  tn_block_put(NULL, 8);
  char *large = tn_block_get(1 << 20);
  char *none = tn_block_get(0);
  CHECK(large && none && (uintptr_t)large % TN_ALIGNMENT == 0 && tn_block_get(SIZE_MAX) == NULL);
  memset(large, 1, 1 << 20);
  tn_block_put(large, 1 << 20);
  tn_block_put(none, 0);
}

TEST("cached blocks count as allocations, too, while a test makes allocations fail") {
  tn_block_put(tn_block_get(64), 64);
  fault_memory(2, false);
  void *first = tn_block_get(64);
  void *second = tn_block_get(64);
  CHECK(first && !second && fault_count(FAULT_MEMORY) == 2);
  fault_end();
  fault_limit(100);
  CHECK(tn_block_get(128) == NULL);
  fault_limit(0);
  tn_block_put(first, 64);
}

static void swap_blocks(
    /* Puts back blocks of another thread, and leaves blocks of its own to that thread. */
    void *pointer) {
  char **blocks = pointer;
  for (int i = 0; i < 10; i++) {
    tn_block_put(blocks[i], 200);
    memset(blocks[i] = tn_block_get(200), i, 200);
  }
  (void)tn_error();
  for (int i = 0; i < 10; i++)
    tn_block_put(tn_block_get(100), 100);
}

TEST("blocks can be put back on another thread, and are freed when that thread ends") {
  char *blocks[2][10];
  tn_spawned_t threads[2];
  for (int t = 0; t < 2; t++) {
    for (int i = 0; i < 10; i++)
      blocks[t][i] = tn_block_get(200);
    CHECK(tn_spawn(&threads[t], swap_blocks, blocks[t]));
  }
  for (int t = 0; t < 2; t++) {
    tn_join(&threads[t]);
    for (int i = 0; i < 10; i++)
      CHECK(blocks[t][i][199] == i), tn_block_put(blocks[t][i], 200);
  }
}

TEST("arithmetic on sizes reports overflow") {
  int64_t r = 0;
  CHECK(tn_mul(1 << 20, 1 << 20, &r) && r == (int64_t)1 << 40);
  CHECK(!tn_mul(INT64_MAX, 2, &r) && !tn_mul(INT64_MIN, -1, &r));
  CHECK(tn_add(INT64_MAX - 1, 1, &r) && r == INT64_MAX && !tn_add(INT64_MAX, 1, &r));
}

TEST("an array grows when it is full, and stays unchanged when it cannot grow") {
  int *items = NULL;
  size_t capacity = 0;
  for (size_t count = 0; count < 100; count++) {
    CHECK(tn_grow((void **)&items, &capacity, count, sizeof *items));
    items[count] = (int)count;
  }
  CHECK(capacity == 128 && items[99] == 99);
  fault_memory(1, false);
  CHECK(!tn_grow((void **)&items, &capacity, 128, sizeof *items) && capacity == 128 &&
        items[99] == 99);
  fault_end();
  size_t huge = SIZE_MAX / 4;
  CHECK(!tn_grow((void **)&items, &huge, huge, sizeof *items));
  tn_release_memory(items);
}

/* the limit */

TEST("aligned blocks are counted, and beyond the limit there are none until others are freed") {
  const uint64_t before = tn_aligned_bytes();
  const uint64_t limit = tn_aligned_limit();
  char *first = tn_allocate_aligned(1 << 20);
  CHECK(first && tn_aligned_bytes() >= before + (1 << 20));
  tn_aligned_limit_set(before + (3 << 20));
  CHECK(!tn_allocate_aligned(2 << 20));
  CHECK_STATUS(tn_no_memory("a tensor", 2 << 20), TENON_MEMORY);
  CHECK(strstr(tn_error(), "TENON_MEMORY_LIMIT"));
  tn_release_aligned(first);
  CHECK(tn_aligned_bytes() == before);
  char *second = tn_allocate_aligned(2 << 20);
  CHECK(second);
  tn_release_aligned(second);
  tn_aligned_limit_set(limit);
  CHECK_STATUS(tn_no_memory("a tensor", 2 << 20), TENON_MEMORY);
  CHECK(!strstr(tn_error(), "TENON_MEMORY_LIMIT"));
}

static const struct {
  const char *text;
  uint64_t bytes; /* 0: refused */
} sizes[] = {{"1", 1},
             {"512K", 512 << 10},
             {"64M", 64 << 20},
             {"3G", (uint64_t)3 << 30},
             {"2T", (uint64_t)2 << 40},
             {"0", UINT64_MAX},
             {"0G", UINT64_MAX},
             {"18446744073709551615", UINT64_MAX},
             {"18446744073709551616", 0},
             {"16777216T", 0},
             {"abc", 0},
             {"-1", 0},
             {" 1", 0},
             {"1.5G", 0},
             {"64MB", 0},
             {"64m", 0}};

TEST("TENON_MEMORY_LIMIT is a number of bytes with a unit; other texts are refused") {
  const uint64_t limit = tn_aligned_limit();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    setenv("TENON_MEMORY_LIMIT", sizes[i].text, 1);
    const tenon_status_t status = tn_memory_limit_start();
    if (sizes[i].bytes)
      CHECK(status == TENON_OK && tn_aligned_limit() == sizes[i].bytes);
    else
      CHECK(status == TENON_INVALID && strstr(tn_error(), sizes[i].text) &&
            strstr(tn_error(), "0 for no limit"));
  }
  unsetenv("TENON_MEMORY_LIMIT");
  CHECK_STATUS(tn_memory_limit_start(), TENON_OK);
  CHECK(tn_aligned_limit() < tn_memory_of_machine() && tn_aligned_limit() > (64 << 20));
  tn_aligned_limit_set(limit);
}

/* arena */

TEST("an arena returns zeroed, aligned blocks that do not overlap") {
  tn_arena_t arena = {NULL};
  char *blocks[300];
  for (size_t i = 0; i < 300; i++) {
    blocks[i] = tn_arena_allocate(&arena, i * i % 777);
    CHECK((uintptr_t)blocks[i] % 16 == 0);
    for (size_t k = 0; k < i * i % 777; k++)
      CHECK(blocks[i][k] == 0);
    memset(blocks[i], (int)i % 127 + 1, i * i % 777);
  }
  for (size_t i = 0; i < 300; i++)
    for (size_t k = 0; k < i * i % 777; k++)
      CHECK(blocks[i][k] == (char)(i % 127 + 1));
  char *large = tn_arena_allocate(&arena, 5 << 20);
  CHECK(large && large[(5 << 20) - 1] == 0);
  CHECK(strcmp(tn_arena_text(&arena, "abc", 2), "ab") == 0);
  CHECK(tn_arena_allocate(&arena, SIZE_MAX) == NULL &&
        tn_arena_array(&arena, SIZE_MAX / 2, 3) == NULL);
  fault_memory(1, false);
  CHECK(tn_arena_allocate(&arena, 8 << 20) == NULL);
  fault_end();
  tn_arena_clear(&arena);
  CHECK(arena.blocks == NULL);
  tn_arena_clear(&arena);
}

/* scratch */

TEST("scratch memory is a stack: a reset frees what came after the mark and keeps what came "
     "before") {
  tn_scratch_mark_t outer = tn_scratch_mark();
  char *a = tn_scratch(100);
  memset(a, 1, 100);
  tn_scratch_mark_t inner = tn_scratch_mark();
  /* more than a block */
  char *b = tn_scratch(1 << 20);
  char *c = tn_scratch(1 << 20);
  CHECK(b && c && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
  memset(b, 2, 1 << 20);
  memset(c, 3, 1 << 20);
  CHECK(b[(1 << 20) - 1] == 2);
  tn_scratch_reset(inner);
  for (int i = 0; i < 100; i++)
    CHECK(a[i] == 1);
  char *d = tn_scratch(64);
  CHECK(d >= a + 100 && d < a + 300); /* The block follows the first one again. */
  tn_scratch_reset(outer);
  CHECK(tn_scratch(SIZE_MAX) == NULL);
}

TEST("repeated use of scratch memory allocates nothing") {
  tn_scratch_mark_t mark = tn_scratch_mark();
  tn_scratch(1000);
  tn_scratch_reset(mark);
  fault_memory(1, true);
  for (int i = 0; i < 100; i++) {
    CHECK(tn_scratch(100000) && tn_scratch(100000));
    tn_scratch_reset(mark);
  }
  CHECK(tn_scratch(1 << 20) == NULL); /* This would need a new block. */
  fault_end();
  tn_scratch_reset(mark);
}

static void use_scratch(void *pointer) {
  char **out = pointer;
  memset(*out = tn_scratch(4096), 5, 4096);
}

TEST("each thread has its own scratch memory, which is freed when the thread ends") {
  char *mine = tn_scratch(64);
  char *theirs = NULL;
  tn_spawned_t thread;
  CHECK(tn_spawn(&thread, use_scratch, &theirs));
  tn_join(&thread);
  CHECK(theirs && theirs != mine);
}

/* texts */

TEST("a text grows as it is appended to, and is taken once") {
  tn_text_t text = {0};
  CHECK(strcmp(tn_text_get(&text), "") == 0);
  for (int i = 0; i < 1000; i++)
    tn_text_add(&text, "%d,", i);
  tn_text_bytes(&text, "\0x", 2);
  CHECK(text.size == 3892 && strncmp(text.data, "0,1,2,", 6) == 0 && text.data[3890] == 0 &&
        text.data[3891] == 'x');
  char *taken = tn_text_take(&text);
  CHECK(taken && strncmp(taken + 3878, "997,998,999,", 12) == 0 && text.data == NULL &&
        text.size == 0);
  tn_release_memory(taken);
  taken = tn_text_take(&text);
  CHECK(taken && *taken == 0);
  tn_release_memory(taken);
}

TEST("a text that could not grow reports it when it is taken") {
  tn_text_t text = {0};
  tn_text_add(&text, "short");
  fault_memory(1, false);
  tn_text_add(&text, "%200s", "long");
  fault_end();
  tn_text_add(&text, "more");
  CHECK(text.failed && tn_text_take(&text) == NULL && !text.failed);
  CHECK_TEXT(tn_error(), "out of memory: a text");
  tn_text_add(&text, "gone");
  tn_text_clear(&text);
  CHECK(text.data == NULL);
}

/* messages */

TEST("a message may be composed from the previous one, and may get a prefix") {
  CHECK(tn_fail(TENON_INVALID, "first %d", 1) == TENON_INVALID);
  CHECK(tn_fail(TENON_RANGE, "second, after %s", tn_error()) == TENON_RANGE);
  CHECK(strcmp(tn_error(), "second, after first 1") == 0);
  CHECK(tn_prefix(TENON_MEMORY, "node '%s': ", "x") == TENON_MEMORY);
  CHECK(strcmp(tn_error(), "node 'x': second, after first 1") == 0);
}

TEST("a message is cut to what fits when memory runs out") {
  char longer[1000];
  memset(longer, 'a', sizeof longer);
  longer[sizeof longer - 1] = 0;
  fault_memory(1, true);
  tn_fail(TENON_MEMORY, "short");
  CHECK(strcmp(tn_error(), "short") == 0);
  tn_fail(TENON_MEMORY, "%s", longer);
  CHECK(strlen(tn_error()) > 100 && strlen(tn_error()) < sizeof longer);
  tn_prefix(TENON_MEMORY, "x: ");
  CHECK(strncmp(tn_error(), "x: aaa", 6) == 0);
  fault_end();
  tn_fail(TENON_INVALID, "well again");
  CHECK(strcmp(tn_error(), "well again") == 0);
  tn_thread_drop();
  CHECK(strcmp(tn_error(), "") == 0);
}

static void fail_there(void *pointer) {
  int *ok = pointer;
  *ok = strcmp(tn_error(), "") == 0;
  tn_fail(TENON_INVALID, "theirs");
}

TEST("each thread has its own message") {
  int ok = 0;
  tn_spawned_t thread;
  tn_fail(TENON_INVALID, "mine");
  CHECK(tn_spawn(&thread, fail_there, &ok));
  tn_join(&thread);
  CHECK(ok && strcmp(tn_error(), "mine") == 0);
}

TEST("every status has a name") {
  for (int i = TENON_OK; i <= TENON_UNAVAILABLE; i++)
    CHECK(strcmp(tn_status_name(i), "unknown status") != 0);
  CHECK(strcmp(tn_status_name(TENON_OK), "ok") == 0 &&
        strcmp(tn_status_name(TENON_UNAVAILABLE), "unavailable") == 0);
  CHECK(strcmp(tn_status_name(99), "unknown status") == 0 &&
        strcmp(tn_status_name(-1), "unknown status") == 0);
}

TEST("nothing is left behind") { tn_thread_drop(); }
