/* The caching allocator: best fit in bins, split and merge, one set of bins for each stream. */
#include "device/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"

enum {
  STEPS = 8,            /* bins in each power of two */
  BINS = 40 * STEPS,    /* of 64 bytes to 64 TiB */
  SMALL_MOST = 1 << 20, /* pieces up to this size share segments of SMALL_SEGMENT */
  SMALL_SEGMENT = 2 << 20,
  LARGE_UNIT = 1 << 16, /* sizes of other segments */
  WORDS = BINS / 64
};

typedef struct tn_segment_t { /* memory that the plug-in allocated */
  struct tn_segment_t *next;
  void *handle;
  uint64_t size;
  tn_memory_t *first;
} tn_segment_t;

typedef struct bins_t { /* free pieces of one stream, by size */
  struct bins_t *next;
  tenon_stream_t *stream;
  uint64_t there[WORDS];
  tn_memory_t *heads[BINS];
} bins_t;

struct tn_pool_t {
  tn_mutex_t lock; /* of all of it; held over no wait */
  bins_t *bins;
  tn_segment_t *segments;
  tn_memory_t *waiting; /* let go, but in use by other streams */
  tn_memory_t *spare;   /* records without memory */
  tenon_memory_stats_t stats;
  uint64_t limit;
  bool is_gone; /* the device was stopped: what is still held is only let go */
};

static tn_mutex_t uses_lock = TN_MUTEX_INIT; /* of what other streams do with pieces */

/* ---- bins --------------------------------------------------------------------------------------------------------- */

/* Sizes of a bin are at least its own; every size has one. */
static int bin_of(uint64_t size) {
  int power = 63 - __builtin_clzll(size), step = power >= 3 ? (int)(size >> (power - 3)) & (STEPS - 1) : 0;
  int bin = (power - 6) * STEPS + step;
  return bin < 0 ? 0 : bin < BINS ? bin : BINS - 1;
}

static bins_t *bins_for(tn_pool_t *pool, tenon_stream_t *stream) {
  bins_t *b = pool->bins;
  while (b && b->stream != stream) b = b->next;
  if (b || !(b = tn_allocate_zero(1, sizeof *b))) return b;
  b->stream = stream, b->next = pool->bins;
  return pool->bins = b;
}

