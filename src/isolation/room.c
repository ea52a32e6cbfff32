/* Room for tensors: first fit in a list of holes. */
#include "isolation/room.h"

#include "base/memory.h"
#include "isolation/keeper.h"

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

static uint64_t rounded(uint64_t size, uint64_t grain) {
  return (size + grain - 1) / grain * grain;
}

static bool grow(tn_room_t *room, uint64_t end) {
  if (end <= room->grown) return true;
  uint64_t size = rounded(end, GROWS_BY) < room->size ? rounded(end, GROWS_BY) : room->size;
  if (!tn_shared_grow(room->descriptor, size)) return false;
  room->grown = size;
  return true;
}

bool tn_room_begin(tn_room_t *room, int descriptor, void *base, uint64_t first, uint64_t size) {
  *room = (tn_room_t){.owner = tn_process_id(),
                      .descriptor = descriptor,
                      .base = base,
                      .begin = first,
                      .size = size,
                      .grown = first};
  if (!(room->holes = tn_allocate(sizeof *room->holes))) return false;
  *room->holes = (tn_hole_t){NULL, first, size - first};
  return true;
}

uint64_t tn_room_take(tn_room_t *room, uint64_t size) {
  uint64_t offset = 0;
  if (!size) size = 1;
  if (size > room->size) return 0;
  size = rounded(size, GRAIN);
  tn_mutex_lock(&room->lock);
  for (tn_hole_t **at = &room->holes; *at && !offset; at = &(*at)->next) {
    tn_hole_t *hole = *at;
    if (hole->size < size || !grow(room, hole->offset + size)) continue;
    offset = hole->offset;
    hole->offset += size;
    hole->size -= size;
    room->cached -= size < room->cached ? size : room->cached;
    if (hole->size) break;
    *at = hole->next;
    tn_release_memory(hole);
    break;
  }
  tn_mutex_unlock(&room->lock);
  return offset;
}

static void join(tn_hole_t *hole) {
  tn_hole_t *next = hole->next;
  if (!next || hole->offset + hole->size != next->offset) return;
  hole->size += next->size;
  hole->next = next->next;
  tn_release_memory(next);
}

void tn_room_give(tn_room_t *room, uint64_t offset, uint64_t size) {
  tn_hole_t *before = NULL;
  tn_hole_t *after, *hole;
  size = rounded(size ? size : 1, GRAIN);
  tn_mutex_lock(&room->lock);
  if (size >= FORGET_LEAST && room->cached + size > CACHED_MOST) {
    uint64_t first = rounded(offset, PAGE);
    uint64_t last = (offset + size) / PAGE * PAGE;
    if (last > first && room->owner == tn_process_id())
      tn_shared_forget(room->descriptor, first, last - first);
  } else {
    room->cached += size;
  }
  for (after = room->holes; after && after->offset < offset; after = after->next)
    before = after;
  if (before && before->offset + before->size == offset) {
    before->size += size;
    join(before);
  } else if (after && offset + size == after->offset) {
    after->offset = offset;
    after->size += size;
  } else if ((hole = tn_allocate(sizeof *hole))) { /* else that part stays unused */
    *hole = (tn_hole_t){after, offset, size};
    if (before)
      before->next = hole;
    else
      room->holes = hole;
  }
  tn_mutex_unlock(&room->lock);
}

void tn_room_clear(tn_room_t *room) {
  for (tn_hole_t *hole = room->holes, *next; hole; hole = next) {
    next = hole->next;
    tn_release_memory(hole);
  }
  room->holes = NULL;
}
