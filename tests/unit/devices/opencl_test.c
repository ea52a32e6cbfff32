/* devices/opencl, driven by its table on the driver that is here (PoCL where packages.sh test was run). */
#include "host.h"

#include "sanitizer.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const tenon_descriptor_t *tenon_library_opencl(void);

static const tenon_device_table_t *cl; /* the table */
static tenon_device_context_t all, one, two;
static int32_t ordinals;
static const char *missing; /* why there is nothing to test on */

/* PoCL then shows two devices, each with threads of its own. */
__attribute__((constructor)) static void two_devices(void) { setenv("POCL_DEVICES", "pthread pthread", 0); }

static bool ready(void) {
  static bool looked;
  if (!looked) {
    looked = true;
    cl = host_table(tenon_library_opencl());
    all = host_context(-1, NULL, "");
    if (cl->enumerate(&all, &ordinals) != TENON_OK) missing = strdup(host_message());
    for (int32_t i = 0; i < ordinals && i < 2 && !missing; i++) {
      tenon_device_context_t *context = i ? &two : &one;
      *context = host_context(i, all.plugin, "");
      if (cl->start(context) != TENON_OK) missing = strdup(host_message());
    }
  }
  return !missing;
}
#define READY()                                                                                                        \
  if (!ready()) SKIP(missing)

/* A sink that keeps what it is given, to be freed. */
typedef struct host_sink_t {
  tenon_sink_t sink;
  void *data;
  uint64_t bytes;
} host_sink_t;

static void *host_reserve(tenon_sink_t *sink, uint64_t bytes) {
  host_sink_t *kept = (host_sink_t *)sink;
  kept->bytes = bytes;
  return kept->data = malloc((size_t)bytes);
}

static host_sink_t host_sink(void) { return (host_sink_t){{sizeof(tenon_sink_t), 0, host_reserve}, NULL, 0}; }

/* ---- helpers ---------------------------------------------------------------------------------------------------------- */

static void *allocated(uint64_t bytes) {
  void *handle = NULL;
  CHECK_STATUS(cl->allocate(&one, bytes, &handle), TENON_OK);
  return handle;
}

static void *stream_made(tenon_on_t on) {
  void *stream = NULL;
  CHECK_STATUS(cl->stream_create(on, &stream), TENON_OK);
  return stream;
}

static void *event_made(tenon_on_t on) {
  void *event = NULL;
  CHECK_STATUS(cl->event_create(on, &event), TENON_OK);
  return event;
}

static tenon_status_t copy(void *stream, uint32_t direction, tenon_memory_t from, tenon_memory_t to, uint64_t bytes,
                           uint64_t ticket) {
  tenon_copy_t c = {sizeof c, direction, ticket, bytes, from, to, NULL};
  return cl->copy(&one, stream, &c);
}

static void copy_in(const void *from, void *handle, uint64_t offset, uint64_t bytes) {
  CHECK_STATUS(copy(NULL, TENON_COPY_IN, (tenon_memory_t){(void *)from, 0}, (tenon_memory_t){handle, offset}, bytes, 1),
               TENON_OK);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
}

static void copy_out(void *handle, uint64_t offset, void *to, uint64_t bytes) {
  CHECK_STATUS(copy(NULL, TENON_COPY_OUT, (tenon_memory_t){handle, offset}, (tenon_memory_t){to, 0}, bytes, 1),
               TENON_OK);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
}

static void random_fill(void *data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; i++) ((unsigned char *)data)[i] = (unsigned char)(tenon_random(seed, i) >> 7);
}

static const char sources[] =
    "__kernel void affine(__global char *xb, long xo, __global char *yb, long yo, float a, float b, int n) {\n"
    "  __global const float *x = (__global const float *)(xb + xo);\n"
    "  __global float *y = (__global float *)(yb + yo);\n"
    "  for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = a * x[i] + b;\n"
    "}\n"
    "__kernel void row_sums(__global char *xb, long xo, __global char *yb, long yo, __local float *part, int columns) "
    "{\n"
    "  int row = get_group_id(0), me = get_local_id(0), count = get_local_size(0);\n"
    "  __global const float *x = (__global const float *)(xb + xo) + row * columns;\n"
    "  float sum = 0;\n"
    "  for (int i = me; i < columns; i += count) sum += x[i];\n"
    "  part[me] = sum;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  if (me == 0) {\n"
    "    for (int i = 1; i < count; i++) sum += part[i];\n"
    "    ((__global float *)(yb + yo))[row] = sum;\n"
    "  }\n"
    "}\n"
    "__kernel void scatter(__global char *ib, long io, __global char *yb, long yo, int n) {\n"
    "  __global const int *index = (__global const int *)(ib + io);\n"
    "  for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_add((__global int *)(yb + yo) + index[i], "
    "i);\n"
    "}\n"
    "__kernel void slow(__global char *yb, long yo, int rounds, int add) {\n"
    "  __global int *y = (__global int *)(yb + yo);\n"
    "  uint v = 1;\n"
    "  for (int i = 0; i < rounds; i++) v = v * 1664525u + 1013904223u;\n"
    "  *y = *y * 2 + (v == 12345u ? 0 : add);\n"
    "}\n";

static tenon_status_t build(tenon_on_t on, const char *text, const char *file, host_sink_t *code, void **out_program) {
  tenon_source_t source = {sizeof source, TENON_SOURCE_OPENCL, text, strlen(text), file, ""};
  *code = host_sink();
  TENON_TRY(cl->compile(on, &source, &code->sink));
  return cl->program_load(on, code->data, code->bytes, out_program);
}

static void *kernel_of(const char *name) { /* of `sources`, on the first ordinal, built once */
  static void *program, *kernel;
  if (!program) {
    host_sink_t code;
    CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
    free(code.data);
  }
  CHECK_STATUS(cl->kernel_find(&one, program, name, &kernel), TENON_OK);
  return kernel;
}

static tenon_kernel_argument_t memory_argument(void *handle, uint64_t offset) {
  return (tenon_kernel_argument_t){TENON_ARG_MEMORY, 0, 0, {.memory = {handle, offset}}};
}
static tenon_kernel_argument_t bytes_argument(const void *data, uint64_t size) {
  return (tenon_kernel_argument_t){TENON_ARG_BYTES, 0, size, {.data = data}};
}
static tenon_kernel_argument_t local_argument(uint64_t size) {
  return (tenon_kernel_argument_t){TENON_ARG_LOCAL, 0, size, {.data = NULL}};
}

static tenon_status_t launch(void *stream, void *kernel, uint64_t groups, uint32_t group, uint32_t count,
                             const tenon_kernel_argument_t *arguments, uint64_t ticket) {
  tenon_launch_t l = {sizeof l, count, ticket, kernel, arguments, {groups, 1, 1}, {group, 1, 1}, 0};
  return cl->launch(&one, stream, &l);
}

/* y = y * 2 + add, after a while. */
static void launch_slow(void *stream, void *y, int32_t rounds, int32_t add, uint64_t ticket) {
  tenon_kernel_argument_t arguments[] = {memory_argument(y, 0), bytes_argument(&rounds, 4), bytes_argument(&add, 4)};
  CHECK_STATUS(launch(stream, kernel_of("slow"), 1, 1, 3, arguments, ticket), TENON_OK);
}

