/* Room for tensors in the memory that is shared with an isolated library: which parts of it are in
 * use.  The list is the host's own, so that nobody else can damage it.  Any thread. */
#ifndef TN_ISOLATION_ROOM_H
#define TN_ISOLATION_ROOM_H

#include "base/thread.h"
#include "isolation/mailbox.h"

typedef struct tn_room_t {
  tn_mutex_t lock;
  int descriptor;
  int32_t
      /* the process that made it: a child of fork lets go of tensors that are its parent's still */
      owner;
  char *base; /* of the mapping */
  uint64_t begin;
  uint64_t size;           /* where the room begins in it, and where the mapping ends */
  uint64_t grown;          /* size of the file: what lies past it cannot be touched */
  uint64_t cached;         /* bytes that are free and may still have memory */
  struct tn_hole_t *holes; /* free parts, in order */
} tn_room_t;

/* The room is [first, size) of the mapping; the file has `first` bytes.  False: out of memory. */
bool tn_room_begin(tn_room_t *room, int descriptor, void *base, uint64_t first, uint64_t size);
/* `size` bytes at a multiple of 64; the offset in the mapping, 0: there is no room, or no memory
 * for the list. */
uint64_t tn_room_take(tn_room_t *room, uint64_t size);
/* `size` is as it was asked for. */
void tn_room_give(tn_room_t *room, uint64_t offset, uint64_t size);
void tn_room_clear(tn_room_t *room);

#endif
