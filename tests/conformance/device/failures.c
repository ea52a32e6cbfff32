/* Cases about work that fails. The device provides the means to make work fail as the native object
 * "enqueue_failure": the address of a function
 *     tenon_status_t (*enqueue_failure)(tenon_on_t on, void *stream, uint64_t ticket) that enqueues
 *     work which fails. */
#include "groups.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 5000

typedef tenon_status_t (*failure_fn)(tenon_on_t on, void *stream, uint64_t ticket);

static uint64_t enqueue_failure(tenon_on_t on, void *stream) { /* returns the ticket */
  failure_fn *hook = rig.table->native(on, "enqueue_failure", NULL);
  uint64_t ticket = ++rig.ticket;
  doing("enqueue_failure()");
  must((*hook)(on, stream, ticket), "enqueue_failure, the native object");
  return ticket;
}

/* Enqueues in a stream that may have failed, so the call itself may return the failure. */
static void copy_in_failed(tenon_on_t on, void *stream, void *to, void *from) {
  try_copy(on, stream, TENON_COPY_WITHIN, (tenon_memory_t){to, 0}, (tenon_memory_t){from, 0}, BYTES,
           NULL);
}

static tenon_status_t must_have_failed(tenon_on_t on, tenon_status_t status, const char *call) {
  (void)on;
  EXPECT(
      status != TENON_OK,
      "%s of a stream whose work failed: expected the failure, found TENON_OK (is the error lost?)",
      call);
  EXPECT(status != TENON_UNAVAILABLE || strstr(call, "query") == NULL,
         "%s: expected the failure, found TENON_UNAVAILABLE", call);
  EXPECT(strcmp(said(), "(no message by tenon_fail)") != 0,
         "%s returns a failure without a message by tenon_fail", call);
  return status;
}

static tenon_status_t pass_failed(tenon_on_t on, void *stream, uint64_t ticket) {
  tenon_fault_t fault = {.size = sizeof fault};
  doing("stream_synchronize() of a stream whose work fails");
  tenon_status_t status =
      must_have_failed(on, rig.table->stream_synchronize(on, stream, &fault), "stream_synchronize");
  if (rig.properties.features & TENON_DEVICE_BLAMES)
    EXPECT(fault.ticket == ticket,
           "stream_synchronize blames the work with ticket %llu: expected %llu, which failed",
           (unsigned long long)fault.ticket, (unsigned long long)ticket);
  return status;
}

static void sticky(tenon_on_t on) {
  void *stream = must_stream(on);
  uint64_t ticket = enqueue_failure(on, stream);
  tenon_status_t first = pass_failed(on, stream, ticket);
  for (int i = 0; i < 5; i++) {
    tenon_fault_t fault = {.size = sizeof fault};
    doing("stream_synchronize() of a stream whose work failed");
    tenon_status_t again = rig.table->stream_synchronize(on, stream, &fault);
    EXPECT(again == first,
           "stream_synchronize returned %s, and then %s: expected the failure to persist (is it "
           "sticky?)",
           status_name(first), status_name(again));
    doing("stream_query() of a stream whose work failed");
    again = must_have_failed(on, rig.table->stream_query(on, stream, &fault), "stream_query");
    EXPECT(again == first,
           "stream_query returned %s: expected the failure to persist, %s (is it sticky?)",
           status_name(again), status_name(first));
    EXPECT(!(rig.properties.features & TENON_DEVICE_BLAMES) || fault.ticket == ticket,
           "stream_query blames ticket %llu: expected %llu", (unsigned long long)fault.ticket,
           (unsigned long long)ticket);
  }
  must_stream_destroy(on, stream);
}