/* The driver's own functions, for work that the table does not know: a gate holds a stream until it is opened or failed. */
typedef struct gate_t {
  void *event, *barrier;
} gate_t;
static void *(*create_user_event)(void *, int32_t *);
static int32_t (*set_user_event)(void *, int32_t);
static int32_t (*enqueue_barrier)(void *, uint32_t, void *const *, void **);
static int32_t (*release_event)(void *);
static void *(*create_buffer)(void *, uint64_t, size_t, void *, int32_t *);
static void *(*create_part)(void *, uint64_t, uint32_t, const void *, int32_t *);
static int32_t (*release_buffer)(void *);
static void *(*create_queue)(void *, void *, uint64_t, int32_t *);
static int32_t (*release_queue)(void *);
static void *(*create_context)(const intptr_t *, uint32_t, void *const *, void *, void *, int32_t *);
static int32_t (*release_context)(void *);

static void driver_functions(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
  if (!CHECK(library != NULL)) exit(1);
  *(void **)&create_user_event = dlsym(library, "clCreateUserEvent");
  *(void **)&set_user_event = dlsym(library, "clSetUserEventStatus");
  *(void **)&enqueue_barrier = dlsym(library, "clEnqueueBarrierWithWaitList");
  *(void **)&release_event = dlsym(library, "clReleaseEvent");
  *(void **)&create_buffer = dlsym(library, "clCreateBuffer");
  *(void **)&create_part = dlsym(library, "clCreateSubBuffer");
  *(void **)&release_buffer = dlsym(library, "clReleaseMemObject");
  *(void **)&create_queue = dlsym(library, "clCreateCommandQueue");
  *(void **)&release_queue = dlsym(library, "clReleaseCommandQueue");
  *(void **)&create_context = dlsym(library, "clCreateContext");
  *(void **)&release_context = dlsym(library, "clReleaseContext");
}

static gate_t gate_close(tenon_on_t on, void *stream) {
  int32_t error = 0;
  gate_t gate;
  if (!create_user_event) driver_functions();
  gate.event = create_user_event(cl->native(on, "cl_context", NULL), &error);
  CHECK(error == 0);
  CHECK(enqueue_barrier(cl->native(on, "cl_command_queue", stream), 1, &gate.event, &gate.barrier) == 0);
  return gate;
}

static void gate_open(gate_t gate, int32_t status) { /* 0: the work goes on; < 0: it fails */
  CHECK(set_user_event(gate.event, status) == 0);
  CHECK(release_event(gate.event) == 0 && release_event(gate.barrier) == 0);
}

static tenon_status_t waited(tenon_on_t on, void *stream, tenon_fault_t *fault) { /* by asking, at most 20 seconds */
  tenon_status_t status = TENON_UNAVAILABLE;
  for (int i = 0; i < 20000 && status == TENON_UNAVAILABLE; i++) {
    status = cl->stream_query(on, stream, fault);
    if (status == TENON_UNAVAILABLE) nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  return status;
}

/* ---- what is found ------------------------------------------------------------------------------------------------------ */

/* In a child that has not opened the driver: gives what `run` gives. */
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
  for (int i = 0; i < 2; i++) { /* asking again is no mistake */
    failures += !CHECK_STATUS(cl->enumerate(&all, &count), TENON_UNAVAILABLE);
    failures +=
        !CHECK_TEXT(host_message(), "the loader found no driver (CL_PLATFORM_NOT_FOUND_KHR) in /tmp/tenon-vendors-");
    failures += !CHECK_TEXT(host_message(), "on Debian pocl-opencl-icd");
  }
  rmdir(folder);
  return failures;
}

