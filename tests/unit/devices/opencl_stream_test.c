/* devices/opencl: streams, events, callbacks, and work that fails. */
#include "opencl.h"

/* streams */

TEST("the work of one stream is done in order, whether it is long or short") {
  READY();
  void *stream = stream_made(&one);
  void *y = allocated(4);
  int32_t value = 1;
  int32_t result = 0;
  CHECK_STATUS(
      copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0}, (tenon_memory_t){y, 0}, 4, 1),
      TENON_OK);
  int32_t expected = value;
  for (int32_t i = 0; i < 12; i++) {
    launch_slow(stream, y, i % 3 ? 10 : 20000000, i, (uint64_t)i + 2);
    expected = expected * 2 + i;
  }
  CHECK_STATUS(
      copy(stream, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 20),
      TENON_OK);
  CHECK_STATUS(cl->stream_query(&one, stream, NULL), TENON_UNAVAILABLE);
  CHECK_STATUS(waited(&one, stream, NULL), TENON_OK);
  CHECK(result == expected);
  cl->free(&one, y);
  cl->stream_destroy(&one, stream);
}

TEST("a stream waits for an event of another stream") {
  READY();
  for (int round = 0; round < 20; round++) {
    void *a = stream_made(&one);
    void *b = stream_made(&one);
    void *event = event_made(&one);
    void *y = allocated(4);
    int32_t value = round;
    int32_t result = -1;
    copy_in(&value, y, 0, 4);
    gate_t gate = gate_close(&one, a);
    launch_slow(a, y, 1000000, 3, 1);
    CHECK_STATUS(cl->event_record(&one, event, a), TENON_OK);
    CHECK_STATUS(cl->event_query(&one, event), TENON_UNAVAILABLE);
    CHECK_STATUS(cl->stream_wait(&one, b, &one, event), TENON_OK);
    launch_slow(b, y, 10, 4, 2);
    CHECK_STATUS(
        copy(b, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 3),
        TENON_OK);
    CHECK_STATUS(cl->stream_query(&one, b, NULL), TENON_UNAVAILABLE);
    gate_open(gate, 0);
    CHECK_STATUS(cl->stream_synchronize(&one, b, NULL), TENON_OK);
    CHECK(result == (round * 2 + 3) * 2 + 4);
    CHECK_STATUS(cl->event_query(&one, event), TENON_OK);
    cl->event_destroy(&one, event);
    cl->stream_destroy(&one, a);
    cl->stream_destroy(&one, b);
    cl->free(&one, y);
  }
}

TEST("a stream waits for an event of another ordinal") {
  READY();
  if (ordinals < 2) SKIP("there is one ordinal");
  for (int round = 0; round < 20; round++) {
    void *a = stream_made(&one);
    void *b = stream_made(&two);
    void *event = event_made(&one);
    void *last = event_made(&two);
    gate_t gate = gate_close(&one, a);
    void *y = allocated(4);
    void *z = NULL;
    int32_t value = 1;
    int32_t result = 0;
    CHECK_STATUS(cl->allocate(&two, 4, &z), TENON_OK);
    launch_slow(a, y, 1000000, 3, 1);
    CHECK_STATUS(cl->event_record(&one, event, a), TENON_OK);
    CHECK_STATUS(cl->stream_wait(&two, b, &one, event), TENON_OK);
    tenon_copy_t in = {sizeof in, TENON_COPY_IN, 2, 4, {&value, 0}, {z, 0}, NULL};
    tenon_copy_t out = {sizeof out, TENON_COPY_OUT, 2, 4, {z, 0}, {&result, 0}, NULL};
    CHECK_STATUS(cl->copy(&two, b, &in), TENON_OK);
    CHECK_STATUS(cl->copy(&two, b, &out), TENON_OK);
    CHECK_STATUS(cl->event_record(&two, last, b), TENON_OK);
    cl->event_destroy(&one, event); /* Streams that wait for it still wait. */
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    CHECK(result == 0);
    CHECK_STATUS(cl->stream_query(&two, b, NULL), TENON_UNAVAILABLE);
    CHECK_STATUS(cl->event_query(&two, last), TENON_UNAVAILABLE);
    gate_open(gate, 0);
    if (round % 2)
      CHECK_STATUS(cl->event_synchronize(&two, last), TENON_OK);
    else
      CHECK_STATUS(waited(&two, b, NULL), TENON_OK);
    CHECK(result == 1);
    cl->event_destroy(&two, last);
    cl->stream_destroy(&one, a);
    cl->stream_destroy(&two, b);
    cl->free(&one, y);
    cl->free(&two, z);
  }
}