static void blamed(tenon_on_t on) {
  void *stream = must_stream(on);
  void *x = filled(on, BYTES, 5);
  void *y = filled(on, BYTES, 6);
  for (int i = 0; i < 10; i++)
    copy_in_failed(on, stream, y, x);
  uint64_t ticket = enqueue_failure(on, stream);
  for (int i = 0; i < 10; i++)
    copy_in_failed(on, stream, y, x);
  pass_failed(on, stream, ticket);
  must_stream_destroy(on, stream);
  must_free(on, x);
  must_free(on, y);
}

static void first_stays(tenon_on_t on) {
  void *stream = must_stream(on);
  uint64_t ticket = enqueue_failure(on, stream);
  failure_fn *hook = rig.table->native(on, "enqueue_failure", NULL);
  for (int i = 0; i < 3; i++)
    (*hook)(on, stream, ++rig.ticket); /* may be refused */
  pass_failed(on, stream, ticket);
  must_stream_destroy(on, stream);
}

static void undone(tenon_on_t on) {
  void *stream = must_stream(on);
  void *x = filled(on, BYTES, 5);
  void *before = filled(on, BYTES, POISON);
  void *behind = filled(on, BYTES, 7);
  copy_in_failed(on, stream, before, x);
  uint64_t ticket = enqueue_failure(on, stream);
  copy_in_failed(on, stream, behind, x);
  pass_failed(on, stream, ticket);
  copy_in_failed(on, stream, behind, x);
  pass_failed(on, stream, ticket);
  expect_holds(on, before, 0, BYTES, 5, 0, POISON, "a copy before the work that failed");
  expect_holds(on, behind, 0, BYTES, 7, 0, 5,
               "memory that work after a failure was to write (expected to be left undone)");
  must_stream_destroy(on, stream);
  must_free(on, x);
  must_free(on, before);
  must_free(on, behind);
}

static void others(tenon_on_t on) {
  void *bad = must_stream(on);
  void *good = must_stream(on);
  void *x = filled(on, BYTES, 5);
  void *y = filled(on, BYTES, POISON);
  uint64_t ticket = enqueue_failure(on, bad);
  pass_failed(on, bad, ticket);
  must_within(on, good, y, 0, x, 0, BYTES);
  must_pass(on, good);
  expect_holds(on, y, 0, BYTES, 5, 0, POISON, "a copy on a stream beside one that failed");
  must_stream_destroy(on, bad);
  must_stream_destroy(on, good);
  must_free(on, x);
  must_free(on, y);
}

static void spreads(tenon_on_t on, tenon_on_t to) {
  for (int round = 0; round < rig.rounds; round++) {
    void *bad = must_stream(on);
    void *waits = must_stream(to);
    void *event = must_event(on);
    void *x = filled(to, BYTES, 5);
    void *y = filled(to, BYTES, 7);
    if (round % 2) delay(on, bad, 0);
    uint64_t ticket = enqueue_failure(on, bad);
    doing("event_record() in a stream that fails");
    tenon_status_t recorded = rig.table->event_record(on, event, bad);
    if (recorded == TENON_OK) {
      doing("stream_wait() for the event of a stream that fails");
      if (rig.table->stream_wait(to, waits, on, event) == TENON_OK) copy_in_failed(to, waits, y, x);
      doing("stream_synchronize() of a stream that waits for one that fails");
      tenon_fault_t fault = {.size = sizeof fault};
      tenon_status_t status = rig.table->stream_synchronize(to, waits, &fault);
      EXPECT(status != TENON_OK,
             "stream_synchronize of a stream that waits for the event of one that failed: expected "
             "the failure, found TENON_OK (does it spread?)");
      if (to == on && rig.properties.features & TENON_DEVICE_BLAMES)
        EXPECT(fault.ticket == ticket,
               "a stream that waits for one that failed blames ticket %llu: expected %llu",
               (unsigned long long)fault.ticket, (unsigned long long)ticket);
      pass_failed(on, bad, ticket);
      expect_holds(to, y, 0, BYTES, 7, 0, 5,
                   "memory that work after a failure of another stream was to write (expected to "
                   "be left undone)");
    }
    must_stream_destroy(on, bad);
    must_stream_destroy(to, waits);
    must_event_destroy(on, event);
    must_free(to, x);
    must_free(to, y);
  }
}
static void spread(tenon_on_t on) { spreads(on, on); }
static void spread_across(tenon_on_t on) { spreads(on, other_of(on)); }

