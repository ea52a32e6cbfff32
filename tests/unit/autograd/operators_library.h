/* Operators for the tests of gradients: written inputs, no gradient, a composite without a gradient
 * of its own. TENON_STATIC must be defined before the first include. */
#ifndef TENON_TESTS_AUTOGRAD_LIBRARY_H
#define TENON_TESTS_AUTOGRAD_LIBRARY_H

#include <stdlib.h>
#include <string.h>
#include <tenon/op.h>

static double *doubles(tenon_tensor_t *t) { return t->data; }

/* Element i in row-major order, for any strides. */
static double *place(const tenon_tensor_t *t, int64_t i) {
  int64_t at = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    at += i % t->shape[d] * t->strides[d];
    i /= t->shape[d];
  }
  return (double *)t->data + at;
}

static tenon_status_t check_counts(tenon_call_t *call) {
  if (tenon_count(call->inputs[0]) == tenon_count(call->inputs[1])) return TENON_OK;
  return tenon_fail(call, TENON_INVALID, "x and y have as many elements");
}

static tenon_status_t add_in_place(tenon_call_t *call) {
  const tenon_tensor_t *y = call->inputs[0];
  const tenon_tensor_t *x = call->inputs[1];
  TENON_TRY(check_counts(call));
  for (int64_t i = 0; i < tenon_count(y); i++)
    *place(y, i) += *place(x, i);
  return TENON_OK;
}

static tenon_status_t scale_in_place(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    *place(call->inputs[0], i) *= call->attrs[0].as.f;
  return TENON_OK;
}

static tenon_status_t square_in_place(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    *place(call->inputs[0], i) *= *place(call->inputs[0], i);
  return TENON_OK;
}

static tenon_status_t exp_in_place(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    *place(call->inputs[0], i) = exp(*place(call->inputs[0], i));
  return TENON_OK;
}

static tenon_status_t mul_in_place(tenon_call_t *call) {
  const tenon_tensor_t *y = call->inputs[0];
  const tenon_tensor_t *x = call->inputs[1];
  TENON_TRY(check_counts(call));
  for (int64_t i = 0; i < tenon_count(y); i++)
    *place(y, i) *= *place(x, i);
  return TENON_OK;
}

static tenon_status_t fail_in_place(tenon_call_t *call) {
  return tenon_fail(call, TENON_CANCELLED, "enough");
}

static tenon_status_t put_in_place(tenon_call_t *call) {
  const tenon_tensor_t *y = call->inputs[0];
  const tenon_tensor_t *x = call->inputs[1];
  TENON_TRY(check_counts(call));
  for (int64_t i = 0; i < tenon_count(y); i++)
    *place(y, i) = *place(x, i);
  return TENON_OK;
}

static tenon_status_t copy_run(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    doubles(call->outputs[0])[i] = doubles(call->inputs[0])[i];
  return TENON_OK;
}

/* An operator whose state counts its calls, and whose gradient reads that state. */
typedef struct times_t {
  double by;
  int forward;
  int backward;
} times_t;
static int times_alive;

static tenon_status_t times_create(tenon_node_t *node) {
  times_t *state = calloc(1, sizeof *state);
  if (!state) return TENON_MEMORY;
  state->by = node->attrs[0].as.f;
  times_alive++;
  node->state = state;
  return TENON_OK;
}
static void times_destroy(void *state) {
  times_alive--;
  free(state);
}

static tenon_status_t times_run(tenon_call_t *call) {
  times_t *state = call->state;
  state->forward++;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    doubles(call->outputs[0])[i] = doubles(call->inputs[0])[i] * state->by;
  return TENON_OK;
}

/* dy times the factor of the forward call, plus the state's count of calls: the sum shows which
 * state the gradient read. */
static tenon_status_t times_backward_run(tenon_call_t *call) {
  times_t *state = call->state;
  state->backward++;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    doubles(call->outputs[0])[i] = doubles(call->inputs[0])[i] * state->by + 1000 * state->forward;
  return TENON_OK;
}