TEST("an event marks its last recording, and earlier waits still wait for the earlier recording") {
  READY();
  void *a = stream_made(&one);
  void *b = stream_made(&one);
  void *c = stream_made(&one);
  void *event = event_made(&one);
  void *y = allocated(4);
  CHECK_STATUS(cl->event_query(&one, event), TENON_OK); /* The event was never recorded. */
  CHECK_STATUS(cl->stream_wait(&one, b, &one, event), TENON_OK);
  gate_t gate = gate_close(&one, a);
  launch_slow(a, y, 10, 1, 1);
  CHECK_STATUS(cl->event_record(&one, event, a), TENON_OK);
  CHECK_STATUS(cl->stream_wait(&one, b, &one, event), TENON_OK);
  CHECK_STATUS(cl->event_record(&one, event, c), TENON_OK);
  CHECK_STATUS(cl->event_synchronize(&one, event), TENON_OK);
  CHECK_STATUS(cl->stream_query(&one, b, NULL), TENON_UNAVAILABLE);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, b, NULL), TENON_OK);
  cl->event_destroy(&one, event);
  cl->stream_destroy(&one, a);
  cl->stream_destroy(&one, b);
  cl->stream_destroy(&one, c);
  cl->free(&one, y);
}

TEST("thousands of events may exist at once") {
  READY();
  enum { COUNT = 5000 };
  void *a = stream_made(&one);
  void *b = stream_made(&one);
  void *y = allocated(4);
  void **events = malloc(COUNT * sizeof *events);
  int32_t zero = 0;
  int32_t result = 0;
  copy_in(&zero, y, 0, 4);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  gate_t gate = gate_close(&one, a);
  for (int i = 0; i < COUNT; i++) {
    events[i] = event_made(&one);
    void *stream = i % 2 ? b : a;
    void *other = i % 2 ? a : b;
    launch_slow(stream, y, 1, i % 7, (uint64_t)i + 1);
    CHECK_STATUS(cl->event_record(&one, events[i], stream), TENON_OK);
    CHECK_STATUS(cl->stream_wait(&one, other, &one, events[i]), TENON_OK);
  }
  for (int i = 0; i < COUNT; i += 499)
    CHECK_STATUS(cl->event_query(&one, events[i]), TENON_UNAVAILABLE);
  gate_open(gate, 0);
  CHECK_STATUS(cl->synchronize(&one), TENON_OK);
  uint32_t expected = 0;
  for (uint32_t i = 0; i < COUNT; i++)
    expected = expected * 2 + i % 7;
  copy_out(y, 0, &result, 4);
  CHECK((uint32_t)result == expected);
  for (int i = 0; i < COUNT; i++) {
    CHECK_STATUS(cl->event_query(&one, events[i]), TENON_OK);
    cl->event_destroy(&one, events[i]);
  }
  free(events);
  cl->stream_destroy(&one, a);
  cl->stream_destroy(&one, b);
  cl->free(&one, y);
}

TEST("a busy stream that is destroyed completes its work") {
  READY();
  void *stream = stream_made(&one);
  void *event = event_made(&one);
  void *y = allocated(4);
  int32_t value = 21;
  int32_t result = 0;
  gate_t gate = gate_close(&one, stream);
  CHECK_STATUS(
      copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0}, (tenon_memory_t){y, 0}, 4, 1),
      TENON_OK);
  launch_slow(stream, y, 60000000, 0, 2);
  CHECK_STATUS(
      copy(stream, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 3),
      TENON_OK);
  CHECK_STATUS(cl->event_record(&one, event, stream), TENON_OK);
  cl->stream_destroy(&one, stream);
  CHECK(result == 0);
  gate_open(gate, 0);
  /* This waits for all streams, including this one. */
  CHECK_STATUS(cl->synchronize(&one), TENON_OK);
  CHECK(result == 42);
  CHECK_STATUS(cl->event_query(&one, event), TENON_OK);
  cl->event_destroy(&one, event);
  cl->free(&one, y);
}

TEST("events have times, in order") {
  READY();
  void *stream = stream_made(&one);
  void *events[3];
  void *y = allocated(4);
  int64_t times[3] = {0};
  for (int i = 0; i < 3; i++) {
    events[i] = event_made(&one);
    gate_t gate = {0};
    if (i == 1) gate = gate_close(&one, stream);
    if (i)
      launch_slow(stream, y, 30000000, 1, 1);
    else
      CHECK_STATUS(cl->event_time(&one, events[i], &times[i]), TENON_PRECONDITION);
    if (i == 2)
      CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL),
                   /* The event was recorded on an idle stream: its time is now. */
                   TENON_OK);
    if (i == 2) nanosleep(&(struct timespec){0, 30000000}, NULL);
    CHECK_STATUS(cl->event_record(&one, events[i], stream), TENON_OK);
    if (i == 1) {
      CHECK_STATUS(cl->event_time(&one, events[i], &times[i]), TENON_UNAVAILABLE);
      gate_open(gate, 0);
    }
  }
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(cl->event_time(&one, events[i], &times[i]), TENON_OK);
  CHECK(times[1] - times[0] > 5000000);  /* 30 million rounds */
  CHECK(times[2] - times[1] > 35000000); /* 30 million rounds and the sleep */
  for (int i = 0; i < 3; i++)
    cl->event_destroy(&one, events[i]);
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
}

