/* Cases about streams: order, destruction, waits and queries. */
#include "groups.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define KiB ((uint64_t)1 << 10)

/* A chain of copies: each copies what the previous one wrote, so that two copies out of order leave
 * other bytes at the end. */
static void chain(tenon_on_t on, void *stream, void *memory, uint64_t bytes, int links) {
  for (int i = 0; i < links; i++)
    must_within(on, stream, memory, (uint64_t)(i + 1) * bytes, memory, (uint64_t)i * bytes, bytes);
}
static void *chain_memory(tenon_on_t on, uint64_t bytes, int links) {
  void *memory = filled(on, bytes * (uint64_t)(links + 1), POISON);
  put(on, memory, 0, bytes, 5);
  return memory;
}
static void chain_expect(tenon_on_t on, void *memory, uint64_t bytes, int links, const char *what) {
  expect_holds(on, memory, bytes * (uint64_t)links, bytes, 5, 0, 0,
               "%s: the end of a chain of %d copies, each of what the previous one wrote (is the "
               "order kept?)",
               what, links);
}

static void order_of(tenon_on_t on, void *stream, uint64_t bytes, int links, const char *what) {
  void *memory = chain_memory(on, bytes, links);
  delay(on, stream, 0); /* so that work queues up */
  chain(on, stream, memory, bytes, links);
  must_pass(on, stream);
  chain_expect(on, memory, bytes, links, what);
  must_free(on, memory);
}

static void order(tenon_on_t on) {
  void *stream = must_stream(on);
  order_of(on, stream, 64, 200, "a stream");
  order_of(on, stream, 20000, 60, "a stream");
  order_of(on, stream, 13, 999, "a stream");
  must_stream_destroy(on, stream);
}
static void order_null(tenon_on_t on) {
  order_of(on, NULL, 64, 200, "the stream NULL");
  order_of(on, NULL, 20000, 60, "the stream NULL");
}
static void order_thousands(tenon_on_t on) {
  void *stream = must_stream(on);
  order_of(on, stream, 16, rig.quick ? 3000 : 20000, "a stream");
  must_stream_destroy(on, stream);
}

static void overwritten(tenon_on_t on) {
  const uint64_t bytes = 30000;
  uint8_t *from = host_new(50 * bytes);
  for (uint64_t i = 0; i < 50; i++)
    pattern(from + i * bytes, bytes, i, 0);
  void *stream = must_stream(on);
  void *memory = filled(on, bytes, POISON);
  for (uint64_t i = 0; i < 50; i++)
    must_in(on, stream, memory, 0, from + i * bytes, bytes);
  must_pass(on, stream);
  expect_holds(on, memory, 0, bytes, 49, 0, 48,
               "memory that 50 copies IN of one stream wrote to: expected the last one");
  must_stream_destroy(on, stream);
  must_free(on, memory);
  free(from);
}

static void mixed(tenon_on_t on) {
  enum { N = 5000 };
  uint8_t *from = host_new(N * 20);
  uint8_t *to = host_new(N * 20);
  void *stream = must_stream(on);
  void *a = filled(on, N, POISON);
  void *b = filled(on, N, POISON);
  for (uint64_t i = 0; i < 20; i++) {
    pattern(from + i * N, N, i, 0);
    must_in(on, stream, a, 0, from + i * N, N);
    must_within(on, stream, b, 0, a, 0, N);
    must_in(on, stream, a, 0, from, N);
    must_out(on, stream, to + i * N, b, 0, N);
  }
  must_pass(on, stream);
  for (uint64_t i = 0; i < 20; i++)
    expect_pattern(to + i * N, N, i, 0, POISON, "step %llu of IN, WITHIN, IN, OUT on one stream",
                   (unsigned long long)i);
  must_stream_destroy(on, stream);
  must_free(on, a);
  must_free(on, b);
  free(from);
  free(to);
}

static void many(tenon_on_t on) {
  enum {
    N = 32,
    LINKS = 40,
  };
  void *streams[N], *memory[N];
  for (int i = 0; i < N; i++) {
    streams[i] = must_stream(on);
    memory[i] = chain_memory(on, 3000, LINKS);
  }
  for (int k = 0; k < LINKS; k++)
    for (int i = 0; i < N; i++)
      must_within(on, streams[i], memory[i], (uint64_t)(k + 1) * 3000, memory[i],
                  (uint64_t)k * 3000, 3000);
  must_finish(on);
  for (int i = 0; i < N; i++) {
    chain_expect(on, memory[i], 3000, LINKS, "one of 32 streams");
    must_free(on, memory[i]);
    must_stream_destroy(on, streams[i]);
  }
}

