/* devices/opencl: the devices that it finds, memory, external objects, and processes. */
#include "opencl.h"

#include "sanitizer.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* devices that are found */

/* Runs a function in a child process that has not opened the driver, and returns its result. */
static int in_child(int (*run)(void)) {
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(run());
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int no_driver(void) {
  char folder[] = "/tmp/tenon-vendors-XXXXXX";
  int32_t count = 0;
  if (!mkdtemp(folder)) return 2;
  setenv("OCL_ICD_VENDORS", folder, 1);
  cl = host_table(tenon_library_opencl());
  all = host_context(-1, NULL, "");
  int failures = 0;
  for (int i = 0; i < 2; i++) { /* A second query is allowed. */
    failures += !CHECK_STATUS(cl->enumerate(&all, &count), TENON_UNAVAILABLE);
    failures += !CHECK_TEXT(
        host_message(),
        "the loader found no driver (CL_PLATFORM_NOT_FOUND_KHR) in /tmp/tenon-vendors-");
    failures += !CHECK_TEXT(host_message(), "on Debian pocl-opencl-icd");
  }
  rmdir(folder);
  return failures;
}

static int no_loader(void) { /* No loader can be opened. */
  struct rlimit few = {0, 0};
  int32_t count = 0;
  setrlimit(RLIMIT_NOFILE, &few);
  cl = host_table(tenon_library_opencl());
  all = host_context(-1, NULL, "");
  int failures = !CHECK_STATUS(cl->enumerate(&all, &count), TENON_UNAVAILABLE);
  failures += !CHECK_TEXT(host_message(), "there is no loader of OpenCL drivers (libOpenCL.so.1");
  failures += !CHECK_TEXT(host_message(), "ocl-icd-libopencl1");
  return failures;
}

/* tests/libraries/opencl has the name of the real loader. */
static int several_drivers(void) {
  static const char *const names[] = {"a gpu of alpha of Alpha", "a gpu of Beta",
                                      "an accelerator of Beta", "a processor of Alpha"};
  static const char *const declined[] = {
      "Alpha: old: it has \"OpenCL 1.1 alpha\", and OpenCL 1.2 is needed",
      "Alpha: big: it is big-endian", "Beta: mute: its driver has no compiler",
      "Beta: away: its driver says that it is not available",
      "Gamma: no device: CL_DEVICE_NOT_FOUND"};
  int32_t count = 0;
  if (!dlopen(TEST_LIBRARIES "/libfake_opencl.so", RTLD_NOW)) {
    fprintf(stderr, "%s\n", dlerror());
    return 100;
  }
  cl = host_table(tenon_library_opencl());
  all = host_context(-1, NULL, "");
  int failures = !CHECK_STATUS(cl->enumerate(&all, &count), TENON_OK);
  failures += !CHECK(count == 4);
  for (int32_t i = 0; i < 4; i++) {
    one = host_context(i, all.plugin, "");
    /* The driver fails to allocate. */
    failures += !CHECK_STATUS(cl->start(&one), TENON_MEMORY);
    failures += !CHECK_TEXT(host_message(), names[i]);
    failures += !CHECK(one.state == NULL);
  }
  for (int i = 0; i < 5; i++)
    failures += !CHECK_TEXT(cl->native(&all, "declined", NULL), declined[i]);
  return failures;
}

TEST("devices are listed in a fixed order, and unusable ones with the reason") {
  CHECK(in_child(several_drivers) == 0);
}

TEST("without a loader, the message says what to install") { CHECK(in_child(no_loader) == 0); }

TEST("without a driver, the message says what to install") {
  void *loader = dlopen("libOpenCL.so.1", RTLD_LAZY);
  if (!loader) SKIP("libOpenCL.so.1 is not installed");
  CHECK(in_child(no_driver) == 0);
}

TEST("the search for devices gives the same devices twice") {
  READY();
  CHECK(ordinals >= 1);
  int32_t again = 0;
  tenon_device_context_t other = host_context(-1, NULL, "");
  CHECK_STATUS(cl->enumerate(&other, &again), TENON_OK);
  CHECK(again == ordinals && other.plugin == all.plugin);
  CHECK(cl->native(&all, "declined", NULL) != NULL);
  CHECK(cl->native(&one, "cl_context", NULL) && cl->native(&one, "cl_device_id", NULL));
  CHECK(cl->native(&one, "cl_platform_id", NULL) && cl->native(&one, "cl_command_queue", NULL));
  CHECK(cl->native(&one, "cl_banana", NULL) == NULL);
}

TEST("the device's properties are plausible for hardware") {
  READY();
  tenon_device_properties_t p = {.size = sizeof p};
  CHECK_STATUS(cl->properties(&one, &p), TENON_OK);
  CHECK(p.name && *p.name && p.driver && *p.driver && p.target && strstr(p.target, p.name));
  CHECK(p.memory > (1 << 20) && p.largest > (1 << 20) && p.largest <= p.memory);
  CHECK(p.alignment >= 64 && (p.alignment & (p.alignment - 1)) == 0);
  CHECK(p.units >= 1 && p.group_most >= 64 && p.local_most >= 16384);
  CHECK(p.languages == 1u << TENON_SOURCE_OPENCL);
  CHECK(!(p.features & (TENON_DEVICE_ADDRESSES | TENON_DEVICE_HOST_READS)));
  bool f32 = false;
  bool half = false;
  for (const uint32_t *d = p.computes; *d; d++) {
    f32 |= *d == TENON_F32;
    half |= *d == TENON_F16 || *d == TENON_BF16;
  }
  CHECK(f32 && !half);
}

/* memory */

TEST("memory of all sizes can be allocated, and too large a request fails with a clear message") {
  READY();
  static const uint64_t sizes[] = {1, 3, 64, 4097, 1 << 20, 100000007};
  void *handles[6];
  for (int i = 0; i < 6; i++)
    handles[i] = allocated(sizes[i]);
  for (int i = 0; i < 6; i++)
    cl->free(&one, handles[i]);
  tenon_device_properties_t p = {.size = sizeof p};
  cl->properties(&one, &p);
  void *handle = NULL;
  CHECK_STATUS(cl->allocate(&one, p.largest + 1, &handle), TENON_MEMORY);
  CHECK_TEXT(host_message(), "cannot allocate");
  CHECK_TEXT(host_message(), "CL_INVALID_BUFFER_SIZE (-61)");
  CHECK_STATUS(cl->allocate(&one, UINT64_MAX, &handle), TENON_MEMORY);
  CHECK(handle == NULL);
}

TEST("memory may be freed while work uses it") {
  READY();
  void *stream = stream_made(&one);
  void *y = allocated(64);
  void *z = allocated(64);
  gate_t gate = gate_close(&one, stream);
  int32_t value = 5;
  int32_t result = 0;
  CHECK_STATUS(
      copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0}, (tenon_memory_t){y, 0}, 4, 1),
      TENON_OK);
  CHECK_STATUS(
      copy(stream, TENON_COPY_WITHIN, (tenon_memory_t){y, 0}, (tenon_memory_t){z, 0}, 4, 2),
      TENON_OK);
  cl->free(&one, y);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  copy_out(z, 0, &result, 4);
  CHECK(result == 5);
  cl->free(&one, z);
  cl->stream_destroy(&one, stream);
}

