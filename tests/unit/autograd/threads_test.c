/* Several threads record and run backward at once: through histories of their own that share
 * leaves, and through one history that all threads keep. */
#include "base/parallel.h"
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "tape.h"

enum {
  THREADS = 4,
  ROUNDS = 200,
};

static tenon_tensor_t *shared;
static int good;

static tenon_status_t one_pass(const tenon_op_t *mul, const tenon_op_t *sum, tenon_tensor_t *x) {
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *total = NULL;
  tenon_status_t status = tenon_op_call(mul, NULL, (tenon_tensor_t *[]){x, x}, &y, 0);
  if (status == TENON_OK)
    status = tenon_op_call(sum, NULL, (tenon_tensor_t *[]){y, NULL}, &total, 0);
  if (status == TENON_OK) status = tenon_backward(&total, NULL, 1, 0);
  RELEASE(y, total);
  return status;
}

static void work(void *argument) {
  const tenon_op_t *mul = NULL;
  const tenon_op_t *sum = NULL;
  int passed = 0;
  (void)argument;
  if (tenon_op_find("core::mul", &mul) || tenon_op_find("core::reduce_sum", &sum)) return;
  for (int i = 0; i < ROUNDS; i++)
    passed += one_pass(mul, sum, shared) == TENON_OK;
  __atomic_fetch_add(&good, passed, __ATOMIC_RELAXED);
}

static void run(void (*function)(void *), void *argument) {
  tn_spawned_t threads[THREADS];
  good = 0;
  for (int i = 0; i < THREADS; i++)
    CHECK(tn_spawn(&threads[i], function, argument));
  for (int i = 0; i < THREADS; i++)
    tn_join(&threads[i]);
}

TEST("gradients from threads with histories of their own add up at a leaf that they share") {
  shared = leaf("f64[2] 1 2");
  run(work, NULL);
  CHECK(good == THREADS * ROUNDS);
  CHECK(tensor_float(tenon_tensor_grad(shared), 0) == 2.0 * THREADS * ROUNDS);
  CHECK(tensor_float(tenon_tensor_grad(shared), 1) == 4.0 * THREADS * ROUNDS);
  RELEASE(shared);
}

static void go_through(void *argument) {
  tenon_tensor_t *y = argument;
  int passed = 0;
  for (int i = 0; i < ROUNDS; i++) {
    tenon_tensor_t *grad = NULL;
    passed += tenon_gradients(&y, NULL, 1, &shared, 1, TENON_GRAD_KEEP, &grad) == TENON_OK;
    passed -= !grad || tensor_float(grad, 1) != 12;
    tenon_tensor_release(grad);
  }
  __atomic_fetch_add(&good, passed, __ATOMIC_RELAXED);
}

TEST("several threads can run backward through one history at once, if it is kept") {
  shared = leaf("f64[2] 1 2");
  tenon_tensor_t *y =
      then(then(apply("core::mul", shared, shared), "core::mul", shared), "core::reduce_sum", NULL);
  run(go_through, y);
  CHECK(good == THREADS * ROUNDS);
  RELEASE(y, shared);
}

static int records_elsewhere;
static void look(void *argument) {
  (void)argument;
  records_elsewhere = tenon_grad_mode_get();
}

TEST("recording is switched off for one thread only") {
  tn_spawned_t thread;
  CHECK(tenon_grad_mode_set(0) == 1);
  CHECK(tn_spawn(&thread, look, NULL));
  tn_join(&thread);
  CHECK(records_elsewhere == 1);
  tenon_grad_mode_set(1);
}

/* the modes of a thread in threads that work for it */

static tenon_status_t look_in_part(void *argument, int64_t begin, int64_t end) {
  int *found = argument;
  for (int64_t i = begin; i < end; i++)
    found[i] = 1 + tenon_grad_mode_get() + 2 * tenon_inference_mode_get();
  return TENON_OK;
}

TEST(
    "the worker threads of a parallel loop record calls as the thread that started the loop does") {
  enum { PARTS = 64 };
  int found[PARTS];
  int32_t threads = tenon_threads_get();
  tenon_threads_set(4);
  /* The modes are: as at the start, recording off, inference. */
  for (int mode = 0; mode < 3; mode++) {
    if (mode == 1) tenon_grad_mode_set(0);
    if (mode == 2) tenon_inference_mode_set(1);
    memset(found, 0, sizeof found);
    CHECK_STATUS(tn_parallel(PARTS, 1, look_in_part, found), TENON_OK);
    for (int i = 0; i < PARTS; i++)
      CHECK(found[i] == (mode == 0 ? 2 : mode == 1 ? 1 : 3));
    if (mode == 1) tenon_grad_mode_set(1);
    if (mode == 2) tenon_inference_mode_set(0);
  }
  tenon_threads_set(threads);
}

static int seen_by_layer, mode_in_hook;
static tenon_status_t count_call(tenon_call_t *call) {
  seen_by_layer++;
  return tenon_call_next(call);
}
static tenon_status_t look_in_hook(void *context, tenon_tensor_t *grad, tenon_tensor_t **out_grad) {
  (void)context;
  (void)grad;
  (void)out_grad;
  mode_in_hook = tenon_grad_mode_get();
  return TENON_OK;
}

TEST("backward runs under the caller's layers, and its hooks record only if that backward is "
     "recorded") {
  tenon_layer_t *layer = NULL;
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = then(apply("core::mul", x, x), "core::reduce_sum", NULL);
  tenon_tensor_t *grad = NULL;
  CHECK_STATUS(tenon_layer_create("count", "below autograd", count_call, NULL, &layer), TENON_OK);
  CHECK_STATUS(tenon_tensor_hook(x, look_in_hook, NULL, NULL, NULL), TENON_OK);
  seen_by_layer = 0;
  CHECK_STATUS(tenon_backward(&y, NULL, 1, TENON_GRAD_KEEP), TENON_OK);
  CHECK(seen_by_layer == 0 && mode_in_hook == 0);
  tenon_layer_enable(layer, 1);
  CHECK_STATUS(tenon_gradients(&y, NULL, 1, &x, 1, TENON_GRAD_CREATE, &grad), TENON_OK);
  CHECK(seen_by_layer > 0 && mode_in_hook == 1 && tenon_grad_mode_get());
  tenon_layer_enable(layer, 0);
  tenon_layer_release(layer);
  RELEASE(x, y, grad);
}
