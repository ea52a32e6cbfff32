/* Cases about start and stop, loading and unloading, and fork. Each runs in its own process. */
#include "groups.h"
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Starts the ordinal, copies in and out, and stops it. */
static void use(int32_t ordinal) {
  must(start(ordinal), "start of ordinal %d", ordinal);
  tenon_on_t on = &rig.contexts[ordinal];
  void *memory = filled(on, 5000, 5);
  void *stream = HAS_STREAMS ? must_stream(on) : NULL;
  void *event = HAS_EVENTS ? must_event(on) : NULL;
  must_within(on, stream, memory, 2500, memory, 0, 2500);
  if (event) {
    must_record(on, event, stream);
    must_event_pass(on, event);
    must_event_destroy(on, event);
  }
  must_pass(on, stream);
  expect_holds(on, memory, 2500, 2500, 5, 0, 0, "a copy on ordinal %d", ordinal);
  if (stream) must_stream_destroy(on, stream);
  must_free(on, memory);
}

static void starts(tenon_on_t on) {
  (void)on;
  enumerate();
  for (int i = 0; i < (rig.quick ? 3 : 20); i++)
    for (int32_t k = 0; k < rig.count; k++) {
      use(k);
      stop(k);
    }
}

static void one_alone(tenon_on_t on) { /* the last ordinal, while the others were never started */
  (void)on;
  enumerate();
  use(rig.count - 1);
  stop(rig.count - 1);
}

static void beside(tenon_on_t on) {
  (void)on;
  if (enumerate() < 2) skip_case("the device has only one ordinal");
  for (int i = 0; i < 4; i++) {
    use(0);
    use(1);
    stop(i % 2);
    use(1 - i % 2); /* continues to work */
    stop(1 - i % 2);
  }
}

static void waits(tenon_on_t on) {
  enumerate();
  on = &rig.contexts[0];
  for (int round = 0; round < rig.rounds; round++) {
    uint8_t *to = host_new(20000);
    must(start(0), "start of ordinal 0");
    void *stream = must_stream(on);
    void *x = filled(on, 20000, 5);
    void *scratch = filled(on, 4000000, 1);
    pattern(to, 20000, POISON, 0);
    for (int i = 0; i < 60; i++)
      must_within(on, stream, scratch, 2000000, scratch, 0, 2000000);
    must_out(on, stream, to, x, 0, 20000);
    stop(0);
    expect_pattern(to, 20000, 5, 0, POISON,
                   "host memory after copy(OUT) and stop (does stop wait for all work?)");
    free(to);
  }
}

static void left_over(tenon_on_t on) { /* streams, events and memory that were not destroyed */
  enumerate();
  on = &rig.contexts[0];
  for (int round = 0; round < 5; round++) {
    must(start(0), "start of ordinal 0");
    for (int i = 0; i < 5; i++) {
      void *memory = filled(on, 100000, 5);
      if (HAS_STREAMS) must_within(on, must_stream(on), memory, 50000, memory, 0, 50000);
      if (HAS_EVENTS) must_record(on, must_event(on), NULL);
    }
    stop(0);
  }
  use(0);
  stop(0);
}

static void context_kept(tenon_on_t on) {
  enumerate();
  on = &rig.contexts[0];
  for (int i = 0; i < 2; i++) {
    if (i == 0)
      use(0);
    else
      stop(0);
    EXPECT(on->size == sizeof *on && on->phase == TENON_PHASE_DEVICE && on->host == &host &&
               on->device.type == rig.table->type && on->device.id == 0 && on->ordinal == 0 &&
               on->settings,
           "the device changed the context: it may set only the fields plugin (in enumerate) and "
           "state (in start)");
  }
}

static void *use_in_thread(void *argument) {
  use(0);
  return argument;
}
static void *stop_in_thread(void *argument) {
  stop(0);
  return argument;
}
static void other_threads(tenon_on_t on) {
  (void)on;
  enumerate();
  for (int i = 0; i < 5; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, use_in_thread, NULL))
      skip_case("the system cannot create a thread");
    pthread_join(thread, NULL);
    use(0);
    if (pthread_create(&thread, NULL, stop_in_thread, NULL))
      skip_case("the system cannot create a thread");
    pthread_join(thread, NULL);
  }
}