TEST("copies of odd sizes at odd offsets change only these bytes") {
  READY();
  enum { ROOM = 70000 };
  static const struct {
    uint64_t bytes;
    uint64_t from;
    uint64_t to;
  } cases[] = {{1, 0, 0},      {1, 7, 3},       {3, 1, 2},       {13, 5, 11},
               {127, 129, 63}, {4095, 1, 4097}, {65537, 3, 1001}};
  unsigned char *x = malloc(ROOM);
  unsigned char *y = malloc(ROOM);
  unsigned char *expected = malloc(ROOM);
  void *a = allocated(ROOM);
  void *b = allocated(ROOM);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    random_fill(x, ROOM, i);
    memset(expected, 0xEE, ROOM);
    copy_in(expected, a, 0, ROOM);
    memcpy(expected + cases[i].to, x + cases[i].from, cases[i].bytes);
    copy_in(x + cases[i].from, a, cases[i].to, cases[i].bytes); /* copies in */
    copy_out(a, 0, y, ROOM);
    CHECK(memcmp(y, expected, ROOM) == 0);
    memset(expected, 0xEE, ROOM);
    /* copies within device memory */
    copy_in(x, a, 0, ROOM);
    copy_in(expected, b, 0, ROOM);
    CHECK_STATUS(copy(NULL, TENON_COPY_WITHIN, (tenon_memory_t){a, cases[i].from},
                      (tenon_memory_t){b, cases[i].to}, cases[i].bytes, 1),
                 TENON_OK);
    copy_out(b, 0, y, ROOM);
    memcpy(expected + cases[i].to, x + cases[i].from, cases[i].bytes);
    CHECK(memcmp(y, expected, ROOM) == 0);
    memset(y, 0xEE, ROOM);
    memset(expected, 0xEE, ROOM);
    memcpy(expected + cases[i].to, x + cases[i].from, cases[i].bytes);
    copy_out(a, cases[i].from, y + cases[i].to, cases[i].bytes); /* copies out */
    CHECK(memcmp(y, expected, ROOM) == 0);
  }
  cl->free(&one, a);
  cl->free(&one, b);
  free(x);
  free(y);
  free(expected);
}

