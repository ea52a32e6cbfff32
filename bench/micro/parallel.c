/* parallel.c: what parallel loops cost, and how executables on many threads share the processors.
 * bench/parallel.py runs it.
 *
 *   parallel regions ROUNDS THREADS
 *       A loop of empty parts on Tenon's pool, on OpenMP's, and on one thread, by turns.
 *       Prints nanoseconds of each round: "regions TENON OPENMP ALONE".
 *
 *   parallel throughput MODEL THREADS SECONDS COUNT...
 *       Runs of the model in a second, by COUNT threads at once, each with an executable of its
 *       own: "throughput COUNT RUNS". */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/graph.h>
#include <tenon/tenon.h>
#include <time.h>

enum { REPEATS = 200, PARTS = 8, PORTS = 16, AXES = 8, USERS = 64 };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void stop(const char *what) {
  fprintf(stderr, "parallel: %s: %s\n", what, tenon_error());
  exit(1);
}

/* regions */

static tenon_status_t do_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  (void)call;
  (void)argument;
  __asm__ volatile("" ::"r"(begin), "r"(end));
  return TENON_OK;
}

static tenon_status_t run_regions(tenon_call_t *call) {
  double *nanoseconds = call->outputs[0]->data;
  const int32_t threads = (int32_t)tenon_count(call->inputs[0]);
  double begin = now_ns();
  for (int i = 0; i < REPEATS; i++)
    if (call->host->parallel(call, PARTS, 1, do_part, NULL) != TENON_OK) return TENON_INTERNAL;
  nanoseconds[0] = (now_ns() - begin) / REPEATS;
  begin = now_ns();
  for (int i = 0; i < REPEATS; i++) {
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int k = 0; k < PARTS; k++)
      __asm__ volatile("" ::"r"(k));
  }
  nanoseconds[1] = (now_ns() - begin) / REPEATS;
  begin = now_ns();
  for (int i = 0; i < REPEATS; i++)
    if (call->host->parallel(call, 1, 1, do_part, NULL) != TENON_OK) return TENON_INTERNAL;
  nanoseconds[2] = (now_ns() - begin) / REPEATS;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(bench, "1.0.0",
  TENON_OP("regions(Tensor threads) -> Tensor", TENON_TYPES("threads: f32; out = f64"),
    TENON_SHAPES("threads: [n]; out: [3]"), TENON_KERNEL("cpu", run_regions)))
/* clang-format on */

static int time_regions(int rounds, int32_t threads) {
  const int64_t shape[1] = {threads};
  tenon_library_t *library = NULL;
  const tenon_op_t *op = NULL;
  tenon_tensor_t *count = NULL;
  tenon_threads_set(threads);
  if (tenon_library_add(tenon_library(), NULL, NULL, &library) != TENON_OK) stop("registration");
  if (tenon_op_find("bench::regions", &op) != TENON_OK) stop("regions");
  if (tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &count) != TENON_OK) stop("a tensor");
  for (int i = 0; i < rounds; i++) {
    tenon_tensor_t *found = NULL;
    if (tenon_op_call(op, NULL, &count, &found, 0) != TENON_OK) stop("regions");
    const double *nanoseconds = found->data;
    printf("regions %.1f %.1f %.1f\n", nanoseconds[0], nanoseconds[1], nanoseconds[2]);
    tenon_tensor_release(found);
  }
  tenon_tensor_release(count);
  return 0;
}

/* throughput */

typedef struct user_t {
  pthread_t thread;
  const tenon_graph_t *graph;
  int32_t threads;
  const _Atomic bool *is_over;
  pthread_barrier_t *start;
  long runs;
} user_t;

static int32_t make_inputs(const tenon_graph_t *graph, tenon_tensor_t **inputs) {
  const int32_t count = tenon_graph_input_count(graph);
  for (int32_t i = 0; i < count && i < PORTS; i++) {
    tenon_port_t port = {.size = sizeof port};
    int64_t shape[AXES];
    if (tenon_graph_input(graph, i, &port) != TENON_OK || port.ndim > AXES) stop("an input");
    for (int32_t d = 0; d < port.ndim; d++)
      shape[d] = port.axes[d].extent > 0 ? port.axes[d].extent : 1;
    if (tenon_tensor_create(port.dtype, port.ndim, shape, &inputs[i]) != TENON_OK) stop("an input");
    memset(inputs[i]->data, 0, (size_t)tenon_count(inputs[i]) * (port.dtype.bits / 8));
  }
  return count;
}

static void *use(void *argument) {
  user_t *user = argument;
  tenon_executable_t *executable = NULL;
  tenon_tensor_t *inputs[PORTS] = {NULL};
  tenon_tensor_t *outputs[PORTS] = {NULL};
  tenon_threads_set(user->threads);
  make_inputs(user->graph, inputs);
  if (tenon_executable_create(user->graph, NULL, &executable) != TENON_OK) stop("compiling");
  if (tenon_executable_run(executable, inputs, outputs, NULL) != TENON_OK) stop("a run");
  pthread_barrier_wait(user->start);
  while (!*user->is_over) {
    if (tenon_executable_run(executable, inputs, outputs, NULL) != TENON_OK) stop("a run");
    user->runs++;
  }
  tenon_executable_release(executable);
  return NULL;
}

static int time_throughput(const char *path, int32_t threads, double seconds, int count) {
  static user_t users[USERS];
  static _Atomic bool is_over;
  tenon_graph_t *graph = NULL;
  pthread_barrier_t start;
  long runs = 0;
  if (count < 1 || count > USERS) return 1;
  if (tenon_graph_load(path, NULL, &graph) != TENON_OK) stop(path);
  pthread_barrier_init(&start, NULL, (unsigned)count + 1);
  is_over = false;
  for (int i = 0; i < count; i++) {
    users[i] = (user_t){
        .graph = graph, .threads = threads, .is_over = &is_over, .start = &start, .runs = 0};
    if (pthread_create(&users[i].thread, NULL, use, &users[i]) != 0) return 1;
  }
  pthread_barrier_wait(&start);
  const double begin = now_ns();
  while (now_ns() - begin < seconds * 1e9)
    nanosleep(&(struct timespec){0, 5000000}, NULL);
  is_over = true;
  const double end = now_ns();
  for (int i = 0; i < count; i++) {
    pthread_join(users[i].thread, NULL);
    runs += users[i].runs;
  }
  printf("throughput %d %.2f\n", count, (double)runs / (end - begin) * 1e9);
  tenon_graph_release(graph);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "regions")) return time_regions(atoi(argv[2]), atoi(argv[3]));
  if (argc > 5 && !strcmp(argv[1], "throughput")) {
    for (int i = 5; i < argc; i++)
      if (time_throughput(argv[2], atoi(argv[3]), atof(argv[4]), atoi(argv[i]))) return 1;
    return 0;
  }
  fprintf(stderr, "usage: see the head of parallel.c\n");
  return 2;
}
