/* Cases about concurrent calls of several threads. */
#include "groups.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

static struct {
  tenon_on_t on;
  tenon_on_t of[THREADS];
  void *stream;
  void *memory;
  void *streams[THREADS];
  void *event[2];
  _Atomic int turn;
  _Atomic int stop;
} all;

static int steps(void) { return rig.quick ? 60 : 300; }

/* Copies in, within and out through a stream of the thread, or a shared one; each thread has its
 * own contents. */
static void round_trips(void *argument, int index) {
  tenon_on_t on = all.of[index];
  void *stream = argument ? all.stream : all.streams[index];
  void *memory = must_allocate(on, 20000);
  void *second = must_allocate(on, 20000);
  uint8_t *from = host_new(20000);
  uint8_t *to = host_new(20000);
  uint64_t state = rig.seed + (uint64_t)index;
  for (int i = 0; i < steps(); i++) {
    uint64_t bytes = 1 + any(&state, 19999);
    uint64_t key = (uint64_t)index * 100000 + (uint64_t)i;
    pattern(from, bytes, key, 0);
    must_in(on, stream, memory, 0, from, bytes);
    must_within(on, stream, second, 0, memory, 0, bytes);
    must_out(on, stream, to, second, 0, bytes);
    must_pass(on, stream);
    expect_pattern(
        to, bytes, key, 0, 0,
        "%llu bytes IN, WITHIN and OUT by one of four threads %s (is a function not reentrant?)",
        (unsigned long long)bytes, argument ? "on one stream" : "on streams of their own");
  }
  must_free(on, memory);
  must_free(on, second);
  free(from);
  free(to);
}

static void on_one_stream(tenon_on_t on) {
  all.stream = HAS_STREAMS ? must_stream(on) : NULL;
  for (int i = 0; i < THREADS; i++)
    all.of[i] = on;
  in_threads(THREADS, round_trips, "");
  if (all.stream) must_stream_destroy(on, all.stream);
}

static void on_null(tenon_on_t on) {
  all.stream = NULL;
  for (int i = 0; i < THREADS; i++)
    all.of[i] = on;
  in_threads(THREADS, round_trips, "");
}

static void on_own_streams(tenon_on_t on) {
  for (int i = 0; i < THREADS; i++) {
    all.of[i] = on;
    all.streams[i] = must_stream(on);
  }
  in_threads(THREADS, round_trips, NULL);
  for (int i = 0; i < THREADS; i++)
    must_stream_destroy(on, all.streams[i]);
}

static void on_ordinals(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  for (int i = 0; i < THREADS; i++) {
    all.of[i] = i % 2 ? other : on;
    all.streams[i] = must_stream(all.of[i]);
  }
  in_threads(THREADS, round_trips, NULL);
  for (int i = 0; i < THREADS; i++)
    must_stream_destroy(all.of[i], all.streams[i]);
}

/* Each thread writes its own part in pieces on one stream. */
static void write_part(void *argument, int index) {
  uint8_t *from = argument;
  for (uint64_t i = 0; i < 200; i++) {
    uint64_t at = ((uint64_t)index * 200 + i) * 50;
    must_in(all.on, all.stream, all.memory, at, from + at, 50);
  }
}
static void pieces(tenon_on_t on) {
  const uint64_t bytes = THREADS * 200 * 50;
  uint8_t *from = host_new(bytes);
  pattern(from, bytes, 5, 0);
  all.on = on;
  all.stream = must_stream(on);
  all.memory = filled(on, bytes, POISON);
  in_threads(THREADS, write_part, from);
  must_pass(on, all.stream);
  expect_holds(on, all.memory, 0, bytes, 5, 0, POISON,
               "memory that four threads wrote by 800 copies in one stream (was a copy lost?)");
  must_stream_destroy(on, all.stream);
  must_free(on, all.memory);
  free(from);
}

static void come_and_go(void *argument, int index) {
  tenon_on_t on = argument;
  for (int i = 0; i < steps() / 4; i++) {
    void *a = must_stream(on);
    void *event = must_event(on);
    void *b = must_stream(on);
    void *x = filled(on, 3000, (uint64_t)index);
    void *y = filled(on, 3000, POISON);
    void *z = filled(on, 3000, POISON);
    must_within(on, a, y, 0, x, 0, 3000);
    must_record(on, event, a);
    must_wait(on, b, on, event);
    must_stream_destroy(on, a);
    must_event_destroy(on, event);
    must_within(on, b, z, 0, y, 0, 3000);
    must_pass(on, b);
    must_stream_destroy(on, b);
    must_free(on, x);
    must_free(on, y);
    expect_holds(
        on, z, 0, 3000, (uint64_t)index, 0, POISON,
        "a copy before an event, while four threads create and destroy streams and events");
    must_free(on, z);
  }
}
static void created(tenon_on_t on) { in_threads(THREADS, come_and_go, (void *)(uintptr_t)on); }

