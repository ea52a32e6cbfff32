/* Several threads record and go back at once: through histories of their own, which share leaves, and through one that
 * all keep. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "tape.h"

enum { THREADS = 4, ROUNDS = 200 };

static tenon_tensor_t *shared;
static int good;

static tenon_status_t one_pass(const tenon_op_t *mul, const tenon_op_t *sum, tenon_tensor_t *x) {
  tenon_tensor_t *y = NULL, *total = NULL;
  tenon_status_t status = tenon_op_call(mul, NULL, (tenon_tensor_t *[]){x, x}, &y, 0);
  if (status == TENON_OK) status = tenon_op_call(sum, NULL, (tenon_tensor_t *[]){y, NULL}, &total, 0);
  if (status == TENON_OK) status = tenon_backward(&total, NULL, 1, 0);
  RELEASE(y, total);
  return status;
}

static void work(void *argument) {
  const tenon_op_t *mul = NULL, *sum = NULL;
  int passed = 0;
  (void)argument;
  if (tenon_op_find("core::mul", &mul) || tenon_op_find("core::reduce_sum", &sum)) return;
  for (int i = 0; i < ROUNDS; i++) passed += one_pass(mul, sum, shared) == TENON_OK;
  __atomic_fetch_add(&good, passed, __ATOMIC_RELAXED);
}

static void run(void (*function)(void *), void *argument) {
  tn_spawned_t threads[THREADS];
  good = 0;
  for (int i = 0; i < THREADS; i++) CHECK(tn_spawn(&threads[i], function, argument));
  for (int i = 0; i < THREADS; i++) tn_join(&threads[i]);
}

TEST("threads that go back through histories of their own add up at a leaf that they share") {
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

TEST("threads go back at once through a history that all keep") {
  shared = leaf("f64[2] 1 2");
  tenon_tensor_t *y = then(then(apply("core::mul", shared, shared), "core::mul", shared), "core::reduce_sum", NULL);
  run(go_through, y);
  CHECK(good == THREADS * ROUNDS);
  RELEASE(y, shared);
}

static int records_elsewhere;
static void look(void *argument) { (void)argument, records_elsewhere = tenon_grad_mode_get(); }

TEST("recording is switched for one thread only") {
  tn_spawned_t thread;
  CHECK(tenon_grad_mode_set(0) == 1);
  CHECK(tn_spawn(&thread, look, NULL));
  tn_join(&thread);
  CHECK(records_elsewhere == 1);
  tenon_grad_mode_set(1);
}