static int no_loader(void) { /* nothing can be opened */
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

static int several_drivers(void) { /* tests/libraries/opencl, which has the name of the real one */
  static const char *const names[] = {"a gpu of alpha of Alpha", "a gpu of Beta", "an accelerator of Beta",
                                      "a processor of Alpha"};
  static const char *const declined[] = {"Alpha: old: it has \"OpenCL 1.1 alpha\", and OpenCL 1.2 is needed",
                                         "Alpha: big: it is big-endian", "Beta: mute: its driver has no compiler",
                                         "Beta: away: its driver says that it is not available",
                                         "Gamma: no device: CL_DEVICE_NOT_FOUND"};
  int32_t count = 0;
  if (!dlopen(TEST_LIBRARIES "/libfake_opencl.so", RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror()), 100;
  cl = host_table(tenon_library_opencl());
  all = host_context(-1, NULL, "");
  int failures = !CHECK_STATUS(cl->enumerate(&all, &count), TENON_OK);
  failures += !CHECK(count == 4);
  for (int32_t i = 0; i < 4; i++) {
    one = host_context(i, all.plugin, "");
    failures += !CHECK_STATUS(cl->start(&one), TENON_MEMORY); /* the driver's failure */
    failures += !CHECK_TEXT(host_message(), names[i]);
    failures += !CHECK(one.state == NULL);
  }
  for (int i = 0; i < 5; i++) failures += !CHECK_TEXT(cl->native(&all, "declined", NULL), declined[i]);
  return failures;
}

TEST("devices come in a fixed order, and those that cannot be used with the reason") {
  CHECK(in_child(several_drivers) == 0);
}

TEST("without a loader, what to install is said") { CHECK(in_child(no_loader) == 0); }

TEST("without a driver, what to install is said") {
  void *loader = dlopen("libOpenCL.so.1", RTLD_LAZY);
  if (!loader) SKIP("libOpenCL.so.1 is not installed");
  CHECK(in_child(no_driver) == 0);
}

TEST("devices are found, twice the same ones") {
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

TEST("properties are those of hardware") {
  READY();
  tenon_device_properties_t p = {.size = sizeof p};
  CHECK_STATUS(cl->properties(&one, &p), TENON_OK);
  CHECK(p.name && *p.name && p.driver && *p.driver && p.target && strstr(p.target, p.name));
  CHECK(p.memory > (1 << 20) && p.largest > (1 << 20) && p.largest <= p.memory);
  CHECK(p.alignment >= 64 && (p.alignment & (p.alignment - 1)) == 0);
  CHECK(p.units >= 1 && p.group_most >= 64 && p.local_most >= 16384);
  CHECK(p.languages == 1u << TENON_SOURCE_OPENCL);
  CHECK(!(p.features & (TENON_DEVICE_ADDRESSES | TENON_DEVICE_HOST_READS)));
  bool f32 = false, half = false;
  for (const uint32_t *d = p.computes; *d; d++) f32 |= *d == TENON_F32, half |= *d == TENON_F16 || *d == TENON_BF16;
  CHECK(f32 && !half);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

TEST("memory of all sizes is had, and too much is a clear failure") {
  READY();
  static const uint64_t sizes[] = {1, 3, 64, 4097, 1 << 20, 100000007};
  void *handles[6];
  for (int i = 0; i < 6; i++) handles[i] = allocated(sizes[i]);
  for (int i = 0; i < 6; i++) cl->free(&one, handles[i]);
  tenon_device_properties_t p = {.size = sizeof p};
  cl->properties(&one, &p);
  void *handle = NULL;
  CHECK_STATUS(cl->allocate(&one, p.largest + 1, &handle), TENON_MEMORY);
  CHECK_TEXT(host_message(), "cannot allocate");
  CHECK_TEXT(host_message(), "CL_INVALID_BUFFER_SIZE (-61)");
  CHECK_STATUS(cl->allocate(&one, UINT64_MAX, &handle), TENON_MEMORY);
  CHECK(handle == NULL);
}

TEST("memory that work uses may be freed") {
  READY();
  void *stream = stream_made(&one), *y = allocated(64), *z = allocated(64);
  gate_t gate = gate_close(&one, stream);
  int32_t value = 5, result = 0;
  CHECK_STATUS(copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0}, (tenon_memory_t){y, 0}, 4, 1), TENON_OK);
  CHECK_STATUS(copy(stream, TENON_COPY_WITHIN, (tenon_memory_t){y, 0}, (tenon_memory_t){z, 0}, 4, 2), TENON_OK);
  cl->free(&one, y);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  copy_out(z, 0, &result, 4);
  CHECK(result == 5);
  cl->free(&one, z);
  cl->stream_destroy(&one, stream);
}

TEST("copies of odd sizes at odd offsets move these bytes alone") {
  READY();
  enum { ROOM = 70000 };
  static const struct {
    uint64_t bytes, from, to;
  } cases[] = {{1, 0, 0}, {1, 7, 3}, {3, 1, 2}, {13, 5, 11}, {127, 129, 63}, {4095, 1, 4097}, {65537, 3, 1001}};
  unsigned char *x = malloc(ROOM), *y = malloc(ROOM), *expected = malloc(ROOM);
  void *a = allocated(ROOM), *b = allocated(ROOM);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    random_fill(x, ROOM, i), memset(expected, 0xEE, ROOM);
    copy_in(expected, a, 0, ROOM);
    memcpy(expected + cases[i].to, x + cases[i].from, cases[i].bytes);
    copy_in(x + cases[i].from, a, cases[i].to, cases[i].bytes); /* in */
    copy_out(a, 0, y, ROOM);
    CHECK(memcmp(y, expected, ROOM) == 0);
    memset(expected, 0xEE, ROOM);
    copy_in(x, a, 0, ROOM), copy_in(expected, b, 0, ROOM); /* within */
    CHECK_STATUS(copy(NULL, TENON_COPY_WITHIN, (tenon_memory_t){a, cases[i].from}, (tenon_memory_t){b, cases[i].to},
                      cases[i].bytes, 1),
                 TENON_OK);
    copy_out(b, 0, y, ROOM);
    memcpy(expected + cases[i].to, x + cases[i].from, cases[i].bytes);
    CHECK(memcmp(y, expected, ROOM) == 0);
    memset(y, 0xEE, ROOM), memset(expected, 0xEE, ROOM);
    memcpy(expected + cases[i].to, x + cases[i].from, cases[i].bytes);
    copy_out(a, cases[i].from, y + cases[i].to, cases[i].bytes); /* out */
    CHECK(memcmp(y, expected, ROOM) == 0);
  }
  cl->free(&one, a), cl->free(&one, b);
  free(x), free(y), free(expected);
}

TEST("ranges that overlap are copied as by memmove, more than fits between too") {
  READY();
  enum { ROOM = 40000001 };
  static const struct {
    uint64_t bytes, from, to;
  } cases[] = {{1000, 0, 1},           {1000, 1, 0},           {65537, 3, 4000}, {65537, 4000, 3},
               {39000000, 5, 1000001}, {39000000, 1000001, 5}, {77, 9, 9}};
  unsigned char *x = malloc(ROOM), *y = malloc(ROOM);
  void *a = allocated(ROOM);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (size_t k = 0; k < ROOM; k++) x[k] = (unsigned char)(k * 2654435761u >> 13);
    copy_in(x, a, 0, ROOM);
    CHECK_STATUS(copy(NULL, TENON_COPY_WITHIN, (tenon_memory_t){a, cases[i].from}, (tenon_memory_t){a, cases[i].to},
                      cases[i].bytes, 1),
                 TENON_OK);
    copy_out(a, 0, y, ROOM);
    memmove(x + cases[i].to, x + cases[i].from, cases[i].bytes);
    if (!CHECK(memcmp(x, y, ROOM) == 0)) fprintf(stderr, "  in case %zu\n", i);
  }
  cl->free(&one, a);
  free(x), free(y);
}

TEST("fills of every pattern, at offsets and sizes that are no multiples of it too") {
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
        CHECK_STATUS(cl->fill(&one, NULL, 1, (tenon_memory_t){a, offset}, bytes, &pattern, patterns[i]), TENON_OK);
        for (uint64_t k = 0; k < bytes; k++) expected[offset + k] = ((const unsigned char *)&pattern)[k % patterns[i]];
        copy_out(a, 0, y, ROOM);
        CHECK(memcmp(y, expected, ROOM) == 0);
      }
  CHECK_STATUS(cl->fill(&one, NULL, 1, (tenon_memory_t){a, 999}, 100, &pattern, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "cannot fill 100 bytes at offset 999");
  cl->free(&one, a);
}

TEST("a copy beyond the end is refused, by the driver's name for it") {
  READY();
  char bytes[100] = {0};
  void *a = allocated(100);
  CHECK_STATUS(copy(NULL, TENON_COPY_IN, (tenon_memory_t){bytes, 0}, (tenon_memory_t){a, 1}, 100, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "opencl:0: cannot copy 100 bytes in, from offset 0 to offset 1: CL_INVALID_VALUE (-30)");
  CHECK_STATUS(copy(NULL, TENON_COPY_PEER, (tenon_memory_t){a, 0}, (tenon_memory_t){a, 1}, 1, 1), TENON_UNIMPLEMENTED);
  copy_in(bytes, a, 0, 100); /* and nothing is broken */
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
  uint64_t value = 0x1122334455667788, low = 0, result = 0;
  void *a = allocated(bytes);
  copy_in(&low, a, 1, 8);
  copy_in(&value, a, (UINT64_C(1) << 32) + 1, 8); /* not at offset 1 */
  copy_out(a, 1, &result, 8);
  CHECK(result == 0);
  copy_out(a, (UINT64_C(1) << 32) + 1, &result, 8);
  CHECK(result == value);
  CHECK_STATUS(
      copy(NULL, TENON_COPY_WITHIN, (tenon_memory_t){a, (UINT64_C(1) << 32) + 1}, (tenon_memory_t){a, 99}, 8, 1),
      TENON_OK);
  copy_out(a, 99, &result, 8);
  CHECK(result == value);
  cl->free(&one, a);
}

TEST("pinned memory is aligned, and good for copies both ways") {
  READY();
  static const uint64_t sizes[] = {1, 1000, 5000000};
  for (int i = 0; i < 3; i++) {
    unsigned char *x = NULL, *y = NULL;
    CHECK_STATUS(cl->host_allocate(&one, sizes[i], (void **)&x), TENON_OK);
    CHECK_STATUS(cl->host_allocate(&one, sizes[i], (void **)&y), TENON_OK);
    if (!CHECK(x && y && x != y && (uintptr_t)x % 64 == 0)) return;
    void *a = allocated(sizes[i]);
    random_fill(x, sizes[i], 9), memset(y, 0, sizes[i]);
    copy_in(x, a, 0, sizes[i]), copy_out(a, 0, y, sizes[i]);
    CHECK(memcmp(x, y, sizes[i]) == 0);
    cl->free(&one, a);
    cl->host_free(&one, x), cl->host_free(&one, y);
  }
}

TEST("pinned memory is had while streams are busy, without waiting") {
  READY();
  void *stream = stream_made(&one), *data = NULL;
  gate_t gate = gate_close(&one, stream), first = gate_close(&one, NULL);
  CHECK_STATUS(cl->host_allocate(&one, 1000, &data), TENON_OK);
  memset(data, 1, 1000);
  cl->host_free(&one, data);
  CHECK_STATUS(cl->stream_query(&one, stream, NULL), TENON_OK); /* the gate is not its own work */
  gate_open(gate, 0), gate_open(first, 0);
  cl->stream_destroy(&one, stream);
}

/* ---- streams -------------------------------------------------------------------------------------------------------------- */

TEST("work of one stream is done in order, long or short") {
  READY();
  void *stream = stream_made(&one), *y = allocated(4);
  int32_t value = 1, result = 0;
  CHECK_STATUS(copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0}, (tenon_memory_t){y, 0}, 4, 1), TENON_OK);
  int32_t expected = value;
  for (int32_t i = 0; i < 12; i++) {
    launch_slow(stream, y, i % 3 ? 10 : 20000000, i, (uint64_t)i + 2);
    expected = expected * 2 + i;
  }
  CHECK_STATUS(copy(stream, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 20), TENON_OK);
  CHECK_STATUS(cl->stream_query(&one, stream, NULL), TENON_UNAVAILABLE);
  CHECK_STATUS(waited(&one, stream, NULL), TENON_OK);
  CHECK(result == expected);
  cl->free(&one, y);
  cl->stream_destroy(&one, stream);
}

