/* A pool: segments of one ordinal's memory, or of host memory for its copies, cut into pieces. Free
 * pieces are in bins. Called by memory.c, which knows which streams use a piece. Invariant: the
 * pieces of a segment cover it without overlap, and no two adjacent free pieces belong to one
 * stream. */
#ifndef TN_DEVICE_POOL_H
#define TN_DEVICE_POOL_H

#include <tenon/tenon.h>

#include "device/memory.h"

typedef struct tn_segment_t { /* memory that the plug-in allocated */
  struct tn_segment_t *next;
  void *handle;
  uint64_t size;
  tn_memory_t *first;
} tn_segment_t;

struct tn_pool_t {
  tn_mutex_t lock; /* protects the whole pool; never held during a wait */
  tn_ordinal_t *ordinal;
  bool is_pinned; /* host memory: its pieces belong to no stream */
  struct tn_bins_t *bins;
  tn_segment_t *segments;
  tn_memory_t *deferred; /* deferred frees; read atomically to see whether there are any */
  tn_memory_t *ended;    /* borrowed memory whose owners are notified when the lock is released */
  tn_memory_t *spare;    /* unused records */
  tenon_memory_stats_t stats;
  uint64_t limit;
  bool is_gone; /* the device has stopped; what is in use can only be released */
};

/* The caller of all functions below holds the lock. */
tn_memory_t *tn_pool_record(tn_pool_t *pool); /* an unused record; NULL: out of memory */
void tn_pool_give_record(tn_pool_t *pool, tn_memory_t *memory);
/* Takes a free piece of at least `size` bytes of that stream. *out_memory is NULL if none is
 * cached. */
tenon_status_t tn_pool_take(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                            tn_memory_t **out_memory);
/* The same from a new segment. */
tenon_status_t tn_pool_grow(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                            tn_memory_t **out_memory);
/* Frees a piece that nobody uses. Returns: false if there is no memory for its stream's bins. */
bool tn_pool_put(tn_pool_t *pool, tn_memory_t *memory);
void tn_pool_flush(tn_pool_t *pool); /* returns segments without pieces in use */
/* sizes of what is cached */
void tn_pool_free(tn_pool_t *pool, uint64_t *out_bytes, uint64_t *out_largest);
tn_pool_t *tn_pool_create(tn_ordinal_t *ordinal, bool is_pinned); /* NULL: out of memory */
/* Releases the pool after all its work is done. Records of memory in use, and the pool itself,
 * remain until this memory is freed. */
void tn_pool_release(tn_pool_t *pool);
/* Returns: the last ticket that used the piece in its own stream. */
uint64_t tn_memory_last_use(const tn_memory_t *memory);
void tn_memory_drop_uses(tn_memory_t *memory);

#endif
