/* The use of device memory by streams, deferred frees, and memory of other owners. The allocator
 * below it is pool.c. */
#include "device/memory.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/pool.h"

/* Protects the lists of uses by other streams. */
static tn_mutex_t uses_lock = TN_MUTEX_INIT;

void tn_memory_drop_uses(tn_memory_t *m) {
  for (tn_use_t *u = m->uses, *next; u; u = next) {
    next = u->next;
    tn_release_memory(u);
  }
  m->uses = NULL;
}

/* Is all work of the stream up to `ticket` over? After a failure, the remaining work is discarded
 * and is over, too. */
static bool is_over(const tenon_stream_t *s, uint64_t ticket) {
  return tn_stream_is_done(s, ticket) || __atomic_load_n(&s->over, __ATOMIC_ACQUIRE) >= ticket;
}

static bool has_unfinished_use(const tn_memory_t *m) {
  for (const tn_use_t *u = m->uses; u; u = u->next)
    if (!is_over(u->stream, u->used)) return true;
  return m->owner && m->stream && !m->owner->is_ordered &&
         !is_over(m->stream, tn_memory_last_use(m));
}

static tenon_status_t add_need(tenon_stream_t *stream, tenon_stream_t *of, uint64_t ticket,
                               tn_needs_t *needs) {
  if (tn_needs_add(needs, of, ticket)) return TENON_OK;
  /* The list is full: wait for the streams in it, and start again. */
  TN_TRY(tn_stream_follow(stream, needs));
  (void)tn_needs_add(needs, of, ticket);
  return TENON_OK;
}

tenon_status_t tn_memory_share(tn_memory_t *m, tenon_stream_t *stream, uint64_t ticket, bool writes,
                               tn_needs_t *needs) {
  tenon_status_t status = TENON_OK;
  tn_use_t *own = NULL;
  tn_mutex_lock(&uses_lock);
  if (m->stream && m->stream != stream)
    status = add_need(stream, m->stream,
                      writes ? tn_memory_last_use(m) : __atomic_load_n(&m->wrote, __ATOMIC_RELAXED),
                      needs);
  for (tn_use_t *u = m->uses; u && status == TENON_OK; u = u->next) {
    if (u->stream == stream)
      own = u;
    else
      status = add_need(stream, u->stream, writes ? u->used : u->wrote, needs);
  }
  if (status == TENON_OK && m->stream == stream) {
    __atomic_store_n(writes ? &m->wrote : &m->read, ticket, __ATOMIC_RELAXED);
  } else if (status == TENON_OK) {
    if (!own && (own = tn_allocate(sizeof *own))) {
      *own = (tn_use_t){m->uses, stream, 0, 0};
      __atomic_store_n(&m->uses, own, __ATOMIC_RELEASE);
    }
    if (own) {
      own->used = ticket;
      own->wrote = writes ? ticket : own->wrote;
    } else
      status = tn_no_memory("a use of a device's memory", sizeof *own);
  }
  tn_mutex_unlock(&uses_lock);
  return status;
}

/* Lists the streams that still have work on the memory. */
static void list_users(tn_memory_t *m, tn_needs_t *out_users) {
  uint64_t last = tn_memory_last_use(m);
  *out_users = (tn_needs_t){0};
  tn_mutex_lock(&uses_lock);
  if (m->stream && !is_over(m->stream, last)) (void)tn_needs_add(out_users, m->stream, last);
  for (tn_use_t *u = m->uses; u; u = u->next)
    if (!is_over(u->stream, u->used)) /* a stream that does not fit is listed in the next round */
      (void)tn_needs_add(out_users, u->stream, u->used);
  tn_mutex_unlock(&uses_lock);
}

tenon_status_t tn_memory_wait(tn_memory_t *m) {
  enum { ROUNDS = 64 }; /* each handles as many streams as tn_needs_t holds */
  tn_needs_t all = {.count = TN_NEEDS};
  tenon_status_t first = TENON_OK;
  for (int round = 0; all.count == TN_NEEDS && round < ROUNDS; round++) {
    list_users(m, &all);
    for (size_t i = 0; i < all.count; i++) {
      tenon_stream_t *s = (tenon_stream_t *)(uintptr_t)all.at[i].stream;
      tenon_status_t status = tn_stream_finish(s);
      if (status != TENON_OK) tn_stream_drain(s);
      if (first == TENON_OK) first = status;
      __atomic_add_fetch(&tn_waits.host, 1, __ATOMIC_RELAXED);
    }
  }
  return first;
}

void tn_memory_lent(tn_memory_t *m, tenon_stream_t *stream) {
  tn_needs_t needs = {0};
  tn_mutex_lock(&m->pool->lock);
  bool is_gone = m->pool->is_gone;
  tn_mutex_unlock(&m->pool->lock);
  if (is_gone) return; /* the stream is gone, too */
  if (tn_memory_use(m, stream, tn_stream_mark(stream), true, &needs) != TENON_OK)
    (void)tn_stream_finish(stream);
  tenon_stream_release(stream);
}