TEST("a stream follows the event of another") {
  READY();
  for (int round = 0; round < 20; round++) {
    void *a = stream_made(&one), *b = stream_made(&one), *event = event_made(&one), *y = allocated(4);
    int32_t value = round, result = -1;
    copy_in(&value, y, 0, 4);
    gate_t gate = gate_close(&one, a);
    launch_slow(a, y, 1000000, 3, 1);
    CHECK_STATUS(cl->event_record(&one, event, a), TENON_OK);
    CHECK_STATUS(cl->event_query(&one, event), TENON_UNAVAILABLE);
    CHECK_STATUS(cl->stream_wait(&one, b, &one, event), TENON_OK);
    launch_slow(b, y, 10, 4, 2);
    CHECK_STATUS(copy(b, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 3), TENON_OK);
    CHECK_STATUS(cl->stream_query(&one, b, NULL), TENON_UNAVAILABLE);
    gate_open(gate, 0);
    CHECK_STATUS(cl->stream_synchronize(&one, b, NULL), TENON_OK);
    CHECK(result == (round * 2 + 3) * 2 + 4);
    CHECK_STATUS(cl->event_query(&one, event), TENON_OK);
    cl->event_destroy(&one, event);
    cl->stream_destroy(&one, a), cl->stream_destroy(&one, b);
    cl->free(&one, y);
  }
}

TEST("a stream follows the event of another ordinal") {
  READY();
  if (ordinals < 2) SKIP("there is one ordinal");
  for (int round = 0; round < 20; round++) {
    void *a = stream_made(&one), *b = stream_made(&two), *event = event_made(&one), *last = event_made(&two);
    gate_t gate = gate_close(&one, a);
    void *y = allocated(4), *z = NULL;
    int32_t value = 1, result = 0;
    CHECK_STATUS(cl->allocate(&two, 4, &z), TENON_OK);
    launch_slow(a, y, 1000000, 3, 1);
    CHECK_STATUS(cl->event_record(&one, event, a), TENON_OK);
    CHECK_STATUS(cl->stream_wait(&two, b, &one, event), TENON_OK);
    tenon_copy_t in = {sizeof in, TENON_COPY_IN, 2, 4, {&value, 0}, {z, 0}, NULL};
    tenon_copy_t out = {sizeof out, TENON_COPY_OUT, 2, 4, {z, 0}, {&result, 0}, NULL};
    CHECK_STATUS(cl->copy(&two, b, &in), TENON_OK);
    CHECK_STATUS(cl->copy(&two, b, &out), TENON_OK);
    CHECK_STATUS(cl->event_record(&two, last, b), TENON_OK);
    cl->event_destroy(&one, event); /* who waits for it waits on */
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    CHECK(result == 0);
    CHECK_STATUS(cl->stream_query(&two, b, NULL), TENON_UNAVAILABLE);
    CHECK_STATUS(cl->event_query(&two, last), TENON_UNAVAILABLE);
    gate_open(gate, 0);
    if (round % 2) CHECK_STATUS(cl->event_synchronize(&two, last), TENON_OK);
    else CHECK_STATUS(waited(&two, b, NULL), TENON_OK);
    CHECK(result == 1);
    cl->event_destroy(&two, last);
    cl->stream_destroy(&one, a), cl->stream_destroy(&two, b);
    cl->free(&one, y), cl->free(&two, z);
  }
}

TEST("an event is what was recorded last, and who waited before still waits for what it was") {
  READY();
  void *a = stream_made(&one), *b = stream_made(&one), *c = stream_made(&one), *event = event_made(&one),
       *y = allocated(4);
  CHECK_STATUS(cl->event_query(&one, event), TENON_OK); /* never recorded */
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
  cl->stream_destroy(&one, a), cl->stream_destroy(&one, b), cl->stream_destroy(&one, c);
  cl->free(&one, y);
}

TEST("thousands of events at once") {
  READY();
  enum { COUNT = 5000 };
  void *a = stream_made(&one), *b = stream_made(&one), *y = allocated(4), **events = malloc(COUNT * sizeof *events);
  int32_t zero = 0, result = 0;
  copy_in(&zero, y, 0, 4);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  gate_t gate = gate_close(&one, a);
  for (int i = 0; i < COUNT; i++) {
    events[i] = event_made(&one);
    void *stream = i % 2 ? b : a, *other = i % 2 ? a : b;
    launch_slow(stream, y, 1, i % 7, (uint64_t)i + 1);
    CHECK_STATUS(cl->event_record(&one, events[i], stream), TENON_OK);
    CHECK_STATUS(cl->stream_wait(&one, other, &one, events[i]), TENON_OK);
  }
  for (int i = 0; i < COUNT; i += 499) CHECK_STATUS(cl->event_query(&one, events[i]), TENON_UNAVAILABLE);
  gate_open(gate, 0);
  CHECK_STATUS(cl->synchronize(&one), TENON_OK);
  uint32_t expected = 0;
  for (uint32_t i = 0; i < COUNT; i++) expected = expected * 2 + i % 7;
  copy_out(y, 0, &result, 4);
  CHECK((uint32_t)result == expected);
  for (int i = 0; i < COUNT; i++) {
    CHECK_STATUS(cl->event_query(&one, events[i]), TENON_OK);
    cl->event_destroy(&one, events[i]);
  }
  free(events);
  cl->stream_destroy(&one, a), cl->stream_destroy(&one, b);
  cl->free(&one, y);
}

