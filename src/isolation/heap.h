/* The heap for tensors in the memory that is shared with an isolated library. The list of free
 * blocks is in the host's private memory, so that a worker process cannot damage it. Any thread may
 * call these functions. */
#ifndef TN_ISOLATION_HEAP_H
#define TN_ISOLATION_HEAP_H

#include "base/thread.h"
#include "isolation/mailbox.h"

typedef struct tn_heap_t {
  tn_mutex_t lock;
  int descriptor;
  /* The process that created the heap. A child after fork() releases tensors that its parent still
   * uses, and must not discard their pages. */
  int32_t owner;
  char *base; /* of the mapping */
  uint64_t begin;
  uint64_t size;           /* the heap is [begin, size) of the mapping */
  uint64_t grown;          /* size of the file; memory beyond it cannot be accessed */
  uint64_t cached;         /* free bytes that may still have pages */
  struct tn_hole_t *holes; /* free blocks, ordered by offset */
} tn_heap_t;

/* Creates the heap in [first, size) of the mapping. The file has `first` bytes. Returns: false if
 * out of memory. */
bool tn_heap_create(tn_heap_t *heap, int descriptor, void *base, uint64_t first, uint64_t size);
/* Allocates `size` bytes, aligned to 64. Returns: the offset in the mapping, or 0 if there is no
 * space or no memory for the list. */
uint64_t tn_heap_allocate(tn_heap_t *heap, uint64_t size);
/* Frees a block; `size` is the size that was requested. */
void tn_heap_free(tn_heap_t *heap, uint64_t offset, uint64_t size);
void tn_heap_clear(tn_heap_t *heap);

#endif
