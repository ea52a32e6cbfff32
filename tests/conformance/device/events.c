/* Cases about events: the work that they mark, queries, waits of the host, and times. */
#include "groups.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static void expect_done(tenon_on_t on, const void *memory, uint64_t bytes, uint64_t key,
                        uint64_t before, const char *what) {
  void *looks = must_stream(on);
  uint8_t *to = host_new(bytes);
  must_out(on, looks, to, memory, 0, bytes);
  must_pass(on, looks);
  expect_pattern(to, bytes, key, 0, before, "%s", what);
  free(to);
  must_stream_destroy(on, looks);
}

/* Enqueues a delay, a copy and an event; then the host waits for the event, or queries it until it
 * is done. */
static void honest(tenon_on_t on, int asks, void *stream) {
  const uint64_t bytes = 5000;
  for (int round = 0; round < 2 * rig.rounds; round++) {
    void *event = must_event(on);
    void *x = filled(on, bytes, 5);
    void *y = filled(on, bytes, POISON);
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, bytes);
    must_record(on, event, stream);
    if (asks)
      while (ask_event(on, event) != TENON_OK)
        sched_yield();
    else
      must_event_pass(on, event);
    expect_done(on, y, bytes, 5, POISON,
                asks ? "a copy when event_query of a later event returns TENON_OK (does the event "
                       "come early?)"
                     : "a copy when event_synchronize of a later event returns (does the event "
                       "come early?)");
    must_event_destroy(on, event);
    must_free(on, x);
    must_free(on, y);
  }
}
static void query_honest(tenon_on_t on) {
  void *stream = must_stream(on);
  honest(on, 1, stream);
  must_stream_destroy(on, stream);
}
static void wait_honest(tenon_on_t on) {
  void *stream = must_stream(on);
  honest(on, 0, stream);
  must_stream_destroy(on, stream);
}
static void null_stream(tenon_on_t on) {
  honest(on, 0, NULL);
  honest(on, 1, NULL);
}

static void never_recorded(tenon_on_t on) {
  void *event = must_event(on);
  EXPECT(ask_event(on, event) == TENON_OK, "event_query of an event that was never recorded: "
                                           "expected TENON_OK, found TENON_UNAVAILABLE");
  must_event_pass(on, event);
  must_event_destroy(on, event);
}

static void done_after(tenon_on_t on) {
  static const char *const waited_for[] = {"its stream", "all streams", "the event"};
  void *event = must_event(on);
  void *stream = must_stream(on);
  for (int i = 0; i < 50; i++) {
    must_record(on, event, stream);
    if (i % 3 == 0)
      must_pass(on, stream);
    else if (i % 3 == 1)
      must_finish(on);
    else
      must_event_pass(on, event);
    EXPECT(
        ask_event(on, event) == TENON_OK,
        "event_query after the host has waited for %s: expected TENON_OK, found TENON_UNAVAILABLE",
        waited_for[i % 3]);
  }
  must_event_destroy(on, event);
  must_stream_destroy(on, stream);
}

/* An event that is recorded again marks the later position. */
static void recorded_again(tenon_on_t on, int other_stream) {
  const uint64_t bytes = 5000;
  for (int round = 0; round < rig.rounds; round++) {
    void *event = must_event(on);
    void *first = must_stream(on);
    void *second = other_stream ? must_stream(on) : first;
    void *x = filled(on, bytes, 5);
    void *y = filled(on, bytes, POISON);
    must_record(on, event, first);
    must_event_pass(on, event);
    delay(on, second, 0);
    must_within(on, second, y, 0, x, 0, bytes);
    must_record(on, event, second);
    if (round % 2)
      while (ask_event(on, event) != TENON_OK)
        sched_yield();
    else
      must_event_pass(on, event);
    expect_done(on, y, bytes, 5, POISON,
                "a copy before the second recording of an event, when the event is done (does the "
                "first recording still count?)");
    must_event_destroy(on, event);
    must_stream_destroy(on, first);
    if (other_stream) must_stream_destroy(on, second);
    must_free(on, x);
    must_free(on, y);
  }
}
static void again_same(tenon_on_t on) { recorded_again(on, 0); }
static void again_other(tenon_on_t on) { recorded_again(on, 1); }