/* Tells the owner of borrowed memory that nobody uses it any more. */
static void notify_owner(tn_memory_t *m, bool is_gone) {
  const tn_owner_t *owner = m->owner;
  const tn_ordinal_t *o = m->ordinal;
  if (owner->is_imported && !is_gone) o->table->memory_forget(&o->context, m->handle);
  if (owner->release) owner->release(owner->context);
  tn_release_memory(m->owner);
  tn_release_memory(m);
}

static void unlock_and_notify(tn_pool_t *pool) {
  tn_memory_t *ended = pool->ended;
  pool->ended = NULL;
  tn_mutex_unlock(&pool->lock);
  for (tn_memory_t *next; ended; ended = next) {
    next = ended->free_after;
    notify_owner(ended, false);
  }
}

static void defer_free(tn_pool_t *pool, tn_memory_t *m) {
  m->free_after = pool->deferred;
  __atomic_store_n(&pool->deferred, m, __ATOMIC_RELAXED);
}

/* Frees memory that nobody uses, or collects it for its owner. Returns: false if there was no
 * memory for the list of free pieces. */
static bool end_use(tn_pool_t *pool, tn_memory_t *m) {
  tn_memory_drop_uses(m);
  if (!m->owner) return tn_pool_put(pool, m);
  m->free_after = pool->ended;
  pool->ended = m;
  return true;
}

/* Queries a stream without waiting. */
static void poll_stream(tenon_stream_t *s, uint64_t ticket) {
  if (!is_over(s, ticket) && !s->failed && (s->native || s == s->ordinal->first))
    (void)tn_stream_poll(s);
}

/* Performs the deferred frees whose memory is no longer in use. */
static void run_deferred_frees(tn_pool_t *pool) {
  for (tn_memory_t **at = &pool->deferred, *m; (m = *at);) {
    tn_memory_t *next = m->free_after;
    for (tn_use_t *u = m->uses; u; u = u->next)
      poll_stream(u->stream, u->used);
    if (m->owner && m->stream) poll_stream(m->stream, tn_memory_last_use(m));
    if (has_unfinished_use(m))
      at = &m->free_after;
    else if (end_use(pool, m))
      __atomic_store_n(at, next, __ATOMIC_RELAXED);
    else {
      m->free_after = next;
      return;
    }
  }
}

void tn_memory_run_deferred_frees(tn_ordinal_t *o) {
  tn_pool_t *pools[] = {o->pool, o->pinned};
  for (int i = 0; i < 2; i++) {
    if (!__atomic_load_n(&pools[i]->deferred, __ATOMIC_RELAXED)) continue;
    tn_mutex_lock(&pools[i]->lock);
    run_deferred_frees(pools[i]);
    unlock_and_notify(pools[i]);
  }
}

/* Lets the owner's stream wait for the work of other streams. If it cannot, because a stream failed
 * or was returned, the host waits. */
static void end_in_order(tn_memory_t *m) {
  tn_needs_t needs = {0};
  if (!m->uses) return;
  /* A release leaves the thread's error message unchanged. */
  char *kept = tn_copy_text(tn_error(), strlen(tn_error()));
  tenon_status_t status = tn_stream_check(m->stream);
  if (status == TENON_OK) {
    uint64_t ticket = tn_stream_ticket(m->stream, "the release of borrowed memory");
    status = tn_memory_use(m, m->stream, ticket, true, &needs);
    if (status == TENON_OK) status = tn_stream_follow(m->stream, &needs);
    tn_stream_ended(m->stream);
  }
  if (status != TENON_OK) (void)tn_memory_wait(m);
  tn_memory_drop_uses(m);
  if (kept) (void)tn_fail(TENON_OK, "%s", kept);
  tn_release_memory(kept);
}

void tn_memory_put(void *memory) {
  tn_memory_t *m = memory;
  tn_pool_t *pool = m->pool;
  if (m->owner && m->owner->is_ordered && !__atomic_load_n(&pool->is_gone, __ATOMIC_ACQUIRE))
    end_in_order(m);
  tn_mutex_lock(&pool->lock);
  if (pool->is_gone) {
    bool is_last = --pool->stats.live == 0;
    tn_mutex_unlock(&pool->lock);
    tn_memory_drop_uses(m);
    if (m->owner)
      notify_owner(m, true);
    else
      tn_release_memory(m);
    if (is_last) tn_release_memory(pool);
    return;
  }
  pool->stats.live--;
  pool->stats.live_bytes -= m->wanted;
  pool->stats.frees++;
  m->wanted = 0;
  if (has_unfinished_use(m) || !end_use(pool, m)) defer_free(pool, m);
  unlock_and_notify(pool);
}

