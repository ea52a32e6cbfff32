/* The caching allocator of device memory: best fit in bins, splitting and merging, with one set of
 * bins for each stream. */
#include "device/pool.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"

enum {
  STEPS = 8,            /* bins for each power of two */
  BINS = 40 * STEPS,    /* for 64 bytes to 64 TiB */
  SMALL_MOST = 1 << 20, /* pieces up to this size share segments of SMALL_SEGMENT bytes */
  SMALL_SEGMENT = 2 << 20,
  LARGE_UNIT = 1 << 16, /* granularity of other segments */
  WORDS = BINS / 64,
};

typedef struct tn_bins_t { /* free pieces of one stream, by size */
  struct tn_bins_t *next;
  tenon_stream_t *stream;
  uint64_t occupied[WORDS];
  tn_memory_t *heads[BINS];
} bins_t;

/* Returns the bin of a size: the bin with the largest lower bound that is not above it. */
static int bin_of(uint64_t size) {
  int power = 63 - __builtin_clzll(size);
  int step = power >= 3 ? (int)(size >> (power - 3)) & (STEPS - 1) : 0;
  int bin = (power - 6) * STEPS + step;
  if (bin < 0) return 0;
  return bin < BINS ? bin : BINS - 1;
}

static bins_t *bins_for(tn_pool_t *pool, tenon_stream_t *stream) {
  bins_t *b = pool->bins;
  while (b && b->stream != stream)
    b = b->next;
  if (b || !(b = tn_allocate_zero(1, sizeof *b))) return b;
  b->stream = stream;
  b->next = pool->bins;
  return pool->bins = b;
}

