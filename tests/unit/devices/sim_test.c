/* The device sim: streams, events, captured graphs, handles, external objects, settings. */
#include "devices/sim.h"

#include <unistd.h>

/* Makes a chain of copies over streams with events; each byte shows the order of the copies. */
static uint32_t chain(const char *settings) {
  uint32_t hash = 2166136261u;
  unsigned char out[64] = {0};
  void *streams[3], *events[3];
  if (!open_sim(settings)) return 0;
  char *a = allocate(0, 4096);
  for (int i = 0; i < 3; i++) {
    streams[i] = stream_create(0);
    events[i] = event_create(0);
  }
  for (uint64_t i = 0; i < 30; i++) {
    void *stream = streams[i % 3];
    if (i)
      CHECK_STATUS(table->stream_wait(&host.on[0], stream, &host.on[0], events[(i + 2) % 3]),
                   TENON_OK);
    unsigned char byte = (unsigned char)(i * 37 + 1);
    CHECK_STATUS(table->fill(&host.on[0], stream, i + 1, host_at(a, i * 2 % 50), 14, &byte, 1),
                 TENON_OK);
    CHECK_STATUS(table->event_record(&host.on[0], events[i % 3], stream), TENON_OK);
  }
  CHECK_STATUS(copy_out(0, streams[2], 31, out, a, 0, 64), TENON_OK);
  CHECK_STATUS(table->synchronize(&host.on[0]), TENON_OK);
  for (int i = 0; i < 63; i++)
    hash = (hash ^ out[i]) * 16777619u;
  finding_none();
  host_close(&host);
  return hash;
}

TEST("ordered work gives the same bytes with any delays") {
  uint32_t expected = chain("");
  for (int seed = 0; seed < 20; seed++) {
    char settings[64];
    snprintf(settings, sizeof settings, "delay=300,seed=%d", seed);
    CHECK(chain(settings) == expected);
  }
}