/* Copies the input to both results. */
static tenon_status_t copy_twice(tenon_call_t *call) {
  const size_t size = (size_t)tenon_count(call->inputs[0]) * sizeof(double);
  for (uint32_t o = 0; o < 2; o++)
    if (call->outputs[o] && size) memcpy(call->outputs[o]->data, call->inputs[0]->data, size);
  return TENON_OK;
}

static tenon_status_t twice_run(tenon_call_t *call) {
  tenon_tensor_t *out = NULL;
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL,
                               (tenon_tensor_t *[]){call->inputs[0], call->inputs[0]}, &out));
  return call->host->assign(call, 0, out);
}

/* clang-format off */
TENON_LIBRARY(autograd, "1.0.0",
  TENON_OP("add_(Tensor(a!) y, Tensor x) -> Tensor(a!)",
    TENON_TYPES("x, y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::identity(grad); x: core::identity(grad)"),
    TENON_KERNEL("cpu strided", add_in_place)),
  TENON_OP("mul_(Tensor(a!) y, Tensor x) -> Tensor(a!)",
    TENON_TYPES("x, y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(grad, x); x: core::mul(grad, y)"),
    TENON_KERNEL("cpu strided", mul_in_place)),
  TENON_OP("fails_(Tensor(a!) y) -> Tensor(a!)",
    TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu strided", fail_in_place)),
  TENON_OP("put_(Tensor(a!) y, Tensor x) -> Tensor(a!)",
    TENON_TYPES("x, y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: none; x: core::identity(grad)"), TENON_KERNEL("cpu strided", put_in_place)),
  TENON_OP("scale_(Tensor(a!) y, *, float by) -> Tensor(a!)",
    TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(grad, by)"), TENON_KERNEL("cpu strided", scale_in_place)),
  TENON_OP("square_(Tensor(a!) y) -> Tensor(a!)",
    TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(core::mul(grad, y), 2.0)"),
    TENON_KERNEL("cpu strided", square_in_place)),
  TENON_OP("exp_(Tensor(a!) y) -> Tensor(a!)",
    TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(grad, out)"), TENON_KERNEL("cpu strided", exp_in_place)),
  TENON_OP("touch_(Tensor(a!) y) -> ()",
    TENON_TYPES("y: f64"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu strided", square_in_place)),
  TENON_OP("opaque(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", copy_run)),
  TENON_OP("wrong(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: core::reduce_sum(grad)"), TENON_KERNEL("cpu", copy_run)),
  TENON_OP("half_read(Tensor x) -> (Tensor out, Tensor copy)",
    TENON_TYPES("x: f64; out, copy = x"), TENON_SHAPES("out = x; copy = x"),
    TENON_TRAITS(TENON_PURE), TENON_GRADIENT("x: core::identity(grad.out)"),
    TENON_KERNEL("cpu", copy_twice)),
  TENON_OP("absent(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: elsewhere::f(grad)"), TENON_KERNEL("cpu", copy_run)),
  TENON_OP("times(Tensor x, *, float by=2.0) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_STATE(times_create, times_destroy), TENON_GRADIENT("x: times_backward(grad, @state)"),
    TENON_KERNEL("cpu", times_run)),
  TENON_OP("times_backward(Tensor dy) -> Tensor",
    TENON_TYPES("dy: f64; out = dy"), TENON_SHAPES("out = dy"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", times_backward_run)),
  TENON_OP("stateless(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: times_backward(grad, @state)"), TENON_KERNEL("cpu", copy_run)),
  TENON_OP("abroad(Tensor x, *, float by=2.0) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_STATE(times_create, times_destroy), TENON_GRADIENT("x: core::neg(grad, @state)"),
    TENON_KERNEL("cpu", times_run)),
  TENON_OP("twice(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_USES("core::add"), TENON_COMPOSITE(twice_run)))
/* clang-format on */

#endif
