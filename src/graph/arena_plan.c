/* Plans the arena of a stage: finds an offset for each block, given its size and lifetime. Three
 * ways are tried until an arena is as small as the lower bound, and the smallest arena is taken.
 * Two of them place every block in the smallest gap that fits among the blocks alive at the same
 * time, in two orders: largest block first, and largest size times lifetime first. The third is the
 * sweep of arena_sweep.c. It comes first if many pairs of blocks are alive at the same time, and is
 * the only way if too many are. Called by stage.c. Invariant: no two blocks that are alive at the
 * same time overlap; debug builds check it. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/arena_sweep.h"
#include "graph/executable.h"

/* The work for gaps grows with the pairs of blocks that are alive at the same time. */
enum {
  PAIRS_OF_BLOCK = 16,  /* with at most so many for each block, gaps come before the sweep */
  PAIRS_MOST = 1 << 17, /* with at most so many in all, gaps come after the sweep */
};

typedef struct block_order_t {
  uint64_t size;
  int32_t first;
  int32_t index;
} block_order_t;

typedef struct arena_plan_t {
  tn_lifetime_t *lifetimes;
  size_t count;
  tn_lifetime_t **by_first; /* in the order in which the lives begin */
  tn_lifetime_t **by_last;  /* in the order in which they end */
  size_t pairs;             /* of blocks that are alive at the same time */
  uint64_t bound;           /* the most bytes alive at one time: no arena can be smaller */
  uint64_t size;            /* the smallest arena so far, and its offsets */
  uint64_t *offsets;
} arena_plan_t;

/* What placing blocks in gaps needs. Blocks have numbers in the order of `by_first`. */
typedef struct gaps_t {
  const arena_plan_t *plan;
  block_order_t *order;
  int32_t *number; /* of each block */
  bool *is_placed; /* by number */
  /* The blocks that are alive when block n begins, and have a smaller number than n:
   * earlier[begin[n]] to earlier[begin[n + 1] - 1]. */
  size_t *begin;
  int32_t *earlier;
  const tn_lifetime_t **met; /* placed blocks that are alive together with the one to be placed */
} gaps_t;

/* Orders */

static int by_first(const void *x, const void *y) {
  const tn_lifetime_t *a = *(const tn_lifetime_t *const *)x;
  const tn_lifetime_t *b = *(const tn_lifetime_t *const *)y;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  if (a->size != b->size) return a->size < b->size ? 1 : -1;
  return a < b ? -1 : a > b;
}

static int by_last(const void *x, const void *y) {
  const tn_lifetime_t *a = *(const tn_lifetime_t *const *)x;
  const tn_lifetime_t *b = *(const tn_lifetime_t *const *)y;
  if (a->last != b->last) return a->last < b->last ? -1 : 1;
  return a < b ? -1 : a > b;
}