TEST("a stream that is destroyed while busy does its work") {
  READY();
  void *stream = stream_made(&one), *event = event_made(&one), *y = allocated(4);
  int32_t value = 21, result = 0;
  gate_t gate = gate_close(&one, stream);
  CHECK_STATUS(copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0}, (tenon_memory_t){y, 0}, 4, 1), TENON_OK);
  launch_slow(stream, y, 60000000, 0, 2);
  CHECK_STATUS(copy(stream, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 3), TENON_OK);
  CHECK_STATUS(cl->event_record(&one, event, stream), TENON_OK);
  cl->stream_destroy(&one, stream);
  CHECK(result == 0);
  gate_open(gate, 0);
  CHECK_STATUS(cl->synchronize(&one), TENON_OK); /* all streams: this one too */
  CHECK(result == 42);
  CHECK_STATUS(cl->event_query(&one, event), TENON_OK);
  cl->event_destroy(&one, event);
  cl->free(&one, y);
}

TEST("events have times, in order") {
  READY();
  void *stream = stream_made(&one), *events[3], *y = allocated(4);
  int64_t times[3] = {0};
  for (int i = 0; i < 3; i++) {
    events[i] = event_made(&one);
    if (i) launch_slow(stream, y, 30000000, 1, 1);
    else CHECK_STATUS(cl->event_time(&one, events[i], &times[i]), TENON_PRECONDITION);
    if (i == 2)
      CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK); /* recorded when idle: the time is now */
    if (i == 2) nanosleep(&(struct timespec){0, 30000000}, NULL);
    CHECK_STATUS(cl->event_record(&one, events[i], stream), TENON_OK);
    if (i == 1) CHECK_STATUS(cl->event_time(&one, events[i], &times[i]), TENON_UNAVAILABLE);
  }
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  for (int i = 0; i < 3; i++) CHECK_STATUS(cl->event_time(&one, events[i], &times[i]), TENON_OK);
  CHECK(times[1] - times[0] > 5000000);  /* 30 million rounds */
  CHECK(times[2] - times[1] > 35000000); /* and the sleep */
  for (int i = 0; i < 3; i++) cl->event_destroy(&one, events[i]);
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
}

typedef struct told_t {
  _Atomic int count;
  tenon_status_t status;
  void *y;
} told_t;
static void told(void *argument, tenon_status_t status) {
  told_t *t = (told_t *)argument;
  t->status = status;
  t->count++;
}

