/* Cases about captured graphs: work that is recorded and replayed. */
#include "groups.h"
#include <stdlib.h>
#include <string.h>

static void begin(tenon_on_t on, void *stream) {
  doing("record_begin()");
  must(rig.table->record_begin(on, stream), "record_begin");
}
static void *end(tenon_on_t on, void *stream) {
  void *recording = NULL;
  doing("record_end()");
  must(rig.table->record_end(on, stream, &recording), "record_end");
  EXPECT(recording, "record_end returned TENON_OK: expected a recording, found NULL");
  return recording;
}
static void replay(tenon_on_t on, void *stream, void *recording) {
  doing("replay()");
  must(rig.table->replay(on, stream, recording, ++rig.ticket), "replay");
}
static void drop(tenon_on_t on, void *recording) {
  doing("recording_free()");
  rig.table->recording_free(on, recording);
}

/* Records copies from x to y and from y to z. */
static void *copies(tenon_on_t on, void *stream, void *x, void *y, void *z, uint64_t bytes) {
  begin(on, stream);
  must_within(on, stream, y, 0, x, 0, bytes);
  must_within(on, stream, z, 0, y, 0, bytes);
  return end(on, stream);
}

static void not_done(tenon_on_t on) {
  void *stream = must_stream(on);
  void *x = filled(on, 5000, 5);
  void *y = filled(on, 5000, 6);
  void *z = filled(on, 5000, 7);
  void *recording = copies(on, stream, x, y, z, 5000);
  must_finish(on);
  expect_holds(on, y, 0, 5000, 6, 0, 0,
               "memory that a recording writes to, before it is replayed (recording does no work)");
  expect_holds(on, z, 0, 5000, 7, 0, 0,
               "memory that a recording writes to, before it is replayed (recording does no work)");
  drop(on, recording);
  must_stream_destroy(on, stream);
  must_free(on, x);
  must_free(on, y);
  must_free(on, z);
}

static void replayed(tenon_on_t on) {
  void *stream = must_stream(on);
  void *x = filled(on, 50000, 5);
  void *y = filled(on, 50000, 6);
  void *z = filled(on, 50000, POISON);
  void *recording = copies(on, stream, x, y, z, 50000);
  for (uint64_t i = 0; i < 10; i++) { /* with the contents at the time of the replay */
    put(on, x, 0, 50000, 30 + i);
    replay(on, stream, recording);
    must_pass(on, stream);
    expect_holds(on, z, 0, 50000, 30 + i, 0, 29 + i,
                 "the result of replay number %llu of a recording of two copies",
                 (unsigned long long)i + 1);
  }
  drop(on, recording);
  must_stream_destroy(on, stream);
  must_free(on, x);
  must_free(on, y);
  must_free(on, z);
}

/* Without a wait in between: the second replay starts after the first is done. */
static void twice(tenon_on_t on) {
  const uint64_t n = 1000;
  void *stream = must_stream(on);
  void *memory = filled(on, 11 * n, POISON);
  put(on, memory, 0, n, 5);
  begin(on, stream);
  for (uint64_t i = 10; i--;)
    must_within(on, stream, memory, (i + 1) * n, memory, i * n, n); /* moves all places up by one */
  void *recording = end(on, stream);
  for (int i = 0; i < 10; i++)
    replay(on, stream, recording);
  must_pass(on, stream);
  for (uint64_t i = 0; i <= 10; i++)
    expect_holds(on, memory, i * n, n, 5, 0, 0,
                 "place %llu after 10 replays without a wait, each of which moves all places up by "
                 "one (is the order kept?)",
                 (unsigned long long)i);
  drop(on, recording);
  must_stream_destroy(on, stream);
  must_free(on, memory);
}

static void among_work(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    void *w = filled(on, 20000, 5);
    void *x = filled(on, 20000, POISON);
    void *y = filled(on, 20000, 6);
    void *z = filled(on, 20000, 7);
    void *last = filled(on, 20000, 8);
    void *recording = copies(on, stream, x, y, z, 20000);
    delay(on, stream, 0);
    must_within(on, stream, x, 0, w, 0, 20000);
    replay(on, stream, recording);
    must_within(on, stream, last, 0, z, 0, 20000);
    must_pass(on, stream);
    expect_holds(on, last, 0, 20000, 5, 0, 7,
                 "a copy after a replay, after a copy, on one stream (is the order kept?)");
    drop(on, recording);
    must_stream_destroy(on, stream);
    must_free(on, w);
    must_free(on, x);
    must_free(on, y);
    must_free(on, z);
    must_free(on, last);
  }
}

static void on_other_stream(tenon_on_t on) {
  void *stream = must_stream(on);
  void *second = must_stream(on);
  void *x = filled(on, 5000, 5);
  void *y = filled(on, 5000, 6);
  void *z = filled(on, 5000, POISON);
  void *recording = copies(on, stream, x, y, z, 5000);
  must_stream_destroy(on, stream);
  replay(on, second, recording);
  must_pass(on, second);
  expect_holds(on, z, 0, 5000, 5, 0, POISON,
               "a replay on another stream than the one that was recorded");
  drop(on, recording);
  must_stream_destroy(on, second);
  must_free(on, x);
  must_free(on, y);
  must_free(on, z);
}