static int larger_first(const void *x, const void *y) {
  const block_order_t *a = x;
  const block_order_t *b = y;
  if (a->size != b->size) return a->size < b->size ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

static int by_offset(const void *x, const void *y) {
  const tn_lifetime_t *a = *(const tn_lifetime_t *const *)x;
  const tn_lifetime_t *b = *(const tn_lifetime_t *const *)y;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void sort_lifetimes(arena_plan_t *plan) {
  for (size_t i = 0; i < plan->count; i++) {
    plan->by_first[i] = &plan->lifetimes[i];
    plan->by_last[i] = &plan->lifetimes[i];
  }
  qsort((void *)plan->by_first, plan->count, sizeof *plan->by_first, by_first);
  qsort((void *)plan->by_last, plan->count, sizeof *plan->by_last, by_last);
}

/* Finds the lower bound, and counts the pairs of blocks that are alive at the same time. */
static void measure_lifetimes(arena_plan_t *plan) {
  uint64_t alive = 0;
  size_t ended = 0;
  for (size_t i = 0; i < plan->count; i++) {
    for (; plan->by_last[ended]->last < plan->by_first[i]->first; ended++)
      alive -= plan->by_last[ended]->size;
    alive += plan->by_first[i]->size;
    if (alive > plan->bound) plan->bound = alive;
    plan->pairs += i - ended;
  }
}

/* Keeps the offsets of the blocks if this arena is the smallest so far. */
static void keep_offsets(arena_plan_t *plan, uint64_t size) {
  if (size >= plan->size) return;
  plan->size = size;
  for (size_t i = 0; i < plan->count; i++)
    plan->offsets[i] = plan->lifetimes[i].offset;
}

/* Gaps */

/* Lists for each block the ones that are alive when it begins. */
static void list_earlier(gaps_t *gaps) {
  tn_lifetime_t *const *blocks = gaps->plan->by_first;
  size_t used = 0;
  gaps->begin[0] = 0;
  for (size_t n = 0; n < gaps->plan->count; n++) {
    gaps->number[blocks[n] - gaps->plan->lifetimes] = (int32_t)n;
    for (size_t k = n ? gaps->begin[n - 1] : 0; k < gaps->begin[n]; k++)
      if (blocks[gaps->earlier[k]]->last >= blocks[n]->first)
        gaps->earlier[used++] = gaps->earlier[k];
    if (n && blocks[n - 1]->last >= blocks[n]->first) gaps->earlier[used++] = (int32_t)n - 1;
    gaps->begin[n + 1] = used;
  }
}

/* Lists the placed blocks that are alive together with block n, by offset. Returns their number. */
static size_t list_met(gaps_t *gaps, size_t n) {
  tn_lifetime_t *const *blocks = gaps->plan->by_first;
  size_t count = 0;
  for (size_t k = gaps->begin[n]; k < gaps->begin[n + 1]; k++)
    if (gaps->is_placed[gaps->earlier[k]]) gaps->met[count++] = blocks[gaps->earlier[k]];
  for (size_t m = n + 1; m < gaps->plan->count && blocks[m]->first <= blocks[n]->last; m++)
    if (gaps->is_placed[m]) gaps->met[count++] = blocks[m];
  qsort((void *)gaps->met, count, sizeof *gaps->met, by_offset);
  return count;
}

/* The offset of the smallest gap of at least `size` bytes among blocks that are sorted by offset;
 * the end of those blocks if there is no such gap. */
static uint64_t gap_for(uint64_t size, const tn_lifetime_t *const *blocks, size_t count) {
  uint64_t best = UINT64_MAX;
  uint64_t best_size = UINT64_MAX;
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    if (blocks[i]->offset > end) {
      uint64_t gap = blocks[i]->offset - end;
      if (gap >= size && gap < best_size) {
        best = end;
        best_size = gap;
      }
    }
    if (blocks[i]->offset + blocks[i]->size > end) end = blocks[i]->offset + blocks[i]->size;
  }
  return best != UINT64_MAX ? best : end;
}

/* Places all blocks in one order. Returns the size of the arena. */
static uint64_t place_blocks(gaps_t *gaps, int by_area) {
  const arena_plan_t *plan = gaps->plan;
  uint64_t size = 0;
  for (size_t i = 0; i < plan->count; i++) {
    const tn_lifetime_t *block = &plan->lifetimes[i];
    uint64_t long_for = by_area ? (uint64_t)((int64_t)block->last - block->first) + 1 : 1;
    gaps->order[i] = (block_order_t){block->size / 64 * (long_for < 65536 ? long_for : 65536),
                                     block->first, (int32_t)i};
  }
  qsort(gaps->order, plan->count, sizeof *gaps->order, larger_first);
  memset(gaps->is_placed, 0, plan->count * sizeof *gaps->is_placed);
  for (size_t i = 0; i < plan->count; i++) {
    tn_lifetime_t *block = &plan->lifetimes[gaps->order[i].index];
    int32_t number = gaps->number[gaps->order[i].index];
    size_t met = list_met(gaps, (size_t)number);
    block->offset = gap_for(block->size, gaps->met, met);
    if (block->offset + block->size > size) size = block->offset + block->size;
    gaps->is_placed[number] = true;
  }
  return size;
}

static tenon_status_t try_gaps(arena_plan_t *plan) {
  size_t count = plan->count;
  gaps_t gaps = {.plan = plan,
                 .order = tn_allocate((count + 1) * sizeof *gaps.order),
                 .number = tn_allocate((count + 1) * sizeof *gaps.number),
                 .is_placed = tn_allocate((count + 1) * sizeof *gaps.is_placed),
                 .begin = tn_allocate((count + 1) * sizeof *gaps.begin),
                 .earlier = tn_allocate((plan->pairs + 1) * sizeof *gaps.earlier),
                 .met = tn_allocate((count + 1) * sizeof *gaps.met)};
  bool is_fine =
      gaps.order && gaps.number && gaps.is_placed && gaps.begin && gaps.earlier && gaps.met;
  if (is_fine) list_earlier(&gaps);
  for (int by_area = 0; is_fine && by_area < 2 && plan->size > plan->bound; by_area++)
    keep_offsets(plan, place_blocks(&gaps, by_area));
  tn_release_memory(gaps.order);
  tn_release_memory(gaps.number);
  tn_release_memory(gaps.is_placed);
  tn_release_memory(gaps.begin);
  tn_release_memory(gaps.earlier);
  tn_release_memory((void *)gaps.met);
  return is_fine ? TENON_OK : tn_no_memory("a memory plan", plan->pairs * sizeof *gaps.earlier);
}

/* The whole plan */

#ifndef NDEBUG
static tenon_status_t check_offsets(const arena_plan_t *plan) {
  for (size_t i = 0; i < plan->count; i++) {
    const tn_lifetime_t *a = plan->by_first[i];
    for (size_t j = i + 1; j < plan->count && plan->by_first[j]->first <= a->last; j++) {
      const tn_lifetime_t *b = plan->by_first[j];
      if (a->offset < b->offset + b->size && b->offset < a->offset + a->size)
        return tn_fail(TENON_INTERNAL,
                       "memory plan: blocks %td and %td are alive at the same time and overlap",
                       a - plan->lifetimes, b - plan->lifetimes);
    }
  }
  return TENON_OK;
}
#endif

static tenon_status_t find_offsets(arena_plan_t *plan) {
  if (!plan->by_first || !plan->by_last || !plan->offsets)
    return tn_no_memory("a memory plan", plan->count * sizeof *plan->offsets);
  sort_lifetimes(plan);
  measure_lifetimes(plan);
  bool is_first = plan->pairs / PAIRS_OF_BLOCK <= plan->count;
  if (is_first) TN_TRY(try_gaps(plan));
  if (plan->size > plan->bound) {
    uint64_t size = 0;
    TN_TRY(tn_arena_sweep(plan->lifetimes, plan->by_first, plan->by_last, plan->count, &size));
    keep_offsets(plan, size);
  }
  if (!is_first && plan->size > plan->bound && plan->pairs <= PAIRS_MOST) TN_TRY(try_gaps(plan));
  for (size_t i = 0; i < plan->count; i++)
    plan->lifetimes[i].offset = plan->offsets[i];
#ifndef NDEBUG
  TN_TRY(check_offsets(plan));
#endif
  return TENON_OK;
}

tenon_status_t tn_memory_plan(tn_lifetime_t *lifetimes, size_t count, uint64_t *out_size,
                              uint64_t *out_bound) {
  arena_plan_t plan = {.lifetimes = lifetimes,
                       .count = count,
                       .by_first = tn_allocate((count + 1) * sizeof *plan.by_first),
                       .by_last = tn_allocate((count + 1) * sizeof *plan.by_last),
                       .size = count ? UINT64_MAX : 0,
                       .offsets = tn_allocate((count + 1) * sizeof *plan.offsets)};
  for (size_t i = 0; i < count; i++)
    lifetimes[i].size = (lifetimes[i].size + TN_ALIGNMENT - 1) & ~(uint64_t)(TN_ALIGNMENT - 1);
  tenon_status_t status = find_offsets(&plan);
  *out_size = plan.size;
  *out_bound = plan.bound;
  tn_release_memory((void *)plan.by_first);
  tn_release_memory((void *)plan.by_last);
  tn_release_memory(plan.offsets);
  return status;
}