TEST("callbacks come when the stream comes to them, once") {
  READY();
  void *stream = stream_made(&one), *y = allocated(4);
  told_t t[3] = {{0}};
  gate_t gate = gate_close(&one, stream);
  launch_slow(stream, y, 10, 1, 1);
  CHECK_STATUS(cl->callback(&one, stream, told, &t[0]), TENON_OK);
  launch_slow(stream, y, 10, 1, 2);
  CHECK_STATUS(cl->callback(&one, stream, told, &t[1]), TENON_OK);
  nanosleep(&(struct timespec){0, 5000000}, NULL);
  CHECK(t[0].count == 0 && t[1].count == 0);
  gate_open(gate, 0);
  for (int i = 0; i < 5000 && t[1].count == 0; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  CHECK_STATUS(cl->callback(&one, stream, told, &t[2]), TENON_OK); /* of a stream that is idle */
  for (int i = 0; i < 5000 && t[2].count == 0; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
  for (int i = 0; i < 3; i++) CHECK(t[i].count == 1 && t[i].status == TENON_OK);
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
  if (o->number % 50 == 0) nanosleep(&(struct timespec){0, 3000000}, NULL); /* the next must not begin */
  *o->wrong += (*o->next)++ != o->number || status != TENON_OK;
}

TEST("callbacks of a stream come in order") {
  READY();
  enum { COUNT = 300 };
  static order_t orders[COUNT];
  static _Atomic int next, wrong;
  void *stream = stream_made(&one), *y = allocated(4);
  for (int i = 0; i < COUNT; i++) {
    orders[i] = (order_t){&next, i, &wrong};
    if (i % 3 == 0) launch_slow(stream, y, 100, 1, (uint64_t)i);
    CHECK_STATUS(cl->callback(&one, stream, in_order, &orders[i]), TENON_OK);
    if (i % 50 == 0)
      CHECK_STATUS(waited(&one, stream, NULL), TENON_OK); /* the next has nothing before it in the driver */
  }
  for (int i = 0; i < 20000 && next < COUNT; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
  CHECK(next == COUNT && wrong == 0);
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
}

TEST("streams that are busy do not hold others up") {
  READY();
  void *a = stream_made(&one), *b = stream_made(&one), *y = allocated(4);
  gate_t gate = gate_close(&one, a);
  launch_slow(a, y, 10, 1, 1);
  launch_slow(b, y, 10, 1, 1);
  CHECK_STATUS(cl->stream_synchronize(&one, b, NULL), TENON_OK);
  CHECK_STATUS(cl->stream_query(&one, a, NULL), TENON_UNAVAILABLE);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, a, NULL), TENON_OK);
  cl->stream_destroy(&one, a), cl->stream_destroy(&one, b);
  cl->free(&one, y);
}

/* ---- failures --------------------------------------------------------------------------------------------------------------- */

TEST("a failure stays with its stream, names its call, and reaches who waits") {
  READY();
  void *a = stream_made(&one), *b = stream_made(&one), *c = stream_made(&one), *event = event_made(&one),
       *y = allocated(4);
  tenon_fault_t fault = {sizeof fault, 0, 0};
  int32_t one_value = 1, result = 77;
  told_t t = {0};
  copy_in(&one_value, y, 0, 4);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  launch_slow(a, y, 10, 0, 40); /* done: y = 2 */
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
  CHECK(fault.ticket == 41); /* not 50 */
  CHECK_STATUS(cl->event_query(&one, event), TENON_ABORTED);
  CHECK_STATUS(cl->event_synchronize(&one, event), TENON_ABORTED);
  CHECK(t.count == 1 && t.status == TENON_ABORTED);
  CHECK_STATUS(cl->synchronize(&one), TENON_ABORTED);
  /* For good. */
  tenon_kernel_argument_t arguments[] = {memory_argument(y, 0), bytes_argument(&one_value, 4),
                                         bytes_argument(&one_value, 4)};
  CHECK_STATUS(launch(a, kernel_of("slow"), 1, 1, 3, arguments, 43), TENON_ABORTED);
  CHECK_STATUS(copy(b, TENON_COPY_OUT, (tenon_memory_t){y, 0}, (tenon_memory_t){&result, 0}, 4, 51), TENON_ABORTED);
  CHECK_STATUS(cl->stream_query(&one, a, &fault), TENON_ABORTED);
  CHECK_STATUS(cl->event_record(&one, event, a), TENON_ABORTED);
  /* Who waits now fails too; others go on. */
  CHECK_STATUS(cl->stream_wait(&one, c, &one, event), TENON_OK);
  fault.ticket = 0;
  CHECK_STATUS(cl->stream_query(&one, c, &fault), TENON_ABORTED);
  CHECK(fault.ticket == 41);
  copy_out(y, 0, &result, 4);
  CHECK(result == 2); /* nothing of it was done */
  cl->event_destroy(&one, event);
  cl->stream_destroy(&one, a), cl->stream_destroy(&one, b), cl->stream_destroy(&one, c);
  CHECK_STATUS(cl->synchronize(&one), TENON_OK);
  cl->free(&one, y);
}

TEST("a callback behind a failure is called though nobody asks") {
  READY();
  tenon_status_t (*const *enqueue_failure)(tenon_on_t, void *, uint64_t) = cl->native(&one, "enqueue_failure", NULL);
  void *stream = stream_made(&one), *y = allocated(4);
  tenon_fault_t fault = {sizeof fault, 0, 0};
  told_t t = {0};
  launch_slow(stream, y, 20000000, 1, 1);
  CHECK_STATUS((*enqueue_failure)(&one, stream, 2), TENON_OK);
  CHECK_STATUS(cl->callback(&one, stream, told, &t), TENON_OK);
  CHECK(t.count == 0);
  for (int i = 0; i < 10000 && t.count == 0; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
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
    void *a = stream_made(&one), *b = stream_made(&two), *event = event_made(&one), *last = event_made(&two),
         *y = allocated(4);
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
    cl->event_destroy(&one, event), cl->event_destroy(&two, last);
    cl->stream_destroy(&one, a), cl->stream_destroy(&two, b);
    cl->free(&one, y);
    CHECK_STATUS(cl->synchronize(&one), TENON_OK);
    CHECK_STATUS(cl->synchronize(&two), TENON_OK);
  }
}

/* ---- code ------------------------------------------------------------------------------------------------------------------- */

TEST("an error in the source is told with the author's file and line") {
  READY();
  void *program = NULL;
  host_sink_t code;
  CHECK_STATUS(build(&one, "// a comment\n\n__kernel void f(__global int *x) {\n  *x = banana;\n}\n",
                     "my \"own\" file.cl", &code, &program),
               TENON_INVALID);
  CHECK(program == NULL && code.data == NULL);
  CHECK_TEXT(host_message(), "opencl:0: my \"own\" file.cl cannot be compiled for ");
  CHECK_TEXT(host_message(), "CL_BUILD_PROGRAM_FAILURE (-11)");
  CHECK_TEXT(host_message(), "file.cl:4:8: ");
  CHECK_TEXT(host_message(), "use of undeclared identifier 'banana'");
  tenon_source_t cuda = {sizeof cuda, TENON_SOURCE_CUDA, "", 0, "k.cu", ""};
  CHECK_STATUS(cl->compile(&one, &cuda, &code.sink), TENON_UNIMPLEMENTED);
  tenon_source_t options = {sizeof options, TENON_SOURCE_OPENCL, "__kernel void f(int x) {}", 25, "k.cl", "--banana"};
  CHECK_STATUS(cl->compile(&one, &options, &code.sink), TENON_INVALID);
}

static const int group_sizes[] = {1, 3, 64, 256};

TEST("a pointwise kernel gives what C gives, at every group size") {
  READY();
  enum { N = 1003 };
  float x[N + 5], y[N + 5], a = 1.25f, b = -3.5f;
  int32_t n = N;
  for (int i = 0; i < N + 5; i++) x[i] = (float)tenon_random(3, (uint64_t)i) / 65536.0f;
  void *xs = allocated(sizeof x), *ys = allocated(sizeof y);
  for (int g = 0; g < 4; g++) {
    copy_in(x, xs, 0, sizeof x);
    for (int i = 0; i < N + 5; i++) y[i] = -1;
    copy_in(y, ys, 0, sizeof y);
    tenon_kernel_argument_t arguments[] = {memory_argument(xs, 8), memory_argument(ys, 12), bytes_argument(&a, 4),
                                           bytes_argument(&b, 4), bytes_argument(&n, 4)};
    CHECK_STATUS(launch(NULL, kernel_of("affine"), 4, (uint32_t)group_sizes[g], 5, arguments, 1), TENON_OK);
    copy_out(ys, 0, y, sizeof y);
    CHECK(y[2] == -1 && y[3 + N] == -1);
    int wrong = 0;
    for (int i = 0; i < N; i++) {
      float product = a * x[2 + i];
      wrong += y[3 + i] != product + b; /* equal: no contraction */
    }
    CHECK(wrong == 0);
    a += 1, b *= 2; /* constants that change are seen */
  }
  cl->free(&one, xs), cl->free(&one, ys);
}

TEST("a reduction of rows with local memory gives what C gives, at every group size") {
  READY();
  enum { ROWS = 17, COLUMNS = 301 };
  static float x[ROWS * COLUMNS];
  float y[ROWS];
  int32_t columns = COLUMNS;
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(tenon_random(5, (uint64_t)i) % 1000); /* sums are exact */
  void *xs = allocated(sizeof x), *ys = allocated(sizeof y);
  copy_in(x, xs, 0, sizeof x);
  for (int g = 0; g < 4; g++) {
    memset(y, 0, sizeof y);
    copy_in(y, ys, 0, sizeof y);
    tenon_kernel_argument_t arguments[] = {memory_argument(xs, 0), memory_argument(ys, 0),
                                           local_argument((uint64_t)group_sizes[g] * 4), bytes_argument(&columns, 4)};
    CHECK_STATUS(launch(NULL, kernel_of("row_sums"), ROWS, (uint32_t)group_sizes[g], 4, arguments, 1), TENON_OK);
    copy_out(ys, 0, y, sizeof y);
    int wrong = 0;
    for (int r = 0; r < ROWS; r++) {
      double sum = 0;
      for (int i = 0; i < COLUMNS; i++) sum += x[r * COLUMNS + i];
      wrong += y[r] != (float)sum;
    }
    CHECK(wrong == 0);
  }
  cl->free(&one, xs), cl->free(&one, ys);
}

TEST("a scatter with atomic additions gives what C gives, at every group size") {
  READY();
  enum { N = 20000, BINS = 37 };
  static int32_t index[N];
  int32_t y[BINS], expected[BINS], n = N;
  for (int i = 0; i < N; i++) index[i] = (int32_t)(tenon_random(7, (uint64_t)i) % BINS);
  void *is = allocated(sizeof index), *ys = allocated(sizeof y);
  copy_in(index, is, 0, sizeof index);
  for (int g = 0; g < 4; g++) {
    memset(y, 0, sizeof y), memset(expected, 0, sizeof expected);
    copy_in(y, ys, 0, sizeof y);
    for (int i = 0; i < N; i++) expected[index[i]] += i;
    tenon_kernel_argument_t arguments[] = {memory_argument(is, 0), memory_argument(ys, 0), bytes_argument(&n, 4)};
    CHECK_STATUS(launch(NULL, kernel_of("scatter"), 8, (uint32_t)group_sizes[g], 3, arguments, 1), TENON_OK);
    copy_out(ys, 0, y, sizeof y);
    CHECK(memcmp(y, expected, sizeof y) == 0);
  }
  cl->free(&one, is), cl->free(&one, ys);
}

TEST("a launch that does not fit its kernel is refused with what is wrong") {
  READY();
  void *y = allocated(64), *program = NULL, *kernel = NULL;
  int32_t v = 1;
  int64_t wide = 1;
  host_sink_t code;
  tenon_kernel_argument_t few[] = {memory_argument(y, 0)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 1, few, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "'slow' has 4 parameters, and a launch with 1 arguments gives 2 (memory is two");
  tenon_kernel_argument_t many[] = {memory_argument(y, 0), bytes_argument(&v, 4), memory_argument(y, 0)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 3, many, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "gives at least 5");
  tenon_kernel_argument_t wrong[] = {memory_argument(y, 0), bytes_argument(&wide, 8), bytes_argument(&v, 4)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 3, wrong, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "cannot set parameter 2 of the kernel 'slow': CL_INVALID_ARG_SIZE (-51)");
  tenon_kernel_argument_t right[] = {memory_argument(y, 0), bytes_argument(&v, 4), bytes_argument(&v, 4)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1u << 20, 3, right, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "cannot launch the kernel 'slow' with 1 x 1 x 1 groups of 1048576 x 1 x 1 items");
  CHECK_STATUS(launch(NULL, kernel_of("slow"), UINT64_MAX / 2, 3, 3, right, 1), TENON_INVALID);
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 3, right, 1), TENON_OK);
  CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
  CHECK_STATUS(cl->kernel_find(&one, program, "banana", &kernel), TENON_NOT_FOUND);
  CHECK_TEXT(host_message(), "no kernel 'banana'; it has ");
  CHECK_TEXT(host_message(), "scatter");
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  cl->program_unload(&one, program);
  free(code.data);
  cl->free(&one, y);
}

