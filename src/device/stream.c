/* Streams of ordinals: which one calls use, what waits for what, and what failed. */
#include "device/stream.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/memory.h"

tn_waits_t tn_waits;
static uint64_t skip;                    /* under the lock of clocks */
static tn_mutex_t order = TN_MUTEX_INIT; /* of clocks and events of all streams */

static void count(uint64_t *counter) { __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED); }

void tn_streams_in_child(void) { order = (tn_mutex_t)TN_MUTEX_INIT; }

/* ---- making ------------------------------------------------------------------------------------------------------- */

static tenon_status_t add(tn_ordinal_t *o, void *native, bool is_imported, tenon_stream_t **out_stream) {
  tenon_stream_t *s = tn_allocate_zero(1, sizeof *s);
  if (!s) return tn_no_memory("a stream", sizeof *s);
  s->ordinal = o, s->native = native, s->is_imported = is_imported;
  s->next = o->streams, o->streams = s;
  *out_stream = s;
  return TENON_OK;
}

tenon_status_t tn_streams_start(tn_ordinal_t *o) {
  static uint64_t ids;
  o->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
  o->has_streams = TN_SLOT(o->table, stream_create), o->has_events = TN_SLOT(o->table, event_create);
  return add(o, NULL, false, &o->first);
}

static void end_native(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  if (s->native && s->is_imported) o->table->stream_forget(&o->context, s->native);
  else if (s->native) o->table->stream_destroy(&o->context, s->native);
  s->native = NULL;
}

void tn_streams_release(tn_ordinal_t *o) {
  for (tenon_stream_t *s = o->streams, *next; s; s = next) {
    next = s->next;
    if (s->event) o->table->event_destroy(&o->context, s->event);
    end_native(s);
    tn_release_memory(s->known.at), tn_release_memory(s->at_event.at), tn_release_memory(s->failure);
    tn_release_memory(s);
  }
  o->streams = o->first = NULL;
}

/* One that was given back, for a new one: what it had done and come after is done. */
static tenon_stream_t *ended(tn_ordinal_t *o) {
  tenon_stream_t *s = o->streams;
  while (s && !s->is_ended) s = s->next;
  if (!s) return NULL;
  __atomic_store_n(&s->done, s->ticket, __ATOMIC_RELEASE);
  s->is_ended = false;
  __atomic_store_n(&s->failed, TENON_OK, __ATOMIC_RELEASE);
  return s;
}

/* One that nobody holds any more, and that works. */
static tenon_stream_t *idle(tn_ordinal_t *o) {
  for (tenon_stream_t *s = o->streams; s; s = s->next)
    if (s != o->first && !s->references && s->native && !s->is_imported && !s->failed) return s;
  return NULL;
}

static void begin_several(tn_ordinal_t *o) {
  if (o->has_several) return;
  __atomic_store_n(&o->has_several, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&o->first->alone, __atomic_load_n(&o->first->ticket, __ATOMIC_SEQ_CST), __ATOMIC_RELAXED);
}

tenon_status_t tenon_stream_create(tenon_device_t device, tenon_stream_t **out_stream) {
  tn_ordinal_t *o;
  void *native;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&o->lock);
  tenon_stream_t *s = o->has_streams ? idle(o) : o->first;
  if (!s && (status = o->table->stream_create(&o->context, &native)) == TENON_OK &&
      (status = add(o, native, false, &s)) != TENON_OK)
    o->table->stream_destroy(&o->context, native);
  if (status == TENON_OK) s->references++, begin_several(o);
  tn_mutex_unlock(&o->lock);
  *out_stream = s;
  return status;
}

tenon_status_t tenon_stream_import(tenon_device_t device, void *native, tenon_stream_t **out_stream) {
  tn_ordinal_t *o;
  void *own;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  if (!TN_SLOT(o->table, stream_import))
    return tn_fail(TENON_UNIMPLEMENTED, "device %s takes no streams of others", o->plugin->name);
  TN_TRY(o->table->stream_import(&o->context, native, &own));
  tn_mutex_lock(&o->lock);
  tenon_status_t status = (*out_stream = ended(o)) ? TENON_OK : add(o, own, true, out_stream);
  if (status == TENON_OK) {
    (*out_stream)->native = own, begin_several(o);
    __atomic_store_n(&(*out_stream)->references, 1, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&o->lock);
  if (status != TENON_OK) o->table->stream_forget(&o->context, own);
  return status;
}

void tenon_stream_retain(tenon_stream_t *s) { __atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED); }

