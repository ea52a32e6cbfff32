/* Streams of ordinals: creating them, choosing the stream of a thread's calls, and waiting for
 * them. */
#include "device/stream.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/memory.h"

tn_mutex_t tn_streams_order = TN_MUTEX_INIT;

void tn_streams_in_child(void) { tn_streams_order = (tn_mutex_t)TN_MUTEX_INIT; }

static tenon_status_t add_stream(tn_ordinal_t *o, void *native, bool is_imported,
                                 tenon_stream_t **out_stream) {
  tenon_stream_t *s = tn_allocate_zero(1, sizeof *s);
  if (!s) return tn_no_memory("a stream", sizeof *s);
  s->ordinal = o;
  s->native = native;
  s->is_imported = is_imported;
  s->next = o->streams;
  o->streams = s;
  *out_stream = s;
  return TENON_OK;
}

tenon_status_t tn_streams_start(tn_ordinal_t *o) {
  static uint64_t ids;
  o->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
  o->has_streams = TN_SLOT(o->table, stream_create);
  o->has_events = TN_SLOT(o->table, event_create);
  return add_stream(o, NULL, false, &o->first);
}

static void end_native(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  if (s->native && s->is_imported)
    o->table->stream_forget(&o->context, s->native);
  else if (s->native)
    o->table->stream_destroy(&o->context, s->native);
  s->native = NULL;
}

void tn_streams_release(tn_ordinal_t *o) {
  for (tenon_stream_t *s = o->streams, *next; s; s = next) {
    next = s->next;
    if (s->event) o->table->event_destroy(&o->context, s->event);
    end_native(s);
    tn_release_memory(s->known.at);
    tn_release_memory(s->at_event.at);
    tn_release_memory(s->failure);
    tn_release_memory(s);
  }
  o->streams = o->first = NULL;
}

/* Reuses a stream that was returned, for a new imported one. All its work, and the work it waited
 * for, is done. */
static tenon_stream_t *reuse_returned(tn_ordinal_t *o) {
  tenon_stream_t *s = o->streams;
  while (s && !s->is_ended)
    s = s->next;
  if (!s) return NULL;
  __atomic_store_n(&s->done, s->ticket, __ATOMIC_RELEASE);
  s->is_ended = false;
  __atomic_store_n(&s->failed, TENON_OK, __ATOMIC_RELEASE);
  return s;
}

/* Finds a working stream that nobody holds, and whose work is done. Otherwise a failure of that
 * work would appear at the next holder. */
static tenon_stream_t *find_idle(tn_ordinal_t *o) {
  for (tenon_stream_t *s = o->streams; s; s = s->next) {
    tenon_fault_t fault = {.size = sizeof fault};
    if (s == o->first || s->references || !s->native || s->is_imported || s->failed) continue;
    tenon_status_t status = o->table->stream_query(&o->context, s->native, &fault);
    if (status == TENON_OK) return s;
    if (status != TENON_UNAVAILABLE) /* nobody is told; renew_stream replaces it */
      __atomic_store_n(&s->failed, status, __ATOMIC_RELEASE);
  }
  return NULL;
}

static tenon_status_t create_native(const tn_ordinal_t *o, void **out_native) {
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->stream_create(&o->context, out_native);
  return tn_ordinal_complete(o, errors, "stream_create", status);
}

/* Replaces the native stream of a stream that failed and that nobody holds, after its work has
 * ended. Otherwise each failure that a host survives would cost it a stream. */
static tenon_status_t renew_stream(tn_ordinal_t *o, tenon_stream_t **out_stream) {
  tenon_stream_t *s = o->streams;
  while (s && (s == o->first || s->references || s->is_imported || !s->failed))
    s = s->next;
  if (!s) return TENON_OK;
  s->references++; /* so that no other thread takes it */
  tn_mutex_unlock(&o->lock);
  if (s->native) tn_stream_drain(s);
  tn_mutex_lock(&o->lock);
  tn_mutex_lock(&tn_streams_order);
  end_native(s);
  tn_mutex_unlock(&tn_streams_order);
  s->references--;
  TN_TRY(create_native(o, &s->native));
  __atomic_store_n(&s->done, s->ticket, __ATOMIC_RELEASE);
  __atomic_store_n(&s->failed, TENON_OK, __ATOMIC_RELEASE);
  *out_stream = s;
  return TENON_OK;
}