TEST("each piece of work is delayed: 20 delays of at most 10 ms, drawn from the seed, take at "
     "least 50 ms") {
  if (!open_sim("delay=10000,seed=1")) return;
  void *begin = event_create(0);
  void *end = event_create(0);
  void *memory = allocate(0, 8);
  int64_t first = 0;
  int64_t last = 0;
  CHECK_STATUS(table->event_record(&host.on[0], begin, NULL), TENON_OK);
  for (uint64_t i = 1; i <= 20; i++)
    CHECK_STATUS(table->fill(&host.on[0], NULL, i, host_at(memory, 0), 8, "a", 1), TENON_OK);
  CHECK_STATUS(table->event_record(&host.on[0], end, NULL), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  CHECK_STATUS(table->event_time(&host.on[0], begin, &first), TENON_OK);
  CHECK_STATUS(table->event_time(&host.on[0], end, &last), TENON_OK);
  CHECK(last - first > 50000000);
  host_close(&host);
}

TEST("events have three states and times, and may be recorded again while a stream waits") {
  if (!open_sim("delay=2000,seed=9")) return;
  tenon_on_t on = &host.on[0];
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *first = event_create(0);
  void *second = event_create(0);
  char *memory = allocate(0, 64);
  int64_t one = 0;
  int64_t two = 0;
  CHECK_STATUS(table->event_query(on, first), TENON_OK);
  CHECK_STATUS(table->event_synchronize(on, first), TENON_OK);
  CHECK_STATUS(table->event_time(on, first, &one), TENON_PRECONDITION);
  CHECK_STATUS(table->fill(on, a, 1, host_at(memory, 0), 8, "a", 1), TENON_OK);
  CHECK_STATUS(table->event_record(on, first, a), TENON_OK);
  CHECK_STATUS(table->event_query(on, first), TENON_UNAVAILABLE);
  CHECK_STATUS(table->stream_wait(on, b, on, first), TENON_OK);
  CHECK_STATUS(table->fill(on, a, 2, host_at(memory, 8), 8, "b", 1), TENON_OK);
  CHECK_STATUS(table->event_record(on, first, a), TENON_OK);
  CHECK_STATUS(table->fill(on, b, 3, host_at(memory, 0), 8, "c", 1), TENON_OK);
  CHECK_STATUS(table->event_record(on, second, b), TENON_OK);
  table->event_destroy(on, second); /* No stream waits for it. */
  second = event_create(0);
  CHECK_STATUS(table->event_record(on, second, b), TENON_OK);
  CHECK_STATUS(table->event_synchronize(on, first), TENON_OK);
  CHECK_STATUS(table->event_query(on, first), TENON_OK);
  CHECK_STATUS(table->event_synchronize(on, second), TENON_OK);
  CHECK_STATUS(table->event_time(on, first, &one), TENON_OK);
  CHECK_STATUS(table->event_time(on, second, &two), TENON_OK);
  CHECK(one > 0 && two > 0);
  CHECK_STATUS(table->event_query(on, a), TENON_INVALID);
  CHECK_TEXT(host_text, "is not a handle of kind event, but perhaps of kind stream");
  table->event_destroy(on, first);
  CHECK_STATUS(table->event_query(on, first), TENON_INVALID);
  CHECK_TEXT(host_text, "does not exist any more");
  finding_none();
  host_close(&host);
}

TEST("a destroyed stream completes its work, and thousands of streams and events may exist at "
     "once") {
  enum { MANY = 2000 };
  static void *streams[MANY], *events[MANY];
  static char out[MANY];
  if (!open_sim("")) return;
  tenon_on_t on = &host.on[0];
  char *memory = allocate(0, MANY);
  void *all = stream_create(0);
  for (int i = 0; i < MANY; i++) {
    char byte = (char)(i % 100 + 1);
    streams[i] = stream_create(0);
    events[i] = event_create(0);
    if (i % 10 == 0) {
      CHECK_STATUS(table->fill(on, streams[i], 1, host_at(memory, (uint64_t)i), 1, &byte, 1),
                   TENON_OK);
      CHECK_STATUS(table->event_record(on, events[i], streams[i]), TENON_OK);
      CHECK_STATUS(table->stream_wait(on, all, on, events[i]), TENON_OK);
    }
  }
  for (int i = 0; i < MANY; i++) {
    table->stream_destroy(on, streams[i]);
    table->event_destroy(on, events[i]);
  }
  CHECK_STATUS(copy_out(0, all, 2, out, memory, 0, MANY), TENON_OK);
  CHECK_STATUS(synchronize(0, all), TENON_OK);
  for (int i = 0; i < MANY; i += 10)
    CHECK(out[i] == (char)(i % 100 + 1));
  CHECK_STATUS(table->fill(on, streams[0], 1, host_at(memory, 0), 1, "a", 1), TENON_INVALID);
  CHECK_TEXT(host_text, "was destroyed");
  finding_none();
  host_close(&host);
}

typedef struct told_t {
  _Atomic int count;
  _Atomic tenon_status_t status;
} told_t;
static void tell(void *argument, tenon_status_t status) {
  told_t *told = argument;
  told->status = status;
  told->count++;
}

TEST("a captured graph does nothing during capture, and all of its work at each replay") {
  if (!open_sim("delay=200,seed=2")) return;
  tenon_on_t on = &host.on[0];
  void *stream = stream_create(0);
  void *recording = NULL;
  char *memory = allocate(0, 64);
  char out[8];
  told_t told = {0};
  CHECK_STATUS(table->fill(on, stream, 1, host_at(memory, 0), 8, "a", 1), TENON_OK);
  CHECK_STATUS(table->record_begin(on, stream), TENON_OK);
  CHECK_STATUS(table->record_begin(on, stream), TENON_PRECONDITION);
  CHECK_STATUS(table->fill(on, stream, 2, host_at(memory, 0), 4, "b", 1), TENON_OK);
  CHECK_STATUS(
      host_copy(&host, 0, stream, 2, TENON_COPY_WITHIN, host_at(memory, 2), host_at(memory, 0), 4),
      TENON_OK);
  CHECK_STATUS(table->callback(on, stream, tell, &told), TENON_OK);
  CHECK_STATUS(table->record_end(on, stream, &recording), TENON_OK);
  CHECK_STATUS(copy_out(0, stream, 3, out, memory, 0, 8), TENON_OK);
  CHECK_STATUS(synchronize(0, stream), TENON_OK);
  CHECK(!memcmp(out, "aaaaaaaa", 8) && told.count == 0);
  CHECK_STATUS(table->replay(on, stream, recording, 4), TENON_OK);
  CHECK_STATUS(table->fill(on, stream, 5, host_at(memory, 0), 1, "c", 1), TENON_OK);
  CHECK_STATUS(copy_out(0, stream, 6, out, memory, 0, 8), TENON_OK);
  CHECK_STATUS(synchronize(0, stream), TENON_OK);
  CHECK(!memcmp(out, "cbbbbbaa", 8) && told.count == 1);
  CHECK_STATUS(table->replay(on, stream, recording, 7), TENON_OK);
  CHECK_STATUS(synchronize(0, stream), TENON_OK);
  CHECK(told.count == 2);
  finding_none();
  table->free(on, memory);
  CHECK_STATUS(table->replay(on, stream, recording, 8), TENON_INVALID);
  CHECK_TEXT(host_text, "a replay uses memory");
  table->recording_free(on, recording);
  host_close(&host);
}

TEST("external memory and streams are used until they are given back") {
  for (int handles = 0; handles < 2; handles++) {
    if (!open_sim(handles ? "handles=1" : "")) return;
    tenon_on_t on = &host.on[0];
    char *theirs = allocate(0, 100);
    char out[4] = {0};
    void *their_stream = stream_create(0);
    void *memory = NULL;
    void *stream = NULL;
    CHECK_STATUS(table->memory_import(on, out, 4, &memory), TENON_INVALID);
    CHECK_STATUS(table->memory_import(on, theirs, 10000, &memory), TENON_INVALID);
    CHECK_STATUS(table->memory_import(on, theirs, 100, &memory), TENON_OK);
    CHECK_STATUS(table->stream_import(on, their_stream, &stream), TENON_OK);
    table->free(on, theirs);
    table->stream_destroy(on, their_stream);
    CHECK_STATUS(table->fill(on, stream, 1, host_at(memory, 0), 4, "x", 1), TENON_OK);
    CHECK_STATUS(copy_out(0, stream, 2, out, memory, 0, 4), TENON_OK);
    CHECK_STATUS(synchronize(0, stream), TENON_OK);
    CHECK(!memcmp(out, "xxxx", 4));
    finding_none();
    table->stream_forget(on, stream);
    table->memory_forget(on, memory);
    CHECK_STATUS(copy_out(0, NULL, 3, out, memory, 0, 4), TENON_INVALID);
    CHECK_STATUS(table->stream_query(on, stream, NULL), TENON_INVALID);
    host_close(&host);
  }
}

TEST("one invalid setting refuses the whole text, including its valid settings") {
  static const char *const bad[] = {"delay",           "delay=",     "delay=x",
                                    "delay=1000001",   "handles=2",  "fail=what:3",
                                    "fail=copy",       "fail=copy:", "delay=5x",
                                    "peers=1;seed=2",  "check=yes",  "seed=99999999999999999999",
                                    "delay=1,,seed=2", "lose=2:1",   "a=1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    host_t closed;
    CHECK_STATUS(host_open(tenon_library_sim(), bad[i], &closed), TENON_INVALID);
    CHECK_TEXT(host_text, "there are handles=0|1");
  }
  if (!open_sim("delay=5,seed=3,check=count,fail=copy:3,fail=launch:2,lose=1:400")) return;
  CHECK_STATUS(tests->set(&host.on[0], "handles=1"), TENON_PRECONDITION);
  uint64_t left = 0;
  CHECK_STATUS(tests->set(&host.on[0], "check=abort,check=fail,memory=65536"), TENON_OK);
  /* The other settings do not change. */
  CHECK_STATUS(tests->set(&host.on[0], "delay=0"), TENON_OK);
  CHECK_STATUS(table->memory_free(&host.on[0], &left), TENON_OK);
  CHECK(left == 65536);
  host_close(&host);
}