static void distinct(tenon_on_t on) {
  void *streams[32];
  for (int i = 0; i < 32; i++) {
    streams[i] = must_stream(on);
    for (int k = 0; k < i; k++)
      EXPECT(streams[i] != streams[k], "stream_create returned the stream %p twice while both live",
             streams[i]);
  }
  for (int i = 0; i < 32; i++)
    must_stream_destroy(on, streams[i]);
}

static void again(tenon_on_t on) {
  for (int i = 0; i < (rig.quick ? 100 : 500); i++) {
    void *stream = must_stream(on);
    if (i % 100 == 0) order_of(on, stream, 64, 10, "a stream created after others were destroyed");
    must_stream_destroy(on, stream);
  }
}

static void destroyed_busy(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *memory = chain_memory(on, 10000, 20);
    void *stream = must_stream(on);
    delay(on, stream, 0);
    chain(on, stream, memory, 10000, 20);
    must_stream_destroy(on, stream);
    must_finish(on);
    chain_expect(on, memory, 10000, 20,
                 "a stream that was destroyed while busy (what is enqueued is still done; "
                 "synchronize waits for it)");
    must_free(on, memory);
  }
}

static void destroyed_many(tenon_on_t on) {
  void *memory[24];
  for (int i = 0; i < 24; i++) {
    void *stream = must_stream(on);
    memory[i] = chain_memory(on, 10000, 20);
    chain(on, stream, memory[i], 10000, 20);
    must_stream_destroy(on, stream);
  }
  must_finish(on);
  for (int i = 0; i < 24; i++) {
    chain_expect(on, memory[i], 10000, 20, "one of 24 streams that were destroyed while busy");
    must_free(on, memory[i]);
  }
}

/* Reads memory by another stream that is not ordered with the first: only the host's wait orders
 * them. */
static void expect_done(tenon_on_t on, void *looks, const void *memory, uint64_t bytes,
                        uint64_t key, uint64_t before, const char *what) {
  uint8_t *to = host_new(bytes);
  must_out(on, looks, to, memory, 0, bytes);
  must_pass(on, looks);
  expect_pattern(to, bytes, key, 0, before, "%s", what);
  free(to);
}

static void waits(tenon_on_t on, int all, int which) {
  const uint64_t bytes = 5000;
  for (int round = 0; round < rig.rounds; round++) {
    void *streams[6];
    void *looks = must_stream(on);
    void *x = filled(on, bytes, 5);
    void *y = filled(on, bytes, POISON);
    for (int i = 0; i < 6; i++)
      streams[i] = must_stream(on);
    void *stream = which < 0 ? NULL : streams[which];
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, bytes);
    if (all)
      must_finish(on);
    else
      must_pass(on, stream);
    const char *what = "a copy on the last of 6 streams when synchronize returns (does it wait for "
                       "all streams?)";
    if (which == 0)
      what = "a copy on the first of 6 streams when synchronize returns (does it wait for all "
             "streams?)";
    if (which < 0)
      what = "a copy on the stream NULL when synchronize returns (does it wait for all streams?)";
    if (!all) what = "a copy when stream_synchronize of its stream returns (does it wait?)";
    expect_done(on, looks, y, bytes, 5, POISON, what);
    for (int i = 0; i < 6; i++)
      must_stream_destroy(on, streams[i]);
    must_stream_destroy(on, looks);
    must_free(on, x);
    must_free(on, y);
  }
}
static void wait_stream(tenon_on_t on) { waits(on, 0, 3); }
static void wait_null(tenon_on_t on) { waits(on, 0, -1); }
static void wait_all_first(tenon_on_t on) { waits(on, 1, 0); }
static void wait_all_last(tenon_on_t on) { waits(on, 1, 5); }
static void wait_all_null(tenon_on_t on) { waits(on, 1, -1); }

