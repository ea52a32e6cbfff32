/* The memory plan: the offsets of blocks with lifetimes never overlap and are aligned, and the plan
 * takes little more memory than the minimum. */
#include <stdlib.h>

#include "base/memory.h"
#include "check.h"
#include "faults.h"
#include "graph/executable.h"

static uint64_t seed = 4711;
static uint64_t pick(uint64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % count;
}

static int meets(const tn_lifetime_t *a, const tn_lifetime_t *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* Checks a plan, and returns its size divided by the lower bound. */
static double check_plan(tn_lifetime_t *blocks, size_t count) {
  static uint64_t sizes[2048];
  uint64_t size = 0;
  uint64_t bound = 0;
  uint64_t most = 0;
  for (size_t i = 0; i < count; i++)
    sizes[i] = blocks[i].size;
  CHECK_STATUS(tn_memory_plan(blocks, count, &size, &bound), TENON_OK);
  for (size_t i = 0; i < count; i++) {
    const tn_lifetime_t *a = &blocks[i];
    CHECK(a->offset % TN_ALIGNMENT == 0 && a->size >= sizes[i] &&
          a->size < sizes[i] + TN_ALIGNMENT);
    CHECK(a->offset + a->size <= size);
    for (size_t j = 0; j < i; j++) {
      const tn_lifetime_t *b = &blocks[j];
      CHECK(!meets(a, b) || a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
    }
  }
  /* Sums the blocks that are alive when some block begins. */
  for (size_t i = 0; i < count; i++) {
    uint64_t alive = 0;
    for (size_t j = 0; j < count; j++)
      if (blocks[j].first <= blocks[i].first && blocks[i].first <= blocks[j].last)
        alive += blocks[j].size;
    if (alive > most) most = alive;
  }
  CHECK(bound == most && size >= bound);
  return bound ? (double)size / (double)bound : 1;
}

TEST("a plan without blocks needs no memory") {
  uint64_t size = 1;
  uint64_t bound = 1;
  CHECK_STATUS(tn_memory_plan(NULL, 0, &size, &bound), TENON_OK);
  CHECK(size == 0 && bound == 0);
}

TEST("blocks that live one after the other share memory, and blocks that live at once do not") {
  tn_lifetime_t blocks[] = {
      {100, 0, 0, 1}, {100, 0, 2, 3}, {64, 0, 1, 2}, {1, 0, 0, INT32_MAX}, {0, 0, 1, 1}};
  CHECK(check_plan(blocks, 5) == 1);
  CHECK(blocks[0].offset == blocks[1].offset);
}

TEST("a chain of blocks needs as much memory as two neighbours") {
  tn_lifetime_t blocks[100];
  for (int i = 0; i < 100; i++)
    blocks[i] = (tn_lifetime_t){4096, 0, i, i + 1};
  CHECK(check_plan(blocks, 100) == 1);
}

TEST("random lifetimes never overlap in memory, and the plan stays near the lower bound") {
  double sum = 0;
  double worst = 0;
  enum { ROUNDS = 300 };
  for (int round = 0; round < ROUNDS; round++) {
    tn_lifetime_t blocks[200];
    size_t count = 1 + pick(200);
    for (size_t i = 0; i < count; i++) {
      int32_t first = (int32_t)pick(100);
      uint64_t length =
          /* Most lifetimes are short, like those of values in a network. */
          pick(10) ? pick(8) : pick(100);
      uint64_t size = 1 + pick(64);
      blocks[i] = (tn_lifetime_t){size << pick(12), 0, first, first + (int32_t)length};
      if (pick(40) == 0) blocks[i].last = INT32_MAX;
    }
    double over = check_plan(blocks, count);
    sum += over;
    if (over > worst) worst = over;
  }
  printf("memory plans over their lower bound: mean %.4f, worst %.4f\n", sum / ROUNDS, worst);
  CHECK(sum / ROUNDS < 1.02 && worst < 1.3);
}

TEST("so many blocks alive at once that pairs are not compared stay near the lower bound") {
  enum { COUNT = 2000 };
  static tn_lifetime_t blocks[COUNT];
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < COUNT; i++) {
      int32_t first = (int32_t)pick(1000);
      uint64_t size = pick(20) ? 1 + pick(64) : 0;
      blocks[i] = (tn_lifetime_t){size << pick(12), 0, first, first + (int32_t)pick(800)};
      if (pick(40) == 0) blocks[i].last = INT32_MAX;
    }
    double over = check_plan(blocks, COUNT);
    printf("memory plan of %d blocks over its lower bound: %.4f\n", COUNT, over);
    CHECK(over < 1.2);
  }
}

TEST("a chain and a fan of many blocks need no more than the lower bound") {
  enum { COUNT = 2000 };
  static tn_lifetime_t blocks[COUNT];
  for (int i = 0; i < COUNT; i++)
    blocks[i] = (tn_lifetime_t){4096, 0, i, i + 1};
  CHECK(check_plan(blocks, COUNT) == 1);
  for (int i = 0; i < COUNT; i++)
    blocks[i] = (tn_lifetime_t){i < COUNT / 2 ? 64 : 128, 0, i, COUNT};
  CHECK(check_plan(blocks, COUNT) == 1);
}

TEST("equal blocks are planned the same way each time") {
  tn_lifetime_t a[50], b[50];
  for (int i = 0; i < 50; i++)
    a[i] = b[i] =
        (tn_lifetime_t){(uint64_t)64 << pick(3), 0, (int32_t)pick(10), (int32_t)(10 + pick(10))};
  uint64_t size[2], bound[2];
  CHECK_STATUS(tn_memory_plan(a, 50, &size[0], &bound[0]), TENON_OK);
  CHECK_STATUS(tn_memory_plan(b, 50, &size[1], &bound[1]), TENON_OK);
  CHECK(size[0] == size[1]);
  for (int i = 0; i < 50; i++)
    CHECK(a[i].offset == b[i].offset);
}

TEST("when memory runs out, planning reports it") {
  enum {
    COUNT = 1000,
    OF_GAPS = 9,
    OF_SWEEP = 5,
  };
  static tn_lifetime_t blocks[COUNT];
  uint64_t size, bound;
  for (int64_t n = 1; n <= OF_GAPS; n++) {
    blocks[0] = (tn_lifetime_t){64, 0, 0, 0};
    fault_memory(n, false);
    CHECK_STATUS(tn_memory_plan(blocks, 1, &size, &bound), TENON_MEMORY);
    fault_end();
  }
  for (int64_t n = 1; n <= OF_SWEEP; n++) {
    for (int i = 0; i < COUNT; i++)
      blocks[i] = (tn_lifetime_t){64, 0, i, COUNT};
    fault_memory(n, false);
    CHECK_STATUS(tn_memory_plan(blocks, COUNT, &size, &bound), TENON_MEMORY);
    fault_end();
  }
}
