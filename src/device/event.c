/* Events of programs: creating, recording, querying and waiting for them. Programs call these
 * functions on any thread. Invariant: an event's fields change only under tn_streams_order, and no
 * thread waits while it holds this lock. */
#include "device/event.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/memory.h"

/* Returns the ordinal of an event. Errors: it has stopped, or is lost after a fork; never
 * UNAVAILABLE, which would mean that the event is not done yet. */
static tenon_status_t find_ordinal(const tenon_event_t *e, tn_ordinal_t **out_ordinal) {
  *out_ordinal = e->ordinal;
  if (!e->ordinal)
    return tn_fail(TENON_PRECONDITION, "the device of an event has stopped: release the event, and "
                                       "create another one on a device that works");
  if (tn_ordinal_get(e->ordinal->context.device, out_ordinal) == TENON_OK) return TENON_OK;
  return tn_prefix(TENON_PRECONDITION, "an event of a device that does not work: ");
}

static tenon_event_t read_event(const tenon_event_t *e) {
  tn_mutex_lock(&tn_streams_order);
  tenon_event_t now = *e;
  tn_mutex_unlock(&tn_streams_order);
  return now;
}

static void let_stream_go(tenon_stream_t *s) {
  if (s && !s->is_imported) tenon_stream_release(s);
}

tenon_status_t tenon_event_create(tenon_device_t device, uint32_t flags,
                                  tenon_event_t **out_event) {
  tn_ordinal_t *o;
  *out_event = NULL;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  if (flags & ~(uint32_t)TENON_EVENT_TIMED)
    return tn_fail(TENON_INVALID, "flags 0x%x of an event: expected 0 or TENON_EVENT_TIMED", flags);
  bool has_native = o->has_streams && o->has_events;
  /* Without streams, the time of the host is right, because all work is done. */
  bool has_times = !o->has_streams || (has_native && TN_SLOT(o->table, event_time));
  if (flags && !has_times)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "events of device %s:%d have no times: create the event without "
                   "TENON_EVENT_TIMED, and measure on the host, after tenon_stream_synchronize",
                   o->plugin->name, (int)o->context.ordinal);
  tenon_event_t *e = tn_allocate_zero(1, sizeof *e);
  if (!e) return tn_no_memory("an event", sizeof *e);
  e->ordinal = o;
  e->flags = flags;
  const uint64_t errors = tn_error_count();
  tenon_status_t status = has_native ? o->table->event_create(&o->context, &e->native) : TENON_OK;
  if (status != TENON_OK) {
    tn_release_memory(e);
    return tn_ordinal_complete(o, errors, "event_create", status);
  }
  tn_mutex_lock(&tn_streams_order);
  e->after = o->events;
  if (e->after) e->after->before = e;
  o->events = e;
  tn_mutex_unlock(&tn_streams_order);
  *out_event = e;
  return TENON_OK;
}

/* Takes the event out of its ordinal's list. `works`: the ordinal does, and must forget it. */
static void detach_event(tenon_event_t *e, bool works) {
  tn_ordinal_t *o = e->ordinal;
  *(e->before ? &e->before->after : &o->events) = e->after;
  if (e->after) e->after->before = e->before;
  if (works && e->native) o->table->event_destroy(&o->context, e->native);
  tn_release_memory(e->at.at);
  e->at = (tn_clock_t){0};
  e->ordinal = NULL;
  e->stream = NULL;
}

void tenon_event_release(tenon_event_t *e) {
  if (!e) return;
  bool works = e->ordinal && tn_ordinal_of(e->ordinal->context.device);
  tn_mutex_lock(&tn_streams_order);
  tenon_stream_t *s = e->stream;
  if (e->ordinal) detach_event(e, works);
  tn_mutex_unlock(&tn_streams_order);
  let_stream_go(s);
  tn_release_memory(e);
}

void tn_events_release(tn_ordinal_t *o) {
  tn_mutex_lock(&tn_streams_order);
  while (o->events)
    detach_event(o->events, o->state == TN_ORDINAL_WORKS);
  tn_mutex_unlock(&tn_streams_order);
}

tenon_status_t tenon_event_record(tenon_event_t *e, tenon_stream_t *s) {
  tn_ordinal_t *o;
  TN_TRY(find_ordinal(e, &o));
  if (s->ordinal != o)
    return tn_fail(TENON_INVALID,
                   "an event of device %s:%d was to be recorded in a stream of %s:%d: expected a "
                   "stream of the same device",
                   o->plugin->name, (int)o->context.ordinal, s->ordinal->plugin->name,
                   (int)s->ordinal->context.ordinal);
  TN_TRY(tn_stream_check(s));
  if (tn_stream_is_capturing(s)) return tn_stream_cannot_capture("the program records an event");
  tenon_status_t status = TENON_OK;
  tenon_stream_t *before = s;
  uint64_t ticket = tn_stream_mark(s);
  if (!s->is_imported) tenon_stream_retain(s);
  tn_mutex_lock(&tn_streams_order);
  if (e->native) status = tn_stream_record(s, e->native, &e->at);
  if (status == TENON_OK) {
    before = e->stream;
    e->stream = s;
    e->ticket = ticket;
    e->recordings++;
    e->time = tn_now();
  }
  tn_mutex_unlock(&tn_streams_order);
  let_stream_go(before);
  return status == TENON_OK ? status : tn_stream_refused(s, status, NULL);
}