static uint64_t round_size(const tn_ordinal_t *o, uint64_t bytes) {
  uint64_t unit = o->properties.alignment < 256 ? 256 : o->properties.alignment;
  return (bytes + unit - 1) / unit * unit;
}

static tenon_status_t find_piece(tn_pool_t *pool, tenon_stream_t *stream, uint64_t size,
                                 tn_memory_t **out_memory) {
  TN_TRY(tn_pool_take(pool, stream, size, out_memory));
  if (*out_memory) return TENON_OK;
  if (pool->deferred) {
    run_deferred_frees(pool);
    TN_TRY(tn_pool_take(pool, stream, size, out_memory));
  }
  return *out_memory ? TENON_OK : tn_pool_grow(pool, stream, size, out_memory);
}

static tenon_status_t out_of_memory(tn_pool_t *pool, uint64_t bytes) {
  const tn_ordinal_t *o = pool->ordinal;
  tn_text_t text = {0};
  uint64_t largest, free;
  tn_pool_free(pool, &free, &largest);
  tn_text_add(&text, "%s", tn_error());
  tenon_status_t status =
      pool->is_pinned
          ? tn_fail(TENON_MEMORY,
                    "device %s:%d has no host memory for copies of %" PRIu64 " bytes: %" PRIu64
                    " bytes are already reserved (%s)",
                    o->plugin->name, (int)o->context.ordinal, bytes, pool->stats.reserved,
                    tn_text_get(&text))
          : tn_fail(TENON_MEMORY,
                    "device %s:%d has no memory for %" PRIu64 " bytes: %" PRIu64
                    " tensors hold %" PRIu64 " bytes (at most %" PRIu64 " so far), %" PRIu64
                    " bytes are cached in pieces of at most %" PRIu64 ", the device has %" PRIu64
                    " in all; release tensors, or run smaller parts (%s)",
                    o->plugin->name, (int)o->context.ordinal, bytes, pool->stats.live,
                    pool->stats.live_bytes, pool->stats.live_bytes_peak, free, largest,
                    o->properties.memory, tn_text_get(&text));
  tn_text_clear(&text);
  return status;
}

static void count_allocation(tn_pool_t *pool, const tn_memory_t *m) {
  tenon_memory_stats_t *s = &pool->stats;
  s->allocations++;
  s->live++;
  if ((s->live_bytes += m->wanted) > s->live_bytes_peak) s->live_bytes_peak = s->live_bytes;
}

static tenon_status_t allocate_piece(tn_pool_t *pool, tenon_stream_t *stream, uint64_t bytes,
                                     tn_memory_t **out_memory) {
  tn_memory_t *m = NULL;
  if (bytes > INT64_MAX / 2)
    return tn_fail(TENON_INVALID, "%" PRIu64 " bytes are more than any device has", bytes);
  uint64_t size = round_size(pool->ordinal, bytes ? bytes : 1);
  tn_mutex_lock(&pool->lock);
  tenon_status_t status = find_piece(pool, stream, size, &m);
  if (status == TENON_MEMORY) { /* Memory that other streams still use may be sufficient. */
    pool->stats.flushes++;
    unlock_and_notify(pool);
    (void)tn_ordinal_finish(pool->ordinal);
    tn_mutex_lock(&pool->lock);
    run_deferred_frees(pool);
    tn_pool_flush(pool);
    status = find_piece(pool, stream, size, &m);
    if (status == TENON_MEMORY) {
      pool->stats.failures++;
      status = out_of_memory(pool, bytes);
    }
  }
  if (status == TENON_OK) {
    m->wanted = bytes ? bytes : 1;
    count_allocation(pool, m);
    *out_memory = m;
  }
  unlock_and_notify(pool);
  return status;
}

tenon_status_t tn_memory_get(tenon_stream_t *stream, uint64_t bytes, tn_memory_t **out_memory) {
  return allocate_piece(stream->ordinal->pool, stream, bytes, out_memory);
}

tenon_status_t tn_memory_get_pinned(tn_ordinal_t *o, uint64_t bytes, tn_memory_t **out_memory) {
  return allocate_piece(o->pinned, NULL, bytes, out_memory);
}

