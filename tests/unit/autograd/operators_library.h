/* Operators of the tests of gradients: written inputs, no gradient, a composite without one of its own.
 * TENON_STATIC must be defined before anything is included. */
#ifndef TENON_TESTS_AUTOGRAD_LIBRARY_H
#define TENON_TESTS_AUTOGRAD_LIBRARY_H

#include <tenon/op.h>

static double *doubles(tenon_tensor_t *t) { return t->data; }

/* Element i, counted row-major, whatever the strides. */
static double *place(const tenon_tensor_t *t, int64_t i) {
  int64_t at = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) at += i % t->shape[d] * t->strides[d], i /= t->shape[d];
  return (double *)t->data + at;
}

static tenon_status_t check_counts(tenon_call_t *call) {
  if (tenon_count(call->inputs[0]) == tenon_count(call->inputs[1])) return TENON_OK;
  return tenon_fail(call, TENON_INVALID, "x and y have as many elements");
}

static tenon_status_t add_in_place(tenon_call_t *call) {
  const tenon_tensor_t *y = call->inputs[0], *x = call->inputs[1];
  TENON_TRY(check_counts(call));
  for (int64_t i = 0; i < tenon_count(y); i++) *place(y, i) += *place(x, i);
  return TENON_OK;
}

static tenon_status_t scale_in_place(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) *place(call->inputs[0], i) *= call->attrs[0].as.f;
  return TENON_OK;
}

static tenon_status_t square_in_place(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) *place(call->inputs[0], i) *= *place(call->inputs[0], i);
  return TENON_OK;
}

static tenon_status_t exp_in_place(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    *place(call->inputs[0], i) = exp(*place(call->inputs[0], i));
  return TENON_OK;
}

static tenon_status_t mul_in_place(tenon_call_t *call) {
  const tenon_tensor_t *y = call->inputs[0], *x = call->inputs[1];
  TENON_TRY(check_counts(call));
  for (int64_t i = 0; i < tenon_count(y); i++) *place(y, i) *= *place(x, i);
  return TENON_OK;
}

static tenon_status_t fail_in_place(tenon_call_t *call) { return tenon_fail(call, TENON_CANCELLED, "enough"); }

static tenon_status_t put_in_place(tenon_call_t *call) {
  const tenon_tensor_t *y = call->inputs[0], *x = call->inputs[1];
  TENON_TRY(check_counts(call));
  for (int64_t i = 0; i < tenon_count(y); i++) *place(y, i) = *place(x, i);
  return TENON_OK;
}

static tenon_status_t copy_run(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) doubles(call->outputs[0])[i] = doubles(call->inputs[0])[i];
  return TENON_OK;
}

static tenon_status_t twice_run(tenon_call_t *call) {
  tenon_tensor_t *out = NULL;
  TENON_TRY(
      call->host->invoke(call, call->uses[0], NULL, (tenon_tensor_t *[]){call->inputs[0], call->inputs[0]}, &out));
  return call->host->assign(call, 0, out);
}

/* clang-format off */
TENON_LIBRARY(autograd, "1.0.0",
  TENON_OP("add_(Tensor(a!) y, Tensor x) -> Tensor(a!)", TENON_TYPES("x, y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::identity(grad); x: core::identity(grad)"), TENON_KERNEL("cpu strided", add_in_place)),
  TENON_OP("mul_(Tensor(a!) y, Tensor x) -> Tensor(a!)", TENON_TYPES("x, y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(grad, x); x: core::mul(grad, y)"), TENON_KERNEL("cpu strided", mul_in_place)),
  TENON_OP("fails_(Tensor(a!) y) -> Tensor(a!)", TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu strided", fail_in_place)),
  TENON_OP("put_(Tensor(a!) y, Tensor x) -> Tensor(a!)", TENON_TYPES("x, y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: none; x: core::identity(grad)"), TENON_KERNEL("cpu strided", put_in_place)),
  TENON_OP("scale_(Tensor(a!) y, *, float by) -> Tensor(a!)", TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(grad, by)"), TENON_KERNEL("cpu strided", scale_in_place)),
  TENON_OP("square_(Tensor(a!) y) -> Tensor(a!)", TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(core::mul(grad, y), 2.0)"), TENON_KERNEL("cpu strided", square_in_place)),
  TENON_OP("exp_(Tensor(a!) y) -> Tensor(a!)", TENON_TYPES("y: f64; out = y"), TENON_SHAPES("out = y"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("y: core::mul(grad, out)"), TENON_KERNEL("cpu strided", exp_in_place)),
  TENON_OP("touch_(Tensor(a!) y) -> ()", TENON_TYPES("y: f64"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu strided", square_in_place)),
  TENON_OP("opaque(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE), TENON_KERNEL("cpu", copy_run)),
  TENON_OP("wrong(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: core::reduce_sum(grad)"), TENON_KERNEL("cpu", copy_run)),
  TENON_OP("absent(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: elsewhere::f(grad)"), TENON_KERNEL("cpu", copy_run)),
  TENON_OP("twice(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_USES("core::add"), TENON_COMPOSITE(twice_run)))
/* clang-format on */

#endif
