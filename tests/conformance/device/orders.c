/* Cases about events that order streams, on one ordinal and on two. */
#include "groups.h"
#include <stdlib.h>
#include <string.h>

#define BYTES 20000

/* Stream a: a delay, a copy from x to y, an event. Stream b: a wait, a copy from y to z. z equals x
 * only if b has waited. */
static void wait_of(tenon_on_t on, void *a, void *b, const char *what) {
  for (int round = 0; round < rig.rounds; round++) {
    void *event = must_event(on);
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    void *z = filled(on, BYTES, 6);
    delay(on, a, 0);
    must_within(on, a, y, 0, x, 0, BYTES);
    must_record(on, event, a);
    must_wait(on, b, on, event);
    must_within(on, b, z, 0, y, 0, BYTES);
    must_pass(on, b);
    expect_holds(on, z, 0, BYTES, 5, 0, POISON,
                 "a copy of what another stream wrote, after stream_wait for its event, %s (does "
                 "the stream wait?)",
                 what);
    must_event_destroy(on, event);
    must_free(on, x);
    must_free(on, y);
    must_free(on, z);
  }
}

static void wait_stream(tenon_on_t on) {
  void *a = must_stream(on);
  void *b = must_stream(on);
  wait_of(on, a, b, "with two streams");
  must_stream_destroy(on, a);
  must_stream_destroy(on, b);
}
static void wait_on_null(tenon_on_t on) {
  void *a = must_stream(on);
  wait_of(on, a, NULL, "where the stream NULL waits");
  wait_of(on, NULL, a, "where the event belongs to the stream NULL");
  must_stream_destroy(on, a);
}
static void wait_on_itself(tenon_on_t on) {
  void *a = must_stream(on);
  wait_of(on, a, a, "with the same stream");
  must_stream_destroy(on, a);
}

/* Memory must not be overwritten before it is read: b writes to x only after a has read it. */
static void read_first(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *a = must_stream(on);
    void *b = must_stream(on);
    void *event = must_event(on);
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    void *new = filled(on, BYTES, 6);
    delay(on, a, 0);
    must_within(on, a, y, 0, x, 0, BYTES);
    must_record(on, event, a);
    must_wait(on, b, on, event);
    must_within(on, b, x, 0, new, 0, BYTES);
    must_pass(on, b);
    expect_holds(
        on, y, 0, BYTES, 5, 0, 6,
        "a copy of what another stream overwrote after stream_wait (does the stream wait?)");
    expect_holds(on, x, 0, BYTES, 6, 0, 5, "what a stream wrote after stream_wait");
    must_event_destroy(on, event);
    must_stream_destroy(on, a);
    must_stream_destroy(on, b);
    must_free(on, x);
    must_free(on, y);
    must_free(on, new);
  }
}

/* Data passes through eight streams in turn. */
static void relay(tenon_on_t on) {
  enum {
    N = 8,
    TURNS = 5,
  };
  void *streams[N], *event[N * TURNS];
  void *memory = filled(on, BYTES * (N * TURNS + 1), POISON);
  for (int i = 0; i < N; i++)
    streams[i] = must_stream(on);
  put(on, memory, 0, BYTES, 5);
  delay(on, streams[0], 0);
  for (int i = 0; i < N * TURNS; i++) {
    if (i) must_wait(on, streams[i % N], on, event[i - 1]);
    must_within(on, streams[i % N], memory, (uint64_t)(i + 1) * BYTES, memory, (uint64_t)i * BYTES,
                BYTES);
    event[i] = must_event(on);
    must_record(on, event[i], streams[i % N]);
  }
  must_event_pass(on, event[N * TURNS - 1]);
  expect_holds(on, memory, BYTES * N * TURNS, BYTES, 5, 0, 0,
               "data that passed through 8 streams in turn, each after an event of the previous "
               "one (do streams wait?)");
  for (int i = 0; i < N * TURNS; i++)
    must_event_destroy(on, event[i]);
  for (int i = 0; i < N; i++)
    must_stream_destroy(on, streams[i]);
  must_free(on, memory);
}

