/* The checker of the device sim: it reports each missing wait in the first run, and reports no work
 * that is ordered. */
#include "devices/sim.h"

#include <unistd.h>

/* Expects one race between these tickets; the stream of the second piece fails with its ticket and
 * the text of the finding. */
static void raced(uint64_t first, uint64_t second, int32_t ordinal, void *stream,
                  const char *part) {
  sim_finding_t found[2] = {0};
  tenon_fault_t fault = {.size = sizeof fault};
  CHECK(tests->races(&host.on[0], found, 2) == 1);
  CHECK(found[0].first.ticket == first && found[0].second.ticket == second);
  CHECK_TEXT(found[0].text, part);
  CHECK_STATUS(table->stream_synchronize(&host.on[ordinal], stream, &fault), TENON_PRECONDITION);
  CHECK(fault.ticket == second);
  CHECK_TEXT(host_text, part);
}

enum {
  NO_WAIT,
  WAIT,
};

TEST("with two streams, the second one must wait, and one wait is enough") {
  for (int way = NO_WAIT; way <= WAIT; way++) {
    if (!open_sim("")) return;
    void *a = stream_create(0);
    void *b = stream_create(0);
    void *event = event_create(0);
    void *memory = allocate(0, 100);
    CHECK_STATUS(use(0, a, 17, memory, 0, 64, 1), TENON_OK);
    record(0, event, a);
    usleep(3000); /* It is complete, but no wait guarantees that. */
    if (way == WAIT) follow(0, b, 0, event);
    CHECK_STATUS(use(0, b, 18, memory, 63, 1, 0), TENON_OK);
    if (way == WAIT)
      finding_none();
    else
      raced(17, 18, 0, b, "stream 2 of ordinal 0 must wait for ticket 17 of stream 1 of ordinal 0");
    host_close(&host);
  }
}

TEST("disjoint bytes and two reads are no race, but a write after a read is one") {
  if (!open_sim("")) return;
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *memory = allocate(0, 100);
  CHECK_STATUS(use(0, a, 1, memory, 0, 64, 0), TENON_OK);
  CHECK_STATUS(use(0, b, 2, memory, 0, 64, 0), TENON_OK);
  CHECK_STATUS(use(0, b, 3, memory, 64, 10, 1), TENON_OK);
  finding_none();
  CHECK_STATUS(use(0, b, 4, memory, 60, 4, 1), TENON_OK);
  raced(1, 4, 0, b, "writes bytes 60 to 63 of memory");
  host_close(&host);
}

TEST("an event that is recorded too early does not order the later work") {
  if (!open_sim("")) return;
  void *a = stream_create(0);
  void *event = event_create(0);
  void *memory = allocate(0, 100);
  CHECK_STATUS(use(0, NULL, 1, memory, 0, 8, 1), TENON_OK);
  record(0, event, NULL);
  CHECK_STATUS(use(0, NULL, 2, memory, 8, 8, 1), TENON_OK);
  follow(0, a, 0, event);
  CHECK_STATUS(use(0, a, 3, memory, 0, 8, 0), TENON_OK);
  finding_none();
  CHECK_STATUS(use(0, a, 4, memory, 8, 8, 0), TENON_OK);
  raced(2, 4, 0, a, "must wait for ticket 2 of stream 0 of ordinal 0");
  host_close(&host);
}

TEST("with three streams, waiting for one that waited is enough, and each of the two waits is "
     "needed") {
  for (int left_out = 0; left_out < 3; left_out++) {
    if (!open_sim("")) return;
    void *a = stream_create(0);
    void *b = stream_create(0);
    void *c = stream_create(0);
    void *memory = allocate(0, 100);
    void *first = event_create(0);
    void *second = event_create(0);
    CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
    record(0, first, a);
    if (left_out != 1) follow(0, b, 0, first);
    CHECK_STATUS(use(0, b, 2, memory, 8, 8, 1), TENON_OK);
    record(0, second, b);
    if (left_out != 2) follow(0, c, 0, second);
    CHECK_STATUS(use(0, c, 3, memory, 0, 8, 1), TENON_OK);
    if (left_out)
      raced(1, 3, 0, c, "stream 3 of ordinal 0 must wait for ticket 1 of stream 1");
    else
      finding_none();
    host_close(&host);
  }
}

