/* Shared code of the libraries in this folder: an operator that works, and one that misbehaves. */
#ifndef MISBEHAVE_H
#define MISBEHAVE_H

#include <tenon/op.h>
#include <time.h>

static tenon_status_t twice(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  float *y = (float *)call->outputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    y[i] = 2 * x[i];
  return TENON_OK;
}

/* Counts itself in at the gate, an input that both processes can access, and waits until the test
 * opens the gate, at most for a minute. */
static void wait_at(const tenon_tensor_t *gate) {
  enum { OPEN = 100 };
  int *count = (int *)gate->data;
  __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 60000 && __atomic_load_n(count, __ATOMIC_SEQ_CST) < OPEN; i++) {
    const struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, 0);
  }
}

static tenon_status_t naps(tenon_call_t *call) { /* Doubles once the gate is open. */
  wait_at(call->inputs[1]);
  return twice(call);
}

/* Writes to its input once, then waits. */
static tenon_status_t naps_in_place(tenon_call_t *call) {
  float *x = (float *)call->inputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    x[i] += 1;
  wait_at(call->inputs[1]);
  return TENON_OK;
}

#define MISBEHAVE(name, act)                                                                       \
  TENON_LIBRARY(                                                                                   \
      name, "1.0.0",                                                                               \
      TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),                        \
               TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", twice)),     \
      TENON_OP("naps(Tensor x, Tensor gate) -> Tensor", TENON_TYPES("x: f32; gate: i32; out = x"), \
               TENON_SHAPES("out = x"), TENON_KERNEL("cpu", naps)),                                \
      TENON_OP("naps_in_place(Tensor(a!) x, Tensor gate) -> ()", TENON_TYPES("x: f32; gate: i32"), \
               TENON_KERNEL("cpu", naps_in_place)),                                                \
      TENON_OP("act(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), \
               TENON_KERNEL("cpu", act)))

#endif