TEST("overlapping ranges are copied as by memmove, also more bytes than lie between them") {
  READY();
  enum { ROOM = 40000001 };
  static const struct {
    uint64_t bytes;
    uint64_t from;
    uint64_t to;
  } cases[] = {{1000, 0, 1},           {1000, 1, 0},           {65537, 3, 4000}, {65537, 4000, 3},
               {39000000, 5, 1000001}, {39000000, 1000001, 5}, {77, 9, 9}};
  unsigned char *x = malloc(ROOM);
  unsigned char *y = malloc(ROOM);
  void *a = allocated(ROOM);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (size_t k = 0; k < ROOM; k++)
      x[k] = (unsigned char)(k * 2654435761u >> 13);
    copy_in(x, a, 0, ROOM);
    CHECK_STATUS(copy(NULL, TENON_COPY_WITHIN, (tenon_memory_t){a, cases[i].from},
                      (tenon_memory_t){a, cases[i].to}, cases[i].bytes, 1),
                 TENON_OK);
    copy_out(a, 0, y, ROOM);
    memmove(x + cases[i].to, x + cases[i].from, cases[i].bytes);
    if (!CHECK(memcmp(x, y, ROOM) == 0)) fprintf(stderr, "  in case %zu\n", i);
  }
  cl->free(&one, a);
  free(x);
  free(y);
}

