/* opencl.c: what the device opencl costs beside the driver's own calls. bench/opencl.py runs it and
 * prints the tables. It is linked with devices/opencl, whose table it calls directly. Cases take
 * turns in short blocks.
 *
 *   opencl about
 *       the driver and the device
 *
 *   opencl calls ROUNDS
 *       for each case: name, nanoseconds of one call: median, 10th percentile
 *
 *   opencl copies ROUNDS
 *       for each size: bytes, nanoseconds (10th percentile) of memcpy, of a copy in and a copy out
 *       of pinned memory, then of other memory
 *
 *   opencl programs ROUNDS
 *       bytes of compiled code, nanoseconds of Tenon's check, and of program_load with the driver
 *
 *   opencl count CASE CALLS
 *       calls one case inside measured(), to count instructions under valgrind */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api.h"

enum {
  BLOCK = 64,
  MOST_ROUNDS = 5000,
  MOST_CASES = 16,
};

const tenon_descriptor_t *tenon_library_opencl(void);

static tenon_status_t fail(const void *context, tenon_status_t code, const char *format, ...) {
  va_list list;
  (void)context;
  va_start(list, format);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  exit(code);
}

static const tenon_host_t host = {.size = sizeof host, .abi = TENON_ABI, .fail = fail};
static const tenon_device_table_t *table;
static tenon_device_context_t on = {
    .size = sizeof on, .phase = TENON_PHASE_DEVICE, .host = &host, .settings = ""};

static const char source[] = "__kernel void touch(__global char *xb, long xo, __global char *yb, "
                             "long yo, float a, float b, int n) {\n"
                             "  int i = get_global_id(0);\n"
                             "  if (i < n) ((__global float *)(yb + yo))[i] = a * ((__global const "
                             "float *)(xb + xo))[i] + b;\n"
                             "}\n";

static void *code;
static uint64_t code_bytes;
static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  (void)sink;
  code_bytes = bytes;
  return code = malloc(bytes);
}

static void *kernel, *stream, *x, *y, *others[2];
static cl_command_queue queue, timed;
static cl_kernel raw;

static void check(cl_int error, const char *what) {
  if (!error) return;
  fprintf(stderr, "%s: error %d\n", what, error);
  exit(1);
}

static void open_device(void) {
  int32_t count;
  cl_int error = 0;
  void *program;
  for (const tenon_item_t *item = tenon_library_opencl()->items; item->tag != TENON_TAG_END; item++)
    if (item->tag == TENON_TAG_DEVICE) table = item->text;
  on.ordinal = -1;
  table->enumerate(&on, &count);
  on.ordinal = 0;
  table->start(&on);
  tenon_source_t text = {sizeof text,       TENON_SOURCE_OPENCL, source,
                         sizeof source - 1, "touch.cl",          ""};
  tenon_sink_t sink = {sizeof sink, 0, reserve};
  table->compile(&on, &text, &sink);
  table->program_load(&on, code, code_bytes, &program);
  table->kernel_find(&on, program, "touch", &kernel);
  table->stream_create(&on, &stream);
  table->allocate(&on, 4096, &x);
  table->allocate(&on, 4096, &y);
  table->allocate(&on, 4096, &others[0]);
  table->allocate(&on, 4096, &others[1]);
  cl_context context = table->native(&on, "cl_context", NULL);
  cl_device_id id = table->native(&on, "cl_device_id", NULL);
  const char *texts[] = {source};
  queue = ocl.CreateCommandQueue(context, id, 0, &error);
  check(error, "queue");
  timed = ocl.CreateCommandQueue(context, id, CL_QUEUE_PROFILING_ENABLE, &error);
  check(error, "queue with times");
  cl_program raw_program = ocl.CreateProgramWithSource(context, 1, texts, NULL, &error);
  check(error, "program");
  check(ocl.BuildProgram(raw_program, 1, &id, "", NULL, NULL), "build");
  raw = ocl.CreateKernel(raw_program, "touch", &error);
  check(error, "kernel");
}

/* calls */

static const float a = 2;
static const float b = 3;
static const int32_t n = 1;

