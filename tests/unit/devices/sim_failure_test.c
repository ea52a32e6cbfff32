/* The device sim when something fails: streams stay failed and name the ticket, failures spread to
 * waiting streams, a lost ordinal does not affect the other, each kind of call fails on request,
 * and nothing is left behind. */
#include "devices/sim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitizer.h"

static tenon_status_t breaks(void *argument, void *const *addresses, char *message) {
  (void)argument;
  (void)addresses;
  snprintf(message, SIM_TEXT, "the adder overflows");
  return TENON_RANGE;
}

static tenon_status_t counts(void *argument, void *const *addresses, char *message) {
  (void)addresses;
  (void)message;
  ++**(_Atomic int **)argument;
  return TENON_OK;
}

static tenon_status_t hold(void *argument, void *const *addresses,
                           /* Stores 1, and waits for 2. */
                           char *message) {
  _Atomic int *state = *(_Atomic int **)argument;
  (void)addresses;
  (void)message;
  for (*state = 1; *state != 2;)
    usleep(100);
  return TENON_OK;
}

static tenon_status_t enqueue(int32_t ordinal, void *stream, uint64_t ticket, sim_work_fn function,
                              _Atomic int *count) {
  return tests->enqueue(&host.on[ordinal], stream, ticket, "work", function, &count, sizeof count,
                        0, NULL);
}