TEST("memory whose handle another had before is the new one to a kernel") {
  READY();
  if (!create_user_event) driver_functions();
  int32_t error = 0, zeros[1024] = {0}, y[1024];
  void *whole = create_buffer(cl->native(&one, "cl_context", NULL), 1, sizeof zeros, NULL, &error), *seen[60];
  int same = 0, wrong = 0, seen_count = 0;
  copy_in(zeros, whole, 0, sizeof zeros);
  for (int32_t i = 0; i < 60; i++) { /* parts of it: a driver looks up where they begin when the argument is set */
    size_t region[2] = {(size_t)(i % 4) * 1024, 1024};
    void *part = create_part(whole, 1, 0x1220, region, &error), *memory = NULL;
    CHECK(error == 0);
    CHECK_STATUS(cl->memory_import(&one, part, 1024, &memory), TENON_OK);
    launch_slow(NULL, memory, 1, 1, 1);
    CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
    for (int k = 0; k < seen_count; k++) same += seen[k] == memory;
    seen[seen_count++] = memory;
    nanosleep(&(struct timespec){0, 1000000}, NULL); /* the driver has let go of it, so that it ends here */
    cl->memory_forget(&one, memory);
    release_buffer(part);
  }
  copy_out(whole, 0, y, sizeof y);
  for (int i = 0; i < 4; i++) wrong += y[i * 256] != 32767; /* 15 times doubled and one added */
  CHECK(wrong == 0);
  release_buffer(whole);
  if (!same) SKIP("the driver gave no handle twice");
}

TEST("three axes of groups") {
  READY();
  static const char text[] =
      "__kernel void axes(__global char *yb, long yo) {\n"
      "  __global int *y = (__global int *)(yb + yo);\n"
      "  int i = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);\n"
      "  y[i] = get_group_id(2) * 10000 + get_group_id(1) * 100 + get_group_id(0);\n"
      "}\n";
  void *program = NULL, *kernel = NULL, *ys = allocated(4 * 4 * 6 * 6);
  int32_t y[4 * 6 * 6];
  host_sink_t code;
  CHECK_STATUS(build(&one, text, "axes.cl", &code, &program), TENON_OK);
  CHECK_STATUS(cl->kernel_find(&one, program, "axes", &kernel), TENON_OK);
  tenon_kernel_argument_t argument = memory_argument(ys, 0);
  tenon_launch_t l = {sizeof l, 1, 1, kernel, &argument, {2, 3, 2}, {2, 2, 3}, 0};
  CHECK_STATUS(cl->launch(&one, NULL, &l), TENON_OK);
  copy_out(ys, 0, y, sizeof y);
  for (int k = 0; k < 6; k++)
    for (int j = 0; j < 6; j++)
      for (int i = 0; i < 4; i++) CHECK(y[(k * 6 + j) * 4 + i] == k / 3 * 10000 + j / 2 * 100 + i / 2);
  cl->program_unload(&one, program);
  free(code.data);
  cl->free(&one, ys);
}

enum { LAUNCHES = 4000 }; /* of each thread */
typedef struct shared_t {
  void *kernel, *y, *stream; /* stream NULL: one of the thread's own */
  int number, wrong;
  pthread_barrier_t *begin;
} shared_t;

static void *launches(void *argument) {
  shared_t *s = (shared_t *)argument;
  void *stream = s->stream ? s->stream : stream_made(&one);
  int32_t n = 1;
  float a = 0, b = (float)(s->number * LAUNCHES);
  pthread_barrier_wait(s->begin);
  for (int i = 0; i < LAUNCHES; i++) { /* y[k] = k: a launch that mixes two threads' arguments shows */
    tenon_kernel_argument_t arguments[] = {memory_argument(s->y, 0),
                                           memory_argument(s->y, (uint64_t)(s->number * LAUNCHES + i) * 4),
                                           bytes_argument(&a, 4), bytes_argument(&b, 4), bytes_argument(&n, 4)};
    s->wrong += launch(stream, s->kernel, 1, 1, 5, arguments, (uint64_t)i + 1) != TENON_OK;
    b += 1;
  }
  s->wrong += cl->stream_synchronize(&one, stream, NULL) != TENON_OK;
  if (!s->stream) cl->stream_destroy(&one, stream);
  return NULL;
}

TEST("four threads launch one kernel, on streams of their own and on one") {
  READY();
  for (int common = 0; common < 2; common++) {
    pthread_t threads[4];
    shared_t shared[4];
    static float y[4 * LAUNCHES];
    pthread_barrier_t begin;
    int wrong = 0;
    pthread_barrier_init(&begin, NULL, 4);
    memset(y, 0, sizeof y);
    void *ys = allocated(sizeof y), *kernel = kernel_of("affine"), *stream = common ? stream_made(&one) : NULL;
    copy_in(y, ys, 0, sizeof y);
    CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
    for (int i = 0; i < 4; i++) {
      shared[i] = (shared_t){kernel, ys, stream, i, 0, &begin};
      pthread_create(&threads[i], NULL, launches, &shared[i]);
    }
    for (int i = 0; i < 4; i++) {
      pthread_join(threads[i], NULL);
      CHECK(shared[i].wrong == 0);
    }
    copy_out(ys, 0, y, sizeof y);
    for (int i = 0; i < 4 * LAUNCHES; i++) wrong += y[i] != (float)i;
    CHECK(wrong == 0);
    pthread_barrier_destroy(&begin);
    if (stream) cl->stream_destroy(&one, stream);
    cl->free(&one, ys);
  }
}

