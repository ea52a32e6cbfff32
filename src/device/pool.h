/* A pool: segments of one ordinal's memory, or of host memory that its copies go to directly, cut
 * into pieces, and the pieces that are free, in bins.  Called by memory.c, which knows who uses
 * what.  Invariant: pieces of a segment cover it without overlap, and no two that are free and of
 * one stream lie side by side. */
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
  tn_mutex_t lock; /* of all of it; held over no wait */
  tn_ordinal_t *ordinal;
  bool is_pinned; /* of the host: its pieces belong to no stream */
  struct tn_bins_t *bins;
  tn_segment_t *segments;
  tn_memory_t *waiting; /* let go, but in use by streams; atomic to look whether there are any */
  tn_memory_t *ended;   /* somebody else's: to be told when the lock is let go */
  tn_memory_t *spare;   /* records without memory */
  tenon_memory_stats_t stats;
  uint64_t limit;
  bool is_gone; /* the device was stopped: what is still held is only let go */
};

/* With the lock held, all of these. */
tn_memory_t *tn_pool_record(tn_pool_t *pool); /* a record without memory; NULL: no memory */
void tn_pool_give_record(tn_pool_t *pool, tn_memory_t *memory);
/* A free piece of at least `size` of that stream; *out_memory NULL: none is cached. */
tenon_status_t tn_pool_take(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                            tn_memory_t **out_memory);
/* The same of a new segment. */
tenon_status_t tn_pool_grow(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                            tn_memory_t **out_memory);
bool tn_pool_put(tn_pool_t *pool,
                 tn_memory_t *memory); /* nobody uses it; false: no memory for its stream's bins */
void tn_pool_flush(tn_pool_t *pool);   /* gives segments back that are free as a whole */
void tn_pool_free(tn_pool_t *pool, uint64_t *out_bytes, uint64_t *out_largest); /* what is cached */
tn_pool_t *tn_pool_create(tn_ordinal_t *ordinal, bool is_pinned); /* NULL: no memory */
/* All its work is done.  Records of memory that is still held stay until that is put, and so does
 * the pool. */
void tn_pool_release(tn_pool_t *pool);
/* What was done so far with a piece in its stream. */
uint64_t tn_memory_last_use(const tn_memory_t *memory);
void tn_memory_drop_uses(tn_memory_t *memory);

#endif
