/* Order between streams: what each stream knows about others, and the waits that this knowledge
 * does not imply. Invariant: clocks and events are read and written under tn_streams_order. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/event.h"

tn_waits_t tn_waits;
static uint64_t skipped_wait; /* under the lock */

static void count_one(uint64_t *counter) { __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED); }

static uint64_t known_ticket(const tn_clock_t *clock, const tenon_stream_t *of) {
  for (size_t i = 0; i < clock->count; i++)
    if (clock->at[i].stream == of) return clock->at[i].ticket;
  return 0;
}

/* Without memory less is known, which costs a redundant wait later. */
static void learn_ticket(tn_clock_t *clock, const tenon_stream_t *of, uint64_t ticket) {
  size_t i = 0;
  while (i < clock->count && clock->at[i].stream != of)
    i++;
  if (i == clock->count) {
    if (!tn_grow((void **)&clock->at, &clock->capacity, clock->count, sizeof *clock->at)) return;
    clock->at[clock->count++] = (struct tn_known_t){of, 0};
  }
  if (clock->at[i].ticket < ticket) clock->at[i].ticket = ticket;
}

static void learn_all(tn_clock_t *clock, const tn_clock_t *from, const tenon_stream_t *self) {
  for (size_t i = 0; i < from->count; i++)
    if (from->at[i].stream != self) learn_ticket(clock, from->at[i].stream, from->at[i].ticket);
}

tenon_status_t tn_stream_record(tenon_stream_t *s, void *event, tn_clock_t *at) {
  const tn_ordinal_t *o = s->ordinal;
  uint64_t up_to = tn_stream_quiet(s);
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->event_record(&o->context, event, s->native);
  status = tn_ordinal_complete(o, errors, "event_record", status);
  at->count = 0;
  if (status != TENON_OK) return status;
  learn_ticket(at, s, up_to);
  learn_all(at, &s->known, s);
  return TENON_OK;
}

/* Records the event of `of`, so that it stands for its work up to at least `ticket`. */
static tenon_status_t record_event(tenon_stream_t *of, uint64_t ticket) {
  const tn_ordinal_t *o = of->ordinal;
  const uint64_t errors = tn_error_count();
  if (!of->event)
    TN_TRY(tn_ordinal_complete(o, errors, "event_create",
                               o->table->event_create(&o->context, &of->event)));
  else if (known_ticket(&of->at_event, of) >= ticket)
    return TENON_OK;
  return tn_stream_record(of, of->event, &of->at_event);
}

tenon_status_t tn_stream_point(tenon_stream_t *s) {
  if (!s->ordinal->has_events) return TENON_OK;
  tn_mutex_lock(&tn_streams_order);
  tenon_status_t status = record_event(s, __atomic_load_n(&s->ticket, __ATOMIC_RELAXED));
  tn_mutex_unlock(&tn_streams_order);
  return status;
}

void tn_waits_skip(uint64_t n) {
  tn_mutex_lock(&tn_streams_order);
  skipped_wait = n;
  tn_mutex_unlock(&tn_streams_order);
}

/* Enqueues a wait for an event of `of`, and learns what it implies. */
static tenon_status_t enqueue_wait(tenon_stream_t *s, const tenon_stream_t *of, void *event,
                                   const tn_clock_t *at) {
  const tn_ordinal_t *mine = s->ordinal;
  tenon_status_t status = TENON_OK;
  const uint64_t errors = tn_error_count();
  if (!skipped_wait || --skipped_wait)
    status = mine->table->stream_wait(&mine->context, s->native, &of->ordinal->context, event);
  TN_TRY(tn_ordinal_complete(mine, errors, "stream_wait", status));
  learn_all(&s->known, at, s);
  count_one(&tn_waits.enqueued);
  return TENON_OK;
}

/* Is all later work of `s` known to follow the work of `of` up to `ticket`? */
static bool is_ahead(const tenon_stream_t *s, const tenon_stream_t *of, uint64_t ticket) {
  return known_ticket(&s->known, of) >= ticket || tn_stream_is_done(of, ticket);
}

bool tn_needs_add(tn_needs_t *needs, tenon_stream_t *of, uint64_t ticket) {
  size_t i = 0;
  if (!ticket || tn_stream_is_done(of, ticket)) return true;
  while (i < needs->count && needs->at[i].stream != of)
    i++;
  if (i == TN_NEEDS) return false;
  if (i == needs->count) needs->at[needs->count++] = (struct tn_known_t){of, 0};
  if (needs->at[i].ticket < ticket) needs->at[i].ticket = ticket;
  return true;
}

/* Does a wait for `by` imply a wait for `that`? */
static bool implies(const struct tn_known_t *by, const struct tn_known_t *that) {
  const tenon_stream_t *s = by->stream;
  bool is_recorded =
      s->event && known_ticket(&s->at_event, s) >= by->ticket; /* otherwise it is recorded now */
  return known_ticket(is_recorded ? &s->at_event : &s->known, that->stream) >= that->ticket;
}