static void put_in(bins_t *b, tn_memory_t *m) {
  int bin = bin_of(m->size);
  m->is_free = true, m->free_before = NULL, m->free_after = b->heads[bin];
  if (m->free_after) m->free_after->free_before = m;
  b->heads[bin] = m, b->there[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void take_from(bins_t *b, tn_memory_t *m) {
  int bin = bin_of(m->size);
  if (m->free_after) m->free_after->free_before = m->free_before;
  if (m->free_before) m->free_before->free_after = m->free_after;
  else if (!(b->heads[bin] = m->free_after)) b->there[bin / 64] &= ~((uint64_t)1 << bin % 64);
  m->is_free = false;
}

/* The smallest that fits; of several the one that was let go last. */
static tn_memory_t *best(bins_t *b, uint64_t size) {
  enum { LOOKS = 32 };
  for (int bin = bin_of(size); bin < BINS; bin++) {
    uint64_t rest = b->there[bin / 64] >> bin % 64;
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

/* ---- pieces ------------------------------------------------------------------------------------------------------- */

static tn_memory_t *record(tn_pool_t *pool) {
  tn_memory_t *m = pool->spare;
  if (m) pool->spare = m->after;
  else if (!(m = tn_allocate(sizeof *m))) return NULL;
  memset(m, 0, sizeof *m);
  return m;
}

static void give_record(tn_pool_t *pool, tn_memory_t *m) { m->after = pool->spare, pool->spare = m; }

/* What is too much goes back as a piece of its own; without memory for its record it stays. */
static void split(tn_pool_t *pool, bins_t *b, tn_memory_t *m, uint64_t size, uint64_t least) {
  tn_memory_t *rest = m->size - size >= least ? record(pool) : NULL;
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
  m->after = rest, m->size = size;
  put_in(b, rest);
}

/* Joins a piece with the one behind it. */
static void join(tn_pool_t *pool, tn_memory_t *m, tn_memory_t *after) {
  m->size += after->size, m->after = after->after;
  if (m->wrote < after->wrote) m->wrote = after->wrote;
  if (m->after) m->after->before = m;
  give_record(pool, after);
}

static uint64_t last_use(const tn_memory_t *m);

static void free_piece(tn_pool_t *pool, bins_t *b, tn_memory_t *m) {
  tn_memory_t *other = m->after;
  m->wrote = last_use(m), m->read = 0;
  if (other && other->is_free && other->stream == m->stream) take_from(b, other), join(pool, m, other);
  other = m->before;
  if (other && other->is_free && other->stream == m->stream) {
    take_from(b, other), join(pool, other, m);
    m = other;
  }
  put_in(b, m);
}

static bool is_whole(const tn_memory_t *m) { return m->is_free && !m->before && !m->after; }

static void end_segment(tn_ordinal_t *o, tn_segment_t *segment) {
  tn_pool_t *pool = o->pool;
  tn_segment_t **at = &pool->segments;
  while (*at != segment) at = &(*at)->next;
  *at = segment->next;
  o->table->free(&o->context, segment->handle);
  pool->stats.reserved -= segment->size, pool->stats.segments--;
  tn_release_memory(segment);
}

/* Gives segments back that are free as a whole. */
static void flush(tn_ordinal_t *o) {
  tn_pool_t *pool = o->pool;
  for (tn_segment_t *s = pool->segments, *next; s; s = next) {
    next = s->next;
    if (!is_whole(s->first) || __atomic_load_n(&s->first->stream->kept, __ATOMIC_RELAXED)) continue;
    take_from(bins_for(pool, s->first->stream), s->first); /* there is one: the piece is in it */
    give_record(pool, s->first);
    end_segment(o, s);
  }
}

/* What was done so far with a piece in its stream. */
static uint64_t last_use(const tn_memory_t *m) {
  uint64_t read = __atomic_load_n(&m->read, __ATOMIC_RELAXED), wrote = __atomic_load_n(&m->wrote, __ATOMIC_RELAXED);
  uint64_t alone = __atomic_load_n(&m->stream->alone, __ATOMIC_RELAXED), last = read > wrote ? read : wrote;
  if (!m->ordinal->has_several) return __atomic_load_n(&m->stream->ticket, __ATOMIC_RELAXED);
  return last > alone ? last : alone;
}

static tenon_status_t new_segment(tenon_stream_t *stream, uint64_t size, tn_memory_t **out_memory) {
  tn_ordinal_t *o = stream->ordinal;
  tn_pool_t *pool = o->pool;
  tn_memory_t *m = record(pool);
  tn_segment_t *segment = m ? tn_allocate(sizeof *segment) : NULL;
  if (!segment) {
    if (m) give_record(pool, m);
    return tn_no_memory("a device's memory", sizeof *m);
  }
  if (pool->limit && pool->stats.reserved + size > pool->limit) {
    give_record(pool, m), tn_release_memory(segment);
    return tn_fail(TENON_MEMORY, "the limit of %" PRIu64 " bytes is reached", pool->limit);
  }
  *segment = (tn_segment_t){pool->segments, NULL, size, m};
  tenon_status_t status = o->table->allocate(&o->context, size, &segment->handle);
  if (status != TENON_OK) return give_record(pool, m), tn_release_memory(segment), status;
  *m = (tn_memory_t){
      .ordinal = o, .pool = pool, .stream = stream, .handle = segment->handle, .segment = segment, .size = size};
  pool->segments = segment;
  pool->stats.reserved += size, pool->stats.segments++, pool->stats.device_allocations++;
  if (pool->stats.reserved_peak < pool->stats.reserved) pool->stats.reserved_peak = pool->stats.reserved;
  *out_memory = m;
  return TENON_OK;
}

/* ---- pieces that other streams use ---------------------------------------------------------------------------------- */

static void drop_uses(tn_memory_t *m) {
  for (tn_use_t *u = m->uses, *next; u; u = next) next = u->next, tn_release_memory(u);
  m->uses = NULL;
}

static bool is_used(const tn_memory_t *m) {
  for (const tn_use_t *u = m->uses; u; u = u->next)
    if (!tn_stream_is_done(u->stream, u->used) && __atomic_load_n(&u->stream->over, __ATOMIC_ACQUIRE) < u->used)
      return true;
  return false;
}

/* Frees those that nobody uses any more.  Streams are asked, not waited for. */
static void settle(tn_pool_t *pool) {
  for (tn_memory_t **at = &pool->waiting, *m; (m = *at);) {
    for (tn_use_t *u = m->uses; u; u = u->next)
      if (!tn_stream_is_done(u->stream, u->used) && !u->stream->failed && u->stream->native)
        (void)tenon_stream_query(u->stream);
    bins_t *b = is_used(m) ? NULL : bins_for(pool, m->stream);
    if (!b) {
      at = &m->free_after;
      continue;
    }
    *at = m->free_after;
    drop_uses(m);
    free_piece(pool, b, m);
  }
}

static tenon_status_t need(tenon_stream_t *stream, tenon_stream_t *of, uint64_t ticket, tn_needs_t *needs) {
  if (tn_needs_add(needs, of, ticket)) return TENON_OK;
  TN_TRY(tn_stream_follow(stream, needs)); /* more streams than there is room for */
  (void)tn_needs_add(needs, of, ticket);
  return TENON_OK;
}

tenon_status_t tn_memory_share(tn_memory_t *m, tenon_stream_t *stream, uint64_t ticket, bool writes,
                               tn_needs_t *needs) {
  tenon_status_t status = TENON_OK;
  tn_use_t *own = NULL;
  tn_mutex_lock(&uses_lock);
  if (m->stream != stream)
    status = need(stream, m->stream, writes ? last_use(m) : __atomic_load_n(&m->wrote, __ATOMIC_RELAXED), needs);
  for (tn_use_t *u = m->uses; u && status == TENON_OK; u = u->next) {
    if (u->stream == stream) own = u;
    else status = need(stream, u->stream, writes ? u->used : u->wrote, needs);
  }
  if (status == TENON_OK && m->stream == stream) {
    __atomic_store_n(writes ? &m->wrote : &m->read, ticket, __ATOMIC_RELAXED);
  } else if (status == TENON_OK) {
    if (!own && (own = tn_allocate(sizeof *own))) {
      *own = (tn_use_t){m->uses, stream, 0, 0};
      __atomic_store_n(&m->uses, own, __ATOMIC_RELEASE);
    }
    if (own) own->used = ticket, own->wrote = writes ? ticket : own->wrote;
    else status = tn_no_memory("a use of a device's memory", sizeof *own);
  }
  tn_mutex_unlock(&uses_lock);
  return status;
}

/* ---- getting and putting -------------------------------------------------------------------------------------------- */

static uint64_t rounded(const tn_ordinal_t *o, uint64_t bytes) {
  uint64_t unit = o->properties.alignment < 256 ? 256 : o->properties.alignment;
  return (bytes + unit - 1) / unit * unit;
}

static tenon_status_t find(tenon_stream_t *stream, uint64_t size, tn_memory_t **out_memory) {
  tn_pool_t *pool = stream->ordinal->pool;
  bins_t *b = bins_for(pool, stream);
  if (!b) return tn_no_memory("bins of a device's memory", sizeof *b);
  tn_memory_t *m = best(b, size);
  if (!m && pool->waiting) settle(pool), m = best(b, size);
  if (m) take_from(b, m);
  else {
    uint64_t whole = size <= SMALL_MOST ? SMALL_SEGMENT : (size + LARGE_UNIT - 1) / LARGE_UNIT * LARGE_UNIT;
    TN_TRY(new_segment(stream, whole, &m));
  }
  split(pool, b, m, size, m->size > SMALL_SEGMENT ? 4096 : 256);
  return *out_memory = m, TENON_OK;
}

static tenon_status_t out_of_memory(tn_ordinal_t *o, uint64_t bytes) {
  tn_pool_t *pool = o->pool;
  tn_text_t text = {0};
  uint64_t largest = 0, free = 0;
  for (bins_t *b = pool->bins; b; b = b->next)
    for (int i = 0; i < BINS; i++)
      for (tn_memory_t *m = b->heads[i]; m; m = m->free_after) {
        free += m->size;
        if (largest < m->size) largest = m->size;
      }
  tn_text_add(&text, "%s", tn_error());
  tenon_status_t status =
      tn_fail(TENON_MEMORY,
              "device %s:%d has no memory for %" PRIu64 " bytes: %" PRIu64 " tensors hold %" PRIu64
              " bytes (at most %" PRIu64 " so far), %" PRIu64 " bytes are cached in pieces of at most %" PRIu64
              ", the device has %" PRIu64 " in all; free some, or run smaller parts (%s)",
              o->plugin->name, (int)o->context.ordinal, bytes, pool->stats.live, pool->stats.live_bytes,
              pool->stats.live_bytes_peak, free, largest, o->properties.memory, tn_text_get(&text));
  tn_text_clear(&text);
  return status;
}

static void count_get(tn_pool_t *pool, const tn_memory_t *m) {
  tenon_memory_stats_t *s = &pool->stats;
  s->allocations++, s->live++;
  if ((s->live_bytes += m->wanted) > s->live_bytes_peak) s->live_bytes_peak = s->live_bytes;
}

tenon_status_t tn_memory_get(tenon_stream_t *stream, uint64_t bytes, tn_memory_t **out_memory) {
  tn_ordinal_t *o = stream->ordinal;
  tn_pool_t *pool = o->pool;
  tn_memory_t *m = NULL;
  if (bytes > INT64_MAX / 2) return tn_fail(TENON_INVALID, "%" PRIu64 " bytes are more than any device has", bytes);
  uint64_t size = rounded(o, bytes ? bytes : 1);
  tn_mutex_lock(&pool->lock);
  tenon_status_t status = find(stream, size, &m);
  if (status == TENON_MEMORY) { /* what other streams still use may be all that is needed */
    pool->stats.flushes++;
    tn_mutex_unlock(&pool->lock);
    (void)tn_ordinal_finish(o);
    tn_mutex_lock(&pool->lock);
    settle(pool), flush(o);
    status = find(stream, size, &m);
    if (status == TENON_MEMORY) pool->stats.failures++, status = out_of_memory(o, bytes);
  }
  if (status == TENON_OK) {
    m->wanted = bytes ? bytes : 1;
    count_get(pool, m);
    *out_memory = m;
  }
  tn_mutex_unlock(&pool->lock);
  return status;
}

void tn_memory_put(void *memory) {
  tn_memory_t *m = memory;
  tn_pool_t *pool = m->pool;
  tn_mutex_lock(&pool->lock);
  if (pool->is_gone) {
    bool is_last = --pool->stats.live == 0;
    tn_mutex_unlock(&pool->lock);
    tn_release_memory(m);
    if (is_last) tn_release_memory(pool);
    return;
  }
  pool->stats.live--, pool->stats.live_bytes -= m->wanted, pool->stats.frees++;
  m->wanted = 0;
  bins_t *b = m->segment && !is_used(m) ? bins_for(pool, m->stream) : NULL;
  if (!m->segment) {
    drop_uses(m);
    give_record(pool, m);
  } else if (b) {
    drop_uses(m);
    free_piece(pool, b, m);
  } else m->free_after = pool->waiting, pool->waiting = m;
  tn_mutex_unlock(&pool->lock);
}

tenon_status_t tn_memory_borrow(tenon_stream_t *stream, void *handle, uint64_t bytes, tn_memory_t **out_memory) {
  tn_pool_t *pool = stream->ordinal->pool;
  tn_mutex_lock(&pool->lock);
  tn_memory_t *m = record(pool);
  if (m) {
    m->ordinal = stream->ordinal, m->pool = pool, m->stream = stream, m->handle = handle, m->size = m->wanted = bytes;
    count_get(pool, m);
  }
  tn_mutex_unlock(&pool->lock);
  return (*out_memory = m) ? TENON_OK : tn_no_memory("a device's memory", sizeof *m);
}

/* ---- the pool ----------------------------------------------------------------------------------------------------- */

tenon_status_t tn_pool_start(tn_ordinal_t *o) {
  o->pool = tn_allocate_zero(1, sizeof *o->pool);
  return o->pool ? TENON_OK : tn_no_memory("a device's memory", sizeof *o->pool);
}

uint64_t tn_pool_live(tn_ordinal_t *o) { return __atomic_load_n(&o->pool->stats.live, __ATOMIC_RELAXED); }

void tn_pool_in_child(tn_ordinal_t *o) {
  uses_lock = (tn_mutex_t)TN_MUTEX_INIT;
  o->pool->lock = (tn_mutex_t)TN_MUTEX_INIT;
}

void tn_pool_lose(tn_ordinal_t *o) { /* the parent's records stay: they may have been half changed */
  o->pool->is_gone = true;
  o->pool = NULL;
}

void tn_pool_release(tn_ordinal_t *o) {
  tn_pool_t *pool = o->pool;
  for (tn_segment_t *s = pool->segments, *next; s; s = next) {
    next = s->next;
    for (tn_memory_t *m = s->first, *after; m; m = after) {
      after = m->after;
      drop_uses(m);
      if (!m->wanted) tn_release_memory(m);
    }
    o->table->free(&o->context, s->handle);
    tn_release_memory(s);
  }
  for (bins_t *b = pool->bins, *next; b; b = next) next = b->next, tn_release_memory(b);
  for (tn_memory_t *m = pool->spare, *after; m; m = after) after = m->after, tn_release_memory(m);
  pool->is_gone = true;
  if (!pool->stats.live) tn_release_memory(pool);
  o->pool = NULL;
}

tenon_status_t tenon_memory_stats(tenon_device_t device, tenon_memory_stats_t *stats) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  uint32_t size = stats->size;
  tn_mutex_lock(&o->pool->lock);
  tenon_memory_stats_t all = o->pool->stats;
  tn_mutex_unlock(&o->pool->lock);
  memcpy(stats, &all, size < sizeof all ? size : sizeof all);
  stats->size = size;
  return TENON_OK;
}

tenon_status_t tenon_memory_trim(tenon_device_t device) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  tn_mutex_lock(&o->pool->lock);
  settle(o->pool), flush(o);
  tn_mutex_unlock(&o->pool->lock);
  return TENON_OK;
}

tenon_status_t tenon_memory_limit_set(tenon_device_t device, uint64_t bytes) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  tn_mutex_lock(&o->pool->lock);
  o->pool->limit = bytes;
  tn_mutex_unlock(&o->pool->lock);
  return TENON_OK;
}