TEST("callbacks run once, when the stream reaches them") {
  READY();
  void *stream = stream_made(&one);
  void *y = allocated(4);
  told_t t[3] = {{0}};
  gate_t gate = gate_close(&one, stream);
  launch_slow(stream, y, 10, 1, 1);
  CHECK_STATUS(cl->callback(&one, stream, told, &t[0]), TENON_OK);
  launch_slow(stream, y, 10, 1, 2);
  CHECK_STATUS(cl->callback(&one, stream, told, &t[1]), TENON_OK);
  nanosleep(&(struct timespec){0, 5000000}, NULL);
  CHECK(t[0].count == 0 && t[1].count == 0);
  gate_open(gate, 0);
  wait_for_count(&t[1].count, 1);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  /* The stream is idle. */
  CHECK_STATUS(cl->callback(&one, stream, told, &t[2]), TENON_OK);
  wait_for_count(&t[2].count, 1);
  for (int i = 0; i < 3; i++)
    CHECK(t[i].count == 1 && t[i].status == TENON_OK);
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
}

typedef struct order_t {
  _Atomic int *next;
  int number;
  _Atomic int *wrong;
} order_t;
static void in_order(void *argument, tenon_status_t status) {
  order_t *o = (order_t *)argument;
  if (o->number % 50 == 0) /* The next work must not begin yet. */
    nanosleep(&(struct timespec){0, 3000000}, NULL);
  *o->wrong += (*o->next)++ != o->number || status != TENON_OK;
}

TEST("callbacks of a stream come in order") {
  READY();
  enum { COUNT = 300 };
  static order_t orders[COUNT];
  static _Atomic int next, wrong;
  void *stream = stream_made(&one);
  void *y = allocated(4);
  for (int i = 0; i < COUNT; i++) {
    orders[i] = (order_t){&next, i, &wrong};
    if (i % 3 == 0) launch_slow(stream, y, 100, 1, (uint64_t)i);
    CHECK_STATUS(cl->callback(&one, stream, in_order, &orders[i]), TENON_OK);
    if (i % 50 == 0)
      CHECK_STATUS(waited(&one, stream, NULL),
                   /* The next work has no other before it in the driver. */
                   TENON_OK);
  }
  wait_for_count(&next, COUNT);
  CHECK(next == COUNT && wrong == 0);
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
}

TEST("busy streams do not delay other streams") {
  READY();
  void *a = stream_made(&one);
  void *b = stream_made(&one);
  void *y = allocated(4);
  gate_t gate = gate_close(&one, a);
  launch_slow(a, y, 10, 1, 1);
  launch_slow(b, y, 10, 1, 1);
  CHECK_STATUS(cl->stream_synchronize(&one, b, NULL), TENON_OK);
  CHECK_STATUS(cl->stream_query(&one, a, NULL), TENON_UNAVAILABLE);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, a, NULL), TENON_OK);
  cl->stream_destroy(&one, a);
  cl->stream_destroy(&one, b);
  cl->free(&one, y);
}

/* failures */