TEST("compiled code that is damaged, cut or of another device is refused") {
  READY();
  void *program = NULL;
  host_sink_t code;
  CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
  cl->program_unload(&one, program), program = NULL;
  static const uint64_t cuts[] = {0, 1, 31, 32, 33, 1000};
  for (int i = 0; i < 6; i++) {
    CHECK_STATUS(cl->program_load(&one, code.data, cuts[i], &program), TENON_INVALID);
    CHECK_TEXT(host_message(), "is not loaded: it");
    CHECK_TEXT(host_message(), "compile it anew");
  }
  CHECK_STATUS(cl->program_load(&one, code.data, code.bytes - 1, &program), TENON_INVALID);
  unsigned char *bytes = (unsigned char *)code.data;
  for (int i = 0; i < 400; i++) { /* of the head each, of the rest spread */
    uint64_t bit = i < 256 ? (uint64_t)i : ((uint64_t)tenon_random(1, (uint64_t)i) << 3) % (code.bytes * 8);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    if (!CHECK(cl->program_load(&one, bytes, code.bytes, &program) == TENON_INVALID))
      fprintf(stderr, "  bit %llu\n", (unsigned long long)bit);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  CHECK(program == NULL);
  CHECK_STATUS(cl->program_load(&one, bytes, code.bytes, &program), TENON_OK);
  cl->program_unload(&one, program);
  free(code.data);
}

TEST("a program may be unloaded while its work waits") {
  READY();
  void *program = NULL, *kernel = NULL, *stream = stream_made(&one), *y = allocated(4);
  int32_t value = 4, rounds = 10, result = 0;
  host_sink_t code;
  CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
  CHECK_STATUS(cl->kernel_find(&one, program, "slow", &kernel), TENON_OK);
  copy_in(&value, y, 0, 4);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  gate_t gate = gate_close(&one, stream);
  tenon_kernel_argument_t arguments[] = {memory_argument(y, 0), bytes_argument(&rounds, 4), bytes_argument(&value, 4)};
  CHECK_STATUS(launch(stream, kernel, 1, 1, 3, arguments, 1), TENON_OK);
  cl->program_unload(&one, program);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  copy_out(y, 0, &result, 4);
  CHECK(result == 12);
  free(code.data);
  cl->free(&one, y);
  cl->stream_destroy(&one, stream);
}

/* ---- others' objects -------------------------------------------------------------------------------------------------------- */

TEST("another's memory and queue are used, and stay theirs") {
  READY();
  if (!create_user_event) driver_functions();
  int32_t error = 0;
  void *context = cl->native(&one, "cl_context", NULL), *id = cl->native(&one, "cl_device_id", NULL);
  void *buffer = create_buffer(context, 1, 4096, NULL, &error), *queue = create_queue(context, id, 0, &error);
  void *disordered = create_queue(context, id, 1, &error), *memory = NULL, *stream = NULL, *event = event_made(&one);
  CHECK_STATUS(cl->memory_import(&one, buffer, 4097, &memory), TENON_INVALID);
  CHECK_TEXT(host_message(), "has 4096 bytes, and 4097 are to be used");
  CHECK_STATUS(cl->memory_import(&one, NULL, 1, &memory), TENON_INVALID);
  CHECK_STATUS(cl->memory_import(&one, buffer, 4096, &memory), TENON_OK);
  CHECK_STATUS(cl->stream_import(&one, disordered, &stream), TENON_INVALID);
  CHECK_TEXT(host_message(), "out of order");
  CHECK_STATUS(cl->stream_import(&one, queue, &stream), TENON_OK);
  CHECK(cl->native(&one, "cl_command_queue", stream) == queue);
  release_buffer(buffer), release_queue(queue); /* the import keeps them */
  int32_t value = 3, result = 0;
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
  CHECK_STATUS(copy(stream, TENON_COPY_IN, (tenon_memory_t){&value, 0}, (tenon_memory_t){memory, 4092}, 4, 1),
               TENON_OK);
  launch_slow(stream, memory, 1, 1, 2);
  CHECK_STATUS(copy(stream, TENON_COPY_OUT, (tenon_memory_t){memory, 4092}, (tenon_memory_t){&result, 0}, 4, 3),
               TENON_OK);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  CHECK(result == 3);
  cl->memory_forget(&one, memory), cl->stream_forget(&one, stream);
  release_queue(disordered);
  cl->event_destroy(&one, event);
  if (ordinals > 1) { /* of another context */
    buffer = create_buffer(cl->native(&two, "cl_context", NULL), 1, 4096, NULL, &error);
    CHECK_STATUS(cl->memory_import(&one, buffer, 4096, &memory), TENON_INVALID);
    CHECK_TEXT(host_message(), "of another context");
    CHECK_STATUS(cl->stream_import(&one, cl->native(&two, "cl_command_queue", NULL), &stream), TENON_INVALID);
    release_buffer(buffer);
  }
}

/* ---- processes, and the end ------------------------------------------------------------------------------------------------- */

static int in_fork(void) { /* while a stream of the parent is busy */
  int failures = !CHECK_STATUS(cl->forked(&one), TENON_UNAVAILABLE);
  failures += !CHECK_TEXT(host_message(), "drivers do not work in the child");
  tenon_device_context_t other = host_context(0, all.plugin, "");
  failures += !CHECK_STATUS(cl->start(&other), TENON_UNAVAILABLE);
  cl->stop(&one); /* does not wait for threads that are not there */
  return failures;
}

TEST("a child of the process is told that the device is lost there") {
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

TEST("settings that do not exist are refused, and so are ordinals") {
  READY();
  tenon_device_context_t other = host_context(0, all.plugin, "");
  other.settings = "speed=11";
  CHECK_STATUS(cl->start(&other), TENON_INVALID);
  CHECK_TEXT(host_message(), "'speed=11'");
  other = host_context(ordinals, all.plugin, "");
  CHECK_STATUS(cl->start(&other), TENON_INVALID);
}

static long resident_kib(void) {
  long pages = 0, resident = 0;
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
    void *handle = NULL, *stream = NULL, *event = NULL, *pinned = NULL;
    int32_t value = i, result = -1;
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
    if (i % 2) CHECK_STATUS(cl->synchronize(&other), TENON_OK); /* else stop waits */
    cl->event_destroy(&other, event);
    cl->stream_destroy(&other, stream);
    cl->host_free(&other, pinned), cl->free(&other, handle);
    cl->stop(&other);
    CHECK(result == i && other.state == NULL);
    if (i == 10) before = resident_kib(), used = mallinfo2().uordblks;
  }
  long grown = resident_kib() - before, kept = (long)mallinfo2().uordblks - (long)used;
  if (getenv("TENON_SHOW")) printf("grown by %ld KiB, %ld bytes in use\n", grown, kept);
  CHECK(kept < 190 * 256); /* the driver's own: PoCL 3.1 keeps about 17 bytes of each context */
#ifndef IS_INSTRUMENTED    /* what was freed stays with the sanitizer */
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
  void *stream = stream_made(&one), *y = allocated(4);
  told_t t = {0};
  launch_slow(stream, y, 1000, 1, 1);
  CHECK_STATUS(cl->callback(&one, stream, told_late, &t), TENON_OK);
  CHECK_STATUS(waited(&one, stream, NULL), TENON_OK); /* the work is done, the function perhaps not */
  cl->stream_destroy(&one, stream);
  cl->free(&one, y);
  if (ordinals > 1) cl->stop(&two);
  cl->stop(&one);
  CHECK(t.count == 1 && t.status == TENON_OK);
}
