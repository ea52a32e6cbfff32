/* The heap of a mailbox: first fit in an ordered list of free blocks. */
#include "isolation/heap.h"

#include "base/memory.h"
#include "isolation/supervisor.h"

enum {
  GRAIN = 64,
  PAGE = 4096,
  GROWS_BY = 4 << 20,
  CACHED_MOST = 256 << 20,
  FORGET_LEAST = 64 << 10,
};

typedef struct tn_hole_t {
  struct tn_hole_t *next;
  uint64_t offset;
  uint64_t size;
} tn_hole_t;

static uint64_t round_up(uint64_t size, uint64_t grain) {
  return (size + grain - 1) / grain * grain;
}

static bool grow_file(tn_heap_t *heap, uint64_t end) {
  if (end <= heap->grown) return true;
  uint64_t size = round_up(end, GROWS_BY) < heap->size ? round_up(end, GROWS_BY) : heap->size;
  if (!tn_shared_grow(heap->descriptor, size)) return false;
  heap->grown = size;
  return true;
}

bool tn_heap_create(tn_heap_t *heap, int descriptor, void *base, uint64_t first, uint64_t size) {
  *heap = (tn_heap_t){.owner = tn_process_id(),
                      .descriptor = descriptor,
                      .base = base,
                      .begin = first,
                      .size = size,
                      .grown = first};
  if (!(heap->holes = tn_allocate(sizeof *heap->holes))) return false;
  *heap->holes = (tn_hole_t){NULL, first, size - first};
  return true;
}

uint64_t tn_heap_allocate(tn_heap_t *heap, uint64_t size) {
  uint64_t offset = 0;
  if (!size) size = 1;
  if (size > heap->size) return 0;
  size = round_up(size, GRAIN);
  tn_mutex_lock(&heap->lock);
  for (tn_hole_t **at = &heap->holes; *at && !offset; at = &(*at)->next) {
    tn_hole_t *hole = *at;
    if (hole->size < size || !grow_file(heap, hole->offset + size)) continue;
    offset = hole->offset;
    hole->offset += size;
    hole->size -= size;
    heap->cached -= size < heap->cached ? size : heap->cached;
    if (hole->size) break;
    *at = hole->next;
    tn_release_memory(hole);
    break;
  }
  tn_mutex_unlock(&heap->lock);
  return offset;
}

static void join_next(tn_hole_t *hole) {
  tn_hole_t *next = hole->next;
  if (!next || hole->offset + hole->size != next->offset) return;
  hole->size += next->size;
  hole->next = next->next;
  tn_release_memory(next);
}

void tn_heap_free(tn_heap_t *heap, uint64_t offset, uint64_t size) {
  tn_hole_t *before = NULL;
  tn_hole_t *after, *hole;
  size = round_up(size ? size : 1, GRAIN);
  tn_mutex_lock(&heap->lock);
  if (size >= FORGET_LEAST && heap->cached + size > CACHED_MOST) {
    uint64_t first = round_up(offset, PAGE);
    uint64_t last = (offset + size) / PAGE * PAGE;
    if (last > first && heap->owner == tn_process_id())
      tn_shared_discard(heap->descriptor, first, last - first);
  } else {
    heap->cached += size;
  }
  for (after = heap->holes; after && after->offset < offset; after = after->next)
    before = after;
  if (before && before->offset + before->size == offset) {
    before->size += size;
    join_next(before);
  } else if (after && offset + size == after->offset) {
    after->offset = offset;
    after->size += size;
  } else if ((hole = tn_allocate(sizeof *hole))) {
    /* Without memory for the list, the block stays unused. */
    *hole = (tn_hole_t){after, offset, size};
    if (before)
      before->next = hole;
    else
      heap->holes = hole;
  }
  tn_mutex_unlock(&heap->lock);
}

void tn_heap_clear(tn_heap_t *heap) {
  for (tn_hole_t *hole = heap->holes, *next; hole; hole = next) {
    next = hole->next;
    tn_release_memory(hole);
  }
  heap->holes = NULL;
}