TEST("a failure stays with its stream, names its call, and reaches waiting streams") {
  READY();
  void *a = stream_made(&one);
  void *b = stream_made(&one);
  void *c = stream_made(&one);
  void *event = event_made(&one);
  void *y = allocated(4);
  tenon_fault_t fault = {sizeof fault, 0, 0};
  int32_t one_value = 1;
  int32_t result = 77;
  told_t t = {0};
  copy_in(&one_value, y, 0, 4);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  launch_slow(a, y, 10, 0, 40); /* This work is complete: y = 2. */
  CHECK_STATUS(cl->stream_synchronize(&one, a, NULL), TENON_OK);
  gate_t gate = gate_close(&one, a);
  launch_slow(a, y, 10, 1, 41);
  launch_slow(a, y, 10, 1, 42);
  CHECK_STATUS(cl->callback(&one, a, told, &t), TENON_OK);
  CHECK_STATUS(cl->event_record(&one, event, a), TENON_OK);
  CHECK_STATUS(cl->stream_wait(&one, b, &one, event), TENON_OK);
  launch_slow(b, y, 10, 1, 50);
  gate_open(gate, -5);
  CHECK_STATUS(cl->stream_synchronize(&one, a, &fault), TENON_ABORTED);
  CHECK(fault.ticket == 41);
  CHECK_TEXT(host_message(), "call 41 of this stream");
  fault.ticket = 0;
  CHECK_STATUS(waited(&one, b, &fault), TENON_ABORTED);
  CHECK(fault.ticket == 41); /* The failure is that of ticket 41, not 50. */
  CHECK_STATUS(cl->event_query(&one, event), TENON_ABORTED);
  CHECK_STATUS(cl->event_synchronize(&one, event), TENON_ABORTED);
  CHECK(t.count == 1 && t.status == TENON_ABORTED);
  CHECK_STATUS(cl->synchronize(&one), TENON_ABORTED);
  /* The stream stays failed. */
  tenon_kernel_argument_t arguments[] = {memory_argument(y, 0), bytes_argument(&one_value, 4),
                                         bytes_argument(&one_value, 4)};
  CHECK_STATUS(launch(a, kernel_of("slow"), 1, 1, 3, arguments, 43), TENON_ABORTED);
  CHECK_STATUS(copy(b, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 51),
               TENON_ABORTED);
  CHECK_STATUS(cl->stream_query(&one, a, &fault), TENON_ABORTED);
  CHECK_STATUS(cl->event_record(&one, event, a), TENON_ABORTED);
  /* Work that waits for it now fails, too, and other work continues. */
  CHECK_STATUS(cl->stream_wait(&one, c, &one, event), TENON_OK);
  fault.ticket = 0;
  CHECK_STATUS(cl->stream_query(&one, c, &fault), TENON_ABORTED);
  CHECK(fault.ticket == 41);
  copy_out(y, 0, &result, 4);
  CHECK(result == 2); /* Nothing of it was done. */
  cl->event_destroy(&one, event);
  cl->stream_destroy(&one, a);
  cl->stream_destroy(&one, b);
  cl->stream_destroy(&one, c);
  CHECK_STATUS(cl->synchronize(&one), TENON_OK);
  cl->free(&one, y);
}

TEST("a callback behind a failure runs even if no call waits for it") {
  READY();
  tenon_status_t (*const *enqueue_failure)(tenon_on_t, void *, uint64_t) =
      cl->native(&one, "enqueue_failure", NULL);
  void *stream = stream_made(&one);
  void *y = allocated(4);
  tenon_fault_t fault = {sizeof fault, 0, 0};
  told_t t = {0};
  gate_t gate = gate_close(&one, stream);
  launch_slow(stream, y, 1000, 1, 1);
  CHECK_STATUS((*enqueue_failure)(&one, stream, 2), TENON_OK);
  CHECK_STATUS(cl->callback(&one, stream, told, &t), TENON_OK);
  CHECK(t.count == 0);
  gate_open(gate, 0);
  wait_for_count(&t.count, 1);
  CHECK(t.count == 1 && t.status != TENON_OK);
  CHECK(cl->stream_query(&one, stream, &fault) == t.status);
  CHECK(fault.ticket == 2);
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
}

TEST("a failure reaches streams of another ordinal") {
  READY();
  if (ordinals < 2) SKIP("there is one ordinal");
  for (int how = 0; how < 3; how++) {
    void *a = stream_made(&one);
    void *b = stream_made(&two);
    void *event = event_made(&one);
    void *last = event_made(&two);
    void *y = allocated(4);
    tenon_fault_t fault = {sizeof fault, 0, 0};
    gate_t gate = gate_close(&one, a);
    launch_slow(a, y, 10, 1, 7);
    CHECK_STATUS(cl->event_record(&one, event, a), TENON_OK);
    CHECK_STATUS(cl->stream_wait(&two, b, &one, event), TENON_OK);
    CHECK_STATUS(cl->event_record(&two, last, b), TENON_OK);
    gate_open(gate, -5);
    if (how == 0) CHECK_STATUS(cl->stream_synchronize(&two, b, &fault), TENON_ABORTED);
    if (how == 1) CHECK_STATUS(waited(&two, b, &fault), TENON_ABORTED);
    if (how == 2) CHECK_STATUS(cl->event_synchronize(&two, last), TENON_ABORTED);
    CHECK(how == 2 || fault.ticket == 7);
    CHECK_TEXT(host_message(), "call 7");
    cl->event_destroy(&one, event);
    cl->event_destroy(&two, last);
    cl->stream_destroy(&one, a);
    cl->stream_destroy(&two, b);
    cl->free(&one, y);
    CHECK_STATUS(cl->synchronize(&one), TENON_OK);
    CHECK_STATUS(cl->synchronize(&two), TENON_OK);
  }
}