static void others_work(tenon_on_t on) { /* another stream works while one is recorded */
  void *stream = must_stream(on);
  void *second = must_stream(on);
  void *x = filled(on, 5000, 5);
  void *y = filled(on, 5000, 6);
  void *z = filled(on, 5000, POISON);
  begin(on, stream);
  must_within(on, stream, y, 0, x, 0, 5000);
  must_within(on, second, z, 0, x, 0, 5000);
  must_pass(on, second);
  void *recording = end(on, stream);
  expect_holds(on, z, 0, 5000, 5, 0, POISON, "a copy on a stream while another one is recorded");
  expect_holds(on, y, 0, 5000, 6, 0, 0, "memory that a recording writes to, before it is replayed");
  drop(on, recording);
  must_stream_destroy(on, stream);
  must_stream_destroy(on, second);
  must_free(on, x);
  must_free(on, y);
  must_free(on, z);
}

static void works_after(tenon_on_t on) {
  void *stream = must_stream(on);
  void *x = filled(on, 5000, 5);
  void *y = filled(on, 5000, POISON);
  void *z = filled(on, 5000, POISON);
  drop(on, copies(on, stream, x, y, z, 5000));
  must_within(on, stream, z, 0, x, 0, 5000);
  must_pass(on, stream);
  expect_holds(on, z, 0, 5000, 5, 0, POISON, "a copy on a stream after its recording has ended");
  expect_holds(on, y, 0, 5000, POISON, 0, 0,
               "memory that a recording would write to, which was never replayed");
  must_stream_destroy(on, stream);
  must_free(on, x);
  must_free(on, y);
  must_free(on, z);
}

static void empty(tenon_on_t on) {
  void *stream = must_stream(on);
  begin(on, stream);
  void *recording = end(on, stream);
  for (int i = 0; i < 5; i++)
    replay(on, stream, recording);
  must_pass(on, stream);
  drop(on, recording);
  must_stream_destroy(on, stream);
}

static void with_fill(tenon_on_t on) {
  uint8_t word[4] = {1, 2, 3, 4};
  uint8_t is[1000];
  void *stream = must_stream(on);
  void *memory = filled(on, 1000, POISON);
  begin(on, stream);
  must_fill(on, stream, memory, 0, 1000, word, 4);
  void *recording = end(on, stream);
  memset(word, 9, 4);
  for (int round = 0; round < 2; round++) {
    put(on, memory, 0, 1000, POISON);
    replay(on, stream, recording);
    must_pass(on, stream);
    must_out(on, NULL, is, memory, 0, 1000);
    must_pass(on, NULL);
    for (int i = 0; i < 1000; i++)
      EXPECT_DATA(is[i] == i % 4 + 1, "replay %d of fill: byte %d: expected 0x%02x, found 0x%02x",
                  round + 1, i, i % 4 + 1, is[i]);
  }
  drop(on, recording);
  must_stream_destroy(on, stream);
  must_free(on, memory);
}

static void many(tenon_on_t on) {
  void *stream = must_stream(on);
  void *x = filled(on, 3000, 5);
  void *y = filled(on, 3000, 6);
  void *recordings[50], *z[50];
  for (int i = 0; i < 50; i++) {
    z[i] = filled(on, 3000, POISON);
    recordings[i] = copies(on, stream, x, y, z[i], 3000);
  }
  for (int i = 50; i--;)
    replay(on, stream, recordings[i]);
  must_pass(on, stream);
  for (int i = 0; i < 50; i++) {
    expect_holds(on, z[i], 0, 3000, 5, 0, POISON, "the result of one of 50 recordings");
    drop(on, recordings[i]);
    must_free(on, z[i]);
  }
  must_stream_destroy(on, stream);
  must_free(on, x);
  must_free(on, y);
}

const case_t recording_cases[] = {
    {"recordings.not_done", "Recorded work is not executed before it is replayed.",
     NEEDS_RECORD | NEEDS_STREAMS, not_done},
    {"recordings.replayed", "Each replay works with the contents at its time.",
     NEEDS_RECORD | NEEDS_STREAMS, replayed},
    {"recordings.twice", "Successive replays without a wait keep their order.",
     NEEDS_RECORD | NEEDS_STREAMS, twice},
    {"recordings.among_work", "A replay keeps its position among other work of its stream.",
     NEEDS_RECORD | NEEDS_STREAMS, among_work},
    {"recordings.on_other_stream",
     "A recording can be replayed on another stream after its own is destroyed.",
     NEEDS_RECORD | NEEDS_STREAMS, on_other_stream},
    {"recordings.others_work", "Streams that are not recorded continue to work.",
     NEEDS_RECORD | NEEDS_STREAMS, others_work},
    {"recordings.works_after", "After a recording has ended, its stream works as before.",
     NEEDS_RECORD | NEEDS_STREAMS, works_after},
    {"recordings.empty", "A recording without work can be replayed.", NEEDS_RECORD | NEEDS_STREAMS,
     empty},
    {"recordings.with_fill", "Fills are recorded with their pattern.",
     NEEDS_RECORD | NEEDS_STREAMS | NEEDS_FILL, with_fill},
    {"recordings.many", "50 recordings live at once.", NEEDS_RECORD | NEEDS_STREAMS, many},
    {0}};