/* The device says that the work before an event of `s` failed. The stream knows the operator,
 * unless it was returned to its owner. */
static tenon_status_t blame_stream(tenon_stream_t *s, tenon_status_t status) {
  if (!tn_stream_hold(s)) return status;
  status = tn_stream_refused(s, status, NULL);
  tn_stream_let_go(s);
  return status;
}

/* Queries the event, or waits for it. Returns: UNAVAILABLE, without a message, if a query finds
 * that it is not done. */
static tenon_status_t ask_event(tenon_event_t *e, bool waits) {
  tn_ordinal_t *o;
  TN_TRY(find_ordinal(e, &o));
  const tenon_event_t now = read_event(e);
  if (!now.stream) return TENON_OK;
  if (!now.native && tn_stream_is_done(now.stream, now.ticket)) return TENON_OK;
  if (!now.native) return waits ? tn_stream_finish(now.stream) : tn_stream_poll(now.stream);
  const uint64_t errors = tn_error_count();
  tenon_status_t status = waits ? o->table->event_synchronize(&o->context, now.native)
                                : o->table->event_query(&o->context, now.native);
  if (status == TENON_UNAVAILABLE && !waits) return status;
  status = tn_ordinal_complete(o, errors, waits ? "event_synchronize" : "event_query", status);
  if (status != TENON_OK) return blame_stream(now.stream, status);
  tn_mutex_lock(&tn_streams_order);
  /* If it was recorded again meanwhile, the answer may be about either position. */
  if (e->recordings == now.recordings) tn_streams_set_done(e->at.at, e->at.count);
  tn_mutex_unlock(&tn_streams_order);
  return TENON_OK;
}

tenon_status_t tenon_event_query(tenon_event_t *event) {
  tenon_status_t status = ask_event(event, false);
  if (status == TENON_UNAVAILABLE) return tn_fail(status, "the event is not done yet");
  if (status == TENON_OK) tn_memory_run_deferred_frees(event->ordinal);
  return status;
}

tenon_status_t tenon_event_synchronize(tenon_event_t *event) {
  TN_TRY(ask_event(event, true));
  tn_memory_run_deferred_frees(event->ordinal);
  return TENON_OK;
}

tenon_status_t tenon_stream_wait_event(tenon_stream_t *stream, tenon_event_t *event) {
  tn_ordinal_t *o;
  bool is_left = false;
  TN_TRY(find_ordinal(event, &o));
  TN_TRY(tn_stream_check(stream));
  const tenon_stream_t *of = read_event(event).stream;
  tenon_status_t status = TENON_UNAVAILABLE;
  /* Of a failed stream, an event may stand for work that failed, or for work before that. */
  if (of && tn_stream_check(of) != TENON_OK) status = ask_event(event, false);
  if (status != TENON_UNAVAILABLE) return status;
  tn_mutex_lock(&tn_streams_order);
  status = event->stream ? tn_stream_follow_event(stream, event, &is_left) : TENON_OK;
  tn_mutex_unlock(&tn_streams_order);
  if (status != TENON_OK)
    return tn_stream_is_capturing(stream) ? status : tn_stream_refused(stream, status, NULL);
  if (!is_left) return TENON_OK;
  __atomic_add_fetch(&tn_waits.host, 1, __ATOMIC_RELAXED);
  return ask_event(event, true);
}

/* The time of an event, which is called `name` in messages. */
static tenon_status_t time_of(tenon_event_t *e, const char *name, int64_t *out_time) {
  const tenon_event_t now = read_event(e);
  if (!(now.flags & TENON_EVENT_TIMED))
    return tn_fail(TENON_INVALID, "the event `%s` has no time: create it with TENON_EVENT_TIMED",
                   name);
  if (!now.stream)
    return tn_fail(TENON_PRECONDITION,
                   "the event `%s` was never recorded: call tenon_event_record first", name);
  tenon_status_t status = ask_event(e, false);
  *out_time = now.time;
  if (status == TENON_OK && now.native) {
    const tn_ordinal_t *o = now.ordinal;
    const uint64_t errors = tn_error_count();
    status = o->table->event_time(&o->context, now.native, out_time);
    if (status != TENON_UNAVAILABLE) status = tn_ordinal_complete(o, errors, "event_time", status);
  }
  if (status != TENON_UNAVAILABLE) return status;
  return tn_fail(status, "the event `%s` is not done yet: call tenon_event_synchronize first",
                 name);
}

tenon_status_t tenon_event_elapsed(tenon_event_t *begin, tenon_event_t *end,
                                   int64_t *out_nanoseconds) {
  tn_ordinal_t *first, *last;
  int64_t from, to;
  TN_TRY(find_ordinal(begin, &first));
  TN_TRY(find_ordinal(end, &last));
  if (first != last)
    return tn_fail(
        TENON_INVALID,
        "the event `begin` is of device %s:%d and `end` of %s:%d: expected events of one "
        "device, which share a clock",
        first->plugin->name, (int)first->context.ordinal, last->plugin->name,
        (int)last->context.ordinal);
  TN_TRY(time_of(begin, "begin", &from));
  TN_TRY(time_of(end, "end", &to));
  *out_nanoseconds = to - from;
  return TENON_OK;
}
