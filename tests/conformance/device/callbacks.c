/* Cases about host callbacks, which the device calls when a stream reaches them. */
#include "groups.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4000

static _Atomic int calls[MOST], sequence[MOST], called;
static _Atomic int wrong_status;

static void count_call(void *argument, tenon_status_t status) {
  int i = (int)(intptr_t)argument;
  if (status != TENON_OK) wrong_status = status;
  sequence[i] = called++;
  calls[i]++;
}

static void reset(void) {
  for (int i = 0; i < MOST; i++)
    calls[i] = sequence[i] = 0;
  called = 0;
  wrong_status = 0;
}

static void *index_of(int i) { return (void *)(intptr_t)i; }

/* Waits until `count` callbacks were called. They may come a little after the host's wait returns;
 * if they never come, the case hangs. */
static void wait_calls(tenon_on_t on, int count) {
  must_finish(on);
  doing("waiting for %d callbacks", count);
  while (called < count)
    sched_yield();
  must_finish(on);
  for (int i = 0; i < count; i++)
    EXPECT(calls[i] == 1, "callback %d of %d: expected to be called once, found %d times", i, count,
           calls[i]);
  EXPECT(!wrong_status,
         "callbacks of a stream without failures: expected the status TENON_OK, found %s",
         status_name(wrong_status));
}

static void once(tenon_on_t on) {
  void *stream = HAS_STREAMS ? must_stream(on) : NULL;
  reset();
  for (int i = 0; i < 50; i++)
    must_callback(on, stream, count_call, index_of(i));
  wait_calls(on, 50);
  if (stream) must_stream_destroy(on, stream);
}

static void null_stream(tenon_on_t on) {
  reset();
  for (int i = 0; i < 20; i++)
    must_callback(on, NULL, count_call, index_of(i));
  wait_calls(on, 20);
}

static void order(tenon_on_t on) {
  void *stream = HAS_STREAMS ? must_stream(on) : NULL;
  reset();
  for (int i = 0; i < 200; i++)
    must_callback(on, stream, count_call, index_of(i));
  wait_calls(on, 200);
  for (int i = 0; i < 200; i++)
    EXPECT(sequence[i] == i,
           "callbacks of one stream are called out of order: number %d was called as number %d", i,
           sequence[i]);
  if (stream) must_stream_destroy(on, stream);
}

static void thousands(tenon_on_t on) {
  const int count = rig.quick ? 500 : MOST;
  reset();
  for (int i = 0; i < count; i++)
    must_callback(on, NULL, count_call, index_of(i));
  wait_calls(on, count);
}

typedef struct look_t { /* a callback that reads host memory which an earlier copy wrote */
  uint8_t *memory;
  _Atomic int done;
  _Atomic int wrong;
} look_t;

static void look(void *argument, tenon_status_t status) {
  look_t *l = argument;
  uint8_t right[1000];
  pattern(right, 1000, 5, 0);
  l->wrong = status != TENON_OK || memcmp(right, l->memory, 1000) != 0;
  l->done = 1;
}

static void after_work(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    void *x = filled(on, 1000, 5);
    void *y = filled(on, 1000, POISON);
    look_t l = {host_new(1000), 0, 0};
    pattern(l.memory, 1000, POISON, 0);
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, 1000);
    must_out(on, stream, l.memory, y, 0, 1000);
    must_callback(on, stream, look, &l);
    must_pass(on, stream);
    doing("waiting for a callback");
    while (!l.done)
      sched_yield();
    EXPECT_DATA(!l.wrong, "a callback after copy(OUT): expected host memory to hold the copied "
                          "bytes, found others (is it called before the work?)");
    must_stream_destroy(on, stream);
    must_free(on, x);
    must_free(on, y);
    free(l.memory);
  }
}

static void many_streams(tenon_on_t on) {
  void *streams[8];
  reset();
  for (int i = 0; i < 8; i++)
    streams[i] = must_stream(on);
  for (int i = 0; i < 80; i++)
    must_callback(on, streams[i % 8], count_call, index_of(i));
  wait_calls(on, 80);
  for (int i = 8; i < 80; i++)
    EXPECT(sequence[i] > sequence[i - 8], "callbacks of one of 8 streams are called out of order");
  for (int i = 0; i < 8; i++)
    must_stream_destroy(on, streams[i]);
}

static void destroyed(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *stream = must_stream(on);
    reset();
    delay(on, stream, 0);
    for (int i = 0; i < 10; i++)
      must_callback(on, stream, count_call, index_of(i));
    must_stream_destroy(on, stream);
    wait_calls(on, 10);
  }
}

static void behind_wait(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    void *a = must_stream(on);
    void *b = must_stream(on);
    void *event = must_event(on);
    void *x = filled(on, 1000, 5);
    look_t l = {host_new(1000), 0, 0};
    pattern(l.memory, 1000, POISON, 0);
    delay(on, a, 0);
    must_out(on, a, l.memory, x, 0, 1000);
    must_record(on, event, a);
    must_wait(on, b, on, event);
    must_callback(on, b, look, &l);
    must_finish(on);
    doing("waiting for a callback");
    while (!l.done)
      sched_yield();
    EXPECT_DATA(!l.wrong, "a callback after stream_wait: expected the work before the event to be "
                          "done, found other bytes in host memory (does the stream wait?)");
    must_event_destroy(on, event);
    must_stream_destroy(on, a);
    must_stream_destroy(on, b);
    must_free(on, x);
    free(l.memory);
  }
}

const case_t callback_cases[] = {
    {"callbacks.once", "A callback is called once, with its argument and TENON_OK.", NEEDS_CALLBACK,
     once},
    {"callbacks.null_stream", "Callbacks on the stream NULL are called.", NEEDS_CALLBACK,
     null_stream},
    {"callbacks.order", "Callbacks of one stream are called in order.", NEEDS_CALLBACK, order},
    {"callbacks.thousands", "4,000 callbacks are enqueued at once.", NEEDS_CALLBACK, thousands},
    {"callbacks.after_work", "A callback is called when the work before it is done.",
     NEEDS_CALLBACK | NEEDS_STREAMS, after_work},
    {"callbacks.behind_wait", "A callback after stream_wait is called after the event.",
     NEEDS_CALLBACK | NEEDS_EVENTS, behind_wait},
    {"callbacks.many_streams", "Callbacks of eight streams are called, in order for each stream.",
     NEEDS_CALLBACK | NEEDS_STREAMS, many_streams},
    {"callbacks.destroyed", "Callbacks of a destroyed stream are called.",
     NEEDS_CALLBACK | NEEDS_STREAMS, destroyed},
    {0}};
