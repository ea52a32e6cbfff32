/* Memory of the device sim, which the host cannot access, and copies. */
#include "devices/sim.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sanitizer.h"

static sigjmp_buf touched;
static void touch(int number) {
  (void)number;
  siglongjmp(touched, 1);
}

/* Does reading this address end the process? */
static bool faults(const volatile char *at) {
  struct sigaction action = {.sa_handler = touch};
  struct sigaction segv, bus;
  sigaction(SIGSEGV, &action, &segv);
  sigaction(SIGBUS, &action, &bus);
  bool fault = sigsetjmp(touched, 1) != 0;
  if (!fault) (void)*at;
  sigaction(SIGSEGV, &segv, NULL);
  sigaction(SIGBUS, &bus, NULL);
  return fault;
}

typedef struct probe_t {
  const volatile char *at;
  _Atomic int *state; /* 1: the work runs; 2: it may end */
} probe_t;

static tenon_status_t hold(void *argument, void *const *addresses, char *message) {
  probe_t *probe = argument;
  (void)message;
  *(char *)addresses[0] = 7;
  *probe->state = 1;
  while (*probe->state != 2)
    usleep(100);
  return *(char *)addresses[0] == 7 ? TENON_OK : TENON_INTERNAL;
}

TEST("the host can never access memory that the device hands out, also while a kernel runs") {
  if (!open_sim("")) return;
  _Atomic int state = 0;
  char *memory = allocate(0, 10000);
  char value = 0;
  CHECK_STATUS(copy_out(0, NULL, 1, &value, memory, 5000, 1), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  CHECK(value == (char)0xff); /* Memory that was never written is not zero. */
  probe_t probe = {memory, &state};
  sim_range_t range = {host_at(memory, 0), 1, 1, 0};
  CHECK(faults(memory) && faults(memory + 9999));
  for (int pages = -200; pages < 200; pages += 7)
    CHECK(faults(memory + 4096 * pages)); /* The pages around it fault, too. */
  CHECK_STATUS(tests->enqueue(&host.on[0], NULL, 1, "hold", hold, &probe, sizeof probe, 1, &range),
               TENON_OK);
  while (state != 1)
    usleep(100);
  CHECK(faults(memory));
  state = 2;
  CHECK_STATUS(copy_out(0, NULL, 2, &value, memory, 0, 1), TENON_OK);
  CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  CHECK(value == 7);
  table->free(&host.on[0], memory);
  CHECK(faults(memory));
  CHECK(tests->races(&host.on[0], NULL, 0) == 0);
  host_close(&host);
}

/* Does a child process that runs this function end as it should? */
static bool survives(void (*run)(void)) {
  int state = -1;
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    if (!freopen("/dev/null", "w", stderr)) _exit(2);
    run();
    _exit(0);
  }
  return waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

static int64_t overrun; /* in bytes from the start of its range */
static tenon_status_t overruns(void *argument, void *const *addresses, char *message) {
  (void)argument;
  (void)message;
  ((volatile char *)addresses[0])[overrun] = 1;
  return TENON_OK;
}
static void overrun_run(void) {
  if (!open_sim("")) return;
  sim_range_t range = {host_at(allocate(0, 4096), 0), 4096, 1, 0};
  tests->enqueue(&host.on[0], NULL, 1, "overruns", overruns, NULL, 0, 1, &range);
  synchronize(0, NULL);
}
static void race_run(void) {
  if (!open_sim("check=abort")) return;
  void *memory = allocate(0, 8);
  table->fill(&host.on[0], NULL, 1, host_at(memory, 0), 8, "a", 1);
  table->fill(&host.on[0], stream_create(0), 2, host_at(memory, 0), 8, "b", 1);
}

TEST("a kernel that leaves its allocation ends the process, and so does a race with check=abort") {
#ifdef HAS_TSAN
  SKIP("the thread sanitizer starts no threads after a fork");
#endif
  overrun = 4095;
  CHECK(survives(overrun_run));
  overrun = 4096;
  CHECK(!survives(overrun_run));
  overrun = -1;
  CHECK(!survives(overrun_run));
  CHECK(!survives(race_run));
}

TEST("bytes survive copies in and out: with both kinds of handles, at offsets, overlapping, from a "
     "peer") {
  for (int handles = 0; handles < 2; handles++) {
    tenon_device_properties_t properties = {.size = sizeof properties};
    char in[256], out[256], expected[256];
    if (!open_sim(handles ? "handles=1" : "handles=0")) return;
    CHECK_STATUS(table->properties(&host.on[0], &properties), TENON_OK);
    CHECK((properties.features & TENON_DEVICE_ADDRESSES) == (handles ? 0 : TENON_DEVICE_ADDRESSES));
    for (int i = 0; i < 256; i++)
      in[i] = (char)(i * 7);
    char *a = allocate(0, 300);
    char *b = allocate(1, 300);
    if (handles) CHECK((uintptr_t)a < 1000 && a != b);
    CHECK_STATUS(copy_in(0, NULL, 1, a, 40, in, 256), TENON_OK);
    CHECK_STATUS(
        host_copy(&host, 0, NULL, 2, TENON_COPY_WITHIN, host_at(a, 45), host_at(a, 40), 200),
        TENON_OK);
    CHECK_STATUS(synchronize(0, NULL), TENON_OK);
    CHECK_STATUS(host_copy(&host, 1, NULL, 3, TENON_COPY_PEER, host_at(b, 3), host_at(a, 40), 256),
                 TENON_OK);
    CHECK_STATUS(table->fill(&host.on[1], NULL, 4, host_at(b, 3), 8, "\1\2\3\4", 4), TENON_OK);
    CHECK_STATUS(copy_out(1, NULL, 5, out, b, 3, 256), TENON_OK);
    CHECK_STATUS(synchronize(1, NULL), TENON_OK);
    memcpy(expected, in, 256);
    memcpy(expected + 5, in, 200);
    memcpy(expected, "\1\2\3\4\1\2\3\4", 8);
    CHECK(!memcmp(out, expected, 256));
    CHECK(tests->races(&host.on[0], NULL, 0) == 0);
    host_close(&host);
  }
}

TEST("overlapping copies within one memory work as memmove, in both directions") {
  enum { N = 200000 };
  static unsigned char in[N], out[N], expected[N];
  if (!open_sim("")) return;
  void *memory = allocate(0, N);
  for (int i = 0; i < N; i++)
    in[i] = (unsigned char)(i * 31 >> 3);
  for (int shift = -1000; shift <= 1000; shift += 200) {
    uint64_t from = shift < 0 ? (uint64_t)-shift : 0;
    uint64_t to = shift > 0 ? (uint64_t)shift : 0;
    uint64_t bytes = N - (from > to ? from : to);
    memcpy(expected, in, N);
    memmove(expected + to, expected + from, bytes);
    CHECK_STATUS(copy_in(0, NULL, 1, memory, 0, in, N), TENON_OK);
    CHECK_STATUS(host_copy(&host, 0, NULL, 2, TENON_COPY_WITHIN, host_at(memory, to),
                           host_at(memory, from), bytes),
                 TENON_OK);
    CHECK_STATUS(copy_out(0, NULL, 3, out, memory, 0, N), TENON_OK);
    CHECK_STATUS(synchronize(0, NULL), TENON_OK);
    CHECK(!memcmp(out, expected, N));
  }
  host_close(&host);
}

TEST("host memory is read when the stream reaches a copy, and the copy fails if the host changed "
     "it meanwhile") {
  enum { N = 37 };
  for (int changed = -1; changed < N; changed += 4) {
    char in[N] = {0};
    char out[N];
    _Atomic int state = 0;
    tenon_fault_t fault = {.size = sizeof fault};
    if (!open_sim("")) return;
    char *memory = allocate(0, 64);
    probe_t probe = {memory, &state};
    sim_range_t range = {host_at(memory, 63), 1, 1, 0};
    CHECK_STATUS(
        tests->enqueue(&host.on[0], NULL, 1, "hold", hold, &probe, sizeof probe, 1, &range),
        TENON_OK);
    CHECK_STATUS(copy_in(0, NULL, 2, memory, 0, in, N), TENON_OK);
    CHECK_STATUS(copy_out(0, NULL, 3, out, memory, 0, N), TENON_OK);
    CHECK_STATUS(copy_in(0, NULL, 4, memory, 0, out, N),
                 /* The copy before it writes its source, in order. */
                 TENON_OK);
    while (state != 1)
      usleep(100);
    if (changed >= 0) in[changed] = 1;
    state = 2;
    CHECK_STATUS(table->stream_synchronize(&host.on[0], NULL, &fault),
                 changed < 0 ? TENON_OK : TENON_PRECONDITION);
    if (changed >= 0) CHECK_TEXT(host_text, "were changed before the stream came to their copy");
    CHECK(changed < 0 ? !memcmp(in, out, N) : fault.ticket == 2);
    host_close(&host);
  }
}

TEST("a captured copy reads the current host memory at each replay") {
  char in = 1;
  char out[2];
  void *recording = NULL;
  if (!open_sim("")) return;
  void *memory = allocate(0, 8);
  CHECK_STATUS(table->record_begin(&host.on[0], NULL), TENON_OK);
  CHECK_STATUS(copy_in(0, NULL, 1, memory, 0, &in, 1), TENON_OK);
  CHECK_STATUS(table->record_end(&host.on[0], NULL, &recording), TENON_OK);
  for (int i = 0; i < 2; i++) {
    in = (char)(i + 5);
    CHECK_STATUS(table->replay(&host.on[0], NULL, recording, 2), TENON_OK);
    CHECK_STATUS(copy_out(0, NULL, 3, &out[i], memory, 0, 1), TENON_OK);
    CHECK_STATUS(synchronize(0, NULL), TENON_OK);
  }
  CHECK(out[0] == 5 && out[1] == 6);
  host_close(&host);
}

TEST("without peers a copy between ordinals is refused, and so is a wrong copy or fill") {
  char byte = 0;
  if (!open_sim("peers=0")) return;
  void *a = allocate(0, 64);
  void *b = allocate(1, 64);
  CHECK(table->peers(&host.on[1], &host.on[0]) == 0);
  CHECK_STATUS(host_copy(&host, 1, NULL, 1, TENON_COPY_PEER, host_at(b, 0), host_at(a, 0), 64),
               TENON_INVALID);
  CHECK_TEXT(host_text, "ask peers() first");
  CHECK_STATUS(tests->set(&host.on[0], "peers=1"), TENON_OK);
  CHECK(table->peers(&host.on[1], &host.on[0]) == 1);
  CHECK_STATUS(host_copy(&host, 1, NULL, 1, TENON_COPY_PEER, host_at(b, 0), host_at(a, 0), 64),
               TENON_OK);
  CHECK_STATUS(host_copy(&host, 0, NULL, 1, 5, host_at(a, 0), host_at(a, 0), 64), TENON_INVALID);
  CHECK_STATUS(host_copy(&host, 0, NULL, 1, TENON_COPY_WITHIN, host_at(a, 0), host_at(a, 0), 0),
               TENON_INVALID);
  CHECK_STATUS(copy_in(0, NULL, 1, a, 0, NULL, 8), TENON_INVALID);
  CHECK_STATUS(table->fill(&host.on[0], NULL, 1, host_at(a, 0), 8, &byte, 3), TENON_INVALID);
  CHECK_STATUS(table->fill(&host.on[0], NULL, 1, host_at(a, 0), 9, "abcd", 4), TENON_INVALID);
  host_close(&host);
}

TEST("a destroyed handle is recognised, unless a setting makes handles be reused") {
  for (int reuse = 0; reuse < 2; reuse++) {
    if (!open_sim(reuse ? "reuse=1" : "")) return;
    void *old = event_create(0);
    table->event_destroy(&host.on[0], old);
    void *young = event_create(0);
    CHECK((old == young) == reuse);
    CHECK_STATUS(table->event_query(&host.on[0], old), reuse ? TENON_OK : TENON_INVALID);
    table->event_destroy(&host.on[0], old); /* Destroying it again is not an error. */
    CHECK_STATUS(table->event_query(&host.on[0], young), reuse ? TENON_INVALID : TENON_OK);
    CHECK_STATUS(table->event_query(&host.on[1], young), TENON_INVALID);
    host_close(&host);
  }
}

TEST("an argument that is not memory, belongs to another ordinal, or is too short is refused by "
     "name") {
  static const char *const settings[] = {"", "handles=1"};
  for (int i = 0; i < 2; i++) {
    char bytes[64] = {0};
    if (!open_sim(settings[i])) return;
    char *a = allocate(0, 5000);
    char *b = allocate(1, 5000);
    CHECK_STATUS(copy_in(0, NULL, 1, bytes, 0, bytes, 1), TENON_INVALID);
    CHECK_TEXT(host_text, "is not memory of sim");
    CHECK_STATUS(copy_in(0, NULL, 1, b, 0, bytes, 1), TENON_INVALID);
    CHECK_TEXT(host_text, "which is of ordinal 1");
    CHECK_STATUS(copy_in(0, NULL, 1, a, 8190, bytes, 3), TENON_INVALID);
    CHECK_TEXT(host_text, "3 bytes from offset 8190 of memory");
    CHECK_STATUS(copy_in(0, NULL, 1, a, UINT64_MAX, bytes, 3), TENON_INVALID);
    table->free(&host.on[0], a);
    CHECK_STATUS(copy_in(0, NULL, 1, a, 0, bytes, 1), TENON_INVALID);
    CHECK_TEXT(host_text, "after it was freed");
    CHECK(tests->races(&host.on[0], NULL, 0) == 1);
    table->free(&host.on[0], a);
    CHECK(tests->races(&host.on[0], NULL, 0) == 2);
    host_close(&host);
  }
}

TEST("work that uses freed memory is completed first") {
  if (!open_sim("delay=3000,seed=4")) return;
  char in[100];
  char out[100] = {0};
  memset(in, 42, sizeof in);
  for (int i = 0; i < 5; i++) {
    char *a = allocate(0, 100);
    CHECK_STATUS(copy_in(0, NULL, 1, a, 0, in, 100), TENON_OK);
    CHECK_STATUS(copy_out(0, NULL, 2, out, a, 0, 100), TENON_OK);
    table->free(&host.on[0], a);
    CHECK_STATUS(synchronize(0, NULL), TENON_OK);
    CHECK(!memcmp(in, out, 100));
    memset(out, 0, sizeof out);
  }
  CHECK(tests->races(&host.on[0], NULL, 0) == 0);
  host_close(&host);
}

TEST("an ordinal has as much memory as the setting says, and freed memory is available again") {
  if (!open_sim("memory=65536")) return;
  void *a, *b;
  uint64_t left = 0;
  CHECK_STATUS(table->allocate(&host.on[0], 40000, &a), TENON_OK);
  CHECK_STATUS(table->allocate(&host.on[0], 40000, &b), TENON_MEMORY);
  CHECK_TEXT(host_text, "of 65536 bytes left, 40000 were asked for");
  CHECK_STATUS(table->allocate(&host.on[1], 40000, &b), TENON_OK);
  CHECK_STATUS(table->memory_free(&host.on[0], &left), TENON_OK);
  CHECK(left == 65536 - 40960);
  table->free(&host.on[0], a);
  CHECK_STATUS(table->memory_free(&host.on[0], &left), TENON_OK);
  CHECK(left == 65536);
  CHECK_STATUS(table->allocate(&host.on[0], 65536, &a), TENON_OK);
  CHECK_STATUS(table->allocate(&host.on[0], UINT64_MAX, &b), TENON_MEMORY);
  CHECK_STATUS(table->allocate(&host.on[0], 0, &b), TENON_INVALID);
  host_close(&host);
}