static void destroyed_stream(tenon_on_t on) {
  const uint64_t bytes = 5000;
  for (int round = 0; round < rig.rounds; round++) {
    void *event = must_event(on);
    void *stream = must_stream(on);
    void *x = filled(on, bytes, 5);
    void *y = filled(on, bytes, POISON);
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, bytes);
    must_record(on, event, stream);
    must_stream_destroy(on, stream);
    must_event_pass(on, event);
    expect_done(
        on, y, bytes, 5, POISON,
        "a copy when event_synchronize returns for an event whose stream was destroyed while busy");
    must_event_destroy(on, event);
    must_free(on, x);
    must_free(on, y);
  }
}

static void destroyed_early(tenon_on_t on) {
  void *stream = must_stream(on);
  for (int i = 0; i < 200; i++) {
    void *event = must_event(on);
    if (i % 20 == 0 && i < 80) delay(on, stream, 0);
    must_record(on, event, stream);
    must_event_destroy(on, event);
  }
  must_pass(on, stream);
  must_stream_destroy(on, stream);
}

static void thousands(tenon_on_t on) {
  const int count = rig.quick ? 500 : 4000;
  void **events = host_new((uint64_t)count * sizeof *events);
  void *streams[4];
  for (int i = 0; i < 4; i++)
    streams[i] = must_stream(on);
  for (int i = 0; i < count; i++) {
    events[i] = must_event(on);
    must_record(on, events[i], streams[i % 4]);
  }
  for (int i = count; i--;)
    must_event_pass(on, events[i]);
  for (int i = 0; i < count; i++) {
    EXPECT(ask_event(on, events[i]) == TENON_OK,
           "event_query after event_synchronize, with %d events at once: expected TENON_OK, found "
           "TENON_UNAVAILABLE",
           count);
    must_event_destroy(on, events[i]);
  }
  for (int i = 0; i < 4; i++)
    must_stream_destroy(on, streams[i]);
  free(events);
}

static void again_thousands(tenon_on_t on) {
  void *event = must_event(on);
  void *stream = must_stream(on);
  for (int i = 0; i < (rig.quick ? 1000 : 10000); i++)
    must_record(on, event, stream);
  must_event_pass(on, event);
  EXPECT(ask_event(on, event) == TENON_OK,
         "event_query of an event recorded thousands of times and waited for: expected TENON_OK, "
         "found TENON_UNAVAILABLE");
  must_event_destroy(on, event);
  must_stream_destroy(on, stream);
}

static void distinct(tenon_on_t on) {
  void *events[100];
  for (int i = 0; i < 100; i++) {
    events[i] = must_event(on);
    for (int k = 0; k < i; k++)
      EXPECT(events[i] != events[k], "event_create returned the event %p twice while both live",
             events[i]);
  }
  for (int i = 0; i < 100; i++)
    must_event_destroy(on, events[i]);
}

typedef struct shared_t {
  tenon_on_t on;
  void *event;
  const uint8_t *host_memory;
} shared_t;

static void wait_one(void *argument, int index) {
  const shared_t *shared = argument;
  (void)index;
  must_event_pass(shared->on, shared->event);
  expect_pattern(shared->host_memory, 5000, 5, 0, POISON,
                 "host memory after copy(OUT), when event_synchronize of a later event returns on "
                 "one of 4 threads");
}
static void waited_by_threads(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    uint8_t *to = host_new(5000);
    void *stream = must_stream(on);
    void *x = filled(on, 5000, 5);
    shared_t shared = {on, must_event(on), to};
    pattern(to, 5000, POISON, 0);
    delay(on, stream, 0);
    must_out(on, stream, to, x, 0, 5000);
    must_record(on, shared.event, stream);
    in_threads(4, wait_one, &shared);
    must_event_destroy(on, shared.event);
    must_stream_destroy(on, stream);
    must_free(on, x);
    free(to);
  }
}

static int64_t time_of(tenon_on_t on, void *event) {
  int64_t time = INT64_MIN;
  doing("event_time()");
  must(rig.table->event_time(on, event, &time), "event_time of an event that is done");
  return time;
}

