/* Checks concurrent calls of several threads, and threads that continue to work after a call has
 * returned. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "core/tensor.h"
#include "inspect/example_fill.h"
#include "revocable_memory.h"
#include "run.h"

enum {
  THREADS = 4,
  ROUNDS = 4000,
};

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

typedef struct caller_t {
  const example_t *example;
  const tenon_op_t *op;
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS];
  tenon_tensor_t *expected[EXAMPLE_ARGUMENTS];
  tenon_tensor_t *before[EXAMPLE_ARGUMENTS]; /* initial contents of inputs that are written to */
  pthread_barrier_t *begin;
  double end_ms;
  bool *stop;
  char text[512]; /* description of the error, or "" */
  pthread_t thread;
} caller_t;

/* tensor_differs returns a shared text */
static pthread_mutex_t compares = PTHREAD_MUTEX_INITIALIZER;

static bool has_expected_results(caller_t *c, tenon_tensor_t *const *found, int round) {
  for (uint32_t o = 0; o < c->op->output_count; o++) {
    if (!c->expected[o] || !found[o]) continue;
    tenon_tensor_t *dense = tensor_dense(found[o]);
    if (!dense) return true;
    pthread_mutex_lock(&compares);
    const char *differs = tensor_differs(c->op->schema.outputs[o].name, c->expected[o], dense, 4);
    if (differs) snprintf(c->text, sizeof c->text, "call %d: %s", round, differs);
    pthread_mutex_unlock(&compares);
    tenon_tensor_release(dense);
    if (differs) return false;
  }
  return true;
}

static void restore_inputs(caller_t *c) {
  for (uint32_t i = 0; i < c->op->input_count; i++)
    if (c->before[i]) (void)tn_tensor_copy_into(c->before[i], c->inputs[i]);
}

static void *call_again(void *argument) {
  caller_t *c = argument;
  pthread_barrier_wait(c->begin);
  for (int round = 0; round < ROUNDS && !__atomic_load_n(c->stop, __ATOMIC_RELAXED); round++) {
    tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
    restore_inputs(c);
    if (tenon_op_call(c->op, c->example->attrs, c->inputs, outputs, 0) != TENON_OK)
      snprintf(c->text, sizeof c->text, "call %d failed: %s", round, tenon_error());
    bool fine = !c->text[0] && has_expected_results(c, outputs, round);
    call_drop(outputs);
    if (!fine || (round % 8 == 7 && now_ms() > c->end_ms))
      __atomic_store_n(c->stop, !fine || *c->stop, __ATOMIC_RELAXED);
    if (!fine || now_ms() > c->end_ms) break;
  }
  return NULL;
}

/* Makes arguments and expected results of one thread, before other threads start. */
static bool prepare_caller(caller_t *c, uint64_t seed) {
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  if (tn_example_inputs(&c->example->plan, seed, c->inputs) != TENON_OK) return false;
  for (uint32_t i = 0; i < c->op->input_count; i++)
    if (c->inputs[i] && c->op->schema.inputs[i].is_written)
      c->before[i] = tensor_dense(c->inputs[i]);
  bool fine = tenon_op_call(c->op, c->example->attrs, c->inputs, outputs, 0) == TENON_OK;
  for (uint32_t o = 0; o < c->op->output_count && fine; o++)
    if (outputs[o]) c->expected[o] = tensor_dense(outputs[o]);
  call_drop(outputs);
  return fine;
}