TEST("fills work with every pattern, also at offsets and sizes that are not multiples of it") {
  READY();
  enum { ROOM = 1000 };
  static const uint32_t patterns[] = {1, 2, 4, 8};
  static const uint64_t pattern = 0x0123456789ABCDEF;
  unsigned char y[ROOM], expected[ROOM];
  void *a = allocated(ROOM);
  for (int i = 0; i < 4; i++)
    for (uint64_t offset = 0; offset < 4; offset += 3)
      for (uint64_t bytes = 64; bytes < 80; bytes += 13) {
        memset(expected, 0xEE, ROOM);
        copy_in(expected, a, 0, ROOM);
        CHECK_STATUS(
            cl->fill(&one, NULL, 1, (tenon_memory_t){a, offset}, bytes, &pattern, patterns[i]),
            TENON_OK);
        for (uint64_t k = 0; k < bytes; k++)
          expected[offset + k] = ((const unsigned char *)&pattern)[k % patterns[i]];
        copy_out(a, 0, y, ROOM);
        CHECK(memcmp(y, expected, ROOM) == 0);
      }
  CHECK_STATUS(cl->fill(&one, NULL, 1, (tenon_memory_t){a, 999}, 100, &pattern, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "cannot fill 100 bytes at offset 999");
  cl->free(&one, a);
}

TEST("a copy beyond the end is refused with the driver's name for the error") {
  READY();
  char bytes[100] = {0};
  void *a = allocated(100);
  CHECK_STATUS(
      copy(NULL, TENON_COPY_IN, (tenon_memory_t){bytes, 0}, (tenon_memory_t){a, 1}, 100, 1),
      TENON_INVALID);
  CHECK_TEXT(
      host_message(),
      "opencl:0: cannot copy 100 bytes in, from offset 0 to offset 1: CL_INVALID_VALUE (-30)");
  CHECK_STATUS(copy(NULL, TENON_COPY_PEER, (tenon_memory_t){a, 0}, (tenon_memory_t){a, 1}, 1, 1),
               TENON_UNIMPLEMENTED);
  copy_in(bytes, a, 0, 100); /* The device still works. */
  CHECK_STATUS(cl->synchronize(&one), TENON_OK);
  cl->free(&one, a);
}

TEST("copies reach beyond 4 GiB") {
  READY();
  const uint64_t bytes = (UINT64_C(1) << 32) + 4096;
  tenon_device_properties_t p = {.size = sizeof p};
  cl->properties(&one, &p);
  if (p.largest < bytes || p.memory < 3 * bytes)
    SKIP("the device's largest allocation is less than 4 GiB, or its memory less than 12");
  uint64_t value = 0x1122334455667788;
  uint64_t low = 0;
  uint64_t result = 0;
  void *a = allocated(bytes);
  copy_in(&low, a, 1, 8);
  /* The low 32 bits of the offset are not enough. */
  copy_in(&value, a, (UINT64_C(1) << 32) + 1, 8);
  copy_out(a, 1, &result, 8);
  CHECK(result == 0);
  copy_out(a, (UINT64_C(1) << 32) + 1, &result, 8);
  CHECK(result == value);
  CHECK_STATUS(copy(NULL, TENON_COPY_WITHIN, (tenon_memory_t){a, (UINT64_C(1) << 32) + 1},
                    (tenon_memory_t){a, 99}, 8, 1),
               TENON_OK);
  copy_out(a, 99, &result, 8);
  CHECK(result == value);
  cl->free(&one, a);
}

TEST("pinned memory is aligned, and can be copied in both directions") {
  READY();
  static const uint64_t sizes[] = {1, 1000, 5000000};
  for (int i = 0; i < 3; i++) {
    unsigned char *x = NULL;
    unsigned char *y = NULL;
    CHECK_STATUS(cl->host_allocate(&one, sizes[i], (void **)&x), TENON_OK);
    CHECK_STATUS(cl->host_allocate(&one, sizes[i], (void **)&y), TENON_OK);
    if (!CHECK(x && y && x != y && (uintptr_t)x % 64 == 0)) return;
    void *a = allocated(sizes[i]);
    random_fill(x, sizes[i], 9);
    memset(y, 0, sizes[i]);
    copy_in(x, a, 0, sizes[i]);
    copy_out(a, 0, y, sizes[i]);
    CHECK(memcmp(x, y, sizes[i]) == 0);
    cl->free(&one, a);
    cl->host_free(&one, x);
    cl->host_free(&one, y);
  }
}

TEST("pinned memory can be allocated while streams are busy, without waiting") {
  READY();
  void *stream = stream_made(&one);
  void *data = NULL;
  gate_t gate = gate_close(&one, stream);
  gate_t first = gate_close(&one, NULL);
  CHECK_STATUS(cl->host_allocate(&one, 1000, &data), TENON_OK);
  memset(data, 1, 1000);
  cl->host_free(&one, data);
  /* The gate is not the device's own work. */
  CHECK_STATUS(cl->stream_query(&one, stream, NULL), TENON_OK);
  gate_open(gate, 0);
  gate_open(first, 0);
  cl->stream_destroy(&one, stream);
}

/* external objects */

TEST("external memory and queues are used, and stay their owner's") {
  READY();
  if (!create_user_event) driver_functions();
  int32_t error = 0;
  void *context = cl->native(&one, "cl_context", NULL);
  void *id = cl->native(&one, "cl_device_id", NULL);
  void *buffer = create_buffer(context, 1, 4096, NULL, &error);
  void *queue = create_queue(context, id, 0, &error);
  void *disordered = create_queue(context, id, 1, &error);
  void *memory = NULL;
  void *stream = NULL;
  void *event = event_made(&one);
  CHECK_STATUS(cl->memory_import(&one, buffer, 4097, &memory), TENON_INVALID);
  CHECK_TEXT(host_message(), "has 4096 bytes, and 4097 are needed");
  CHECK_STATUS(cl->memory_import(&one, NULL, 1, &memory), TENON_INVALID);
  CHECK_STATUS(cl->memory_import(&one, buffer, 4096, &memory), TENON_OK);
  CHECK_STATUS(cl->stream_import(&one, disordered, &stream), TENON_INVALID);
  CHECK_TEXT(host_message(), "out of order");
  CHECK_STATUS(cl->stream_import(&one, queue, &stream), TENON_OK);
  CHECK(cl->native(&one, "cl_command_queue", stream) == queue);
  /* the import keeps the objects alive */
  release_buffer(buffer);
  release_queue(queue);
  int32_t value = 3;
  int32_t result = 0;
  gate_t gate = gate_close(&one, stream); /* the owner's work */
  CHECK_STATUS(cl->stream_query(&one, stream, NULL), TENON_UNAVAILABLE);
  CHECK_STATUS(cl->event_record(&one, event, stream), TENON_OK);
  CHECK_STATUS(cl->event_query(&one, event), TENON_UNAVAILABLE);
  gate_open(gate, 0);
  CHECK_STATUS(cl->event_synchronize(&one, event), TENON_OK);
  CHECK_STATUS(waited(&one, stream, NULL), TENON_OK);
  int64_t time;
  CHECK_STATUS(cl->event_time(&one, event, &time), TENON_PRECONDITION);
  CHECK_TEXT(host_message(), "CL_QUEUE_PROFILING_ENABLE");
  CHECK_STATUS(copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0},
                    (tenon_memory_t){memory, 4092}, 4, 1),
               TENON_OK);
  launch_slow(stream, memory, 1, 1, 2);
  CHECK_STATUS(copy(stream, TENON_COPY_OUT, (tenon_memory_t){memory, 4092},
                    (tenon_memory_t){&result, 0}, 4, 3),
               TENON_OK);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  CHECK(result == 3);
  cl->memory_forget(&one, memory);
  cl->stream_forget(&one, stream);
  release_queue(disordered);
  cl->event_destroy(&one, event);
  /* An object of another context is refused. */
  if (ordinals > 1) {
    buffer = create_buffer(cl->native(&two, "cl_context", NULL), 1, 4096, NULL, &error);
    CHECK_STATUS(cl->memory_import(&one, buffer, 4096, &memory), TENON_INVALID);
    CHECK_TEXT(host_message(), "of another context");
    CHECK_STATUS(cl->stream_import(&one, cl->native(&two, "cl_command_queue", NULL), &stream),
                 TENON_INVALID);
    release_buffer(buffer);
  }
}