static void launch(void *to, uint64_t offset) {
  tenon_kernel_argument_t arguments[5] = {{.kind = TENON_ARG_MEMORY, .as.memory = {x, 0}},
                                          {.kind = TENON_ARG_MEMORY, .as.memory = {to, offset}},
                                          {.kind = TENON_ARG_BYTES, .size = 4, .as.data = &a},
                                          {.kind = TENON_ARG_BYTES, .size = 4, .as.data = &b},
                                          {.kind = TENON_ARG_BYTES, .size = 4, .as.data = &n}};
  tenon_launch_t l = {sizeof l, 5, 1, kernel, arguments, {1, 1, 1}, {1, 1, 1}, 0};
  table->launch(&on, stream, &l);
}

static void raw_arguments(void *to, int64_t offset) {
  static const int64_t zero;
  ocl.SetKernelArg(raw, 0, 8, &x);
  ocl.SetKernelArg(raw, 1, 8, &zero);
  ocl.SetKernelArg(raw, 2, 8, &to);
  ocl.SetKernelArg(raw, 3, 8, &offset);
  ocl.SetKernelArg(raw, 4, 4, &a);
  ocl.SetKernelArg(raw, 5, 4, &b);
  ocl.SetKernelArg(raw, 6, 4, &n);
}

static void raw_enqueue(cl_command_queue to) {
  static const size_t one = 1;
  ocl.EnqueueNDRangeKernel(to, raw, 1, NULL, &one, &one, 0, NULL, NULL);
}

static void case_raw(int i) {
  (void)i;
  raw_enqueue(queue);
}
static void case_raw_timed(int i) {
  (void)i;
  raw_enqueue(timed);
}
static void case_raw_set(int i) {
  raw_arguments(others[i & 1], 4 * (i & 1));
  raw_enqueue(queue);
}
static void case_launch(int i) {
  (void)i;
  launch(y, 0);
}
static void case_launch_set(int i) { launch(others[i & 1], 4 * (uint64_t)(i & 1)); }
static void case_flush(int i) {
  (void)i;
  ocl.Flush(queue);
}

typedef struct case_t {
  const char *name;
  void (*run)(int i);
} case_t;
static const case_t cases[] = {
    {"raw", case_raw},         {"raw_timed", case_raw_timed},   {"launch", case_launch},
    {"raw_set", case_raw_set}, {"launch_set", case_launch_set}, {"flush", case_flush}};
enum { CASES = sizeof cases / sizeof *cases };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void drain(void) {
  table->stream_synchronize(&on, stream, NULL);
  ocl.Finish(queue);
  ocl.Finish(timed);
}

static int compare(const void *p, const void *q) {
  double d = *(const double *)p - *(const double *)q;
  return (d > 0) - (d < 0);
}

static void time_calls(int rounds) {
  static double times[MOST_CASES][MOST_ROUNDS];
  raw_arguments(y, 0);
  for (int r = -3; r < rounds; r++)
    for (int c = 0; c < CASES; c++) {
      drain();
      double begin = now();
      for (int i = 0; i < BLOCK; i++)
        cases[c].run(i);
      if (r >= 0) times[c][r] = (now() - begin) / BLOCK;
    }
  for (int c = 0; c < CASES; c++) {
    qsort(times[c], (size_t)rounds, sizeof **times, compare);
    printf("%s %.1f %.1f\n", cases[c].name, times[c][rounds / 2], times[c][rounds / 10]);
  }
}

__attribute__((noinline)) static void measured(const case_t *c, int i) { c->run(i); }

static void count_calls(const char *name, int calls) {
  raw_arguments(y, 0);
  for (int c = 0; c < CASES; c++)
    if (strcmp(cases[c].name, name) == 0)
      for (int i = 0; i < calls; i++) {
        measured(&cases[c], i);
        if (i % BLOCK == BLOCK - 1) drain();
      }
  drain();
}

/* copies */

static void copy(uint32_t direction, void *device, void *data, uint64_t bytes) {
  tenon_memory_t place = {device, 0};
  tenon_memory_t memory = {data, 0};
  tenon_copy_t c = {sizeof c,
                    direction,
                    1,
                    bytes,
                    direction == TENON_COPY_IN ? memory : place,
                    direction == TENON_COPY_IN ? place : memory,
                    NULL};
  table->copy(&on, stream, &c);
  table->stream_synchronize(&on, stream, NULL);
}