static bool is_implied(const tn_needs_t *by, size_t without, const struct tn_known_t *that) {
  for (size_t k = 0; k < by->count; k++)
    if (k != without && implies(&by->at[k], that)) return true;
  return false;
}

/* Can this wait be left out, too? The waits left out before must still be implied, because a stream
 * may have learnt of other streams after its event was recorded. */
static bool are_implied(const tn_needs_t *needs, size_t i, const tn_needs_t *left_out) {
  if (!is_implied(needs, i, &needs->at[i])) return false;
  for (size_t k = 0; k < left_out->count; k++)
    if (!is_implied(needs, i, &left_out->at[k])) return false;
  return true;
}

static void leave_out(tn_needs_t *needs, size_t i) { needs->at[i] = needs->at[--needs->count]; }

/* Enqueues waits where possible; `needs` keeps those that the host must perform. After an error
 * *out_of is the stream that was to be waited for. */
static tenon_status_t enqueue_waits(tenon_stream_t *s, tn_needs_t *needs, tenon_stream_t **out_of) {
  tn_needs_t host = {0};
  /* First: waits that are known to be satisfied, and waits that only the host can perform. */
  for (size_t i = 0; i < needs->count;) {
    const tenon_stream_t *of = needs->at[i].stream;
    bool is_known = is_ahead(s, of, needs->at[i].ticket);
    bool is_host = !s->ordinal->has_events || s->ordinal->plugin != of->ordinal->plugin;
    if (is_known)
      count_one(&tn_waits.implied);
    else if (is_host)
      host.at[host.count++] = needs->at[i];
    if (is_known || is_host)
      leave_out(needs, i);
    else
      i++;
  }
  tn_needs_t left_out = {0};
  for (size_t i = 0; i < needs->count;) {
    if (are_implied(needs, i, &left_out)) {
      count_one(&tn_waits.implied);
      left_out.at[left_out.count++] = needs->at[i];
      leave_out(needs, i);
    } else
      i++;
  }
  tenon_status_t status = TENON_OK;
  if (tn_stream_is_capturing(s) && needs->count + host.count)
    return tn_stream_cannot_capture("work waits for another stream");
  for (size_t i = 0; i < needs->count && status == TENON_OK; i++) {
    tenon_stream_t *of = (tenon_stream_t *)(uintptr_t)needs->at[i].stream;
    *out_of = of;
    status = record_event(of, needs->at[i].ticket);
    if (status == TENON_OK) status = enqueue_wait(s, of, of->event, &of->at_event);
  }
  *needs = host;
  return status;
}

tenon_status_t tn_stream_follow(tenon_stream_t *s, tn_needs_t *needs) {
  if (!needs->count) return TENON_OK;
  for (size_t i = 0; i < needs->count; i++) {
    /* A stream that was returned finishes its work before it reports this. */
    const struct tn_known_t *of = &needs->at[i];
    if (of->stream->failed && !tn_stream_is_done(of->stream, of->ticket))
      return tn_stream_failure(of->stream);
  }
  tenon_stream_t *of = NULL;
  tn_mutex_lock(&tn_streams_order);
  tenon_status_t status = enqueue_waits(s, needs, &of);
  tn_mutex_unlock(&tn_streams_order);
  /* The stream that is waited for is to blame if it has failed; otherwise the waiting stream may
   * be. */
  if (status != TENON_OK && of) {
    status = tn_stream_refused(of, status, NULL);
    return of->failed ? status : tn_stream_refused(s, status, NULL);
  }
  if (status != TENON_OK) return status;
  for (size_t i = 0; i < needs->count && status == TENON_OK; i++) {
    count_one(&tn_waits.host);
    status = tn_stream_finish((tenon_stream_t *)(uintptr_t)needs->at[i].stream);
  }
  return status;
}

tenon_status_t tn_stream_follow_event(tenon_stream_t *s, const tenon_event_t *event,
                                      bool *out_is_left) {
  const tenon_stream_t *of = event->stream;
  *out_is_left = false;
  if (s == of || is_ahead(s, of, event->ticket)) {
    count_one(&tn_waits.implied);
    return TENON_OK;
  }
  if (tn_stream_is_capturing(s)) return tn_stream_cannot_capture("work waits for another stream");
  *out_is_left = !event->native || s->ordinal->plugin != of->ordinal->plugin;
  return *out_is_left ? TENON_OK : enqueue_wait(s, of, event->native, &event->at);
}

tenon_status_t tenon_stream_wait(tenon_stream_t *stream, tenon_stream_t *of) {
  tn_needs_t needs = {0};
  TN_TRY(tn_stream_check(of));
  if (stream != of) (void)tn_needs_add(&needs, of, tn_stream_mark(of));
  return tn_stream_follow(stream, &needs);
}