/* One thread works, the others query and wait. */
static void ask_and_work(void *argument, int index) {
  tenon_on_t on = argument;
  if (index == 0) {
    for (int i = 0; i < 20 * steps(); i++)
      must_within(on, all.stream, all.memory, 5000, all.memory, 0, 5000);
    all.stop = 1;
    return;
  }
  while (!all.stop) {
    if (index == 1) ask_stream(on, all.stream);
    if (index == 2) must_pass(on, all.stream);
    if (index == 3) must_finish(on);
  }
}
static void asked(tenon_on_t on) {
  all.stream = must_stream(on);
  all.memory = filled(on, 10000, 5);
  all.stop = 0;
  in_threads(THREADS, ask_and_work, (void *)(uintptr_t)on);
  must_pass(on, all.stream);
  expect_holds(on, all.memory, 5000, 5000, 5, 0, 0,
               "memory written by a thread while three others query and wait");
  must_stream_destroy(on, all.stream);
  must_free(on, all.memory);
}

/* Two threads alternate: one records an event, the other lets its stream wait. */
static void take_turns(void *argument, int index) {
  tenon_on_t on = argument;
  for (int i = index; i < steps(); i += 2) {
    while (all.turn != i)
      sched_yield();
    if (i) must_wait(on, all.streams[index], on, all.event[1 - index]);
    must_within(on, all.streams[index], all.memory, (uint64_t)(i + 1) * 64, all.memory,
                (uint64_t)i * 64, 64);
    must_record(on, all.event[index], all.streams[index]);
    all.turn = i + 1;
  }
}
static void turns(tenon_on_t on) {
  all.memory = filled(on, (uint64_t)(steps() + 1) * 64, POISON);
  put(on, all.memory, 0, 64, 5);
  all.turn = 0;
  for (int i = 0; i < 2; i++) {
    all.streams[i] = must_stream(on);
    all.event[i] = must_event(on);
  }
  in_threads(2, take_turns, (void *)(uintptr_t)on);
  must_finish(on);
  expect_holds(on, all.memory, (uint64_t)steps() * 64, 64, 5, 0, 0,
               "data after steps on two streams by two threads in turn, each step after an event "
               "(do streams wait?)");
  for (int i = 0; i < 2; i++) {
    must_stream_destroy(on, all.streams[i]);
    must_event_destroy(on, all.event[i]);
  }
  must_free(on, all.memory);
}

static void fill_own(void *argument, int index) {
  tenon_on_t on = argument;
  uint8_t is[4096], word[8];
  void *memory = must_allocate(on, 4096);
  for (int i = 0; i < steps(); i++) {
    memset(word, index * 60 + i % 60, 8);
    must_fill(on, all.streams[index], memory, 0, 4096, word, 8);
    must_out(on, all.streams[index], is, memory, 0, 4096);
    must_pass(on, all.streams[index]);
    for (int k = 0; k < 4096; k++)
      EXPECT_DATA(is[k] == word[0],
                  "fill by one of four threads: byte %d: expected 0x%02x, found 0x%02x (is fill "
                  "not reentrant?)",
                  k, word[0], is[k]);
  }
  must_free(on, memory);
}
static void fills(tenon_on_t on) {
  for (int i = 0; i < THREADS; i++)
    all.streams[i] = must_stream(on);
  in_threads(THREADS, fill_own, (void *)(uintptr_t)on);
  for (int i = 0; i < THREADS; i++)
    must_stream_destroy(on, all.streams[i]);
}

static void ask_properties(void *argument, int index) {
  tenon_on_t on = argument;
  (void)index;
  for (int i = 0; i < 100 * steps(); i++) {
    tenon_device_properties_t p = {.size = sizeof p};
    must(rig.table->properties(on, &p), "properties");
    EXPECT(p.alignment == rig.properties.alignment && p.memory == rig.properties.memory &&
               strcmp(p.name, rig.properties.name) == 0,
           "properties, asked for by four threads at once, are not the same");
  }
}
static void properties(tenon_on_t on) {
  in_threads(THREADS, ask_properties, (void *)(uintptr_t)on);
}

const case_t thread_cases[] = {
    {"threads.one_stream", "Four threads copy on one stream.", 0, on_one_stream},
    {"threads.null_stream", "Four threads copy on the stream NULL.", 0, on_null},
    {"threads.own_streams", "Four threads copy on their own streams.", NEEDS_STREAMS,
     on_own_streams},
    {"threads.ordinals", "Four threads copy on two ordinals.", NEEDS_STREAMS | NEEDS_PEER,
     on_ordinals},
    {"threads.pieces", "No copy is lost when four threads enqueue in one stream.", NEEDS_STREAMS,
     pieces},
    {"threads.created", "Four threads create and destroy streams and events, and use them.",
     NEEDS_EVENTS, created},
    {"threads.asked", "One thread works while others query and wait.", NEEDS_STREAMS, asked},
    {"threads.turns", "Two threads alternate on two streams, each step after an event.",
     NEEDS_EVENTS, turns},
    {"threads.fills", "Four threads fill.", NEEDS_FILL | NEEDS_STREAMS, fills},
    {"threads.properties", "Four threads ask for the properties.", 0, properties},
    {0}};