static void not_before(tenon_on_t on) { /* an event from before the failure is valid */
  void *bad = must_stream(on);
  void *waits = must_stream(on);
  void *event = must_event(on);
  void *x = filled(on, BYTES, 5);
  void *y = filled(on, BYTES, POISON);
  must_record(on, event, bad);
  uint64_t ticket = enqueue_failure(on, bad);
  pass_failed(on, bad, ticket);
  must_wait(on, waits, on, event);
  must_within(on, waits, y, 0, x, 0, BYTES);
  must_pass(on, waits);
  must_event_pass(on, event);
  expect_holds(on, y, 0, BYTES, 5, 0, POISON,
               "a copy of a stream that waits for an event from before the failure");
  must_stream_destroy(on, bad);
  must_stream_destroy(on, waits);
  must_event_destroy(on, event);
  must_free(on, x);
  must_free(on, y);
}

static void event_fails(tenon_on_t on) {
  void *stream = must_stream(on);
  void *event = must_event(on);
  enqueue_failure(on, stream);
  doing("event_record() in a stream that fails");
  if (rig.table->event_record(on, event, stream) == TENON_OK) {
    doing("event_synchronize() after work that fails");
    must_have_failed(on, rig.table->event_synchronize(on, event),
                     "event_synchronize of an event after the failure");
    doing("event_query() after work that failed");
    must_have_failed(on, rig.table->event_query(on, event),
                     "event_query of an event after the failure");
  }
  must_stream_destroy(on, stream);
  must_event_destroy(on, event);
}

/* The failure is found by queries alone, which must never return TENON_OK before. */
static void asked(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    tenon_fault_t fault = {.size = sizeof fault};
    tenon_status_t status;
    delay(on, stream, 0);
    enqueue_failure(on, stream);
    while ((status = rig.table->stream_query(on, stream, &fault)) == TENON_UNAVAILABLE)
      sched_yield();
    must_have_failed(on, status,
                     "stream_query, called until it no longer returns TENON_UNAVAILABLE,");
    must_stream_destroy(on, stream);
  }
}

static void all(tenon_on_t on) {
  void *first = must_stream(on);
  void *bad = must_stream(on);
  void *last = must_stream(on);
  uint64_t ticket = enqueue_failure(on, bad);
  for (int i = 0; i < 3; i++) {
    doing("synchronize() with a stream whose work fails");
    must_have_failed(on, rig.table->synchronize(on), "synchronize, with one stream of three,");
  }
  pass_failed(on, bad, ticket);
  must_pass(on, first);
  must_pass(on, last);
  must_stream_destroy(on, first);
  must_stream_destroy(on, bad);
  must_stream_destroy(on, last);
}

static _Atomic int told;
static void take_status(void *argument, tenon_status_t status) {
  (void)argument;
  told = status == TENON_OK ? -1 : 1;
}
static void callback_told(tenon_on_t on) {
  void *stream = must_stream(on);
  told = 0;
  enqueue_failure(on, stream);
  doing("callback() in a stream that fails");
  if (rig.table->callback(on, stream, take_status, NULL) == TENON_OK) {
    doing("waiting for a callback of a stream that failed");
    while (!told)
      sched_yield();
    EXPECT(told == 1, "a callback after work that failed: expected the stream's failure as status, "
                      "found TENON_OK");
  }
  must_stream_destroy(on, stream);
}