TEST("a copy from a peer must wait for the writer there, and must be waited for before the next "
     "write") {
  for (int left_out = 0; left_out < 3; left_out++) {
    if (!open_sim("")) return;
    void *a = stream_create(0);
    void *b = stream_create(1);
    void *from = allocate(0, 64);
    void *to = allocate(1, 64);
    void *written = event_create(0);
    void *copied = event_create(1);
    CHECK_STATUS(use(0, a, 1, from, 0, 64, 1), TENON_OK);
    record(0, written, a);
    if (left_out != 1) follow(1, b, 0, written);
    CHECK_STATUS(host_copy(&host, 1, b, 2, TENON_COPY_PEER, host_at(to, 0), host_at(from, 0), 64),
                 TENON_OK);
    if (left_out == 1) {
      raced(1, 2, 1, b, "stream 1 of ordinal 1 must wait for ticket 1 of stream 1 of ordinal 0");
    } else {
      record(1, copied, b);
      if (left_out != 2) follow(0, a, 1, copied);
      CHECK_STATUS(use(0, a, 3, from, 0, 8, 1), TENON_OK);
      if (left_out == 2)
        raced(2, 3, 0, a, "stream 1 of ordinal 0 must wait for ticket 2 of stream 1 of ordinal 1");
      else
        finding_none();
    }
    host_close(&host);
  }
}