/* Many streams wait for one event, and one stream for many events. */
static void fan(tenon_on_t on) {
  enum { N = 8 };
  for (int round = 0; round < rig.rounds; round++) {
    void *first = must_stream(on);
    void *last = must_stream(on);
    void *streams[N];
    void *begin = must_event(on);
    void *ends[N];
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    void *z[N];
    void *all = filled(on, N * BYTES, POISON);
    for (int i = 0; i < N; i++) {
      streams[i] = must_stream(on);
      ends[i] = must_event(on);
      z[i] = filled(on, BYTES, POISON);
    }
    delay(on, first, 0);
    must_within(on, first, y, 0, x, 0, BYTES);
    must_record(on, begin, first);
    for (int i = 0; i < N; i++) {
      must_wait(on, streams[i], on, begin);
      if (i == N / 2) delay(on, streams[i], 1);
      must_within(on, streams[i], z[i], 0, y, 0, BYTES);
      must_record(on, ends[i], streams[i]);
    }
    for (int i = 0; i < N; i++)
      must_wait(on, last, on, ends[i]);
    for (int i = 0; i < N; i++)
      must_within(on, last, all, (uint64_t)i * BYTES, z[i], 0, BYTES);
    must_pass(on, last);
    for (int i = 0; i < N; i++)
      expect_holds(
          on, all, (uint64_t)i * BYTES, BYTES, 5, 0, POISON,
          "a copy by a stream that waits for 8 events of streams that wait for one (do all wait?)");
    for (int i = 0; i < N; i++) {
      must_stream_destroy(on, streams[i]);
      must_event_destroy(on, ends[i]);
      must_free(on, z[i]);
    }
    must_stream_destroy(on, first);
    must_stream_destroy(on, last);
    must_event_destroy(on, begin);
    must_free(on, x);
    must_free(on, y);
    must_free(on, all);
  }
}

/* b waits for what the event marked when stream_wait was called, even if the event is recorded
 * again or destroyed before that work is done. */
static void waiter_keeps(tenon_on_t on, int destroys) {
  for (int round = 0; round < rig.rounds; round++) {
    void *a = must_stream(on);
    void *b = must_stream(on);
    void *c = must_stream(on);
    void *event = must_event(on);
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    void *z = filled(on, BYTES, 6);
    delay(on, a, 0);
    must_within(on, a, y, 0, x, 0, BYTES);
    must_record(on, event, a);
    must_wait(on, b, on, event);
    if (destroys)
      must_event_destroy(on, event);
    else
      must_record(on, event, c); /* it has no work, so the event is done at once */
    must_within(on, b, z, 0, y, 0, BYTES);
    must_pass(on, b);
    expect_holds(
        on, z, 0, BYTES, 5, 0, POISON,
        "a copy after stream_wait for an event that was %s meanwhile (does the stream wait on?)",
        destroys ? "destroyed" : "recorded again in another stream");
    if (!destroys) must_event_destroy(on, event);
    must_stream_destroy(on, a);
    must_stream_destroy(on, b);
    must_stream_destroy(on, c);
    must_free(on, x);
    must_free(on, y);
    must_free(on, z);
  }
}
static void again_while_waited(tenon_on_t on) { waiter_keeps(on, 0); }
static void destroyed_while_waited(tenon_on_t on) { waiter_keeps(on, 1); }

/* If an event is recorded again, later stream_wait calls wait for the second recording. */
static void newer(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *a = must_stream(on);
    void *b = must_stream(on);
    void *event = must_event(on);
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    void *z = filled(on, BYTES, 6);
    must_record(on, event, a);
    must_pass(on, a);
    delay(on, a, 0);
    must_within(on, a, y, 0, x, 0, BYTES);
    must_record(on, event, a);
    must_wait(on, b, on, event);
    must_within(on, b, z, 0, y, 0, BYTES);
    must_pass(on, b);
    expect_holds(on, z, 0, BYTES, 5, 0, POISON,
                 "a copy after stream_wait for an event that was recorded a second time (does the "
                 "first recording still count?)");
    must_event_destroy(on, event);
    must_stream_destroy(on, a);
    must_stream_destroy(on, b);
    must_free(on, x);
    must_free(on, y);
    must_free(on, z);
  }
}

static void never_recorded(tenon_on_t on) {
  void *a = must_stream(on);
  void *event = must_event(on);
  void *x = filled(on, BYTES, 5);
  void *y = filled(on, BYTES, POISON);
  must_wait(on, a, on, event);
  must_within(on, a, y, 0, x, 0, BYTES);
  must_pass(on, a);
  expect_holds(on, y, 0, BYTES, 5, 0, POISON,
               "a copy after stream_wait for an event that was never recorded");
  must_event_destroy(on, event);
  must_stream_destroy(on, a);
  must_free(on, x);
  must_free(on, y);
}