/* processes, and the end */

/* A stream of the parent is busy meanwhile. */
static int in_fork(void) {
  int failures = !CHECK_STATUS(cl->forked(&one), TENON_UNAVAILABLE);
  failures += !CHECK_TEXT(host_message(), "drivers do not work in the child");
  tenon_device_context_t other = host_context(0, all.plugin, "");
  failures += !CHECK_STATUS(cl->start(&other), TENON_UNAVAILABLE);
  cl->stop(&one); /* This does not wait for threads that do not exist in the child. */
  return failures;
}

TEST("a child of fork is told that the device is lost there") {
  READY();
  void *y = allocated(4);
  gate_t gate = gate_close(&one, NULL);
  launch_slow(NULL, y, 1, 1, 1);
  CHECK_STATUS(cl->forked(&one), TENON_OK);
  CHECK(in_child(in_fork) == 0);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  cl->free(&one, y);
}

TEST("unknown settings are refused, and so are unknown ordinals") {
  READY();
  tenon_device_context_t other = host_context(0, all.plugin, "");
  other.settings = "speed=11";
  CHECK_STATUS(cl->start(&other), TENON_INVALID);
  CHECK_TEXT(host_message(), "'speed=11'");
  other = host_context(ordinals, all.plugin, "");
  CHECK_STATUS(cl->start(&other), TENON_INVALID);
}