static void check_together(example_t *example) {
  caller_t callers[THREADS];
  pthread_barrier_t begin;
  bool stop = false;
  bool fine = true;
  int started = 0;
  memset(callers, 0, sizeof callers);
  pthread_barrier_init(&begin, NULL, THREADS);
  call_doing(example, "threads.reentrant", "by four threads at once");
  for (int k = 0; k < THREADS && fine; k++) {
    callers[k] = (caller_t){.example = example,
                            .op = example->op,
                            .begin = &begin,
                            .stop = &stop,
                            .end_ms = now_ms() + (options.quick ? 40 : 120)};
    fine = prepare_caller(&callers[k], example->seed + (uint64_t)k * 1000);
  }
  for (; fine && started < THREADS; started++)
    if (pthread_create(&callers[started].thread, NULL, call_again, &callers[started])) break;
  for (int k = 0; k < started && started == THREADS; k++)
    pthread_join(callers[k].thread, NULL);
  for (int k = 0; k < THREADS; k++) {
    if (callers[k].text[0])
      finding(example, "threads.reentrant", "concurrent calls return what each returns alone",
              "keep nothing in static memory, or declare the kernel \"serial\"",
              "thread %d of %d, %s", k, THREADS, callers[k].text);
    call_drop(callers[k].inputs);
    call_drop(callers[k].expected);
    call_drop(callers[k].before);
  }
  pthread_barrier_destroy(&begin);
}

static const char *lacks_concurrency(const subject_t *subject) {
  if (!subject_runs_code(subject)) return "it has no kernel";
  if (!subject_is_pure(subject) || subject->op->traits & TENON_RANDOM)
    return "equal calls do not return equal results";
  return NULL;
}

static void run_together(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; !has_findings() && (t = examples_next(&all));)
    check_together(t);
}

static int thread_count(void) {
  DIR *folder = opendir("/proc/self/task");
  int count = 0;
  if (!folder) return 0;
  for (struct dirent *entry; (entry = readdir(folder));)
    count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static void wait_ms(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&t, NULL);
}

/* Compares results at return with results a little later, if the call has left threads behind. */
static void check_after(example_t *example, int before) {
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *at_return[EXAMPLE_ARGUMENTS] = {NULL};
  call_doing(example, "threads.after", "and a second look a little after its return");
  if (tenon_op_call(example->op, example->attrs, example->inputs, outputs, 0) == TENON_OK) {
    for (uint32_t o = 0; o < example->op->output_count; o++)
      if (outputs[o]) at_return[o] = tensor_dense(outputs[o]);
    if (thread_count() > before) wait_ms(80);
    for (uint32_t o = 0; o < example->op->output_count && !has_findings(); o++) {
      tenon_tensor_t *later = at_return[o] ? tensor_dense(outputs[o]) : NULL;
      const char *differs =
          later ? tensor_differs(example->op->schema.outputs[o].name, later, at_return[o], 0)
                : NULL;
      if (differs)
        finding(example, "threads.after",
                "nothing accesses the tensors of a call after it has returned",
                "wait for the library's own threads before run returns, or use host->parallel",
                "80 ms later the result had changed: %s", differs);
      tenon_tensor_release(later);
    }
  }
  call_drop(outputs);
  call_drop(at_return);
}

/* The same with arguments that become inaccessible at return. */
static void check_reading(example_t *example, int before) {
  tenon_tensor_t *expected[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS], *outputs[EXAMPLE_ARGUMENTS];
  pages_t pages;
  if (tenon_op_call(example->op, example->attrs, example->inputs, expected, 0) == TENON_OK &&
      pages_place(example, &pages, expected, inputs, outputs)) {
    call_doing(example, "threads.after", "whose arguments become inaccessible at its return");
    tenon_op_call_into(example->op, example->attrs, inputs, outputs);
    pages_lock(&pages);
    if (thread_count() > before) wait_ms(80);
    pages_close(&pages);
  }
  call_drop(expected);
}

static bool writes_inputs(const subject_t *subject) {
  bool any = false;
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    any |= subject->op->schema.inputs[i].is_written;
  return any;
}

static void run_after(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; !has_findings() && (t = examples_next(&all));) {
    int before = thread_count();
    check_after(t, before);
    if (!writes_inputs(subject) && !has_findings()) check_reading(t, before);
  }
}

static const char *lacks_code(const subject_t *subject) {
  return subject_runs_code(subject) ? NULL : "it has no kernel";
}

const check_t checks_threads[] = {
    {"threads.reentrant",
     "Concurrent calls of four threads, each with its own arguments, return what each returns "
     "alone.",
     NULL, lacks_concurrency, run_together},
    {"threads.after",
     "No thread of the library reads or writes arguments after the call has returned.", NULL,
     lacks_code, run_after},
    {NULL, NULL, NULL, NULL, NULL}};