TEST("a host that waited orders the work that it enqueues then; so do a completed query and a "
     "callback") {
  if (!open_sim("")) return;
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *event = event_create(0);
  void *memory = allocate(0, 100);
  CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(synchronize(0, a), TENON_OK);
  CHECK_STATUS(use(0, b, 2, memory, 0, 8, 1), TENON_OK);
  record(0, event, b);
  while (table->event_query(&host.on[0], event) == TENON_UNAVAILABLE)
    usleep(100);
  CHECK_STATUS(use(0, a, 3, memory, 0, 8, 1), TENON_OK);
  while (table->stream_query(&host.on[0], a, NULL) == TENON_UNAVAILABLE)
    usleep(100);
  CHECK_STATUS(use(0, b, 4, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(table->synchronize(&host.on[0]), TENON_OK);
  CHECK_STATUS(use(0, a, 5, memory, 0, 8, 1), TENON_OK);
  finding_none();
  host_close(&host);
}

TEST("reading host memory before the wait for its copy is a race, and so is copying it elsewhere") {
  if (!open_sim("delay=1000")) return;
  char bytes[32] = {0};
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *memory = allocate(0, 64);
  void *other = allocate(0, 64);
  CHECK_STATUS(table->fill(&host.on[0], a, 6, host_at(memory, 0), 32, "x", 1), TENON_OK);
  CHECK_STATUS(copy_out(0, a, 7, bytes, memory, 0, 32), TENON_OK);
  CHECK_STATUS(tests->host_access(&host.on[0], bytes + 31, 1, 0), TENON_PRECONDITION);
  CHECK_TEXT(host_text, "the host must wait for ticket 7 of stream 1 of ordinal 0");
  CHECK_STATUS(synchronize(0, a), TENON_OK);
  CHECK_STATUS(tests->host_access(&host.on[0], bytes, 32, 0), TENON_OK);
  CHECK(bytes[31] == 'x' && tests->races(&host.on[0], NULL, 0) == 1);
  CHECK_STATUS(copy_in(0, a, 8, memory, 0, bytes, 32), TENON_OK);
  /* Both only read. */
  CHECK_STATUS(tests->host_access(&host.on[0], bytes, 32, 0), TENON_OK);
  CHECK_STATUS(tests->host_access(&host.on[0], bytes, 1, 1), TENON_PRECONDITION);
  CHECK_STATUS(copy_out(0, b, 9, bytes, other, 0, 32), TENON_OK);
  CHECK(tests->races(&host.on[0], NULL, 0) == 3);
  CHECK_STATUS(synchronize(0, b), TENON_PRECONDITION);
  CHECK_TEXT(host_text, "of host memory, which copy in (ticket 8");
  host_close(&host);
}

TEST("giving back pinned memory that a copy may still use is a finding, and the memory is kept") {
  void *data = NULL;
  void *other = NULL;
  if (!open_sim("delay=500")) return;
  void *memory = allocate(0, 64);
  CHECK_STATUS(table->host_allocate(&host.on[0], 64, &data), TENON_OK);
  CHECK_STATUS(table->host_allocate(&host.on[0], 64, &other), TENON_OK);
  CHECK_STATUS(copy_out(0, NULL, 3, other, memory, 0, 64), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  table->host_free(&host.on[0], other);
  CHECK_STATUS(copy_in(0, NULL, 4, memory, 0, data, 64), TENON_OK);
  finding_none();
  table->host_free(&host.on[0], data);
  sim_finding_t found = {0};
  CHECK(tests->races(&host.on[0], &found, 1) == 1);
  CHECK_TEXT(found.text, "host_free");
  CHECK_TEXT(found.text, "the host must wait for ticket 4");
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  free(data); /* sim no longer uses it. */
  host_close(&host);
}

TEST("a replay is checked like the work that it replays") {
  if (!open_sim("")) return;
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *memory = allocate(0, 100);
  void *recording = NULL;
  CHECK_STATUS(table->record_begin(&host.on[0], a), TENON_OK);
  CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(table->record_end(&host.on[0], a, &recording), TENON_OK);
  CHECK_STATUS(use(0, b, 2, memory, 0, 8, 0), TENON_OK);
  finding_none();
  CHECK_STATUS(table->replay(&host.on[0], a, recording, 3), TENON_OK);
  raced(2, 3, 0, a, "use (ticket 3, stream 1 of ordinal 0) writes");
  host_close(&host);
}

TEST("a stream that reuses the handle of a destroyed one is not taken for it, unless the host "
     "knows its work to be done") {
  for (int way = NO_WAIT; way <= WAIT; way++) {
    if (!open_sim("")) return;
    void *a = stream_create(0);
    void *memory = allocate(0, 100);
    CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
    if (way == WAIT) CHECK_STATUS(synchronize(0, a), TENON_OK);
    table->stream_destroy(&host.on[0], a);
    usleep(5000); /* The thread ends meanwhile. */
    void *b = stream_create(0);
    CHECK_STATUS(use(0, b, 2, memory, 0, 8, 1), TENON_OK);
    if (way == WAIT)
      finding_none();
    else
      raced(1, 2, 0, b, "stream 2 of ordinal 0 must wait for ticket 1 of stream 1");
    host_close(&host);
  }
}

TEST("an ordered write hides earlier accesses only for the bytes that it overwrites") {
  for (uint64_t at = 0; at <= 16;
       /* It overwrites the first, the middle or the last part. */
       at += 8) {
    for (uint64_t begin = 0; begin <= 16; begin += 8) {
      if (!open_sim("")) return;
      void *a = stream_create(0);
      void *b = stream_create(0);
      void *memory = allocate(0, 100);
      sim_finding_t found[2] = {0};
      CHECK_STATUS(use(0, a, 1, memory, 0, 24, 1), TENON_OK);
      CHECK_STATUS(use(0, a, 2, memory, at, 8, 1), TENON_OK);
      CHECK_STATUS(use(0, b, 3, memory, begin, 8, 0), TENON_OK);
      uint64_t count = tests->races(&host.on[0], found, 2);
      CHECK(count >= 1 && found[count - 1].first.ticket == (begin == at ? 2 : 1));
      host_close(&host);
    }
  }
}

static void tell(void *argument, tenon_status_t status) { *(_Atomic int *)argument = 1 + status; }

TEST("a callback proves to the host only that earlier work is done") {
  for (int way = NO_WAIT; way <= WAIT; way++) {
    _Atomic int told = 0;
    if (!open_sim("")) return;
    void *a = stream_create(0);
    void *b = stream_create(0);
    void *memory = allocate(0, 100);
    CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
    CHECK_STATUS(table->callback(&host.on[0], a, tell, &told), TENON_OK);
    CHECK_STATUS(use(0, a, 2, memory, 8, 8, 1), TENON_OK);
    while (!told)
      usleep(100);
    CHECK_STATUS(use(0, b, 3, memory, 0, way == WAIT ? 8 : 9, 1), TENON_OK);
    if (way == WAIT)
      finding_none();
    else
      raced(2, 3, 0, b, "writes bytes 8 to 8 of memory");
    host_close(&host);
  }
}

TEST("a race that is only counted leaves both pieces, so that other pieces can race with them") {
  if (!open_sim("check=count")) return;
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *c = stream_create(0);
  void *event = event_create(0);
  void *memory = allocate(0, 100);
  sim_finding_t found[4] = {0};
  CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(use(0, b, 2, memory, 0, 8, 1), TENON_OK);
  record(0, event, b);
  follow(0, c, 0, event);
  CHECK_STATUS(use(0, c, 3, memory, 0, 8, 0), TENON_OK);
  CHECK(tests->races(&host.on[0], found, 4) == 2);
  CHECK(found[1].first.ticket == 1 && found[1].second.ticket == 3);
  host_close(&host);
}

TEST("check=count counts races and does the work") {
  if (!open_sim("check=count")) return;
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *memory = allocate(0, 100);
  for (uint64_t i = 0; i < 100; i++)
    CHECK_STATUS(use(0, i & 1 ? a : b, i, memory, 0, 8, 1), TENON_OK);
  CHECK_STATUS(table->synchronize(&host.on[0]), TENON_OK);
  sim_finding_t found[80];
  CHECK(tests->races(&host.on[0], found, 80) >= 99);
  CHECK(found[0].first.ticket == 0 && found[0].second.ticket == 1);
  host_close(&host);
}

TEST("a redundant wait is listed with the stream that waits and its target") {
  if (!open_sim("")) return;
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *c = stream_create(0);
  void *memory = allocate(0, 100);
  void *first = event_create(0);
  void *second = event_create(0);
  sim_finding_t found[4] = {0};
  CHECK_STATUS(use(0, a, 1, memory, 0, 8, 1), TENON_OK);
  record(0, first, a);
  follow(0, b, 0, first);
  CHECK_STATUS(use(0, b, 2, memory, 0, 8, 1), TENON_OK);
  record(0, second, b);
  CHECK(tests->implied_waits(&host.on[0], found, 4) == 0);
  follow(0, c, 0, first);
  follow(0, c, 0, second);
  CHECK(tests->implied_waits(&host.on[0], found, 4) == 1);
  CHECK_TEXT(found[0].text, "stream 3 of ordinal 0 waits for ticket 1 of stream 1 of ordinal 0, "
                            "and then for ticket 2 of stream 2");
  follow(0, c, 0, first);
  follow(0, b, 0, second);
  CHECK(tests->implied_waits(&host.on[0], found, 4) == 3);
  CHECK_TEXT(found[1].text, "after which its work was done anyway");
  CHECK(found[2].first.ticket == 2 && found[2].second.stream == 2);
  CHECK_STATUS(use(0, a, 4, memory, 8, 8, 1), TENON_OK);
  record(0, first, a);
  CHECK_STATUS(synchronize(0, a), TENON_OK);
  follow(0, b, 0, first); /* The host has waited already. */
  CHECK(tests->implied_waits(&host.on[0], NULL, 0) == 4);
  host_close(&host);
}