TEST("a failed stream stays failed, names the ticket and skips later work, and other streams "
     "continue") {
  if (!open_sim("delay=500,seed=3")) return;
  _Atomic int done = 0;
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *event = event_create(0);
  tenon_fault_t fault = {.size = sizeof fault};
  CHECK_STATUS(enqueue(0, a, 41, counts, &done), TENON_OK);
  CHECK_STATUS(enqueue(0, a, 42, breaks, NULL), TENON_OK);
  tenon_status_t after =
      /* The work is refused if the stream failed already, or is not done. */
      enqueue(0, a, 43, counts, &done);
  CHECK(after == TENON_OK || after == TENON_RANGE);
  for (int i = 0; i < 3; i++) {
    fault.ticket = 0;
    CHECK_STATUS(table->stream_synchronize(&host.on[0], a, &fault), TENON_RANGE);
    CHECK_TEXT(host_text, "work (ticket 42, stream 1 of ordinal 0): the adder overflows");
    CHECK(fault.ticket == 42);
  }
  CHECK(done == 1);
  CHECK_STATUS(table->stream_query(&host.on[0], a, &fault), TENON_RANGE);
  CHECK_STATUS(enqueue(0, a, 44, counts, &done), TENON_RANGE);
  CHECK_STATUS(table->event_record(&host.on[0], event, a), TENON_RANGE);
  CHECK_STATUS(table->synchronize(&host.on[0]), TENON_RANGE);
  CHECK_STATUS(table->synchronize(&host.on[1]), TENON_OK);
  CHECK_STATUS(enqueue(0, b, 45, counts, &done), TENON_OK);
  CHECK_STATUS(synchronize(0, b), TENON_OK);
  CHECK(done == 2);
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

TEST("a failure spreads to waiting streams of every ordinal, with the ticket of its cause, and "
     "callbacks get it") {
  if (!open_sim("delay=800,seed=5")) return;
  _Atomic int done = 0;
  told_t told = {0};
  void *a = stream_create(0);
  void *b = stream_create(0);
  void *c = stream_create(1);
  void *d = stream_create(1);
  void *first = event_create(0);
  void *second = event_create(0);
  tenon_fault_t fault = {.size = sizeof fault};
  tests->set(&host.on[0], "delay=20000");
  CHECK_STATUS(enqueue(0, a, 7, breaks, NULL), TENON_OK);
  CHECK_STATUS(table->event_record(&host.on[0], first, a), TENON_OK);
  CHECK_STATUS(table->stream_wait(&host.on[0], b, &host.on[0], first), TENON_OK);
  CHECK_STATUS(enqueue(0, b, 8, counts, &done), TENON_OK);
  CHECK_STATUS(table->event_record(&host.on[0], second, b), TENON_OK);
  CHECK_STATUS(table->stream_wait(&host.on[1], c, &host.on[0], second), TENON_OK);
  CHECK_STATUS(enqueue(1, c, 9, counts, &done), TENON_OK);
  CHECK_STATUS(table->callback(&host.on[1], c, tell, &told), TENON_OK);
  tests->set(&host.on[0], "delay=0");
  CHECK_STATUS(table->stream_synchronize(&host.on[1], c, &fault), TENON_RANGE);
  CHECK(fault.ticket == 7 && done == 0 && told.count == 1 && told.status == TENON_RANGE);
  CHECK_STATUS(table->event_query(&host.on[0], second), TENON_RANGE);
  CHECK_STATUS(table->event_synchronize(&host.on[0], first), TENON_RANGE);
  CHECK_TEXT(host_text, "ticket 7");
  CHECK_STATUS(enqueue(1, d, 10, counts, &done), TENON_OK);
  CHECK_STATUS(synchronize(1, d), TENON_OK);
  CHECK(done == 1);
  CHECK_STATUS(table->callback(&host.on[1], c, tell, &told), TENON_OK);
  while (told.count != 2)
    usleep(100);
  host_close(&host);
}

static tenon_status_t unavailable(void *argument, void *const *addresses, char *message) {
  (void)argument;
  (void)addresses;
  (void)message;
  return TENON_UNAVAILABLE;
}

TEST("work that fails as unavailable is not mistaken for unfinished work") {
  if (!open_sim("")) return;
  CHECK_STATUS(enqueue(0, NULL, 1, unavailable, NULL), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_ABORTED);
  host_close(&host);
}

TEST("the first of two failures is that of the ordinal, and with blame=0 no ticket is named") {
  tenon_device_properties_t properties = {.size = sizeof properties};
  tenon_fault_t fault = {.size = sizeof fault, .ticket = 99};
  if (!open_sim("blame=0")) return;
  void *a = stream_create(0);
  void *b = stream_create(0);
  CHECK_STATUS(table->properties(&host.on[0], &properties), TENON_OK);
  CHECK(!(properties.features & TENON_DEVICE_BLAMES));
  CHECK_STATUS(enqueue(0, b, 3, breaks, NULL), TENON_OK);
  CHECK_STATUS(table->stream_synchronize(&host.on[0], b, &fault), TENON_RANGE);
  CHECK(fault.ticket == 0);
  CHECK_STATUS(enqueue(0, a, 4, breaks, NULL), TENON_OK);
  CHECK_STATUS(synchronize(0, a), TENON_RANGE);
  CHECK_STATUS(table->synchronize(&host.on[0]), TENON_RANGE);
  CHECK_TEXT(host_text, "ticket 3");
  host_close(&host);
}

TEST("every call on a lost ordinal fails, by a setting or at once, and the other ordinal works") {
  for (int way = 0; way < 2; way++) {
    _Atomic int done = 0;
    void *memory = NULL;
    tenon_fault_t fault = {.size = sizeof fault};
    if (!open_sim(way ? "" : "lose=0:2")) return;
    void *a = stream_create(0);
    void *b = stream_create(1);
    void *mine = allocate(0, 10);
    void *event = event_create(0);
    CHECK_STATUS(enqueue(0, a, 1, counts, &done), TENON_OK);
    CHECK_STATUS(synchronize(0, a), TENON_OK);
    CHECK_STATUS(enqueue(1, b, 2, counts, &done), TENON_OK);
    if (way) {
      tests->lose(&host.on[0]);
    } else {
      CHECK_STATUS(enqueue(0, a, 3, counts, &done), TENON_OK);
      CHECK_STATUS(table->stream_synchronize(&host.on[0], a, &fault), TENON_ABORTED);
      CHECK(fault.ticket == 3);
      CHECK_TEXT(host_text, "ordinal 0 is lost, and work (ticket 3, stream 1) with it");
    }
    CHECK_STATUS(table->stream_synchronize(&host.on[0], NULL, &fault), TENON_ABORTED);
    CHECK_STATUS(table->stream_query(&host.on[0], NULL, &fault), TENON_ABORTED);
    CHECK_STATUS(table->allocate(&host.on[0], 10, &memory), TENON_ABORTED);
    CHECK_TEXT(host_text, "ordinal 0 is lost");
    CHECK_STATUS(enqueue(0, a, 4, counts, &done), TENON_ABORTED);
    CHECK_STATUS(table->synchronize(&host.on[0]), TENON_ABORTED);
    CHECK_STATUS(table->event_record(&host.on[0], event, a), TENON_ABORTED);
    table->free(&host.on[0], mine);
    table->event_destroy(&host.on[0], event);
    table->stream_destroy(&host.on[0], a);
    CHECK_STATUS(table->allocate(&host.on[1], 10, &memory), TENON_OK);
    CHECK_STATUS(enqueue(1, b, 5, counts, &done), TENON_OK);
    CHECK_STATUS(synchronize(1, b), TENON_OK);
    CHECK(done == 3);
    CHECK(tests->races(&host.on[0], NULL, 0) == 0);
    host_close(&host);
    /* After it is opened again, the ordinal works. */
    if (!open_sim("")) return;
    CHECK_STATUS(table->allocate(&host.on[0], 10, &memory), TENON_OK);
    host_close(&host);
  }
}

/* Makes one call of each kind that can be made to fail. */
static tenon_status_t call(const char *name, void *memory) {
  static _Atomic int done;
  void *out = NULL;
  tenon_on_t on = &host.on[0];
  char byte = 1;
  tenon_status_t status = TENON_OK;
  if (!strcmp(name, "allocate") && !(status = table->allocate(on, 10, &out))) table->free(on, out);
  if (!strcmp(name, "host_allocate") && !(status = table->host_allocate(on, 10, &out)))
    table->host_free(on, out);
  if (!strcmp(name, "copy"))
    status =
        host_copy(&host, 0, NULL, 1, TENON_COPY_WITHIN, host_at(memory, 0), host_at(memory, 8), 8);
  if (!strcmp(name, "fill")) status = table->fill(on, NULL, 1, host_at(memory, 0), 8, &byte, 1);
  if (!strcmp(name, "launch")) status = enqueue(0, NULL, 1, counts, &done);
  if (!strcmp(name, "stream_create") && !(status = table->stream_create(on, &out)))
    table->stream_destroy(on, out);
  if (!strcmp(name, "event_create") && !(status = table->event_create(on, &out)))
    table->event_destroy(on, out);
  tenon_status_t waited = synchronize(0, NULL);
  return status ? status : waited;
}

TEST("the n-th call of each kind fails once, with a suitable code, and changes nothing") {
  static const struct {
    const char *name;
    tenon_status_t code;
  } kinds[] = {{"allocate", TENON_MEMORY},         {"host_allocate", TENON_MEMORY},
               {"copy", TENON_UNAVAILABLE},        {"fill", TENON_UNAVAILABLE},
               {"launch", TENON_UNAVAILABLE},      {"stream_create", TENON_UNAVAILABLE},
               {"event_create", TENON_UNAVAILABLE}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    for (int n = 1; n < 4; n++) {
      char setting[64];
      uint64_t before = 0;
      uint64_t after = 0;
      if (!open_sim("")) return;
      void *memory = allocate(0, 64);
      CHECK_STATUS(table->memory_free(&host.on[0], &before), TENON_OK);
      snprintf(setting, sizeof setting, "fail=%s:%d", kinds[k].name, n);
      CHECK_STATUS(tests->set(&host.on[0], setting), TENON_OK);
      for (int i = 1; i < 7; i++)
        CHECK_STATUS(call(kinds[k].name, memory), i == n ? kinds[k].code : TENON_OK);
      CHECK_TEXT(host_text, kinds[k].name);
      CHECK_STATUS(table->memory_free(&host.on[0], &after), TENON_OK);
      CHECK(before == after);
      host_close(&host);
    }
  }
}

TEST("the n-th piece of work fails when it is done, with its ticket") {
  for (uint64_t n = 1; n < 5; n++) {
    _Atomic int done = 0;
    char setting[64];
    tenon_fault_t fault = {.size = sizeof fault};
    snprintf(setting, sizeof setting, "fault=%d,delay=200", (int)n);
    if (!open_sim(setting)) return;
    void *streams[2] = {stream_create(0), stream_create(0)};
    /* Later work in a stream is refused if the stream failed already. */
    for (uint64_t i = 1; i <= 4; i++)
      CHECK_STATUS(enqueue(0, streams[i & 1], i, counts, &done),
                   i == n + 2 ? check_found : TENON_OK);
    CHECK_STATUS(table->stream_synchronize(&host.on[0], streams[n & 1], &fault), TENON_INTERNAL);
    CHECK(fault.ticket == n);
    CHECK_TEXT(host_text, "a setting says so");
    CHECK_STATUS(table->stream_synchronize(&host.on[0], streams[!(n & 1)], &fault), TENON_OK);
    CHECK(done == (n > 2 ? 3 : 2));
    host_close(&host);
  }
}

typedef struct worker_t {
  void *memory;
  void *shared;
  uint64_t number;
} worker_t;

/* On a stream of its own, and on one that all threads share. */
static void *work(void *argument) {
  worker_t *worker = argument;
  void *stream = stream_create(0);
  void *event = event_create(0);
  for (uint64_t i = 1; i <= 50; i++) {
    unsigned char byte = (unsigned char)i;
    unsigned char out = 0;
    CHECK_STATUS(table->fill(&host.on[0], worker->shared, i,
                             host_at(worker->memory, worker->number), 1, &byte, 1),
                 TENON_OK);
    CHECK_STATUS(table->event_record(&host.on[0], event, worker->shared), TENON_OK);
    CHECK_STATUS(table->stream_wait(&host.on[0], stream, &host.on[0], event), TENON_OK);
    CHECK_STATUS(copy_out(0, stream, i, &out, worker->memory, worker->number, 1), TENON_OK);
    CHECK_STATUS(synchronize(0, stream), TENON_OK);
    CHECK(out == byte);
  }
  table->event_destroy(&host.on[0], event);
  table->stream_destroy(&host.on[0], stream);
  return NULL;
}

TEST("several threads can use sim at once, and also share one stream") {
  enum { THREADS = 6 };
  pthread_t threads[THREADS];
  worker_t workers[THREADS];
  if (!open_sim("delay=50")) return;
  void *memory = allocate(0, 64);
  void *shared = stream_create(0);
  for (uint64_t i = 0; i < THREADS; i++) {
    workers[i] = (worker_t){memory, shared, i};
    CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  finding_none();
  host_close(&host);
}

/* 0: unknown, since a sanitizer has mappings of its own. */
static int mappings(void) {
#ifdef IS_INSTRUMENTED
  return 0;
#endif
  FILE *file = fopen("/proc/self/maps", "r");
  int count = 0;
  for (int c; file && (c = fgetc(file)) != EOF;)
    count += c == '\n';
  if (file) fclose(file);
  return count;
}

static long resident(void) { /* pages; 0 as above */
#ifdef IS_INSTRUMENTED
  return 0;
#endif
  long all = 0;
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%ld %ld", &all, &pages) != 2) pages = -1;
  if (file) fclose(file);
  return pages;
}

TEST("1,000 starts, uses and stops leave no thread, file, mapping or memory, also if not all was "
     "given back") {
  int maps = 0;
  int open_files = 0;
  long pages = 0;
  int64_t threads = host_threads();
  for (int i = 0; i < 1000; i++) {
    char out[8];
    void *recording = NULL;
    if (!open_sim(i & 1 ? "handles=1" : "")) return;
    void *a = stream_create(0);
    void *b = stream_create(1);
    void *event = event_create(0);
    void *memory = allocate(0, 1000);
    void *other = allocate(1, 10);
    CHECK_STATUS(table->fill(&host.on[0], a, 1, host_at(memory, 0), 8, "a", 1), TENON_OK);
    CHECK_STATUS(table->event_record(&host.on[0], event, a), TENON_OK);
    CHECK_STATUS(table->stream_wait(&host.on[1], b, &host.on[0], event), TENON_OK);
    CHECK_STATUS(
        host_copy(&host, 1, b, 2, TENON_COPY_PEER, host_at(other, 0), host_at(memory, 0), 8),
        TENON_OK);
    CHECK_STATUS(copy_out(1, b, 3, out, other, 0, 8), TENON_OK);
    CHECK_STATUS(table->record_begin(&host.on[0], NULL), TENON_OK);
    CHECK_STATUS(table->fill(&host.on[0], NULL, 1, host_at(memory, 0), 8, "a", 1), TENON_OK);
    if (i & 2) CHECK_STATUS(table->record_end(&host.on[0], NULL, &recording), TENON_OK);
    if (i & 4) table->free(&host.on[0], memory);
    host_close(&host);
    CHECK(!memcmp(out, "aaaaaaaa", 8)); /* stop waits for the copy */
    CHECK(host_threads_are(threads));
    if (i == 20) {
      maps = mappings();
      open_files = files();
      pages = resident();
    }
  }
  CHECK(mappings() <= maps + 3 && files() == open_files);
  CHECK(resident() <= pages + 64);
}

TEST("as shared objects sim and null export one function, and are loaded, used and unloaded 1,000 "
     "times without growth") {
  static const char *const names[] = {TEST_LIBRARIES "/../../devices/sim.so",
                                      TEST_LIBRARIES "/../../devices/null.so"};
  int maps = 0;
  int open_files = 0;
  long pages = 0;
  for (int i = 0; i < 2000; i++) {
    const tenon_descriptor_t *(*entry)(void);
    host_t theirs;
    void *memory = NULL;
    void *library = dlopen(names[i & 1], RTLD_NOW | RTLD_LOCAL);
    if (!CHECK(library != NULL)) return;
    void *symbol = dlsym(library, "tenon_library");
    if (!CHECK(symbol != NULL && !dlsym(library, "sim_lock") && !dlsym(library, "null_copy")))
      return;
    memcpy(&entry, &symbol, sizeof entry);
    if (!CHECK_STATUS(host_open(entry(), "", &theirs), TENON_OK)) return;
    CHECK_STATUS(theirs.table->allocate(&theirs.on[1], 100, &memory), TENON_OK);
    CHECK_STATUS(theirs.table->fill(&theirs.on[1], NULL, 1, host_at(memory, 0), 100, "a", 1),
                 TENON_OK);
    host_close(&theirs);
    CHECK(!dlclose(library));
    CHECK(!dlopen(names[i & 1], RTLD_NOW | RTLD_NOLOAD));
    if (i == 20) {
      maps = mappings();
      open_files = files();
      pages = resident();
    }
  }
  CHECK(mappings() <= maps + 3 && files() == open_files && resident() <= pages + 64);
  /* sim watched for forks before, and no longer does. */
  pid_t child = fork();
  if (!child) _exit(0);
  int state = -1;
  CHECK(waitpid(child, &state, 0) == child && state == 0);
}

TEST("in a child of fork, idle streams work, pending work is lost, and memory belongs to the "
     "child") {
#ifdef HAS_TSAN
  SKIP("the thread sanitizer starts no threads after a fork");
#endif
  _Atomic int state_of_work = 0;
  _Atomic int *holds = &state_of_work;
  char out = 0;
  if (!open_sim("")) return;
  void *idle = stream_create(0);
  void *busy = stream_create(0);
  void *memory = allocate(0, 10);
  void *event = event_create(0);
  CHECK_STATUS(table->fill(&host.on[0], idle, 1, host_at(memory, 0), 10, "p", 1), TENON_OK);
  CHECK_STATUS(synchronize(0, idle), TENON_OK);
  CHECK_STATUS(enqueue(0, busy, 2, hold, holds), TENON_OK);
  CHECK_STATUS(table->event_record(&host.on[0], event, busy), TENON_OK);
  while (*holds != 1)
    usleep(100);
  pid_t child = fork();
  if (!child) {
    tenon_fault_t fault = {.size = sizeof fault};
    alarm(20);
    int bad = 0;
    for (int i = 0; i < 2; i++)
      bad |= table->forked(&host.on[i]) != TENON_OK;
    bad |=
        (table->stream_synchronize(&host.on[0], busy, &fault) != TENON_ABORTED || fault.ticket != 2)
        << 1;
    bad |= (table->event_synchronize(&host.on[0], event) != TENON_ABORTED) << 5;
    bad |= (copy_out(0, idle, 3, &out, memory, 0, 1) || synchronize(0, idle) || out != 'p') << 2;
    bad |=
        (table->fill(&host.on[0], idle, 4, host_at(memory, 0), 10, "c", 1) || synchronize(0, idle))
        << 3;
    host_close(&host);
    bad |= !host_threads_are(1) << 4;
    _exit(bad);
  }
  int state = -1;
  CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state));
  CHECK(WEXITSTATUS(state) == 0);
  *holds = 2;
  CHECK_STATUS(synchronize(0, busy), TENON_OK);
  CHECK_STATUS(copy_out(0, idle, 5, &out, memory, 0, 1), TENON_OK);
  CHECK_STATUS(synchronize(0, idle), TENON_OK);
  CHECK(out == 'p');
  host_close(&host);
}