static void *(*volatile copy_plainly)(void *, const void *, size_t) = memcpy;

static void time_copies(int rounds) {
  static double times[5][MOST_ROUNDS];
  const uint64_t most = 64 << 20;
  void *device, *pinned;
  void *from = malloc(most);
  void *to = malloc(most);
  table->allocate(&on, most, &device);
  table->host_allocate(&on, most, &pinned);
  memset(from, 1, most);
  memset(to, 2, most);
  memset(pinned, 3, most);
  copy(TENON_COPY_IN, device, from, most);
  for (uint64_t bytes = 4096; bytes <= most; bytes *= 4) {
    int count = bytes > (1 << 20) ? rounds / 8 + 3 : rounds;
    for (int r = -2; r < count; r++)
      for (int k = 0; k < 5; k++) {
        /* Each round begins with another case. */
        int c = (k + r + 2) % 5;
        double begin = now();
        if (c == 0)
          copy_plainly(to, from, bytes);
        else
          copy(c % 2 ? TENON_COPY_IN : TENON_COPY_OUT, device, c > 2 ? to : pinned, bytes);
        if (r >= 0) times[c][r] = now() - begin;
      }
    printf("%llu", (unsigned long long)bytes);
    for (int c = 0; c < 5; c++) {
      qsort(times[c], (size_t)count, sizeof **times, compare);
      printf(" %.0f", times[c][count / 10]);
    }
    puts("");
  }
}

/* programs */

static tenon_status_t quiet(const void *context, tenon_status_t code, const char *format, ...) {
  (void)context;
  (void)format;
  return code;
}

static void time_programs(int rounds) {
  static double checks[MOST_ROUNDS], loads[MOST_ROUNDS];
  static const tenon_host_t silent = {.size = sizeof silent, .abi = TENON_ABI, .fail = quiet};
  /* The entry is as large as a cache entry may be, with a wrong end: only Tenon's check is
   * timed. */
  unsigned char *entry = malloc(65536);
  memset(entry, 7, 65536);
  memcpy(entry, code, 32);
  *(uint64_t *)(void *)(entry + 16) = 65536 - 32;
  for (int r = 0; r < rounds; r++) {
    void *program;
    on.host = &silent;
    double begin = now();
    if (table->program_load(&on, entry, 65536, &program) != TENON_INVALID) exit(1);
    checks[r] = now() - begin;
    on.host = &host;
    begin = now();
    table->program_load(&on, code, code_bytes, &program);
    loads[r] = now() - begin;
    table->program_unload(&on, program);
  }
  qsort(checks, (size_t)rounds, sizeof *checks, compare);
  qsort(loads, (size_t)rounds, sizeof *loads, compare);
  printf("65536 %.0f\n%llu %.0f\n", checks[rounds / 2], (unsigned long long)code_bytes,
         loads[rounds / 2]);
}

int main(int argc, char **argv) {
  int rounds = argc > 2 ? atoi(argv[argc - 1]) : 0;
  if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
  open_device();
  if (argc == 2 && strcmp(argv[1], "about") == 0) {
    tenon_device_properties_t p = {.size = sizeof p};
    table->properties(&on, &p);
    printf("%s, %s\n", p.driver, p.name);
  } else if (argc == 3 && rounds > 0 && strcmp(argv[1], "calls") == 0)
    time_calls(rounds);
  else if (argc == 3 && rounds > 0 && strcmp(argv[1], "copies") == 0)
    time_copies(rounds);
  else if (argc == 3 && rounds > 0 && strcmp(argv[1], "programs") == 0)
    time_programs(rounds);
  else if (argc == 4 && rounds > 0 && strcmp(argv[1], "count") == 0)
    count_calls(argv[2], rounds);
  else {
    fprintf(stderr, "usage: opencl about | calls ROUNDS | copies ROUNDS | programs ROUNDS | count "
                    "CASE CALLS\n");
    return 2;
  }
  table->stop(&on);
  return 0;
}
