/* The cache of large blocks, see large_block.h. Each slot is taken and filled by one atomic
 * exchange, so no thread waits. Invariant: a block is in at most one slot, and the room of all
 * cached blocks together is at most the limit. */
#include "base/large_block.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/poison.h"

enum {
  SLOTS = 16,
  SMALLEST = 128 << 10, /* the C library keeps smaller blocks by itself */
};

static void *slots[SLOTS]; /* each begins with its room in bytes; NULL: empty */
static size_t room_cached; /* of all blocks in slots */
static size_t room_most = TN_LARGE_MOST;

static size_t room_of(void *block) {
  size_t room;
  TN_UNPOISON(block, sizeof room);
  memcpy(&room, block, sizeof room);
  return room;
}

/* Puts a block whose first bytes state its room into an empty slot. */
static bool fill_slot(void *block, size_t room) {
  TN_POISON(block, room);
  for (int i = 0; i < SLOTS; i++) {
    void *empty = NULL;
    if (__atomic_load_n(&slots[i], __ATOMIC_RELAXED)) continue;
    if (__atomic_compare_exchange_n(&slots[i], &empty, block, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
      return true;
  }
  TN_UNPOISON(block, room);
  return false;
}

static void leave_cache(void *block, size_t room) {
  __atomic_sub_fetch(&room_cached, room, __ATOMIC_RELAXED);
  TN_UNPOISON(block, room);
}

void *tn_large_block_take(size_t size, size_t *out_room) {
  if (size < SMALLEST) return NULL;
  for (int i = 0; i < SLOTS; i++) {
    if (!__atomic_load_n(&slots[i], __ATOMIC_RELAXED)) continue;
    void *block = __atomic_exchange_n(&slots[i], NULL, __ATOMIC_ACQUIRE);
    if (!block) continue;
    const size_t room = room_of(block);
    if (room >= size && room - size <= size / 4) {
      leave_cache(block, room);
      *out_room = room;
      return block;
    }
    if (fill_slot(block, room)) continue;
    leave_cache(block, room);
    free(block);
  }
  return NULL;
}

bool tn_large_block_put(void *block, size_t room) {
  const size_t most = __atomic_load_n(&room_most, __ATOMIC_RELAXED);
  if (room < SMALLEST || room > most) return false;
  if (__atomic_add_fetch(&room_cached, room, __ATOMIC_RELAXED) <= most) {
    memcpy(block, &room, sizeof room);
    if (fill_slot(block, room)) return true;
  }
  __atomic_sub_fetch(&room_cached, room, __ATOMIC_RELAXED);
  return false;
}

void tn_large_blocks_limit(size_t most) { __atomic_store_n(&room_most, most, __ATOMIC_RELAXED); }

bool tn_large_blocks_free(void) {
  bool any = false;
  for (int i = 0; i < SLOTS; i++) {
    void *block = __atomic_exchange_n(&slots[i], NULL, __ATOMIC_ACQUIRE);
    if (!block) continue;
    leave_cache(block, room_of(block));
    free(block);
    any = true;
  }
  return any;
}
