/* Runs that another thread cancels: no thread begins more than the tile that it was about to begin,
 * the run fails with the status that the callback gave, and the next run works. */
#define TENON_STATIC
#include <sched.h>
#include <stdatomic.h>
#include <tenon/iterator.h>

#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 1000,
  THREADS = 2,
  COUNT = 1 << 18,
};

static atomic_int is_cancelled;
static atomic_int begun_late; /* tiles that began after the cancellation */
static atomic_int begun;

static tenon_status_t count_tile(const tenon_loop_t *loop) {
  const float *x = loop->data[0];
  float *y = loop->data[1];
  atomic_fetch_add(&begun, 1);
  atomic_fetch_add(&begun_late, atomic_load(&is_cancelled));
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = x[i] + 1;
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(cancelled, "1.0.0",
  TENON_OP("first(Tensor x) -> Tensor",
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_TYPES("x: f32; out = x"),
    TENON_LOOP("f32 -> f32", count_tile)))
/* clang-format on */

static tenon_status_t ask(void *state) {
  (void)state;
  return atomic_load(&is_cancelled) ? TENON_CANCELLED : TENON_OK;
}

/* The thread that cancels: it waits for each round to begin, and then for a time that differs. */
static atomic_int round_begun;
static atomic_int round_cancelled;

static void cancel_rounds(void *unused) {
  (void)unused;
  for (int round = 1; round <= ROUNDS; round++) {
    while (atomic_load(&round_begun) < round)
      (void)sched_yield();
    for (volatile int i = 0; i < round * 97 % 30000; i++)
      continue;
    atomic_store(&is_cancelled, 1);
    atomic_store(&round_cancelled, round);
  }
}

static tenon_executable_t *compile_text(const char *text) {
  tenon_graph_t *graph = NULL;
  tenon_executable_t *executable = NULL;
  CHECK_STATUS(tenon_graph_read(text, strlen(text), NULL, &graph), TENON_OK);
  if (graph) CHECK_STATUS(tenon_executable_create(graph, NULL, &executable), TENON_OK);
  tenon_graph_release(graph);
  return executable;
}

/* Two regions: the first one begins with the counted loop, the second one with the sums of rows. */
static tenon_executable_t *compile_regions(void) {
  return compile_text("tenon graph 1\n"
                      "graph (x: f32[n, 512]) {\n"
                      "  axis = i64[1] [1]\n"
                      "  a = cancelled::first(x)\n"
                      "  b = core::tanh(a)\n"
                      "  c = core::mul(b, a)\n"
                      "  sums = core::reduce_sum(c, axis)\n"
                      "  y = core::sub(c, sums)\n"
                      "  return y\n"
                      "}\n");
}

static tenon_tensor_t *make_input(void) {
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, (int64_t[]){COUNT / 512, 512}, &x),
               TENON_OK);
  for (int64_t i = 0; x && i < COUNT; i++)
    ((float *)x->data)[i] = (float)(i % 1000) / 500 - 1;
  return x;
}

static void check_right(tenon_executable_t *executable, tenon_tensor_t *x,
                        const tenon_tensor_t *expected) {
  tenon_tensor_t *y = NULL;
  CHECK_STATUS(tenon_executable_run(executable, &x, &y, NULL), TENON_OK);
  CHECK(y && tensor_equal(y, expected, 0));
  tenon_tensor_release(y);
}

TEST("a thousand cancellations by another thread: no tile begins late, and nothing is lost") {
  const tenon_poll_t poll = {ask, NULL};
  tenon_tensor_t *expected = NULL;
  tn_spawned_t thread;
  int ended = 0;
  CHECK_STATUS(tenon_library_add(tenon_library_cancelled(), NULL, NULL, NULL), TENON_OK);
  tenon_executable_t *executable = compile_regions();
  tenon_tensor_t *x = make_input();
  tenon_threads_set(THREADS);
  CHECK_STATUS(tenon_executable_run(executable, &x, &expected, NULL), TENON_OK);
  CHECK(atomic_load(&begun) > 20); /* many tiles */
  CHECK(tn_spawn(&thread, cancel_rounds, NULL));
  CHECK(tenon_poll_set_shared(&poll) == NULL);
  for (int round = 1; round <= ROUNDS; round++) {
    tenon_tensor_t *y = NULL;
    atomic_store(&is_cancelled, 0);
    atomic_store(&begun_late, 0);
    atomic_store(&round_begun, round);
    const tenon_status_t status = tenon_executable_run(executable, &x, &y, NULL);
    while (atomic_load(&round_cancelled) < round)
      (void)sched_yield();
    ended += status == TENON_CANCELLED;
    CHECK(status == TENON_CANCELLED ? !y : status == TENON_OK && tensor_equal(y, expected, 0));
    CHECK(atomic_load(&begun_late) <= THREADS);
    tenon_tensor_release(y);
    atomic_store(&is_cancelled, 0);
    if (round % 100 == 0) check_right(executable, x, expected);
  }
  CHECK(ended > 10); /* the rounds in which the run ended before the cancellation show nothing */
  tn_join(&thread);
  CHECK(tenon_poll_set(NULL) == &poll);
  check_right(executable, x, expected);
  tenon_threads_set(0);
  tenon_tensor_release(x);
  tenon_tensor_release(expected);
  tenon_executable_release(executable);
}

static tenon_status_t end_with_reason(void *state) {
  int *left = state;
  return (*left)-- > 0 ? TENON_OK : tenon_error_set(TENON_DEADLINE, "the time is over");
}

TEST("a callback may state the reason, and ends the body of a loop too") {
  int left = 100;
  const tenon_poll_t poll = {end_with_reason, &left};
  tenon_executable_t *executable = compile_text(
      "tenon graph 1\n"
      "graph (x: f32[]) {\n"
      "  trips = i64[] 1000000000\n"
      "  yes = bool[] 1\n"
      "  y = core::loop([x], [], trips, yes, body=graph (i: i64[], c: bool[], x: f32[]) {\n"
      "    next = core::tanh(x)\n"
      "    return c, next\n"
      "  }, count=1)\n"
      "  return y\n"
      "}\n");
  tenon_tensor_t *x = tensor_of("f32[] 0.5");
  tenon_tensor_t *y = NULL;
  if (!executable) return;
  tenon_poll_set(&poll);
  CHECK_STATUS(tenon_executable_run(executable, &x, &y, NULL), TENON_DEADLINE);
  CHECK_TEXT(tenon_error(), "the time is over");
  CHECK(!y && left < 0);
  tenon_poll_set(NULL);
  tenon_tensor_release(x);
  tenon_executable_release(executable);
}

TEST("nothing is left behind") { tenon_shutdown(); }