static void stream_gone(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *a = must_stream(on);
    void *b = must_stream(on);
    void *event = must_event(on);
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    void *z = filled(on, BYTES, 6);
    delay(on, a, 0);
    must_within(on, a, y, 0, x, 0, BYTES);
    must_record(on, event, a);
    must_stream_destroy(on, a);
    must_wait(on, b, on, event);
    must_within(on, b, z, 0, y, 0, BYTES);
    must_stream_destroy(on, b);
    must_finish(on);
    expect_holds(on, z, 0, BYTES, 5, 0, POISON,
                 "a copy after stream_wait for an event whose stream was destroyed while busy "
                 "(does the stream wait?)");
    must_event_destroy(on, event);
    must_free(on, x);
    must_free(on, y);
    must_free(on, z);
  }
}

/* Two streams alternate, each step after an event of the other. */
static void thousands(tenon_on_t on) {
  const int steps = rig.quick ? 300 : 2000;
  const uint64_t bytes = 48;
  void *streams[2] = {must_stream(on), must_stream(on)};
  void *events[2] = {must_event(on), must_event(on)};
  void *memory = filled(on, bytes * (uint64_t)(steps + 1), POISON);
  put(on, memory, 0, bytes, 5);
  for (int i = 0; i < steps; i++) {
    if (i) must_wait(on, streams[i % 2], on, events[(i + 1) % 2]);
    must_within(on, streams[i % 2], memory, (uint64_t)(i + 1) * bytes, memory, (uint64_t)i * bytes,
                bytes);
    must_record(on, events[i % 2], streams[i % 2]);
  }
  must_finish(on);
  expect_holds(on, memory, (uint64_t)steps * bytes, bytes, 5, 0, 0,
               "data after %d steps, alternating between two streams with an event after each (do "
               "streams wait?)",
               steps);
  for (int i = 0; i < 2; i++) {
    must_stream_destroy(on, streams[i]);
    must_event_destroy(on, events[i]);
  }
  must_free(on, memory);
}

/* Runs random copies on four streams that events order, and compares with the same copies in host
 * memory. */
static void random_program(tenon_on_t on) {
  enum {
    SIZE = 20000,
    BUFFERS = 5,
    STEPS = 300,
    STREAMS = 4,
  };
  uint64_t state = rig.seed * 99;
  uint8_t *model[BUFFERS];
  uint8_t *is = host_new(SIZE);
  void *memory[BUFFERS], *streams[STREAMS], *written[BUFFERS], *read[BUFFERS][STREAMS];
  for (int s = 0; s < STREAMS; s++)
    streams[s] = must_stream(on);
  for (uint64_t b = 0; b < BUFFERS; b++) {
    model[b] = host_new(SIZE);
    pattern(model[b], SIZE, b, 0);
    memory[b] = filled(on, SIZE, b);
    written[b] = must_event(on);
    for (int s = 0; s < STREAMS; s++)
      read[b][s] = must_event(on);
  }
  for (int i = 0; i < STEPS; i++) {
    uint64_t a = any(&state, BUFFERS);
    uint64_t b = (a + 1 + any(&state, BUFFERS - 1)) % BUFFERS;
    uint64_t s = any(&state, STREAMS);
    uint64_t n = 1 + any(&state, SIZE / 2);
    uint64_t from = any(&state, SIZE - n);
    uint64_t to = any(&state, SIZE - n);
    must_wait(on, streams[s], on, written[a]);
    must_wait(on, streams[s], on, written[b]);
    for (int k = 0; k < STREAMS; k++)
      must_wait(on, streams[s], on, read[b][k]);
    if (i % 60 == 7) delay(on, streams[s], (int)s);
    must_within(on, streams[s], memory[b], to, memory[a], from, n);
    memmove(model[b] + to, model[a] + from, n);
    must_record(on, written[b], streams[s]);
    must_record(on, read[a][s], streams[s]);
  }
  must_finish(on);
  for (int b = 0; b < BUFFERS; b++) {
    must_out(on, NULL, is, memory[b], 0, SIZE);
    must_pass(on, NULL);
    EXPECT_DATA(memcmp(is, model[b], SIZE) == 0,
                "a random program on 4 streams that events order: memory %d of %d differs from the "
                "same program in host memory (do streams wait?)",
                b, BUFFERS);
    must_event_destroy(on, written[b]);
    must_free(on, memory[b]);
    free(model[b]);
    for (int s = 0; s < STREAMS; s++)
      must_event_destroy(on, read[b][s]);
  }
  for (int s = 0; s < STREAMS; s++)
    must_stream_destroy(on, streams[s]);
  free(is);
}