static void times_grow(tenon_on_t on) {
  void *events[40];
  void *stream = must_stream(on);
  for (int i = 0; i < 40; i++) {
    events[i] = must_event(on);
    if (i == 20) delay(on, stream, 0);
    must_record(on, events[i], stream);
  }
  must_pass(on, stream);
  for (int i = 1; i < 40; i++)
    EXPECT(time_of(on, events[i]) >= time_of(on, events[i - 1]),
           "event_time: expected times to grow along a stream, found %lld ns before %lld ns",
           (long long)time_of(on, events[i - 1]), (long long)time_of(on, events[i]));
  EXPECT(time_of(on, events[39]) > time_of(on, events[0]),
         "event_time: expected time to pass during much work, found %lld ns at both ends",
         (long long)time_of(on, events[0]));
  for (int i = 0; i < 40; i++)
    must_event_destroy(on, events[i]);
  must_stream_destroy(on, stream);
}

static void times_across(tenon_on_t on) {
  void *a = must_stream(on);
  void *b = must_stream(on);
  void *first = must_event(on);
  void *second = must_event(on);
  delay(on, a, 0);
  must_record(on, first, a);
  must_wait(on, b, on, first);
  must_record(on, second, b);
  must_pass(on, b);
  EXPECT(time_of(on, second) >= time_of(on, first),
         "event_time: expected the time of an event after a wait to be at least that of the "
         "awaited event, found %lld ns and %lld ns",
         (long long)time_of(on, second), (long long)time_of(on, first));
  must_event_destroy(on, first);
  must_event_destroy(on, second);
  must_stream_destroy(on, a);
  must_stream_destroy(on, b);
}

static void times_early(tenon_on_t on) {
  for (int round = 0; round < rig.rounds;
       /* The time may be unavailable; if it is returned, the event must be done. */
       round++) {
    void *stream = must_stream(on);
    void *event = must_event(on);
    int64_t time = 0;
    delay(on, stream, 0);
    must_record(on, event, stream);
    tenon_status_t status = rig.table->event_time(on, event, &time);
    EXPECT(status == TENON_OK || status == TENON_UNAVAILABLE,
           "event_time of an event that is not done: expected TENON_UNAVAILABLE, found %s: %s",
           status_name(status), said());
    EXPECT(status == TENON_UNAVAILABLE || ask_event(on, event) == TENON_OK,
           "event_time returned the time of an event that is not done according to event_query");
    must_event_pass(on, event);
    int64_t later = time_of(on, event);
    EXPECT(status == TENON_UNAVAILABLE || later == time,
           "event_time: expected the same time twice, found %lld ns and %lld ns", (long long)time,
           (long long)later);
    must_event_destroy(on, event);
    must_stream_destroy(on, stream);
  }
}

const case_t event_cases[] = {
    {"events.query_honest",
     "event_query returns TENON_OK only if the work before the event is done.", NEEDS_EVENTS,
     query_honest},
    {"events.wait_honest", "event_synchronize waits for the work before the event.", NEEDS_EVENTS,
     wait_honest},
    {"events.null_stream", "The same for events of the stream NULL.", NEEDS_EVENTS, null_stream},
    {"events.never_recorded", "An event that was never recorded is done.", NEEDS_EVENTS,
     never_recorded},
    {"events.done_after", "After the host has waited, the event is done.", NEEDS_EVENTS,
     done_after},
    {"events.recorded_again",
     "An event that is recorded again marks the later position in the stream.", NEEDS_EVENTS,
     again_same},
    {"events.recorded_elsewhere",
     "An event that is recorded again in another stream marks the position in that stream.",
     NEEDS_EVENTS, again_other},
    {"events.destroyed_stream", "An event remains valid if its stream is destroyed while busy.",
     NEEDS_EVENTS, destroyed_stream},
    {"events.destroyed_early", "Events may be destroyed before they are done.", NEEDS_EVENTS,
     destroyed_early},
    {"events.thousands", "4,000 events live at once.", NEEDS_EVENTS, thousands},
    {"events.again_thousands", "One event is recorded 10,000 times.", NEEDS_EVENTS,
     again_thousands},
    {"events.distinct", "Events that live at once are different.", NEEDS_EVENTS, distinct},
    {"events.waited_by_threads", "Four threads wait for one event.", NEEDS_EVENTS,
     waited_by_threads},
    {"events.times_grow", "Times of events grow along a stream.", NEEDS_EVENTS | NEEDS_TIMES,
     times_grow},
    {"events.times_across", "Times of events follow waits across streams.",
     NEEDS_EVENTS | NEEDS_TIMES, times_across},
    {"events.times_early", "An event has a time only if it is done, and the time does not change.",
     NEEDS_EVENTS | NEEDS_TIMES, times_early},
    {0}};