void tenon_stream_release(tenon_stream_t *s) {
  if (!s || __atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) || !s->is_imported) return;
  bool has_failed =
      tn_stream_finish(s) != TENON_OK; /* its owner may end it now, and its handle may be another's next */
  __atomic_store_n(&s->done, UINT64_MAX, __ATOMIC_RELEASE);
  tn_mutex_lock(&s->ordinal->lock);
  tn_mutex_lock(&order);
  end_native(s);
  tn_mutex_unlock(&order);
  if (!has_failed) { /* one that failed stays so */
    s->is_ended = true;
    __atomic_store_n(&s->failed, TENON_PRECONDITION, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&s->ordinal->lock);
}

/* So that it is not given back meanwhile; false: it was. */
static bool hold(tenon_stream_t *s) {
  int32_t count = __atomic_load_n(&s->references, __ATOMIC_RELAXED);
  if (!s->is_imported) return true;
  while (count > 0 &&
         !__atomic_compare_exchange_n(&s->references, &count, count + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    continue;
  return count > 0;
}

static void let_go(tenon_stream_t *s) {
  if (s->is_imported) tenon_stream_release(s);
}

uint64_t tn_stream_mark(tenon_stream_t *s) {
  if (!s->is_imported) return __atomic_load_n(&s->ticket, __ATOMIC_ACQUIRE);
  uint64_t ticket = tn_stream_ticket(s, "work of the stream's owner");
  tn_stream_ended(s);
  return ticket;
}

/* ---- whose stream calls use --------------------------------------------------------------------------------------- */

struct tn_streams_t {
  int32_t count, capacity;
  struct {
    tenon_device_t device;
    uint64_t ordinal; /* id: the device may have been stopped since, and be another one now */
    tenon_stream_t *stream;
  } at[];
};

tenon_stream_t *tn_stream_current(tn_ordinal_t *o) {
  const struct tn_streams_t *mine = tn_thread()->calls.streams;
  for (int32_t i = 0; mine && i < mine->count; i++)
    if (mine->at[i].ordinal == o->id) return mine->at[i].stream ? mine->at[i].stream : o->first;
  return o->first;
}

tenon_status_t tenon_stream_use(tenon_device_t device, tenon_stream_t *stream, tenon_stream_t **out_before) {
  tn_ordinal_t *o;
  tn_thread_t *thread = tn_thread();
  struct tn_streams_t *mine = thread->own_streams;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  if (stream && stream->ordinal != o)
    return tn_fail(TENON_INVALID, "the stream is of device %s:%d, not of %s:%d", stream->ordinal->plugin->name,
                   (int)stream->ordinal->context.ordinal, o->plugin->name, (int)o->context.ordinal);
  if (out_before) *out_before = tn_stream_current(o);
  int32_t i = 0;
  tenon_device_t own = o->context.device;
  while (mine && i < mine->count && !(mine->at[i].device.type == own.type && mine->at[i].device.id == own.id)) i++;
  if (!mine || i == mine->capacity) {
    int32_t capacity = mine ? 2 * mine->capacity : 4;
    struct tn_streams_t *more = tn_reallocate(mine, sizeof *more + (size_t)capacity * sizeof more->at[0]);
    if (!more) return tn_no_memory("a thread's streams", sizeof *more);
    if (!mine) more->count = 0;
    more->capacity = capacity;
    thread->own_streams = mine = more;
  }
  if (i == mine->count) mine->count++;
  mine->at[i].device = own, mine->at[i].ordinal = o->id, mine->at[i].stream = stream;
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

/* ---- failures ----------------------------------------------------------------------------------------------------- */

static const char *text_of(const tn_ordinal_t *o, char *room, size_t size) {
  snprintf(room, size, "%s:%d", o->plugin->name, (int)o->context.ordinal);
  return room;
}

/* Operators whose work it may have been. */
static void blame(const tenon_stream_t *s, uint64_t ticket, tn_text_t *text) {
  char device[300];
  text_of(s->ordinal, device, sizeof device);
  const struct tn_entry_t *entry = &s->ring[ticket % TN_RING];
  const char *name = __atomic_load_n(&entry->name, __ATOMIC_RELAXED);
  if (ticket && __atomic_load_n(&entry->ticket, __ATOMIC_RELAXED) == ticket && name) {
    tn_text_add(text, "%s failed on %s (work %llu of its stream): ", name, device, (unsigned long long)ticket);
    return;
  }
  uint64_t last = __atomic_load_n(&s->ticket, __ATOMIC_RELAXED), done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
  uint64_t from = ticket ? ticket : done + 1, listed = 0;
  tn_text_add(text, "a stream of %s failed, in work %llu to %llu of it (", device, (unsigned long long)from,
              (unsigned long long)(ticket ? ticket : last));
  for (uint64_t t = last; t > done && last - t < TN_RING && listed < 4 && !ticket; t--, listed++) {
    name = __atomic_load_n(&s->ring[t % TN_RING].name, __ATOMIC_RELAXED);
    tn_text_add(text, "%s%s", listed ? ", " : "", name ? name : "a library that is gone");
  }
  tn_text_add(text, "%s): ", ticket ? "its operator is not known any more" : last - done > listed ? ", ..." : "");
}

/* Where a failure began: a ticket is of some stream, and one that waits for another fails with that one's. */
static const tenon_stream_t *origin(const tenon_stream_t *s, uint64_t ticket, const char *why) {
  enum { LOOKS = 1000 }; /* at streams that failed, but still have to leave the rest undone */
  const tenon_stream_t *found = s;
  tn_mutex_lock(&order);
  size_t count = ticket ? s->known.count : 0;
  struct tn_known_t *before = count ? tn_allocate(count * sizeof *before) : NULL;
  if (before) memcpy(before, s->known.at, count * sizeof *before);
  tn_mutex_unlock(&order);
  bool is_busy = before != NULL,
       is_sure = false; /* sure: the plug-in says the same of both, not just a ticket of this number */
  for (int look = 0; is_busy && !is_sure && look < LOOKS; look++) {
    is_busy = false;
    if (look) tn_thread_yield();
    for (size_t i = 0; i < count && !is_sure; i++) {
      tenon_stream_t *of = (tenon_stream_t *)(uintptr_t)before[i].stream;
      const tn_ordinal_t *o = of->ordinal;
      tenon_fault_t fault = {.size = sizeof fault};
      if (before[i].ticket < ticket || (!of->native && of != o->first) || !hold(of)) continue;
      tenon_status_t status = o->table->stream_query(&o->context, of->native, &fault);
      let_go(of);
      is_busy |= status == TENON_UNAVAILABLE;
      bool is_own =
          __atomic_load_n(&of->ring[ticket % TN_RING].ticket, __ATOMIC_RELAXED) == ticket; /* or it waited, too */
      if (status == TENON_OK || status == TENON_UNAVAILABLE || fault.ticket != ticket || !is_own) continue;
      found = of, is_sure = why && strcmp(why, tn_error()) == 0;
    }
  }
  tn_release_memory(before);
  return found;
}

tenon_status_t tn_stream_fault(tenon_stream_t *s, tenon_status_t status, const tenon_fault_t *fault) {
  tn_text_t text = {0};
  uint64_t ticket = fault ? fault->ticket : 0;
  char *why = tn_copy_text(tn_error(), strlen(tn_error()));
  const tenon_stream_t *from = origin(s, ticket, why);
  tn_mutex_lock(&s->ordinal->lock);
  if (!s->failed) {
    blame(from, ticket, &text);
    tn_text_add(&text, "%s", why ? why : "");
    s->failure = tn_text_take(&text);
    __atomic_store_n(&s->failed, status, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&s->ordinal->lock);
  tn_release_memory(why);
  return tn_stream_failure(s);
}

tenon_status_t tn_stream_refused(tenon_stream_t *s, tenon_status_t status, const char *name) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  if (!o->has_streams) return name ? tn_prefix(status, "%s: ", name) : status;
  char *why = tn_copy_text(tn_error(), strlen(tn_error()));
  tenon_status_t now = o->table->stream_query(&o->context, s->native, &fault);
  if (now != TENON_OK && now != TENON_UNAVAILABLE) status = tn_stream_fault(s, now, &fault);
  else status = tn_fail(status, "%s%s%s", name ? name : "", name ? ": " : "", why ? why : "a device's function failed");
  tn_release_memory(why);
  return status;
}

tenon_status_t tn_stream_failure(const tenon_stream_t *s) {
  if (s->is_ended)
    return tn_fail(TENON_PRECONDITION,
                   "a stream of device %s:%d was given back to its owner (tenon_stream_release), and is used: let the "
                   "thread use another before (tenon_stream_use)",
                   s->ordinal->plugin->name, (int)s->ordinal->context.ordinal);
  return tn_fail(__atomic_load_n(&s->failed, __ATOMIC_ACQUIRE), "%s",
                 s->failure ? s->failure : "a stream of a device failed, and there was no memory to say why");
}

/* NULL: all names. */
static void forget(const char *name) {
  for (tn_plugin_t *p = NULL; (p = tn_plugin_next(p));)
    for (int32_t i = 0; i < p->count; i++)
      for (tenon_stream_t *s = p->ordinals[i].streams; s; s = s->next)
        for (int k = 0; k < TN_RING; k++)
          if (!name || __atomic_load_n(&s->ring[k].name, __ATOMIC_RELAXED) == name)
            __atomic_store_n(&s->ring[k].name, NULL, __ATOMIC_SEQ_CST);
}

void tn_streams_forget_names(void) {
  tn_mutex_lock(tn_plugins_mutex());
  forget(NULL);
  tn_mutex_unlock(tn_plugins_mutex());
}

void tn_streams_forget_name(const char *name) {
  tn_mutex_lock(tn_plugins_mutex());
  forget(name);
  for (tn_plugin_t *p = NULL; (p = tn_plugin_next(p));) /* who read it before, to blame it, has such a lock */
    for (int32_t i = 0; i < p->count; i++) tn_mutex_lock(&p->ordinals[i].lock), tn_mutex_unlock(&p->ordinals[i].lock);
  tn_mutex_unlock(tn_plugins_mutex());
}

/* ---- waiting ------------------------------------------------------------------------------------------------------ */

/* The last ticket up to which all work is enqueued, as far as can be told; 0: a thread is at it just now. */
static uint64_t quiet(const tenon_stream_t *s) {
  uint64_t ended = __atomic_load_n(&s->ended, __ATOMIC_ACQUIRE), given = __atomic_load_n(&s->ticket, __ATOMIC_ACQUIRE);
  return ended == given ? given : 0;
}

bool tn_stream_is_done(const tenon_stream_t *s, uint64_t ticket) {
  return !s->ordinal->has_streams || __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) >= ticket;
}

static void set_done(tenon_stream_t *s, uint64_t ticket) {
  uint64_t before = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
  while (before < ticket &&
         !__atomic_compare_exchange_n(&s->done, &before, ticket, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    continue;
}

/* What a stream that is done has waited for is done with it. */
typedef struct seen_t {
  uint64_t up_to;
  tn_needs_t before;
} seen_t;

static seen_t look(const tenon_stream_t *s) {
  seen_t seen = {.up_to = quiet(s)};
  tn_mutex_lock(&order);
  seen.before.count = s->known.count < TN_NEEDS ? s->known.count : TN_NEEDS;
  if (seen.before.count) memcpy(seen.before.at, s->known.at, seen.before.count * sizeof *seen.before.at);
  tn_mutex_unlock(&order);
  return seen;
}

static void is_done(tenon_stream_t *s, const seen_t *seen) {
  set_done(s, seen->up_to);
  for (size_t i = 0; i < seen->before.count; i++)
    set_done((tenon_stream_t *)(uintptr_t)seen->before.at[i].stream, seen->before.at[i].ticket);
}

/* After a failure: what was not done is left undone for good. */
static void is_over(tenon_stream_t *s, const seen_t *seen) {
  if (__atomic_load_n(&s->over, __ATOMIC_RELAXED) < seen->up_to)
    __atomic_store_n(&s->over, seen->up_to, __ATOMIC_RELEASE);
}

/* A stream is asked for nothing while it is recorded. */
static bool may_ask(tenon_stream_t *s) {
  __atomic_add_fetch(&s->asked, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&s->is_recording, __ATOMIC_SEQ_CST)) return true;
  __atomic_sub_fetch(&s->asked, 1, __ATOMIC_SEQ_CST);
  return false;
}

static void has_asked(tenon_stream_t *s) { __atomic_sub_fetch(&s->asked, 1, __ATOMIC_SEQ_CST); }

tenon_status_t tn_stream_record(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  TN_TRY(tn_stream_finish(s));
  __atomic_store_n(&s->is_recording, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&s->asked, __ATOMIC_SEQ_CST)) tn_thread_yield();
  tenon_status_t status = o->table->record_begin(&o->context, s->native);
  if (status != TENON_OK) __atomic_store_n(&s->is_recording, 0, __ATOMIC_SEQ_CST);
  return status;
}

tenon_status_t tn_stream_record_end(tenon_stream_t *s, void **out_recording) {
  const tn_ordinal_t *o = s->ordinal;
  *out_recording = NULL;
  tenon_status_t status = o->table->record_end(&o->context, s->native, out_recording);
  if (status != TENON_OK) *out_recording = NULL;
  __atomic_store_n(&s->is_recording, 0, __ATOMIC_SEQ_CST);
  return status;
}

static tenon_status_t cannot_record(const char *what) {
  return tn_fail(TENON_UNIMPLEMENTED, "%s, which is not recorded", what);
}

tenon_status_t tn_stream_finish(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  seen_t seen = look(s);
  bool is_seen =
      !s->is_imported && tn_stream_is_done(s, seen.up_to ? seen.up_to : UINT64_MAX); /* of others we know less */
  TN_TRY(tn_stream_check(s));
  if (!o->has_streams || is_seen) return TENON_OK;
  if (!may_ask(s)) return cannot_record("the host waits for the device");
  tenon_status_t status = o->table->stream_synchronize(&o->context, s->native, &fault);
  has_asked(s);
  if (status != TENON_OK) return is_over(s, &seen), tn_stream_fault(s, status, &fault);
  return is_done(s, &seen), TENON_OK;
}

void tn_stream_drain(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  tn_text_t kept = {0};
  tn_text_add(&kept, "%s", tn_error());
  if (!s->failed) (void)tn_stream_finish(s);
  else if (o->has_streams) {
    seen_t seen = look(s);
    (void)o->table->stream_synchronize(&o->context, s->native, &fault);
    is_over(s, &seen);
  }
  (void)tn_fail(TENON_OK, "%s", tn_text_get(&kept));
  tn_text_clear(&kept);
}

tenon_status_t tenon_stream_synchronize(tenon_stream_t *stream) {
  TN_TRY(tn_stream_finish(stream));
  return tn_memory_settle(stream->ordinal), TENON_OK;
}

tenon_status_t tn_stream_poll(tenon_stream_t *s) {
  const tn_ordinal_t *o = s->ordinal;
  tenon_fault_t fault = {.size = sizeof fault};
  if (!hold(s)) return TENON_OK; /* it was waited for */
  seen_t seen = look(s);
  bool may = may_ask(s);
  tenon_status_t status = tn_stream_check(s);
  if (status == TENON_OK && o->has_streams) {
    status = may ? o->table->stream_query(&o->context, s->native, &fault) : TENON_UNAVAILABLE;
    if (status == TENON_OK) is_done(s, &seen);
    else if (status != TENON_UNAVAILABLE) status = tn_stream_fault(s, status, &fault);
  }
  if (may) has_asked(s);
  let_go(s);
  return status;
}

tenon_status_t tenon_stream_query(tenon_stream_t *s) {
  tenon_status_t status = tn_stream_poll(s);
  if (status == TENON_UNAVAILABLE) return tn_fail(status, "the stream is not done yet");
  if (status == TENON_OK) tn_memory_settle(s->ordinal);
  return status;
}

tenon_status_t tn_ordinal_finish(tn_ordinal_t *o) {
  tenon_status_t first = TENON_OK;
  tn_mutex_lock(&o->lock);
  tenon_stream_t *all = o->streams; /* more are put before it; none is taken out */
  tn_mutex_unlock(&o->lock);
  for (tenon_stream_t *s = all; s; s = s->next) {
    bool is_held = (s->native || s == o->first) && hold(s);
    if (is_held && may_ask(s)) { /* while it is recorded nothing is on the device */
      if (first == TENON_OK) first = tn_stream_finish(s);
      if (first != TENON_OK) tn_stream_drain(s); /* also one that failed long ago: memory waits for its end */
      has_asked(s);
    }
    if (is_held) let_go(s);
  }
  return first;
}

tenon_status_t tenon_device_synchronize(tenon_device_t device) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  TN_TRY(tn_ordinal_finish(o));
  return tn_memory_settle(o), TENON_OK;
}

/* ---- one stream after another --------------------------------------------------------------------------------------- */

static uint64_t known(const tn_clock_t *clock, const tenon_stream_t *of) {
  for (size_t i = 0; i < clock->count; i++)
    if (clock->at[i].stream == of) return clock->at[i].ticket;
  return 0;
}

/* Without memory less is known, and a wait more is enqueued later. */
static void learn(tn_clock_t *clock, const tenon_stream_t *of, uint64_t ticket) {
  size_t i = 0;
  while (i < clock->count && clock->at[i].stream != of) i++;
  if (i == clock->count) {
    if (!tn_grow((void **)&clock->at, &clock->capacity, clock->count, sizeof *clock->at)) return;
    clock->at[clock->count++] = (struct tn_known_t){of, 0};
  }
  if (clock->at[i].ticket < ticket) clock->at[i].ticket = ticket;
}

static void learn_all(tn_clock_t *clock, const tn_clock_t *from, const tenon_stream_t *self) {
  for (size_t i = 0; i < from->count; i++)
    if (from->at[i].stream != self) learn(clock, from->at[i].stream, from->at[i].ticket);
}

/* The event of `of` stands for its work up to `ticket` at least. */
static tenon_status_t record(tenon_stream_t *of, uint64_t ticket) {
  const tn_ordinal_t *o = of->ordinal;
  if (!of->event) TN_TRY(o->table->event_create(&o->context, &of->event));
  else if (known(&of->at_event, of) >= ticket) return TENON_OK;
  uint64_t up_to = quiet(of);
  tenon_status_t status = o->table->event_record(&o->context, of->event, of->native);
  of->at_event.count = 0;
  if (status != TENON_OK) return status;
  learn(&of->at_event, of, up_to);
  learn_all(&of->at_event, &of->known, of);
  return TENON_OK;
}

tenon_status_t tn_stream_point(tenon_stream_t *s) {
  if (!s->ordinal->has_events) return TENON_OK;
  tn_mutex_lock(&order);
  tenon_status_t status = record(s, __atomic_load_n(&s->ticket, __ATOMIC_RELAXED));
  tn_mutex_unlock(&order);
  return status;
}

void tn_waits_skip(uint64_t n) {
  tn_mutex_lock(&order);
  skip = n;
  tn_mutex_unlock(&order);
}

static tenon_status_t wait_for(tenon_stream_t *s, tenon_stream_t *of) {
  const tn_ordinal_t *mine = s->ordinal;
  if (skip && --skip == 0) return TENON_OK;
  return mine->table->stream_wait(&mine->context, s->native, &of->ordinal->context, of->event);
}

bool tn_needs_add(tn_needs_t *needs, tenon_stream_t *of, uint64_t ticket) {
  size_t i = 0;
  if (!ticket || tn_stream_is_done(of, ticket)) return true;
  while (i < needs->count && needs->at[i].stream != of) i++;
  if (i == TN_NEEDS) return false;
  if (i == needs->count) needs->at[needs->count++] = (struct tn_known_t){of, 0};
  if (needs->at[i].ticket < ticket) needs->at[i].ticket = ticket;
  return true;
}

/* Does who waits for `by` come after that of another stream? */
static bool implies(const struct tn_known_t *by, const struct tn_known_t *that) {
  const tenon_stream_t *s = by->stream;
  bool is_recorded = s->event && known(&s->at_event, s) >= by->ticket; /* else it is recorded as of now */
  return known(is_recorded ? &s->at_event : &s->known, that->stream) >= that->ticket;
}

static bool is_implied(const tn_needs_t *by, size_t without, const struct tn_known_t *that) {
  for (size_t k = 0; k < by->count; k++)
    if (k != without && implies(&by->at[k], that)) return true;
  return false;
}

/* Can this one be left out too?  What was left out before must still be implied: not all that a stream knows now is known
 * to who waited for it earlier. */
static bool are_implied(const tn_needs_t *needs, size_t i, const tn_needs_t *left_out) {
  if (!is_implied(needs, i, &needs->at[i])) return false;
  for (size_t k = 0; k < left_out->count; k++)
    if (!is_implied(needs, i, &left_out->at[k])) return false;
  return true;
}

static void leave_out(tn_needs_t *needs, size_t i) { needs->at[i] = needs->at[--needs->count]; }

/* Waits that can be enqueued; the others are left, for the host.  After a failure out_of is the stream that was to be waited for. */
static tenon_status_t enqueue_waits(tenon_stream_t *s, tn_needs_t *needs, tenon_stream_t **out_of) {
  tn_needs_t host = {0};
  for (size_t i = 0; i < needs->count;) { /* what is known, and what only the host can wait for */
    const tenon_stream_t *of = needs->at[i].stream;
    bool is_known = known(&s->known, of) >= needs->at[i].ticket || tn_stream_is_done(of, needs->at[i].ticket);
    bool is_host = !s->ordinal->has_events || s->ordinal->plugin != of->ordinal->plugin;
    if (is_known) count(&tn_waits.implied);
    else if (is_host) host.at[host.count++] = needs->at[i];
    if (is_known || is_host) leave_out(needs, i);
    else i++;
  }
  tn_needs_t left_out = {0};
  for (size_t i = 0; i < needs->count;) {
    if (are_implied(needs, i, &left_out)) {
      count(&tn_waits.implied);
      left_out.at[left_out.count++] = needs->at[i];
      leave_out(needs, i);
    } else i++;
  }
  tenon_status_t status = TENON_OK;
  if (tn_stream_is_recording(s) && needs->count + host.count) return cannot_record("work waits for another stream");
  for (size_t i = 0; i < needs->count && status == TENON_OK; i++) {
    tenon_stream_t *of = (tenon_stream_t *)(uintptr_t)needs->at[i].stream;
    *out_of = of;
    if ((status = record(of, needs->at[i].ticket)) != TENON_OK || (status = wait_for(s, of)) != TENON_OK) break;
    learn_all(&s->known, &of->at_event, s);
    count(&tn_waits.enqueued);
  }
  *needs = host;
  return status;
}

tenon_status_t tn_stream_follow(tenon_stream_t *s, tn_needs_t *needs) {
  if (!needs->count) return TENON_OK;
  for (size_t i = 0; i < needs->count; i++) {
    const struct tn_known_t *of = &needs->at[i]; /* one that was given back is done before it says so */
    if (of->stream->failed && !tn_stream_is_done(of->stream, of->ticket)) return tn_stream_failure(of->stream);
  }
  tenon_stream_t *of = NULL;
  tn_mutex_lock(&order);
  tenon_status_t status = enqueue_waits(s, needs, &of);
  tn_mutex_unlock(&order);
  if (status != TENON_OK &&
      of) { /* the one that is waited for is to blame, if it has failed; else who waits may have */
    status = tn_stream_refused(of, status, NULL);
    return of->failed ? status : tn_stream_refused(s, status, NULL);
  }
  if (status != TENON_OK) return status;
  for (size_t i = 0; i < needs->count && status == TENON_OK; i++) {
    count(&tn_waits.host);
    status = tn_stream_finish((tenon_stream_t *)(uintptr_t)needs->at[i].stream);
  }
  return status;
}

tenon_status_t tenon_stream_wait(tenon_stream_t *stream, tenon_stream_t *of) {
  tn_needs_t needs = {0};
  TN_TRY(tn_stream_check(of));
  if (stream != of) (void)tn_needs_add(&needs, of, tn_stream_mark(of));
  return tn_stream_follow(stream, &needs);
}