tenon_status_t tn_memory_borrow(tn_ordinal_t *o, tenon_stream_t *stream, void *handle,
                                uint64_t bytes, const tn_owner_t *owner, tn_memory_t **out_memory) {
  tn_pool_t *pool = stream ? o->pool : o->pinned;
  uint64_t before = stream ? tn_stream_mark(stream) : 0;
  tn_owner_t *kept = tn_allocate(sizeof *kept);
  tn_mutex_lock(&pool->lock);
  tn_memory_t *m = kept ? tn_pool_record(pool) : NULL;
  if (m) {
    *kept = *owner;
    m->ordinal = o;
    m->pool = pool;
    m->stream = stream;
    m->handle = handle;
    m->owner = kept;
    m->size = m->wanted = bytes ? bytes : 1;
    m->wrote = before;
    count_allocation(pool, m);
  }
  tn_mutex_unlock(&pool->lock);
  if (!m) tn_release_memory(kept);
  return (*out_memory = m) ? TENON_OK : tn_no_memory("a device's memory", sizeof *m);
}

tenon_status_t tn_memory_start(tn_ordinal_t *o) {
  o->pool = tn_pool_create(o, false);
  o->pinned = tn_pool_create(o, true);
  if (o->pool && o->pinned) return TENON_OK;
  tn_release_memory(o->pool);
  tn_release_memory(o->pinned);
  return tn_no_memory("a device's memory", sizeof *o->pool);
}

uint64_t tn_memory_live(tn_ordinal_t *o) {
  return __atomic_load_n(&o->pool->stats.live, __ATOMIC_RELAXED) +
         __atomic_load_n(&o->pinned->stats.live, __ATOMIC_RELAXED);
}

void tn_memory_in_child(tn_ordinal_t *o) {
  uses_lock = (tn_mutex_t)TN_MUTEX_INIT;
  o->pool->lock = o->pinned->lock = (tn_mutex_t)TN_MUTEX_INIT;
}

/* The parent's records are kept, because they may have been modified halfway. */
void tn_memory_lose(tn_ordinal_t *o) {
  o->pool->is_gone = o->pinned->is_gone = true;
  o->pool = o->pinned = NULL;
}

/* The ordinal's streams end: removes them from the uses of another plug-in's memory. */
static void forget_streams(const tn_ordinal_t *of, tn_pool_t *pool) {
  tn_mutex_lock(&pool->lock);
  tn_mutex_lock(&uses_lock);
  for (tn_segment_t *s = pool->segments; s; s = s->next)
    for (tn_memory_t *m = s->first; m; m = m->after)
      for (tn_use_t **at = &m->uses, *u; (u = *at);) {
        if (u->stream->ordinal != of)
          at = &u->next;
        else {
          *at = u->next;
          tn_release_memory(u);
        }
      }
  tn_mutex_unlock(&uses_lock);
  tn_mutex_unlock(&pool->lock);
}

static void end_pool(tn_pool_t *pool) {
  for (tn_segment_t *s = pool->is_pinned ? pool->segments : NULL; s; s = s->next)
    for (tn_memory_t *m = s->first; m; m = m->after)
      (void)tn_memory_wait(m);
  tn_mutex_lock(&pool->lock);
  for (tn_memory_t *m = pool->deferred, *next; m; m = next) {
    next = m->free_after;
    if (!m->owner) continue;
    tn_mutex_unlock(&pool->lock);
    (void)tn_memory_wait(m);
    tn_memory_drop_uses(m);
    notify_owner(m, false);
    tn_mutex_lock(&pool->lock);
  }
  tn_mutex_unlock(&pool->lock);
  tn_pool_release(pool);
}

void tn_memory_stop(tn_ordinal_t *o) {
  end_pool(o->pool);
  end_pool(o->pinned);
  o->pool = o->pinned = NULL;
  for (tn_plugin_t *p = NULL; (p = tn_plugin_next(p));)
    for (int32_t i = 0; i < p->count; i++)
      if (p->table != o->table &&
          __atomic_load_n(&p->ordinals[i].state, __ATOMIC_ACQUIRE) == TN_ORDINAL_WORKS)
        forget_streams(o, p->ordinals[i].pinned);
}

tenon_status_t tenon_memory_stats(tenon_device_t device, tenon_memory_stats_t *stats) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  uint32_t size = stats->size;
  tn_mutex_lock(&o->pool->lock);
  tenon_memory_stats_t all = o->pool->stats;
  tn_mutex_unlock(&o->pool->lock);
  tn_mutex_lock(&o->pinned->lock);
  all.pinned = o->pinned->stats.reserved;
  all.pinned_allocations = o->pinned->stats.device_allocations;
  tn_mutex_unlock(&o->pinned->lock);
  memcpy(stats, &all, size < sizeof all ? size : sizeof all);
  stats->size = size;
  return TENON_OK;
}

tenon_status_t tenon_memory_trim(tenon_device_t device) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  tn_pool_t *pools[] = {o->pool, o->pinned};
  for (int i = 0; i < 2; i++) {
    tn_mutex_lock(&pools[i]->lock);
    run_deferred_frees(pools[i]);
    tn_pool_flush(pools[i]);
    unlock_and_notify(pools[i]);
  }
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
