/* devices.c: what the host's side of devices costs, on the device null, which does nothing.
 * bench/devices.py runs it and prints the tables. It is linked with the library's own parts, since
 * the allocator is inside. Cases take turns in short blocks.
 *
 *   devices time ROUNDS
 *       for each case: name, nanoseconds of one call: median, 10th percentile
 *
 *   devices count CASE CALLS
 *       calls one case inside measured(), to count instructions under valgrind
 *
 *   devices trace MODEL
 *       runs a model on null: bytes of weights, most bytes of tensors alive, most bytes reserved */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

/* operators: one with a vendor's kernel for null, one with a source kernel */

TENON_SOURCE_3(twice, IN, float, x, OUT, float, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) y[i] = 2 * x[i];
}

#ifndef TENON_ON_DEVICE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

#include "device/memory.h"

enum {
  BLOCK = 256,
  MOST_ROUNDS = 5000,
  COUNT = 1024,
};

TENON_CODE(code, {"twice", twice})

static tenon_status_t source_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each(call, &code, 0, n, arguments, 3);
}

/* A vendor's kernel fills in a launch of its own and enqueues it, here by calling the table
 * itself. */
static const tenon_device_table_t *table;
static tenon_status_t vendor_run(tenon_call_t *call) {
  tenon_launch_t launch = {
      .size = sizeof launch, .ticket = call->ticket, .groups = {1, 1, 1}, .group = {1, 1, 1}};
  return table->launch(call->device, call->stream, &launch);
}

TENON_LIBRARY(bench, "1.0.0",
              TENON_OP("vendor(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
                       TENON_SHAPES("out = x"), TENON_KERNEL("null", vendor_run)),
              TENON_OP("source(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
                       TENON_SHAPES("out = x"), TENON_SOURCE("f32", source_run)))

static const tenon_op_t *vendor, *source;
static tenon_device_t device;
static tenon_tensor_t *x, *y;
static tenon_stream_t *stream;
static bool bad;

static void must(tenon_status_t status) {
  if (status == TENON_OK) return;
  fprintf(stderr, "devices: %s\n", tenon_error());
  exit(1);
}

static void open_device(void) {
  static const int64_t shape[] = {COUNT};
  must(tenon_library_add(tenon_library_bench(), NULL, NULL, NULL));
  must(tenon_device_find("null", 0, &device));
  must(tenon_op_find("bench::vendor", &vendor));
  must(tenon_op_find("bench::source", &source));
  must(tenon_tensor_create_on(device, tenon_dtype(TENON_F32), 1, shape, &x));
  must(tenon_tensor_create_on(device, tenon_dtype(TENON_F32), 1, shape, &y));
  must(tenon_stream_of(device, &stream));
  table = stream->ordinal->table;
}

/* cases */

static void case_launch(void) {
  tenon_launch_t launch = {
      .size = sizeof launch, .ticket = 1, .groups = {1, 1, 1}, .group = {1, 1, 1}};
  bad |= table->launch(&stream->ordinal->context, NULL, &launch) != TENON_OK;
}
static void case_vendor(void) { bad |= tenon_op_run(vendor, NULL, &x, &y) != TENON_OK; }
static void case_source(void) { bad |= tenon_op_run(source, NULL, &x, &y) != TENON_OK; }
static void case_memory(void) {
  tn_memory_t *memory;
  bad |= tn_memory_get(stream, 4 * COUNT, &memory) != TENON_OK;
  tn_memory_put(memory);
}
static void case_tensor(void) {
  static const int64_t shape[] = {COUNT};
  tenon_tensor_t *t = NULL;
  bad |= tenon_tensor_create_on(device, tenon_dtype(TENON_F32), 1, shape, &t) != TENON_OK;
  tenon_tensor_release(t);
}
static void case_malloc(void) {
  void *volatile p = malloc(4 * COUNT);
  bad |= !p;
  free(p);
}

typedef struct case_t {
  const char *name;
  void (*run)(void);
} case_t;
static const case_t cases[] = {{"launch", case_launch}, {"vendor", case_vendor},
                               {"source", case_source}, {"malloc", case_malloc},
                               {"memory", case_memory}, {"tensor", case_tensor}};