static void insert_free(bins_t *b, tn_memory_t *m) {
  int bin = bin_of(m->size);
  m->is_free = true;
  m->free_before = NULL;
  m->free_after = b->heads[bin];
  if (m->free_after) m->free_after->free_before = m;
  b->heads[bin] = m;
  b->occupied[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void remove_free(bins_t *b, tn_memory_t *m) {
  int bin = bin_of(m->size);
  if (m->free_after) m->free_after->free_before = m->free_before;
  if (m->free_before)
    m->free_before->free_after = m->free_after;
  else if (!(b->heads[bin] = m->free_after))
    b->occupied[bin / 64] &= ~((uint64_t)1 << bin % 64);
  m->is_free = false;
}

/* Returns the smallest piece that fits. Among equal ones, the most recently freed. */
static tn_memory_t *find_best(bins_t *b, uint64_t size) {
  enum { LOOKS = 32 };
  for (int bin = bin_of(size); bin < BINS; bin++) {
    uint64_t rest = b->occupied[bin / 64] >> bin % 64;
    if (!rest) {
      bin |= 63;
      continue;
    }
    bin += __builtin_ctzll(rest);
    tn_memory_t *found = NULL;
    int looks = 0;
    for (tn_memory_t *m = b->heads[bin]; m && looks < LOOKS; m = m->free_after, looks++) {
      if (m->size < size || (found && m->size >= found->size)) continue;
      found = m;
      if (m->size == size) break;
    }
    if (found) return found;
  }
  return NULL;
}

tn_memory_t *tn_pool_record(tn_pool_t *pool) {
  tn_memory_t *m = pool->spare;
  if (m)
    pool->spare = m->after;
  else if (!(m = tn_allocate(sizeof *m)))
    return NULL;
  memset(m, 0, sizeof *m);
  return m;
}

void tn_pool_give_record(tn_pool_t *pool, tn_memory_t *m) {
  m->after = pool->spare;
  pool->spare = m;
}

/* Returns the excess of a piece as a piece of its own. Without memory for its record the piece
 * keeps it. */
static void split_piece(tn_pool_t *pool, bins_t *b, tn_memory_t *m, uint64_t size) {
  uint64_t least = m->size > SMALL_SEGMENT ? 4096 : 256;
  tn_memory_t *rest = m->size - size >= least ? tn_pool_record(pool) : NULL;
  if (!rest) return;
  *rest = (tn_memory_t){.ordinal = m->ordinal,
                        .pool = pool,
                        .stream = m->stream,
                        .handle = m->handle,
                        .segment = m->segment,
                        .offset = m->offset + size,
                        .size = m->size - size,
                        .wrote = m->wrote,
                        .before = m,
                        .after = m->after};
  if (rest->after) rest->after->before = rest;
  m->after = rest;
  m->size = size;
  insert_free(b, rest);
}

/* Merges a piece with the one after it. */
static void join_pieces(tn_pool_t *pool, tn_memory_t *m, tn_memory_t *after) {
  m->size += after->size;
  m->after = after->after;
  if (m->wrote < after->wrote) m->wrote = after->wrote;
  if (m->after) m->after->before = m;
  tn_pool_give_record(pool, after);
}

uint64_t tn_memory_last_use(const tn_memory_t *m) {
  if (!m->stream) return 0;
  uint64_t read = __atomic_load_n(&m->read, __ATOMIC_RELAXED);
  uint64_t wrote = __atomic_load_n(&m->wrote, __ATOMIC_RELAXED);
  uint64_t alone = __atomic_load_n(&m->stream->alone, __ATOMIC_RELAXED);
  uint64_t last = read > wrote ? read : wrote;
  if (!m->ordinal->has_several) return __atomic_load_n(&m->stream->ticket, __ATOMIC_RELAXED);
  return last > alone ? last : alone;
}

bool tn_pool_put(tn_pool_t *pool, tn_memory_t *m) {
  bins_t *b = bins_for(pool, m->stream);
  tn_memory_t *other = m->after;
  if (!b) return false;
  m->wrote = tn_memory_last_use(m);
  m->read = 0;
  if (other && other->is_free && other->stream == m->stream) {
    remove_free(b, other);
    join_pieces(pool, m, other);
  }
  other = m->before;
  if (other && other->is_free && other->stream == m->stream) {
    remove_free(b, other);
    join_pieces(pool, other, m);
    m = other;
  }
  insert_free(b, m);
  return true;
}

tenon_status_t tn_pool_take(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                            tn_memory_t **out_memory) {
  bins_t *b = bins_for(pool, stream);
  if (!b) return tn_no_memory("bins of a device's memory", sizeof *b);
  if (!(*out_memory = find_best(b, size))) return TENON_OK;
  remove_free(b, *out_memory);
  split_piece(pool, b, *out_memory, size);
  return TENON_OK;
}

/* Allocates device memory, or, for a pinned pool, host memory that the device's copies access
 * directly if the plug-in provides such memory. */
static tenon_status_t allocate_segment(const tn_pool_t *pool, uint64_t size, void **out_handle) {
  const tn_ordinal_t *o = pool->ordinal;
  const uint64_t errors = tn_error_count();
  if (!pool->is_pinned)
    return tn_ordinal_complete(o, errors, "allocate",
                               o->table->allocate(&o->context, size, out_handle));
  if (TN_SLOT(o->table, host_allocate))
    return tn_ordinal_complete(o, errors, "host_allocate",
                               o->table->host_allocate(&o->context, size, out_handle));
  *out_handle = size < SIZE_MAX / 2 ? tn_allocate_aligned((size_t)size) : NULL;
  return *out_handle ? TENON_OK : tn_no_memory("copies of a device", (size_t)size);
}

static void end_segment(const tn_pool_t *pool, tn_segment_t *segment) {
  const tn_ordinal_t *o = pool->ordinal;
  if (!pool->is_pinned)
    o->table->free(&o->context, segment->handle);
  else if (TN_SLOT(o->table, host_allocate))
    o->table->host_free(&o->context, segment->handle);
  else
    tn_release_aligned(segment->handle);
  tn_release_memory(segment);
}

static tenon_status_t create_segment(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                                     tn_memory_t **out_memory) {
  tn_memory_t *m = tn_pool_record(pool);
  tn_segment_t *segment = m ? tn_allocate(sizeof *segment) : NULL;
  if (!segment) {
    if (m) tn_pool_give_record(pool, m);
    return tn_no_memory("a device's memory", sizeof *m);
  }
  if (pool->limit && pool->stats.reserved + size > pool->limit) {
    tn_pool_give_record(pool, m);
    tn_release_memory(segment);
    return tn_fail(TENON_MEMORY, "the limit of %" PRIu64 " bytes is reached", pool->limit);
  }
  *segment = (tn_segment_t){pool->segments, NULL, size, m};
  tenon_status_t status = allocate_segment(pool, size, &segment->handle);
  if (status != TENON_OK) {
    tn_pool_give_record(pool, m);
    tn_release_memory(segment);
    return status;
  }
  *m = (tn_memory_t){.ordinal = pool->ordinal,
                     .pool = pool,
                     .stream = stream,
                     .handle = segment->handle,
                     .segment = segment,
                     .size = size};
  pool->segments = segment;
  pool->stats.reserved += size;
  pool->stats.segments++;
  pool->stats.device_allocations++;
  if (pool->stats.reserved_peak < pool->stats.reserved)
    pool->stats.reserved_peak = pool->stats.reserved;
  *out_memory = m;
  return TENON_OK;
}

tenon_status_t tn_pool_grow(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                            tn_memory_t **out_memory) {
  bins_t *b = bins_for(pool, stream);
  if (!b) return tn_no_memory("bins of a device's memory", sizeof *b);
  uint64_t whole =
      size <= SMALL_MOST ? SMALL_SEGMENT : (size + LARGE_UNIT - 1) / LARGE_UNIT * LARGE_UNIT;
  TN_TRY(create_segment(pool, stream, whole, out_memory));
  split_piece(pool, b, *out_memory, size);
  return TENON_OK;
}

static bool is_whole(const tn_memory_t *m) { return m->is_free && !m->before && !m->after; }

void tn_pool_flush(tn_pool_t *pool) {
  for (tn_segment_t **at = &pool->segments, *s; (s = *at);) {
    const tenon_stream_t *stream = s->first->stream;
    if (!is_whole(s->first) || (stream && __atomic_load_n(&stream->kept, __ATOMIC_RELAXED))) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    /* the bins exist, because the piece is in them */
    remove_free(bins_for(pool, s->first->stream), s->first);
    tn_pool_give_record(pool, s->first);
    pool->stats.reserved -= s->size;
    pool->stats.segments--;
    end_segment(pool, s);
  }
}

void tn_pool_free(tn_pool_t *pool, uint64_t *out_bytes, uint64_t *out_largest) {
  *out_bytes = *out_largest = 0;
  for (bins_t *b = pool->bins; b; b = b->next)
    for (int i = 0; i < BINS; i++)
      for (tn_memory_t *m = b->heads[i]; m; m = m->free_after) {
        *out_bytes += m->size;
        if (*out_largest < m->size) *out_largest = m->size;
      }
}

tn_pool_t *tn_pool_create(tn_ordinal_t *o, bool is_pinned) {
  tn_pool_t *pool = tn_allocate_zero(1, sizeof *pool);
  if (pool) {
    pool->ordinal = o;
    pool->is_pinned = is_pinned;
  }
  return pool;
}

void tn_pool_release(tn_pool_t *pool) {
  for (tn_segment_t *s = pool->segments, *next; s; s = next) {
    next = s->next;
    for (tn_memory_t *m = s->first, *after; m; m = after) {
      after = m->after;
      tn_memory_drop_uses(m);
      if (!m->wanted) tn_release_memory(m);
    }
    end_segment(pool, s);
  }
  for (bins_t *b = pool->bins, *next; b; b = next) {
    next = b->next;
    tn_release_memory(b);
  }
  for (tn_memory_t *m = pool->spare, *after; m; m = after) {
    after = m->after;
    tn_release_memory(m);
  }
  pool->is_gone = true;
  if (!pool->stats.live) tn_release_memory(pool);
}
