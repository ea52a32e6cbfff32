/* Shared code of the tests of devices/opencl: its table and two ordinals on the installed driver
 * (PoCL if packages.sh test was run), kernels, and gates, which hold a stream until they are
 * opened. */
#ifndef TENON_TESTS_DEVICES_OPENCL_H
#define TENON_TESTS_DEVICES_OPENCL_H

#include "host.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <time.h>

const tenon_descriptor_t *tenon_library_opencl(void);

static const tenon_device_table_t *cl; /* the table */
static tenon_device_context_t all, one, two;
static int32_t ordinals;
static const char *missing; /* why there is no device to test on */

/* With this setting PoCL shows two devices, each with threads of its own. */
__attribute__((constructor)) static void two_devices(void) {
  setenv("POCL_DEVICES", "pthread pthread", 0);
}

static inline bool ready(void) {
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
#define READY()                                                                                    \
  if (!ready()) SKIP(missing)

/* A sink that keeps what it receives; the caller frees it. */
typedef struct host_sink_t {
  tenon_sink_t sink;
  void *data;
  uint64_t bytes;
} host_sink_t;

static inline void *host_reserve(tenon_sink_t *sink, uint64_t bytes) {
  host_sink_t *kept = (host_sink_t *)sink;
  kept->bytes = bytes;
  return kept->data = malloc((size_t)bytes);
}

static inline host_sink_t host_sink(void) {
  return (host_sink_t){{sizeof(tenon_sink_t), 0, host_reserve}, NULL, 0};
}

/* helpers */

static inline void *allocated(uint64_t bytes) {
  void *handle = NULL;
  CHECK_STATUS(cl->allocate(&one, bytes, &handle), TENON_OK);
  return handle;
}

static inline void *stream_made(tenon_on_t on) {
  void *stream = NULL;
  CHECK_STATUS(cl->stream_create(on, &stream), TENON_OK);
  return stream;
}

static inline void *event_made(tenon_on_t on) {
  void *event = NULL;
  CHECK_STATUS(cl->event_create(on, &event), TENON_OK);
  return event;
}

static inline tenon_status_t copy(void *stream, uint32_t direction, tenon_memory_t from,
                                  tenon_memory_t to, uint64_t bytes, uint64_t ticket) {
  tenon_copy_t c = {sizeof c, direction, ticket, bytes, from, to, NULL};
  return cl->copy(&one, stream, &c);
}

static inline void copy_in(const void *from, void *handle, uint64_t offset, uint64_t bytes) {
  CHECK_STATUS(copy(NULL, TENON_COPY_IN, (tenon_memory_t){(void *)from, 0},
                    (tenon_memory_t){handle, offset}, bytes, 1),
               TENON_OK);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
}

static inline void copy_out(void *handle, uint64_t offset, void *to, uint64_t bytes) {
  CHECK_STATUS(copy(NULL, TENON_COPY_OUT, (tenon_memory_t){handle, offset}, (tenon_memory_t){to, 0},
                    bytes, 1),
               TENON_OK);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
}

static inline void random_fill(void *data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; i++)
    ((unsigned char *)data)[i] = (unsigned char)(tenon_random(seed, i) >> 7);
}

static const char sources[] =
    "__kernel void affine(__global char *xb, long xo, __global char *yb, long yo, float a, float "
    "b, int n) {\n"
    "  __global const float *x = (__global const float *)(xb + xo);\n"
    "  __global float *y = (__global float *)(yb + yo);\n"
    "  for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = a * x[i] + b;\n"
    "}\n"
    "__kernel void row_sums(__global char *xb, long xo, __global char *yb, long yo, __local float "
    "*part, int columns) {\n"
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
    "  for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_add((__global int "
    "*)(yb + yo) + index[i], i);\n"
    "}\n"
    "__kernel void slow(__global char *yb, long yo, int rounds, int add) {\n"
    "  __global int *y = (__global int *)(yb + yo);\n"
    "  uint v = 1;\n"
    "  for (int i = 0; i < rounds; i++) v = v * 1664525u + 1013904223u;\n"
    "  *y = *y * 2 + (v == 12345u ? 0 : add);\n"
    "}\n";