static long resident_kib(void) {
  long pages = 0;
  long resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file) fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST("an ordinal is started and stopped 200 times without growth after the first ten") {
  READY();
  if (ordinals < 2) SKIP("there is one ordinal, and it is in use");
  cl->stop(&two);
  long before = 0;
  size_t used = 0;
  for (int i = 0; i < 200; i++) {
    tenon_device_context_t other = host_context(1, all.plugin, "");
    void *handle = NULL;
    void *stream = NULL;
    void *event = NULL;
    void *pinned = NULL;
    int32_t value = i;
    int32_t result = -1;
    CHECK_STATUS(cl->start(&other), TENON_OK);
    CHECK_STATUS(cl->allocate(&other, 1 << 16, &handle), TENON_OK);
    CHECK_STATUS(cl->host_allocate(&other, 1 << 16, &pinned), TENON_OK);
    CHECK_STATUS(cl->stream_create(&other, &stream), TENON_OK);
    CHECK_STATUS(cl->event_create(&other, &event), TENON_OK);
    tenon_copy_t in = {sizeof in, TENON_COPY_IN, 2, 4, {&value, 0}, {handle, 0}, NULL};
    tenon_copy_t out = {sizeof out, TENON_COPY_OUT, 2, 4, {handle, 0}, {&result, 0}, NULL};
    CHECK_STATUS(cl->copy(&other, stream, &in), TENON_OK);
    CHECK_STATUS(cl->event_record(&other, event, stream), TENON_OK);
    CHECK_STATUS(cl->stream_wait(&other, NULL, &other, event), TENON_OK);
    CHECK_STATUS(cl->copy(&other, NULL, &out), TENON_OK);
    if (i % 2) CHECK_STATUS(cl->synchronize(&other), TENON_OK); /* Otherwise stop waits. */
    cl->event_destroy(&other, event);
    cl->stream_destroy(&other, stream);
    cl->host_free(&other, pinned);
    cl->free(&other, handle);
    cl->stop(&other);
    CHECK(result == i && other.state == NULL);
    if (i == 10) {
      before = resident_kib();
      used = mallinfo2().uordblks;
    }
  }
  long grown = resident_kib() - before;
  long kept = (long)mallinfo2().uordblks - (long)used;
  if (getenv("TENON_SHOW")) printf("grown by %ld KiB, %ld bytes in use\n", grown, kept);
  /* This is the driver's own memory: PoCL 3.1 keeps about 17 bytes of each context. */
  CHECK(kept < 190 * 256);
#ifndef IS_INSTRUMENTED /* a sanitizer keeps freed memory */
  CHECK(grown < 4096);
#endif
  two = host_context(1, all.plugin, "");
  CHECK_STATUS(cl->start(&two), TENON_OK);
}

static void told_late(void *argument, tenon_status_t status) {
  nanosleep(&(struct timespec){0, 50000000}, NULL);
  told(argument, status);
}

TEST("stop waits for callbacks, as for work") {
  READY();
  void *stream = stream_made(&one);
  void *y = allocated(4);
  told_t t = {0};
  launch_slow(stream, y, 1000, 1, 1);
  CHECK_STATUS(cl->callback(&one, stream, told_late, &t), TENON_OK);
  CHECK_STATUS(waited(&one, stream, NULL),
               /* The work is complete, but its callback may still run. */
               TENON_OK);
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
  if (ordinals > 1) cl->stop(&two);
  cl->stop(&one);
  CHECK(t.count == 1 && t.status == TENON_OK);
}