static void wait_all_many(tenon_on_t on) {
  const uint64_t bytes = 5000;
  void *streams[6];
  void *looks = must_stream(on);
  void *x = filled(on, bytes, 5);
  void *y[6];
  for (int i = 0; i < 6; i++) {
    streams[i] = must_stream(on);
    y[i] = filled(on, bytes, POISON);
  }
  for (int i = 0; i < 6; i++) {
    delay(on, streams[i], i);
    must_within(on, streams[i], y[i], 0, x, 0, bytes);
  }
  must_finish(on);
  for (int i = 0; i < 6; i++)
    expect_done(
        on, looks, y[i], bytes, 5, POISON,
        "copies on 6 busy streams when synchronize returns (does it wait for all streams?)");
  for (int i = 0; i < 6; i++) {
    must_stream_destroy(on, streams[i]);
    must_free(on, y[i]);
  }
  must_stream_destroy(on, looks);
  must_free(on, x);
}

static void query_honest(tenon_on_t on) { /* the last copy takes a while, too */
  uint64_t part = rig.properties.memory / 16;
  uint64_t bytes = part && part < 64000000 ? part & ~(uint64_t)63 : 64000000;
  uint64_t tail = 5000;
  void *looks = must_stream(on);
  void *x = filled(on, bytes, 5);
  void *y = must_allocate(on, bytes);
  uint8_t *to = host_new(tail);
  for (int round = 0; round < 2 * rig.rounds; round++) {
    void *stream = must_stream(on);
    put(on, y, bytes - tail, tail, POISON);
    if (round % 2) delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, bytes);
    while (ask_stream(on, stream) != TENON_OK)
      sched_yield();
    must_out(on, looks, to, y, bytes - tail, tail);
    must_pass(on, looks);
    expect_pattern(
        to, tail, 5, bytes - tail, 0,
        "the end of a long copy when stream_query returns TENON_OK (is that too early?)");
    must_stream_destroy(on, stream);
  }
  must_stream_destroy(on, looks);
  must_free(on, x);
  must_free(on, y);
  free(to);
}

static void query_idle(tenon_on_t on) {
  void *stream = must_stream(on);
  EXPECT(ask_stream(on, stream) == TENON_OK,
         "stream_query of a stream without work: expected TENON_OK, found TENON_UNAVAILABLE");
  order_of(on, stream, 64, 10, "a stream");
  must_pass(on, stream);
  EXPECT(ask_stream(on, stream) == TENON_OK,
         "stream_query after stream_synchronize: expected TENON_OK, found TENON_UNAVAILABLE");
  must_finish(on);
  EXPECT(ask_stream(on, NULL) == TENON_OK,
         "stream_query of NULL after synchronize: expected TENON_OK, found TENON_UNAVAILABLE");
  must_stream_destroy(on, stream);
}

static void query_many(tenon_on_t on) {
  void *streams[8], *memory[8];
  int left = 8;
  int done[8] = {0};
  for (int i = 0; i < 8; i++) {
    streams[i] = must_stream(on);
    memory[i] = chain_memory(on, 50000, 20);
  }
  for (int i = 0; i < 8; i++)
    chain(on, streams[i], memory[i], 50000, 20);
  while (left) {
    for (int i = 0; i < 8; i++)
      if (!done[i] && ask_stream(on, streams[i]) == TENON_OK) {
        done[i] = 1;
        left--;
      }
    sched_yield();
  }
  for (int i = 0; i < 8; i++) {
    chain_expect(on, memory[i], 50000, 20,
                 "one of 8 streams that are done according to stream_query");
    must_free(on, memory[i]);
    must_stream_destroy(on, streams[i]);
  }
}

static void wait_idle(tenon_on_t on) {
  void *stream = must_stream(on);
  for (int i = 0; i < 100; i++) {
    must_pass(on, stream);
    must_pass(on, NULL);
    must_finish(on);
  }
  must_stream_destroy(on, stream);
}

static void *made[64];
static void make_some(void *argument, int index) {
  tenon_on_t on = argument;
  for (int i = index; i < 64; i += 4)
    made[i] = must_stream(on);
}
static void created_by_threads(tenon_on_t on) {
  in_threads(4, make_some, (void *)(uintptr_t)on);
  for (int i = 0; i < 64; i++) {
    for (int k = 0; k < i; k++)
      EXPECT(made[i] != made[k], "stream_create returned the stream %p twice, to two threads",
             made[i]);
    if (i % 16 == 0) order_of(on, made[i], 64, 5, "a stream that another thread created");
    must_stream_destroy(on, made[i]);
  }
}