static void works_after(tenon_on_t on) {
  for (int i = 0; i < 20; i++) {
    void *bad = must_stream(on);
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    uint64_t ticket = enqueue_failure(on, bad);
    pass_failed(on, bad, ticket);
    must_stream_destroy(on, bad);
    void *stream = must_stream(on);
    must_within(on, stream, y, 0, x, 0, BYTES);
    must_pass(on, stream);
    expect_holds(on, y, 0, BYTES, 5, 0, POISON,
                 "a copy on a stream that was created after a failed one was destroyed");
    must_stream_destroy(on, stream);
    must_free(on, x);
    must_free(on, y);
  }
}

static void other_ordinal(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  void *bad = must_stream(on);
  void *x = filled(other, BYTES, 5);
  void *y = filled(other, BYTES, POISON);
  uint64_t ticket = enqueue_failure(on, bad);
  pass_failed(on, bad, ticket);
  must_within(other, NULL, y, 0, x, 0, BYTES);
  must_finish(other);
  expect_holds(other, y, 0, BYTES, 5, 0, POISON,
               "a copy on an ordinal beside one with a failed stream");
  must_stream_destroy(on, bad);
  must_free(other, x);
  must_free(other, y);
}

static void refused_leaks(tenon_on_t on) {
  uint64_t before = 0;
  uint64_t after = 0;
  void *handle = NULL;
  must(rig.table->memory_free(on, &before), "memory_free");
  for (int window = 0; window < 3; window++, before = after) {
    for (int i = 0; i < 50; i++) {
      doing("allocate(2^60 bytes)");
      EXPECT(rig.table->allocate(on, (uint64_t)1 << 60, &handle) != TENON_OK,
             "allocate of 2^60 bytes returned TENON_OK");
    }
    must(rig.table->memory_free(on, &after), "memory_free");
    if (after >= before) return;
  }
  finding("an allocation that fails takes memory: memory_free falls with each");
}

const case_t failure_cases[] = {
    {"failures.sticky",
     "A stream whose work failed returns that failure from then on, with a message.",
     NEEDS_HOOK | NEEDS_STREAMS, sticky},
    {"failures.blamed", "The failure names the ticket of the work that failed.",
     NEEDS_HOOK | NEEDS_STREAMS, blamed},
    {"failures.first_stays",
     "If several pieces of work fail in a stream, the first failure is returned.",
     NEEDS_HOOK | NEEDS_STREAMS, first_stays},
    {"failures.undone", "Work before a failure is done, and work after it is not.",
     NEEDS_HOOK | NEEDS_STREAMS, undone},
    {"failures.others", "Other streams continue to work.", NEEDS_HOOK | NEEDS_STREAMS, others},
    {"failures.spread", "Streams that wait for an event after a failure fail in the same way.",
     NEEDS_HOOK | NEEDS_EVENTS, spread},
    {"failures.spread_across", "The same for streams of another ordinal.",
     NEEDS_HOOK | NEEDS_EVENTS | NEEDS_PEER, spread_across},
    {"failures.not_before", "Events from before a failure are valid.", NEEDS_HOOK | NEEDS_EVENTS,
     not_before},
    {"failures.event", "Events after a failure return it.", NEEDS_HOOK | NEEDS_EVENTS, event_fails},
    {"failures.asked", "stream_query alone reports a failure.", NEEDS_HOOK | NEEDS_STREAMS, asked},
    {"failures.all", "synchronize returns the failure of any stream, repeatedly.",
     NEEDS_HOOK | NEEDS_STREAMS, all},
    {"failures.callback", "A callback after a failure is called with the failure as its status.",
     NEEDS_HOOK | NEEDS_STREAMS | NEEDS_CALLBACK, callback_told},
    {"failures.works_after", "After a failed stream is destroyed, new streams work.",
     NEEDS_HOOK | NEEDS_STREAMS, works_after},
    {"failures.other_ordinal", "Other ordinals continue to work.",
     NEEDS_HOOK | NEEDS_STREAMS | NEEDS_PEER, other_ordinal},
    {"failures.refused_leaks", "Allocations that fail take no memory.", NEEDS_LEVEL, refused_leaks},
    {0}};