static void begin_several(tn_ordinal_t *o) {
  if (o->has_several) return;
  __atomic_store_n(&o->has_several, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&o->first->alone, __atomic_load_n(&o->first->ticket, __ATOMIC_SEQ_CST),
                   __ATOMIC_RELAXED);
}

tenon_status_t tenon_stream_create(tenon_device_t device, tenon_stream_t **out_stream) {
  tn_ordinal_t *o;
  void *native;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&o->lock);
  tenon_stream_t *s = o->has_streams ? find_idle(o) : o->first;
  if (!s) status = renew_stream(o, &s);
  if (!s && status == TENON_OK && (status = create_native(o, &native)) == TENON_OK &&
      (status = add_stream(o, native, false, &s)) != TENON_OK)
    o->table->stream_destroy(&o->context, native);
  if (status == TENON_OK) {
    s->references++;
    begin_several(o);
  }
  tn_mutex_unlock(&o->lock);
  *out_stream = s;
  return status;
}

tenon_status_t tenon_stream_import(tenon_device_t device, void *native,
                                   tenon_stream_t **out_stream) {
  tn_ordinal_t *o;
  void *own;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  if (!TN_SLOT(o->table, stream_import))
    return tn_fail(TENON_UNIMPLEMENTED, "device %s cannot import streams", o->plugin->name);
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->stream_import(&o->context, native, &own);
  TN_TRY(tn_ordinal_complete(o, errors, "stream_import", status));
  tn_mutex_lock(&o->lock);
  status = (*out_stream = reuse_returned(o)) ? TENON_OK : add_stream(o, own, true, out_stream);
  if (status == TENON_OK) {
    (*out_stream)->native = own;
    begin_several(o);
    __atomic_store_n(&(*out_stream)->references, 1, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&o->lock);
  if (status != TENON_OK) o->table->stream_forget(&o->context, own);
  return status;
}

void tenon_stream_retain(tenon_stream_t *s) {
  __atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
}

void tenon_stream_release(tenon_stream_t *s) {
  if (!s || __atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) || !s->is_imported) return;
  /* After this call the owner may end the stream, and its handle may denote another stream. */
  bool has_failed = tn_stream_finish(s) != TENON_OK;
  __atomic_store_n(&s->done, UINT64_MAX, __ATOMIC_RELEASE);
  tn_mutex_lock(&s->ordinal->lock);
  tn_mutex_lock(&tn_streams_order);
  end_native(s);
  tn_mutex_unlock(&tn_streams_order);
  if (!has_failed) { /* a failed stream stays failed */
    s->is_ended = true;
    __atomic_store_n(&s->failed, TENON_PRECONDITION, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&s->ordinal->lock);
}

bool tn_stream_hold(tenon_stream_t *s) {
  int32_t count = __atomic_load_n(&s->references, __ATOMIC_RELAXED);
  if (!s->is_imported) return true;
  while (count > 0 && !__atomic_compare_exchange_n(&s->references, &count, count + 1, true,
                                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    continue;
  return count > 0;
}

void tn_stream_let_go(tenon_stream_t *s) {
  if (s->is_imported) tenon_stream_release(s);
}

uint64_t tn_stream_mark(tenon_stream_t *s) {
  if (!s->is_imported) return __atomic_load_n(&s->ticket, __ATOMIC_ACQUIRE);
  uint64_t ticket = tn_stream_ticket(s, "work of the stream's owner");
  tn_stream_ended(s);
  return ticket;
}

struct tn_streams_t {
  int32_t count;
  int32_t capacity;
  struct {
    tenon_device_t device;
    /* Id of the ordinal; the device may have been stopped since and may be another one now. */
    uint64_t ordinal;
    tenon_stream_t *stream;
  } at[];
};

tenon_stream_t *tn_stream_current(tn_ordinal_t *o) {
  const struct tn_streams_t *mine = tn_thread()->calls.streams;
  for (int32_t i = 0; mine && i < mine->count; i++)
    if (mine->at[i].ordinal == o->id) return mine->at[i].stream ? mine->at[i].stream : o->first;
  return o->first;
}

tenon_status_t tenon_stream_use(tenon_device_t device, tenon_stream_t *stream,
                                tenon_stream_t **out_before) {
  tn_ordinal_t *o;
  tn_thread_t *thread = tn_thread();
  struct tn_streams_t *mine = thread->own_streams;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  if (stream && stream->ordinal != o)
    return tn_fail(TENON_INVALID, "the stream belongs to device %s:%d, not to %s:%d",
                   stream->ordinal->plugin->name, (int)stream->ordinal->context.ordinal,
                   o->plugin->name, (int)o->context.ordinal);
  if (out_before) *out_before = tn_stream_current(o);
  int32_t i = 0;
  tenon_device_t own = o->context.device;
  while (mine && i < mine->count &&
         !(mine->at[i].device.type == own.type && mine->at[i].device.id == own.id))
    i++;
  if (!mine || i == mine->capacity) {
    int32_t capacity = mine ? 2 * mine->capacity : 4;
    struct tn_streams_t *more =
        tn_reallocate(mine, sizeof *more + (size_t)capacity * sizeof more->at[0]);
    if (!more) return tn_no_memory("a thread's streams", sizeof *more);
    if (!mine) more->count = 0;
    more->capacity = capacity;
    thread->own_streams = mine = more;
  }
  if (i == mine->count) mine->count++;
  mine->at[i].device = own;
  mine->at[i].ordinal = o->id;
  mine->at[i].stream = stream;
  thread->calls.streams = mine;
  return TENON_OK;
}

tenon_status_t tenon_stream_of(tenon_device_t device, tenon_stream_t **out_stream) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  *out_stream = tn_stream_current(o);
  return TENON_OK;
}

uint64_t tn_stream_quiet(const tenon_stream_t *s) {
  uint64_t reuse_returned = __atomic_load_n(&s->ended, __ATOMIC_ACQUIRE);
  uint64_t given = __atomic_load_n(&s->ticket, __ATOMIC_ACQUIRE);
  return reuse_returned == given ? given : 0;
}

bool tn_stream_is_done(const tenon_stream_t *s, uint64_t ticket) {
  return !s->ordinal->has_streams || __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) >= ticket;
}

static void set_done(tenon_stream_t *s, uint64_t ticket) {
  uint64_t before = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
  while (before < ticket && !__atomic_compare_exchange_n(&s->done, &before, ticket, true,
                                                         __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    continue;
}

/* What the host sees of a stream before it waits. When the stream is done, everything that it has
 * waited for is done, too. */
typedef struct seen_t {
  uint64_t up_to;
  tn_needs_t before;
} seen_t;

static seen_t observe(const tenon_stream_t *s) {
  seen_t seen = {.up_to = tn_stream_quiet(s)};
  tn_mutex_lock(&tn_streams_order);
  seen.before.count = s->known.count < TN_NEEDS ? s->known.count : TN_NEEDS;
  if (seen.before.count)
    memcpy(seen.before.at, s->known.at, seen.before.count * sizeof *seen.before.at);
  tn_mutex_unlock(&tn_streams_order);
  return seen;
}

void tn_streams_set_done(const struct tn_known_t *at, size_t count) {
  for (size_t i = 0; i < count; i++)
    set_done((tenon_stream_t *)(uintptr_t)at[i].stream, at[i].ticket);
}

static void mark_done(tenon_stream_t *s, const seen_t *seen) {
  set_done(s, seen->up_to);
  tn_streams_set_done(seen->before.at, seen->before.count);
}

/* After a failure: work that was not done is discarded for good. */
static void mark_over(tenon_stream_t *s, const seen_t *seen) {
  if (__atomic_load_n(&s->over, __ATOMIC_RELAXED) < seen->up_to)
    __atomic_store_n(&s->over, seen->up_to, __ATOMIC_RELEASE);
}

/* May the stream be queried? Not while it is being captured. */
static bool begin_query(tenon_stream_t *s) {
  __atomic_add_fetch(&s->asked, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&s->is_capturing, __ATOMIC_SEQ_CST)) return true;
  __atomic_sub_fetch(&s->asked, 1, __ATOMIC_SEQ_CST);
  return false;
}

static void end_query(tenon_stream_t *s) { __atomic_sub_fetch(&s->asked, 1, __ATOMIC_SEQ_CST); }

tenon_status_t tn_stream_capture(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  TN_TRY(tn_stream_finish(s));
  __atomic_store_n(&s->is_capturing, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&s->asked, __ATOMIC_SEQ_CST))
    tn_thread_yield();
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->record_begin(&o->context, s->native);
  status = tn_ordinal_complete(o, errors, "record_begin", status);
  if (status != TENON_OK) __atomic_store_n(&s->is_capturing, 0, __ATOMIC_SEQ_CST);
  return status;
}

tenon_status_t tn_stream_capture_end(tenon_stream_t *s, void **out_captured) {
  const tn_ordinal_t *o = s->ordinal;
  *out_captured = NULL;
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->record_end(&o->context, s->native, out_captured);
  status = tn_ordinal_complete(o, errors, "record_end", status);
  if (status != TENON_OK) *out_captured = NULL;
  __atomic_store_n(&s->is_capturing, 0, __ATOMIC_SEQ_CST);
  return status;
}

tenon_status_t tn_stream_cannot_capture(const char *what) {
  return tn_fail(TENON_UNIMPLEMENTED, "%s, which cannot be captured", what);
}

tenon_status_t tn_stream_finish(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  seen_t seen = observe(s);
  /* Of imported streams less is known. */
  bool is_seen = !s->is_imported && tn_stream_is_done(s, seen.up_to ? seen.up_to : UINT64_MAX);
  TN_TRY(tn_stream_check(s));
  if (!o->has_streams || is_seen) return TENON_OK;
  if (!begin_query(s)) return tn_stream_cannot_capture("the host waits for the device");
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->stream_synchronize(&o->context, s->native, &fault);
  status = tn_ordinal_complete(o, errors, "stream_synchronize", status);
  end_query(s);
  if (status != TENON_OK) {
    mark_over(s, &seen);
    return tn_stream_fault(s, status, &fault);
  }
  mark_done(s, &seen);
  return TENON_OK;
}

void tn_stream_drain(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  tn_text_t kept = {0};
  tn_text_add(&kept, "%s", tn_error());
  if (!s->failed)
    (void)tn_stream_finish(s);
  else if (o->has_streams) {
    seen_t seen = observe(s);
    (void)o->table->stream_synchronize(&o->context, s->native, &fault);
    mark_over(s, &seen);
  }
  (void)tn_fail(TENON_OK, "%s", tn_text_get(&kept));
  tn_text_clear(&kept);
}

tenon_status_t tenon_stream_synchronize(tenon_stream_t *stream) {
  TN_TRY(tn_stream_finish(stream));
  tn_memory_run_deferred_frees(stream->ordinal);
  return TENON_OK;
}

tenon_status_t tn_stream_poll(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  if (!tn_stream_hold(s)) return TENON_OK; /* it has been waited for */
  seen_t seen = observe(s);
  bool may = begin_query(s);
  tenon_status_t status = tn_stream_check(s);
  if (status == TENON_OK && o->has_streams) {
    const uint64_t errors = tn_error_count();
    status = may ? o->table->stream_query(&o->context, s->native, &fault) : TENON_UNAVAILABLE;
    if (status != TENON_UNAVAILABLE)
      status = tn_ordinal_complete(o, errors, "stream_query", status);
    if (status == TENON_OK)
      mark_done(s, &seen);
    else if (status != TENON_UNAVAILABLE)
      status = tn_stream_fault(s, status, &fault);
  }
  if (may) end_query(s);
  tn_stream_let_go(s);
  return status;
}

tenon_status_t tenon_stream_query(tenon_stream_t *s) {
  tenon_status_t status = tn_stream_poll(s);
  if (status == TENON_UNAVAILABLE) return tn_fail(status, "the stream is not done yet");
  if (status == TENON_OK) tn_memory_run_deferred_frees(s->ordinal);
  return status;
}

tenon_status_t tn_ordinal_finish(tn_ordinal_t *o) {
  tenon_status_t first = TENON_OK;
  tn_mutex_lock(&o->lock);
  /* New streams are inserted before this one; none is removed. */
  tenon_stream_t *all = o->streams;
  tn_mutex_unlock(&o->lock);
  for (tenon_stream_t *s = all; s; s = s->next) {
    bool is_held = (s->native || s == o->first) && tn_stream_hold(s);
    if (is_held && begin_query(s)) { /* while it is captured, nothing runs on the device */
      if (first == TENON_OK) first = tn_stream_finish(s);
      /* Also a stream that failed long ago, because memory waits for its end. */
      if (first != TENON_OK) tn_stream_drain(s);
      end_query(s);
    }
    if (is_held) tn_stream_let_go(s);
  }
  return first;
}

tenon_status_t tenon_device_synchronize(tenon_device_t device) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  TN_TRY(tn_ordinal_finish(o));
  tn_memory_run_deferred_frees(o);
  return TENON_OK;
}
