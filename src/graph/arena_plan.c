/* Plans the arena of a stage: finds an offset for each block, given its size and lifetime. Every
 * block goes into the smallest gap that fits among the blocks alive at the same time. Two orders
 * are tried, largest block first and largest size times lifetime first, and the smaller arena is
 * taken. Called by stage.c. Invariant: no two blocks that are alive at the same time overlap; debug
 * builds check it. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/executable.h"

static bool are_alive_together(const tn_lifetime_t *a, const tn_lifetime_t *b) {
  return a->first <= b->last && b->first <= a->last;
}

typedef struct block_order_t {
  uint64_t size;
  int32_t first;
  int32_t index;
} block_order_t;

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

/* The offset of the smallest gap that fits `block`, among placed blocks that are alive at the same
 * time; the end of those blocks if there is no such gap. */
static uint64_t gap_for(const tn_lifetime_t *block, const tn_lifetime_t **placed, size_t count) {
  uint64_t best = UINT64_MAX;
  uint64_t best_size = UINT64_MAX;
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    if (!are_alive_together(block, placed[i])) continue;
    if (placed[i]->offset > end) {
      uint64_t gap = placed[i]->offset - end;
      if (gap >= block->size && gap < best_size) {
        best = end;
        best_size = gap;
      }
    }
    if (placed[i]->offset + placed[i]->size > end) end = placed[i]->offset + placed[i]->size;
  }
  return best != UINT64_MAX ? best : end;
}

/* The most bytes alive at one time: no arena can be smaller. */
static uint64_t lower_bound(const tn_lifetime_t *lifetimes, size_t count) {
  uint64_t most = 0;
  /* The maximum is reached where some block begins its life. */
  for (size_t i = 0; i < count; i++) {
    uint64_t alive = 0;
    for (size_t j = 0; j < count; j++)
      if (lifetimes[j].first <= lifetimes[i].first && lifetimes[i].first <= lifetimes[j].last)
        alive += lifetimes[j].size;
    if (alive > most) most = alive;
  }
  return most;
}

/* Places all blocks in one order. Returns the size of the arena. */
static uint64_t place_blocks(tn_lifetime_t *lifetimes, size_t count, int by_area,
                             block_order_t *order, const tn_lifetime_t **placed) {
  uint64_t size = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t long_for =
        by_area ? (uint64_t)((int64_t)lifetimes[i].last - lifetimes[i].first) + 1 : 1;
    order[i] = (block_order_t){lifetimes[i].size / 64 * (long_for < 65536 ? long_for : 65536),
                               lifetimes[i].first, (int32_t)i};
  }
  qsort(order, count, sizeof *order, larger_first);
  for (size_t i = 0; i < count; i++) {
    tn_lifetime_t *block = &lifetimes[order[i].index];
    block->offset = gap_for(block, placed, i);
    if (block->offset + block->size > size) size = block->offset + block->size;
    placed[i] = block;
    for (size_t k = i; k > 0 && by_offset(&placed[k - 1], &placed[k]) > 0; k--) {
      const tn_lifetime_t *swap = placed[k];
      placed[k] = placed[k - 1];
      placed[k - 1] = swap;
    }
  }
  return size;
}

tenon_status_t tn_memory_plan(tn_lifetime_t *lifetimes, size_t count, uint64_t *out_size,
                              uint64_t *out_bound) {
  block_order_t *order = tn_allocate((count + 1) * sizeof *order);
  const tn_lifetime_t **placed = tn_allocate((count + 1) * sizeof *placed);
  if (!order || !placed) {
    tn_release_memory(order);
    tn_release_memory((void *)placed);
    return tn_no_memory("a memory plan", count * sizeof *order);
  }
  uint64_t *best = tn_allocate((count + 1) * sizeof *best);
  if (!best) {
    tn_release_memory(order);
    tn_release_memory((void *)placed);
    return tn_no_memory("a memory plan", count * sizeof *best);
  }
  *out_size = UINT64_MAX;
  for (int32_t i = 0; i < (int32_t)count; i++)
    lifetimes[i].size = (lifetimes[i].size + TN_ALIGNMENT - 1) & ~(uint64_t)(TN_ALIGNMENT - 1);
  for (int by_area = 0; by_area < 2; by_area++) {
    uint64_t size = place_blocks(lifetimes, count, by_area, order, placed);
    if (size >= *out_size) continue;
    *out_size = size;
    for (size_t i = 0; i < count; i++)
      best[i] = lifetimes[i].offset;
  }
  for (size_t i = 0; i < count; i++)
    lifetimes[i].offset = best[i];
  tn_release_memory(best);
  *out_bound = lower_bound(lifetimes, count);
  tn_release_memory(order);
  tn_release_memory((void *)placed);
#ifndef NDEBUG
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < i; j++) {
      const tn_lifetime_t *a = &lifetimes[i];
      const tn_lifetime_t *b = &lifetimes[j];
      if (are_alive_together(a, b) && a->offset < b->offset + b->size &&
          b->offset < a->offset + a->size)
        return tn_fail(TENON_INTERNAL,
                       "memory plan: blocks %zu and %zu are alive at the same time and overlap", i,
                       j);
    }
#endif
  return TENON_OK;
}