static inline tenon_status_t build(tenon_on_t on, const char *text, const char *file,
                                   host_sink_t *code, void **out_program) {
  tenon_source_t source = {sizeof source, TENON_SOURCE_OPENCL, text, strlen(text), file, ""};
  *code = host_sink();
  TENON_TRY(cl->compile(on, &source, &code->sink));
  return cl->program_load(on, code->data, code->bytes, out_program);
}

static inline void *
/* Returns a kernel of `sources` on the first ordinal, which is built once. */
kernel_of(const char *name) {
  static void *program, *kernel;
  if (!program) {
    host_sink_t code;
    CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
    free(code.data);
  }
  CHECK_STATUS(cl->kernel_find(&one, program, name, &kernel), TENON_OK);
  return kernel;
}

static inline tenon_kernel_argument_t memory_argument(void *handle, uint64_t offset) {
  return (tenon_kernel_argument_t){TENON_ARG_MEMORY, 0, 0, {.memory = {handle, offset}}};
}
static inline tenon_kernel_argument_t bytes_argument(const void *data, uint64_t size) {
  return (tenon_kernel_argument_t){TENON_ARG_BYTES, 0, size, {.data = data}};
}
static inline tenon_kernel_argument_t local_argument(uint64_t size) {
  return (tenon_kernel_argument_t){TENON_ARG_LOCAL, 0, size, {.data = NULL}};
}

static inline tenon_status_t launch(void *stream, void *kernel, uint64_t groups, uint32_t group,
                                    uint32_t count, const tenon_kernel_argument_t *arguments,
                                    uint64_t ticket) {
  tenon_launch_t l = {sizeof l, count, ticket, kernel, arguments, {groups, 1, 1}, {group, 1, 1}, 0};
  return cl->launch(&one, stream, &l);
}

/* Computes y = y * 2 + add, slowly. */
static inline void launch_slow(void *stream, void *y, int32_t rounds, int32_t add,
                               uint64_t ticket) {
  tenon_kernel_argument_t arguments[] = {memory_argument(y, 0), bytes_argument(&rounds, 4),
                                         bytes_argument(&add, 4)};
  CHECK_STATUS(launch(stream, kernel_of("slow"), 1, 1, 3, arguments, ticket), TENON_OK);
}

/* The driver's own functions, for work outside the table: a gate holds a stream until it is opened
 * or fails. */
typedef struct gate_t {
  void *event;
  void *barrier;
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
static void *(*create_context)(const intptr_t *, uint32_t, void *const *, void *, void *,
                               int32_t *);
static int32_t (*release_context)(void *);

static inline void driver_functions(void) {
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

static inline gate_t gate_close(tenon_on_t on, void *stream) {
  int32_t error = 0;
  gate_t gate;
  if (!create_user_event) driver_functions();
  gate.event = create_user_event(cl->native(on, "cl_context", NULL), &error);
  CHECK(error == 0);
  CHECK(enqueue_barrier(cl->native(on, "cl_command_queue", stream), 1, &gate.event,
                        &gate.barrier) == 0);
  return gate;
}

/* 0: the work continues; < 0: it fails */
static inline void gate_open(gate_t gate, int32_t status) {
  CHECK(set_user_event(gate.event, status) == 0);
  CHECK(release_event(gate.event) == 0 && release_event(gate.barrier) == 0);
}

/* Waits by queries. There is no time limit, since the time that a driver needs to compile and run
 * depends on the load of the machine. */
static inline tenon_status_t waited(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  tenon_status_t status;
  while ((status = cl->stream_query(on, stream, fault)) == TENON_UNAVAILABLE)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  return status;
}

static inline void wait_for_count(const _Atomic int *count, int wanted) {
  while (*count < wanted)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

typedef struct told_t {
  _Atomic int count;
  tenon_status_t status;
} told_t;
static inline void told(void *argument, tenon_status_t status) {
  told_t *t = (told_t *)argument;
  t->status = status;
  t->count++;
}

#endif