static void across(tenon_on_t from, tenon_on_t to) {
  for (int round = 0; round < rig.rounds; round++) {
    uint8_t *shared = host_new(BYTES);
    void *a = must_stream(from);
    void *b = must_stream(to);
    void *event = must_event(from);
    void *x = filled(from, BYTES, 5);
    void *z = filled(to, BYTES, 6);
    pattern(shared, BYTES, POISON, 0);
    delay(from, a, 0);
    must_out(from, a, shared, x, 0, BYTES);
    must_record(from, event, a);
    must_wait(to, b, from, event);
    must_in(to, b, z, 0, shared, BYTES);
    must_pass(to, b);
    expect_holds(to, z, 0, BYTES, 5, 0, POISON,
                 "a copy IN on ordinal %d after stream_wait for an event of ordinal %d (does the "
                 "stream wait for another ordinal's event?)",
                 to->ordinal, from->ordinal);
    must_event_destroy(from, event);
    must_stream_destroy(from, a);
    must_stream_destroy(to, b);
    must_free(from, x);
    must_free(to, z);
    free(shared);
  }
}
static void from_other(tenon_on_t on) { across(other_of(on), on); }
static void to_other(tenon_on_t on) { across(on, other_of(on)); }

/* An event of one ordinal differs from an event of another that was created at the same time. */
static void same_index(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    void *mine = must_event(on);
    void *others = must_event(other);
    void *x = filled(on, BYTES, 5);
    void *y = filled(on, BYTES, POISON);
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, BYTES);
    must_record(on, mine, stream);
    must_record(other, others, NULL);
    must_event_pass(other, others);
    must_event_pass(on, mine);
    void *looks = must_stream(on);
    void *to = host_new(BYTES);
    must_out(on, looks, to, y, 0, BYTES);
    must_pass(on, looks);
    expect_pattern(to, BYTES, 5, 0, POISON,
                   "a copy when its event is done, while ordinal %d has an event of its own",
                   other->ordinal);
    must_event_destroy(on, mine);
    must_event_destroy(other, others);
    must_stream_destroy(on, stream);
    must_stream_destroy(on, looks);
    must_free(on, x);
    must_free(on, y);
    free(to);
  }
}

const case_t order_cases[] = {
    {"orders.wait", "Work after stream_wait runs after the event.", NEEDS_EVENTS, wait_stream},
    {"orders.null", "The same with the stream NULL on either side.", NEEDS_EVENTS, wait_on_null},
    {"orders.itself", "A stream may wait for its own event.", NEEDS_EVENTS, wait_on_itself},
    {"orders.read_first", "Memory is overwritten after stream_wait only after it was read.",
     NEEDS_EVENTS, read_first},
    {"orders.relay", "Data passes through eight streams in turn.", NEEDS_EVENTS, relay},
    {"orders.fan", "Eight streams wait for one event, and one waits for eight.", NEEDS_EVENTS, fan},
    {"orders.again_while_waited",
     "A stream that waits for an event continues to wait when the event is recorded again.",
     NEEDS_EVENTS, again_while_waited},
    {"orders.destroyed_while_waited",
     "A stream that waits for an event continues to wait when the event is destroyed.",
     NEEDS_EVENTS, destroyed_while_waited},
    {"orders.newer", "After an event is recorded twice, a new wait waits for the second recording.",
     NEEDS_EVENTS, newer},
    {"orders.never_recorded", "Waiting for an event that was never recorded does not block.",
     NEEDS_EVENTS, never_recorded},
    {"orders.stream_gone", "Streams wait for events of streams that were destroyed while busy.",
     NEEDS_EVENTS, stream_gone},
    {"orders.thousands", "Two streams alternate, with an event after each of 2,000 steps.",
     NEEDS_EVENTS, thousands},
    {"orders.random",
     "300 random copies on four streams, ordered by events, have the same result as in host "
     "memory.",
     NEEDS_EVENTS, random_program},
    {"orders.from_other", "A stream waits for an event of another ordinal.",
     NEEDS_EVENTS | NEEDS_PEER, from_other},
    {"orders.to_other", "A stream of another ordinal waits for an event of this one.",
     NEEDS_EVENTS | NEEDS_PEER, to_other},
    {"orders.same_index", "Events of two ordinals are not mixed up.", NEEDS_EVENTS | NEEDS_PEER,
     same_index},
    {0}};