static int64_t entries(const char *path) {
  DIR *folder = opendir(path);
  int64_t count = 0;
  while (folder && readdir(folder))
    count++;
  if (folder) closedir(folder);
  return count;
}

static int64_t pages(void) {
  long long all = 0;
  long long resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%lld %lld", &all, &resident) != 2) resident = 0;
  if (file) fclose(file);
  return resident;
}

typedef struct usage_t {
  int64_t threads;
  int64_t files;
  int64_t heap;
  int64_t resident;
} usage_t;

static usage_t usage(void) {
  struct mallinfo2 m = mallinfo2();
  return (usage_t){entries("/proc/self/task"), entries("/proc/self/fd"),
                   (int64_t)(m.uordblks + m.hblkhd), pages() * sysconf(_SC_PAGESIZE)};
}

/* After ten rounds of warming up, the test measures windows of many rounds: a number that grows in
 * each of them is a leak. Work that the device does later (ending threads, reusing memory) makes
 * the numbers go up and down, so a window counts only from 1500 bytes on. Pools that fill up to a
 * limit do so within thousands of rounds; only a device that keeps growing gets that many. */
static void expect_no_growth(void (*body)(void), const char *what) {
  enum { MOST = 24 };
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < 10; i++)
    body();
  clock_gettime(CLOCK_MONOTONIC, &to);
  int64_t each = ((int64_t)(to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) / 10;
  int few = rig.quick ? 40 : 170;
  if (each > 10000000) few = 10;
  int windows = 0;
  int threads = 0;
  int files = 0;
  int bytes = 0;
  int all = 10;
  usage_t before = usage();
  usage_t is = before;
  for (; windows < MOST; windows++, before = is) {
    if (windows >= (rig.quick ? 2 : 6) && threads < windows && files < windows && bytes < windows)
      return;
    if (threads == 6 || files == 6) break; /* threads and files are not pooled */
    int rounds = windows < MOST / 2 ? few : 4 * few;
    int heap = 16 * rounds > 1500 ? 16 * rounds : 1500;
    for (int i = 0; i < rounds; i++)
      body();
    all += rounds;
    for (int i = 0; i < 300; i++) { /* joined threads may take a moment to disappear */
      doing("counting the remaining threads");
      is = usage();
      if (is.threads <= before.threads) break;
      nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    threads += is.threads >= before.threads + rounds;
    files += is.files >= before.files + rounds;
/* Sanitizers keep freed memory. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    bytes += is.heap >= before.heap + heap ||
             is.resident >= before.resident + sysconf(_SC_PAGESIZE) * rounds;
#endif
  }
  EXPECT(threads < windows, "%s leaves threads behind: %lld after %d rounds", what,
         (long long)is.threads, all);
  EXPECT(files < windows, "%s leaves file descriptors open: %lld after %d rounds", what,
         (long long)is.files, all);
  EXPECT(bytes < windows,
         "%s leaks host memory: %lld bytes of heap and %lld resident after %d rounds, growing all "
         "the time",
         what, (long long)is.heap, (long long)is.resident, all);
}

static void start_stop(void) {
  for (int32_t k = 0; k < rig.count && k < 2; k++)
    use(k);
  for (int32_t k = 0; k < rig.count && k < 2; k++)
    stop(k);
}
static void start_stop_grows(tenon_on_t on) {
  (void)on;
  enumerate();
  expect_no_growth(start_stop, "start, use and stop");
}

static void *growing;
static void make_and_destroy(void) {
  tenon_on_t on = &rig.contexts[0];
  void *memory = filled(on, 3000, 5);
  void *stream = HAS_STREAMS ? must_stream(on) : NULL;
  must_within(on, stream, memory, 1500, memory, 0, 1500);
  if (HAS_EVENTS) {
    void *event = must_event(on);
    must_record(on, event, stream);
    must_record(on, event, stream);
    must_wait(on, NULL, on, event);
    must_event_destroy(on, event);
  }
  if (HAS_RECORD && stream) {
    must(rig.table->record_begin(on, stream), "record_begin");
    must_within(on, stream, memory, 1500, memory, 0, 1500);
    must(rig.table->record_end(on, stream, &growing), "record_end");
    must(rig.table->replay(on, stream, growing, 1), "replay");
    must_pass(on, stream);
    rig.table->recording_free(on, growing);
  }
  if (stream) must_stream_destroy(on, stream);
  must_free(on, memory);
  must_finish(on);
}
static void objects_grow(tenon_on_t on) {
  (void)on;
  enumerate();
  must(start(0), "start of ordinal 0");
  expect_no_growth(make_and_destroy,
                   "making, using and destroying memory, streams, events and recordings");
}

static void load_and_unload(void) {
  void *library = dlopen(rig.options->library, RTLD_NOW | RTLD_LOCAL);
  const tenon_descriptor_t *(*query)(void) = NULL;
  const tenon_device_table_t *tables[16];
  if (library) *(void **)&query = dlsym(library, "tenon_library");
  if (!query) finding("the library cannot be loaded again: %s", dlerror());
  uint32_t count = conformance_device_tables(query()->items, tables, 16);
  EXPECT(count, "the library has no device after it is loaded again");
  rig.table = tables[0];
  free(rig.contexts);
  enumerate();
  start_stop();
  dlclose(library);
}
static void unload_grows(tenon_on_t on) {
  (void)on;
  void *library = dlopen(rig.options->library, RTLD_NOW | RTLD_NOLOAD);
  if (library) {
    /* The process holds two references to the library. */
    dlclose(library);
    dlclose(library);
  }
  expect_no_growth(load_and_unload, "loading, use and unloading");
}

static void after_fork(tenon_on_t on) {
  (void)on;
  enumerate();
  use(0);
  fflush(NULL);
  pid_t process = fork();
  if (process < 0) skip_case("the system cannot create a process");
  if (process == 0) {
    doing("forked() in the child after a fork");
    hush();
    tenon_status_t status = rig.table->forked(&rig.contexts[0]);
    EXPECT(status == TENON_OK || strcmp(said(), "(no message by tenon_fail)") != 0,
           "forked fails in the child without a message by tenon_fail");
    if (status != TENON_OK)
      skip_case("forked reports that the device cannot be used in the child: %s", said());
    use(0);
    _exit(7);
  }
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    sched_yield();
  /* The child has reported a finding. */
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) _exit(0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7,
         "the child after a fork crashes when it uses the device after forked: signal %d",
         WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  use(0);
  stop(0);
}

#define ALONE_ (PLUGIN | ALONE)
const case_t lifecycle_cases[] = {
    {"lifecycle.starts", "Each ordinal is started, used and stopped twenty times.", ALONE_, starts},
    {"lifecycle.one_alone", "An ordinal works if the others were never started.", ALONE_,
     one_alone},
    {"lifecycle.beside", "An ordinal continues to work when another is stopped.", ALONE_, beside},
    {"lifecycle.waits", "stop waits for all work.", ALONE_ | NEEDS_STREAMS, waits},
    {"lifecycle.left_over", "stop releases streams, events and memory that were not destroyed.",
     ALONE_, left_over},
    {"lifecycle.context_kept", "The device changes only its own fields of the context.", ALONE_,
     context_kept},
    {"lifecycle.other_threads", "start, use and stop work on different threads.", ALONE_,
     other_threads},
    {"lifecycle.start_stop_grows",
     "Starting, using and stopping a thousand times leaves no memory, threads or files behind.",
     ALONE_, start_stop_grows},
    {"lifecycle.objects_grow",
     "Memory, streams, events and recordings leave nothing behind after they are destroyed.",
     ALONE_, objects_grow},
    {"lifecycle.unload_grows",
     "The library is loaded, used and unloaded a thousand times without growth.",
     ALONE_ | NEEDS_LIBRARY, unload_grows},
    {"lifecycle.fork",
     "After a fork the device works in the child, or forked explains why not; in the parent it "
     "continues to work.",
     ALONE_ | NEEDS_FORK, after_fork},
    {0}};
