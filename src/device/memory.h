/* Memory of ordinals, cached: pieces of segments that the plug-in allocated, each in order with one
 * stream.  A piece that is let go is at once there for the same stream; for what other streams did
 * with it, it waits on their events.  Called where storages are made and freed, and before work
 * uses them.  Invariant: pieces of a segment cover it without overlap, and no two that are free and
 * of one stream lie side by side. */
#ifndef TN_DEVICE_MEMORY_H
#define TN_DEVICE_MEMORY_H

#include "device/stream.h"

typedef struct tn_use_t { /* of a piece by another stream than its own */
  struct tn_use_t *next;
  tenon_stream_t *stream;
  uint64_t used;
  uint64_t wrote; /* the last tickets */
} tn_use_t;

typedef struct tn_owner_t { /* of memory that is somebody else's */
  tenon_free_fn
      release; /* release(context) when nothing uses it any more; NULL: need not be told */
  void *context;
  bool is_imported; /* its handle is from memory_import */
  bool
      /* "nothing uses it" is meant in the order of its stream, which follows the others */
      is_ordered;
} tn_owner_t;

typedef struct tn_memory_t {
  tn_ordinal_t *ordinal;
  tn_pool_t *pool;
  tenon_stream_t *stream; /* that may use it without a wait; NULL: none, of host memory */
  /* The last tickets of that stream that read it (kept from the second stream on) and wrote to it,
   * or used it before it was this piece; atomic. */
  uint64_t read;
  uint64_t wrote;
  tn_use_t *uses; /* of other streams, atomic; under a lock of memory.c */
  void *handle;
  uint64_t offset;
  uint64_t size;
  uint64_t wanted;              /* wanted: bytes asked for; 0: it is free, or waits to be */
  struct tn_segment_t *segment; /* NULL: somebody else's memory */
  tn_owner_t *owner;            /* of that */
  struct tn_memory_t *before;
  struct tn_memory_t *after; /* in the segment */
  struct tn_memory_t *free_before;
  struct tn_memory_t *free_after; /* in a bin, or in the list of those that wait */
  bool is_free;
} tn_memory_t;

tenon_status_t tn_memory_start(tn_ordinal_t *ordinal);
void tn_memory_stop(
    tn_ordinal_t *ordinal); /* before its streams end, and before any of its plug-in do */
void tn_memory_in_child(tn_ordinal_t *ordinal); /* no other thread has its locks */
void tn_memory_lose(tn_ordinal_t *ordinal); /* nothing of it is given out or given back any more */
uint64_t tn_memory_live(tn_ordinal_t *ordinal); /* pieces that are held */

/* At least `bytes`, for work of that stream.  MEMORY: with a report, after what was cached has been
 * given back. */
tenon_status_t tn_memory_get(tenon_stream_t *stream, uint64_t bytes, tn_memory_t **out_memory);
/* The same of host memory that copies of the ordinal go to and from directly.  It belongs to no
 * stream: what is let go serves again when the host has seen that all copies of it are done. */
tenon_status_t tn_memory_get_pinned(tn_ordinal_t *ordinal, uint64_t bytes,
                                    tn_memory_t **out_memory);
void tn_memory_put(void *memory); /* a storage's release function: any thread */
/* Memory of somebody else's, in order with that stream: what is in it now may use it.  stream NULL:
 * host memory.  The owner is copied, and told once, at the latest when the device stops; not when
 * this fails. */
tenon_status_t tn_memory_borrow(tn_ordinal_t *ordinal, tenon_stream_t *stream, void *handle,
                                uint64_t bytes, const tn_owner_t *owner, tn_memory_t **out_memory);
/* The host waits for all work that uses it. */
tenon_status_t tn_memory_wait(tn_memory_t *memory);
/* Somebody else used it in that stream, up to now: later work comes after that.  Gives the stream
 * back. */
void tn_memory_lent(tn_memory_t *memory, tenon_stream_t *stream);
/* Ends what was let go and is not used any more.  Streams are asked, not waited for. */
void tn_memory_settle(tn_ordinal_t *ordinal);

/* Work of `stream` with that ticket is going to use it; what the stream must come after is added to
 * `needs`, which it follows before that work is enqueued. */
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
