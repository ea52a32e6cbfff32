/* Cached memory of ordinals. The plug-in allocates segments, which are cut into pieces; each piece
 * belongs to one stream. A freed piece is available at once to the same stream. If other streams
 * have used it, its free is deferred until their work is over. Called where storages are created
 * and freed, and before work uses them. Invariant: the pieces of a segment cover it without
 * overlap, and no two adjacent free pieces belong to one stream. */
#ifndef TN_DEVICE_MEMORY_H
#define TN_DEVICE_MEMORY_H

#include "device/stream.h"

typedef struct tn_use_t { /* use of a piece by another stream than its own */
  struct tn_use_t *next;
  tenon_stream_t *stream;
  uint64_t used;
  uint64_t wrote; /* the last tickets */
} tn_use_t;

typedef struct tn_owner_t { /* owner of borrowed memory */
  /* release(context) is called when nothing uses the memory any more; NULL: no notification. */
  tenon_free_fn release;
  void *context;
  bool is_imported; /* the handle is from memory_import */
  /* "Nothing uses it" is meant in the order of its stream, which waits for the other streams. */
  bool is_ordered;
} tn_owner_t;

typedef struct tn_memory_t {
  tn_ordinal_t *ordinal;
  tn_pool_t *pool;
  /* may use the piece without a wait; NULL: host memory, which belongs to no stream */
  tenon_stream_t *stream;
  /* The last tickets of that stream that read the piece (tracked from the second stream on) and
   * that wrote to it or used it before it became this piece. Atomic. */
  uint64_t read;
  uint64_t wrote;
  tn_use_t *uses; /* by other streams; atomic, protected by a lock of memory.c */
  void *handle;
  uint64_t offset;
  uint64_t size;
  uint64_t wanted;              /* bytes requested; 0: free, or its free is deferred */
  struct tn_segment_t *segment; /* NULL: borrowed memory */
  tn_owner_t *owner;            /* of borrowed memory */
  struct tn_memory_t *before;
  struct tn_memory_t *after; /* neighbours in the segment */
  struct tn_memory_t *free_before;
  struct tn_memory_t *free_after; /* neighbours in a bin, or in the list of deferred frees */
  bool is_free;
} tn_memory_t;

tenon_status_t tn_memory_start(tn_ordinal_t *ordinal);
/* Called before the ordinal's streams end, and before any ordinal of its plug-in stops. */
void tn_memory_stop(tn_ordinal_t *ordinal);
/* in a child after fork(): no other thread holds its locks */
void tn_memory_in_child(tn_ordinal_t *ordinal);
void tn_memory_lose(tn_ordinal_t *ordinal); /* memory is then neither given out nor taken back */
uint64_t tn_memory_live(tn_ordinal_t *ordinal); /* number of pieces in use */

/* Allocates at least `bytes` for work of that stream. Errors: MEMORY, with a report, after cached
 * memory was returned to the device. */
tenon_status_t tn_memory_get(tenon_stream_t *stream, uint64_t bytes, tn_memory_t **out_memory);
/* Allocates host memory that copies of the ordinal access directly. It belongs to no stream and is
 * reused when the host has seen that all copies are done. */
tenon_status_t tn_memory_get_pinned(tn_ordinal_t *ordinal, uint64_t bytes,
                                    tn_memory_t **out_memory);
void tn_memory_put(void *memory); /* release function of a storage; any thread */
/* Wraps memory of another owner. It is ordered with that stream: work already in the stream may use
 * it. `stream` NULL means host memory. The owner is copied and notified once, at the latest when
 * the device stops; after an error it is not notified. */
tenon_status_t tn_memory_borrow(tn_ordinal_t *ordinal, tenon_stream_t *stream, void *handle,
                                uint64_t bytes, const tn_owner_t *owner, tn_memory_t **out_memory);
/* Waits on the host for all work that uses the memory. */
tenon_status_t tn_memory_wait(tn_memory_t *memory);
/* Notes that others have used the memory in that stream up to now, so that later work waits for it.
 * Releases the stream. */
void tn_memory_lent(tn_memory_t *memory, tenon_stream_t *stream);
/* Performs the deferred frees whose work is over. Streams are queried, not waited for. */
void tn_memory_run_deferred_frees(tn_ordinal_t *ordinal);

/* Notes that work of `stream` with this ticket will use the memory. Adds to `needs` what the stream
 * must wait for before that work is enqueued. */
tenon_status_t tn_memory_share(tn_memory_t *memory, tenon_stream_t *stream, uint64_t ticket,
                               bool writes, tn_needs_t *needs);
static inline tenon_status_t tn_memory_use(tn_memory_t *m, tenon_stream_t *stream, uint64_t ticket,
                                           bool writes, tn_needs_t *needs) {
  if (__builtin_expect(m->stream != stream || __atomic_load_n(&m->uses, __ATOMIC_RELAXED), 0))
    return tn_memory_share(m, stream, ticket, writes, needs);
  if (writes)
    __atomic_store_n(&m->wrote, ticket, __ATOMIC_RELAXED);
  else if (__builtin_expect(__atomic_load_n(&m->ordinal->has_several, __ATOMIC_RELAXED), 0))
    __atomic_store_n(&m->read, ticket, __ATOMIC_RELAXED);
  return TENON_OK;
}

#endif