/* A stream and the stream NULL both have work: both complete, whichever is waited for first. */
static void null_beside(tenon_on_t on) {
  void *stream = must_stream(on);
  void *a = chain_memory(on, 30000, 30);
  void *b = chain_memory(on, 30000, 30);
  chain(on, NULL, a, 30000, 30);
  chain(on, stream, b, 30000, 30);
  must_pass(on, stream);
  must_pass(on, NULL);
  chain_expect(on, a, 30000, 30, "the stream NULL beside another");
  chain_expect(on, b, 30000, 30, "a stream beside NULL");
  must_stream_destroy(on, stream);
  must_free(on, a);
  must_free(on, b);
}

static void both_ordinals(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  void *mine = must_stream(on);
  void *others = must_stream(other);
  void *a = chain_memory(on, 30000, 30);
  void *b = chain_memory(other, 30000, 30);
  chain(on, mine, a, 30000, 30);
  chain(other, others, b, 30000, 30);
  must_finish(on);
  must_finish(other);
  chain_expect(on, a, 30000, 30, "a stream of the ordinal");
  chain_expect(other, b, 30000, 30, "a stream of another ordinal");
  must_stream_destroy(on, mine);
  must_stream_destroy(other, others);
  must_free(on, a);
  must_free(other, b);
}

const case_t stream_cases[] = {
    {"streams.order", "The work of one stream is done in the order in which it was enqueued.",
     NEEDS_STREAMS, order},
    {"streams.order_null", "The same on the stream NULL.", 0, order_null},
    {"streams.order_thousands", "The same with 20,000 copies enqueued at once.", NEEDS_STREAMS,
     order_thousands},
    {"streams.overwritten", "Of 50 copies IN to the same place the last one persists.",
     NEEDS_STREAMS, overwritten},
    {"streams.mixed", "Copies of all directions on one stream keep their order.", NEEDS_STREAMS,
     mixed},
    {"streams.many", "32 streams get work in turn.", NEEDS_STREAMS, many},
    {"streams.distinct", "Streams that live at once are different, and none is NULL.",
     NEEDS_STREAMS, distinct},
    {"streams.again", "Hundreds of streams are created and destroyed one after the other.",
     NEEDS_STREAMS, again},
    {"streams.destroyed_busy", "Enqueued work of a stream that is destroyed is still done.",
     NEEDS_STREAMS, destroyed_busy},
    {"streams.destroyed_many", "The same with 24 streams.", NEEDS_STREAMS, destroyed_many},
    {"streams.wait_stream", "stream_synchronize waits until the stream's work is done.",
     NEEDS_STREAMS, wait_stream},
    {"streams.wait_null", "stream_synchronize of NULL waits until its work is done.", NEEDS_STREAMS,
     wait_null},
    {"streams.wait_all_first", "synchronize waits for the stream that was created first.",
     NEEDS_STREAMS, wait_all_first},
    {"streams.wait_all_last", "synchronize waits for the stream that was created last.",
     NEEDS_STREAMS, wait_all_last},
    {"streams.wait_all_null", "synchronize waits for the stream NULL.", NEEDS_STREAMS,
     wait_all_null},
    {"streams.wait_all_many", "synchronize waits for six busy streams.", NEEDS_STREAMS,
     wait_all_many},
    {"streams.wait_idle", "Waiting for streams without work returns.", NEEDS_STREAMS, wait_idle},
    {"streams.query_honest", "stream_query returns TENON_OK only if the work is done.",
     NEEDS_STREAMS, query_honest},
    {"streams.query_idle", "stream_query of a stream without work returns TENON_OK.", NEEDS_STREAMS,
     query_idle},
    {"streams.query_many", "Eight streams complete although the host only calls stream_query.",
     NEEDS_STREAMS, query_many},
    {"streams.created_by_threads", "Four threads create streams at once.", NEEDS_STREAMS,
     created_by_threads},
    {"streams.null_beside", "The stream NULL works beside other streams.", NEEDS_STREAMS,
     null_beside},
    {"streams.both_ordinals", "Streams of two ordinals work at once.", NEEDS_STREAMS | NEEDS_PEER,
     both_ordinals},
    {0}};