enum { CASES = sizeof cases / sizeof *cases };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *p, const void *q) {
  double d = *(const double *)p - *(const double *)q;
  return (d > 0) - (d < 0);
}

static void time_all(int rounds) {
  static double times[CASES][MOST_ROUNDS];
  for (int r = -3; r < rounds; r++)
    for (int c = 0; c < CASES; c++) {
      double begin = now();
      for (int i = 0; i < BLOCK; i++)
        cases[c].run();
      if (r >= 0) times[c][r] = (now() - begin) / BLOCK;
    }
  for (int c = 0; c < CASES; c++) {
    qsort(times[c], (size_t)rounds, sizeof **times, compare);
    printf("%s %.1f %.1f\n", cases[c].name, times[c][rounds / 2], times[c][rounds / 10]);
  }
}

__attribute__((noinline)) static void measured(const case_t *c) { c->run(); }

static void count(const char *name, int calls) {
  for (int c = 0; c < CASES; c++) {
    if (strcmp(cases[c].name, name) != 0) continue;
    /* After these calls everything that a call creates exists. */
    for (int i = 0; i < 100; i++)
      cases[c].run();
    for (int i = 0; i < calls; i++)
      measured(&cases[c]);
  }
}

/* the tensors of a model */

static void trace(const char *model) {
  tenon_graph_t *graph;
  tenon_executable_t *executable;
  tenon_tensor_t *inputs[8] = {NULL};
  tenon_tensor_t *outputs[8] = {NULL};
  tenon_memory_stats_t before = {.size = sizeof before};
  tenon_memory_stats_t after = before;
  must(tenon_graph_load(model, NULL, &graph));
  must(tenon_executable_create(
      graph, &(tenon_compile_t){.size = sizeof(tenon_compile_t), .device = device}, &executable));
  for (int32_t i = 0; i < tenon_graph_input_count(graph) && i < 8; i++) {
    tenon_port_t port = {.size = sizeof port};
    int64_t shape[TENON_RANK_MAX];
    must(tenon_graph_input(graph, i, &port));
    for (int32_t k = 0; k < port.ndim; k++)
      shape[k] = port.axes[k].extent > 0 ? port.axes[k].extent : 1;
    must(tenon_tensor_create(port.dtype, port.ndim, shape, &inputs[i]));
    memset(inputs[i]->data, 0, (size_t)(tenon_count(inputs[i]) * port.dtype.bits / 8));
  }
  must(tenon_memory_stats(device, &before));
  for (int run = 0; run < 3; run++) {
    must(tenon_executable_run(executable, inputs, outputs, NULL));
    for (int i = 0; i < 8; i++) {
      tenon_tensor_release(outputs[i]);
      outputs[i] = NULL;
    }
  }
  must(tenon_memory_stats(device, &after));
  printf("%llu %llu %llu %llu\n", (unsigned long long)before.live_bytes,
         (unsigned long long)before.reserved, (unsigned long long)after.live_bytes_peak,
         (unsigned long long)after.reserved_peak);
  for (int i = 0; i < 8; i++)
    tenon_tensor_release(inputs[i]);
  tenon_executable_release(executable);
  tenon_graph_release(graph);
}

int main(int argc, char **argv) {
  open_device();
  int rounds = argc == 3 ? atoi(argv[2]) : 0;
  if (argc == 3 && strcmp(argv[1], "time") == 0)
    time_all(rounds < 10 ? 10 : rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS);
  else if (argc == 4 && strcmp(argv[1], "count") == 0)
    count(argv[2], atoi(argv[3]));
  else if (argc == 3 && strcmp(argv[1], "trace") == 0)
    trace(argv[2]);
  else {
    fprintf(stderr, "devices: time ROUNDS, count CASE CALLS or trace MODEL\n");
    return 2;
  }
  if (bad) {
    fprintf(stderr, "devices: a call failed: %s\n", tenon_error());
    return 1;
  }
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return 0;
}
#endif
