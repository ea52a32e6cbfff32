/* Backward through recorded calls: leaves, accumulated gradients, views, composites, lists, grad
 * modes and hooks, and the calls that must be refused. */
#define TENON_STATIC
#include <math.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "operators_library.h"
#include "tape.h"

#include "base/status.h"

__attribute__((constructor)) static void add_library(void) {
  if (tenon_library_add(tenon_library_autograd(), NULL, NULL, NULL) != TENON_OK)
    puts(tenon_error());
}

TEST("the gradient of a sum of products reaches both leaves") {
  tenon_tensor_t *a = leaf("f64[3] 1 2 3");
  tenon_tensor_t *b = leaf("f64[3] 4 5 6");
  tenon_tensor_t *y = then(apply("core::mul", a, b), "core::reduce_sum", NULL);
  CHECK(tenon_tensor_requires_grad(y) && !tenon_tensor_is_leaf(y) && tenon_tensor_is_leaf(a));
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(a), "f64[3] 4 5 6");
  CHECK_TENSOR(tenon_tensor_grad(b), "f64[3] 1 2 3");
  CHECK(tenon_tensor_grad(y) == NULL);
  RELEASE(y, a, b);
}

TEST("gradients accumulate at leaves, over uses and over passes") {
  tenon_tensor_t *a = leaf("f64[2] 1 2");
  tenon_tensor_t *y = then(apply("core::mul", a, a), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, TENON_GRAD_KEEP), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(a), "f64[2] 2 4");
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(a), "f64[2] 4 8");
  CHECK_STATUS(tenon_tensor_grad_set(a, NULL), TENON_OK);
  CHECK(tenon_tensor_grad(a) == NULL);
  RELEASE(y, a);
}

TEST("gradients of two leaves do not share memory") {
  tenon_tensor_t *a = leaf("f64[2] 1 2");
  tenon_tensor_t *b = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::add", a, b);
  tenon_tensor_t *grad = tensor_of("f64[2] 3 5");
  CHECK_STATUS(tenon_backward(&y, &grad, 1, 0), TENON_OK);
  CHECK(tenon_tensor_grad(a)->data != tenon_tensor_grad(b)->data &&
        tenon_tensor_grad(a)->data != grad->data);
  CHECK_TENSOR(tenon_tensor_grad(b), "f64[2] 3 5");
  RELEASE(y, a, b, grad);
}

TEST(
    "only tensors that require gradients, and results computed from them, carry the autograd key") {
  tenon_tensor_t *a = leaf("f64[2] 1 2");
  tenon_tensor_t *b = tensor_of("f64[2] 1 2");
  tenon_tensor_t *x = apply("core::add", b, b);
  tenon_tensor_t *y = apply("core::add", a, b);
  tenon_tensor_t *whole = apply("core::shape", a, NULL);
  char *keys = NULL;
  CHECK(!tenon_tensor_requires_grad(x) && tenon_tensor_requires_grad(y) &&
        !tenon_tensor_requires_grad(whole));
  CHECK_STATUS(tenon_keys_of(y, &keys), TENON_OK);
  CHECK_TEXT(keys, "autograd");
  tenon_text_release(keys);
  CHECK_STATUS(tenon_keys_of(x, &keys), TENON_OK);
  CHECK(!strstr(keys, "autograd"));
  tenon_text_release(keys);
  RELEASE(a, b, x, y, whole);
}

TEST("gradients flow through views, also through the dense copy that reshape makes of a transposed "
     "view") {
  tenon_tensor_t *a = leaf("f64[2, 3] 1 2 3 4 5 6");
  tenon_tensor_t *shape = tensor_of("i64[1] 6");
  tenon_tensor_t *w = tensor_of("f64[6] 1 2 3 4 5 6");
  tenon_tensor_t *t = apply("core::transpose", a, NULL);
  tenon_tensor_t *flat = apply("core::reshape", t, shape);
  tenon_tensor_t *y = then(apply("core::mul", flat, w), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(a), "f64[2, 3] 1 3 5 2 4 6");
  RELEASE(a, shape, w, t, flat, y);
}

TEST("a composite without a gradient of its own is differentiated through the operators that it "
     "calls") {
  tenon_tensor_t *a = leaf("f64[2] 1 2");
  tenon_tensor_t *y = then(apply("autograd::twice", a, NULL), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(a), "f64[2] 2 2");
  RELEASE(a, y);
}

TEST("an optional result that only the gradient needs is created if the caller does not ask for "
     "it") {
  tenon_tensor_t *a = leaf("f64[8] 1 1 1 1 1 1 1 1");
  tenon_tensor_t *y, *sum;
  CHECK_STATUS(try_op("core::dropout", "ratio=0.5", a, NULL, &y), TENON_OK);
  sum = apply("core::reduce_sum", y, NULL);
  CHECK_STATUS(backward(sum, 0), TENON_OK);
  for (int64_t i = 0; i < 8; i++)
    CHECK(tensor_float(tenon_tensor_grad(a), i) == tensor_float(y, i));
  RELEASE(a, y, sum);
}

TEST("the gradient of a broadcast input has the shape of that input") {
  tenon_tensor_t *a = leaf("f64[2, 1] 2 3");
  tenon_tensor_t *b = leaf("f64[3] 1 10 100");
  tenon_tensor_t *y = then(apply("core::mul", a, b), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(a), "f64[2, 1] 111 111");
  CHECK_TENSOR(tenon_tensor_grad(b), "f64[3] 5 5 5");
  RELEASE(a, b, y);
}

TEST(
    "gradients of chosen inputs are not accumulated, and backward goes no further than they need") {
  tenon_tensor_t *a = leaf("f64[2] 1 2");
  tenon_tensor_t *b = leaf("f64[2] 3 4");
  tenon_tensor_t *m = apply("core::mul", a, b);
  tenon_tensor_t *grads[2];
  tenon_tensor_t *y = then(apply("core::mul", m, m), "core::reduce_sum", NULL);
  tenon_tensor_t *wanted[2] = {m, a};
  CHECK_STATUS(tenon_gradients(&y, NULL, 1, wanted, 2, 0, grads), TENON_OK);
  CHECK_TENSOR(grads[0], "f64[2] 6 16");
  CHECK_TENSOR(grads[1], "f64[2] 18 64");
  CHECK(!tenon_tensor_grad(a) && !tenon_tensor_grad(b));
  RELEASE(a, b, m, y, grads[0], grads[1]);
}

TEST("an input on which no output depends is an error, unless the caller allows unused inputs") {
  tenon_tensor_t *a = leaf("f64[] 1");
  tenon_tensor_t *b = leaf("f64[] 3");
  tenon_tensor_t *y = apply("core::mul", a, a);
  tenon_tensor_t *grads[2];
  tenon_tensor_t *in[2] = {a, b};
  CHECK_STATUS(tenon_gradients(&y, NULL, 1, in, 2, TENON_GRAD_KEEP, grads), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "do not depend on input 1");
  CHECK(!grads[0] && !grads[1]);
  CHECK_STATUS(tenon_gradients(&y, NULL, 1, in, 2, TENON_GRAD_UNUSED, grads), TENON_OK);
  CHECK_TENSOR(grads[0], "f64[] 2");
  CHECK(grads[1] == NULL);
  RELEASE(a, b, y, grads[0]);
}

TEST("gradients have gradients of their own if backward itself is recorded (TENON_GRAD_CREATE)") {
  tenon_tensor_t *x = leaf("f64[] 2");
  tenon_tensor_t *y = then(apply("core::mul", x, x), "core::mul", x);
  tenon_tensor_t *first, *second, *third;
  CHECK_STATUS(tenon_gradients(&y, NULL, 1, &x, 1, TENON_GRAD_CREATE, &first), TENON_OK);
  CHECK_TENSOR(first, "f64[] 12");
  CHECK_STATUS(tenon_gradients(&first, NULL, 1, &x, 1, TENON_GRAD_CREATE, &second), TENON_OK);
  CHECK_TENSOR(second, "f64[] 12");
  CHECK_STATUS(tenon_gradients(&second, NULL, 1, &x, 1, 0, &third), TENON_OK);
  CHECK_TENSOR(third, "f64[] 6");
  RELEASE(x, y, first, second, third);
}

TEST("without TENON_GRAD_CREATE gradients have no history") {
  tenon_tensor_t *x = leaf("f64[] 2");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *grad;
  CHECK_STATUS(tenon_gradients(&y, NULL, 1, &x, 1, 0, &grad), TENON_OK);
  CHECK(!tenon_tensor_requires_grad(grad) && tenon_grad_mode_get());
  RELEASE(x, y, grad);
}

TEST("a second backward through a history that was not kept is refused, and the message says so") {
  tenon_tensor_t *x = leaf("f64[] 2");
  tenon_tensor_t *y = apply("core::exp", x, NULL);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_STATUS(backward(y, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(),
             "core::exp: an earlier backward pass has already released what this pass "
             "needs: pass TENON_GRAD_KEEP to the first pass, or call forward again");
  RELEASE(x, y);
}

TEST("outputs from which backward cannot start are refused") {
  tenon_tensor_t *x = leaf("f64[2] 2 3");
  tenon_tensor_t *plain = tensor_of("f64[] 1");
  tenon_tensor_t *y = apply("core::exp", x, NULL);
  tenon_tensor_t *wrong = tensor_of("f64[3] 1 1 1");
  CHECK_STATUS(backward(plain, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "output 0 requires no gradient");
  CHECK_STATUS(backward(y, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "shape [2]: expected a single number, or a gradient for this output");
  CHECK_STATUS(tenon_backward(&y, &wrong, 1, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "is f64 [3]: expected f64 [2]");
  CHECK_STATUS(backward(y, 64), TENON_INVALID);
  RELEASE(x, plain, y, wrong);
}

TEST("a tensor that cannot require a gradient is refused with the reason") {
  tenon_tensor_t *ints = tensor_of("i64[2] 1 2");
  tenon_tensor_t *x = leaf("f64[] 1");
  tenon_tensor_t *y = apply("core::exp", x, NULL);
  tenon_tensor_t view;
  double number = 1;
  CHECK_STATUS(tenon_tensor_require_grad(ints, 1), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "dtype i64: expected floats");
  CHECK_STATUS(tenon_tensor_view(&view, &number, tenon_dtype(TENON_F64), 0, NULL, NULL, NULL),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_require_grad(&view, 1), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "a view on a caller's stack");
  CHECK_STATUS(tenon_tensor_require_grad(y, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "a result of core::exp");
  CHECK_STATUS(tenon_tensor_require_grad(y, 1), TENON_OK);
  CHECK_STATUS(tenon_tensor_require_grad(x, 0), TENON_OK);
  CHECK(!tenon_tensor_requires_grad(x));
  RELEASE(ints, x, y);
}

TEST("autograd saves a view on a caller's stack as a copy") {
  double numbers[2] = {3, 4};
  int64_t shape[1] = {2};
  int64_t strides[1];
  tenon_tensor_t view;
  tenon_tensor_t *x = leaf("f64[2] 1 1");
  CHECK_STATUS(tenon_tensor_view(&view, numbers, tenon_dtype(TENON_F64), 1, shape, NULL, strides),
               TENON_OK);
  tenon_tensor_t *y = then(apply("core::mul", x, &view), "core::reduce_sum", NULL);
  numbers[0] = 100;
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] 3 4");
  RELEASE(x, y);
}

TEST(
    "a result tensor given by the caller takes on the call's history, or is refused if it cannot") {
  double numbers[2];
  int64_t shape[1] = {2};
  int64_t strides[1];
  tenon_tensor_t view;
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = tensor_of("f64[2] 0 0");
  tenon_tensor_t *other = leaf("f64[2] 0 0");
  CHECK_STATUS(tenon_op_call_into(op_of("core::exp"), NULL, &x, &y), TENON_OK);
  tenon_tensor_t *sum = apply("core::reduce_sum", y, NULL);
  CHECK_STATUS(backward(sum, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] 2.718281828 7.389056099");
  CHECK_STATUS(tenon_tensor_view(&view, numbers, tenon_dtype(TENON_F64), 1, shape, NULL, strides),
               TENON_OK);
  tenon_tensor_t *stack = &view;
  CHECK_STATUS(tenon_op_call_into(op_of("core::exp"), NULL, &x, &stack), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::exp: result out is a view on a caller's stack");
  CHECK_STATUS(tenon_op_call_into(op_of("core::exp"), NULL, &x, &other), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "result out is a leaf that requires a gradient");
  tenon_tensor_t *plain = tensor_of("f64[2] 0 0");
  CHECK_STATUS(tenon_op_call_into(op_of("core::exp"), NULL, &plain, &y), TENON_OK);
  /* A plain result has replaced the history of y. */
  CHECK(!tenon_tensor_requires_grad(y));
  RELEASE(x, y, other, sum, plain);
}

TEST("while recording is off, results have no history and leaves can be written to") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *step = tensor_of("f64[2] 10 20");
  tenon_tensor_t *out;
  CHECK(tenon_grad_mode_set(0) == 1);
  tenon_tensor_t *y = apply("core::exp", x, NULL);
  CHECK(!tenon_tensor_requires_grad(y));
  CHECK_STATUS(try_op("autograd::add_", NULL, x, step, &out), TENON_OK);
  CHECK(tenon_grad_mode_set(1) == 0);
  CHECK(out == x && tenon_tensor_requires_grad(x));
  CHECK_TENSOR(x, "f64[2] 11 22");
  RELEASE(x, y, step, out);
}

TEST("a tensor created in inference mode cannot be used where calls are recorded, but a copy of it "
     "can") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *out;
  CHECK(tenon_inference_mode_set(1) == 0 && !tenon_grad_mode_get());
  tenon_tensor_t *made = apply("core::exp", x, NULL);
  CHECK(tenon_inference_mode_set(0) == 1 && tenon_grad_mode_get());
  CHECK_STATUS(try_op("core::mul", NULL, x, made, &out), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "core::mul: input b was created in inference mode");
  CHECK_STATUS(tenon_tensor_require_grad(made, 1), TENON_PRECONDITION);
  /* Where nothing is recorded it is an ordinary tensor. */
  tenon_tensor_t *sum = apply("core::add", made, made);
  tenon_tensor_t *copy = NULL;
  CHECK_STATUS(tenon_tensor_copy(made, &copy), TENON_OK);
  CHECK_STATUS(try_op("core::mul", NULL, x, copy, &out), TENON_OK);
  RELEASE(x, made, sum, copy, out);
}

/* written inputs */

TEST("a tensor that is written to takes on the history of the values written to it") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *out;
  CHECK_STATUS(try_op("autograd::scale_", "by=3", y, NULL, &out), TENON_OK);
  CHECK(out == y && tenon_tensor_version(y) == 1);
  tenon_tensor_release(out);
  /* The gradient of this call needs y as it was. */
  CHECK_STATUS(try_op("autograd::square_", NULL, y, NULL, &out), TENON_OK);
  tenon_tensor_release(out);
  CHECK_STATUS(try_op("autograd::add_", NULL, y, x, &out), TENON_OK);
  tenon_tensor_t *sum = apply("core::reduce_sum", y, NULL); /* (3 x^2)^2 + x */
  CHECK_STATUS(backward(sum, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] 37 289");
  RELEASE(x, y, out, sum);
}

TEST("a written result that its own gradient reads is saved after the write") {
  tenon_tensor_t *x = leaf("f64[2] 0 1");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *out;
  CHECK_STATUS(try_op("autograd::exp_", NULL, y, NULL, &out), TENON_OK);
  tenon_tensor_t *sum = apply("core::reduce_sum", y, NULL);
  CHECK_STATUS(backward(sum, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] 0 5.436563657");
  RELEASE(x, y, out, sum);
}

TEST("a tensor without history takes on the history of values that are written to it") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = tensor_of("f64[2] 5 5");
  tenon_tensor_t *out;
  CHECK_STATUS(try_op("autograd::add_", NULL, y, x, &out), TENON_OK);
  tenon_tensor_t *sum = apply("core::reduce_sum", y, NULL);
  CHECK_STATUS(backward(sum, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] 1 1");
  RELEASE(x, y, out, sum);
}

TEST("backward refuses a saved tensor that was written to, and names the operator and the "
     "argument") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *b = tensor_of("f64[2] 3 4");
  tenon_tensor_t *out;
  tenon_tensor_t *y = then(apply("core::mul", x, b), "core::reduce_sum", NULL);
  CHECK_STATUS(try_op("autograd::scale_", "by=2", b, NULL, &out),
               TENON_OK); /* no gradients in this call */
  CHECK_STATUS(backward(y, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "core::mul: the gradient needs input b as it was during the call");
  CHECK_TEXT(tenon_error(), "expected version 0, found 1");
  RELEASE(x, b, y, out);
}

TEST("backward also refuses a saved result that was written to, and memory that call_into wrote "
     "to") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *e = apply("core::exp", x, NULL);
  tenon_tensor_t *y = apply("core::reduce_sum", e, NULL);
  tenon_tensor_t *b = tensor_of("f64[2] 3 4");
  tenon_tensor_t *plain = tensor_of("f64[2] 1 2");
  tenon_tensor_t *z = then(apply("core::mul", x, b), "core::reduce_sum", NULL);
  tenon_tensor_t *out;
  CHECK_STATUS(tenon_op_call_into(op_of("core::exp"), NULL, &plain, &b), TENON_OK);
  CHECK_STATUS(backward(z, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "input b as it was");
  tenon_grad_mode_set(0);
  CHECK_STATUS(try_op("autograd::scale_", "by=2", e, NULL, &out), TENON_OK);
  tenon_grad_mode_set(1);
  CHECK_STATUS(backward(y, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "core::exp: the gradient needs result out as it was");
  RELEASE(x, e, y, b, plain, z, out);
}

TEST("writing to a tensor of which the gradient needs only the shape is allowed") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::add", x, x);
  tenon_tensor_t *sum = apply("core::reduce_sum", y, NULL);
  tenon_tensor_t *out;
  CHECK_STATUS(try_op("autograd::scale_", "by=2", y, NULL, &out), TENON_OK);
  CHECK_STATUS(backward(sum, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] 2 2");
  RELEASE(x, y, sum, out);
}

TEST("writing to a leaf is refused, and so is writing to an input that the operator does not "
     "return") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *out;
  CHECK_STATUS(try_op("autograd::add_", NULL, x, y, &out), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "autograd::add_: input y is a leaf that requires a gradient");
  CHECK_STATUS(tenon_op_call(op_of("autograd::touch_"), NULL, &y, &out, 0), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "is written to but is not a result");
  CHECK_TENSOR(y, "f64[2] 1 4"); /* The kernel did not run. */
  RELEASE(x, y);
}

/* operators without a gradient */

TEST("backward names an operator that has no gradient") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = then(apply("autograd::opaque", x, NULL), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, 0), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "autograd::opaque has no gradient: give it one");
  RELEASE(x, y);
}

TEST("a missing gradient counts as zero in mode WARN, and in mode PASS the call is not recorded") {
  tenon_tensor_t *x = leaf("f64[] 3");
  CHECK_STATUS(tenon_grad_missing_set(TENON_GRAD_MISSING_WARN, 0), TENON_OK);
  tenon_tensor_t *o = apply("autograd::opaque", x, NULL);
  tenon_tensor_t *y = apply("core::mul", o, x);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[] 3");
  CHECK_STATUS(tenon_grad_missing_set(TENON_GRAD_MISSING_PASS, 0), TENON_OK);
  tenon_tensor_t *p = apply("autograd::opaque", x, NULL);
  CHECK(!tenon_tensor_requires_grad(p));
  CHECK_STATUS(tenon_grad_missing_set(0, 0), TENON_OK);
  CHECK(tenon_grad_missing_get() == TENON_GRAD_MISSING_ERROR);
  CHECK_STATUS(tenon_grad_missing_set(9, 0), TENON_INVALID);
  CHECK_STATUS(tenon_grad_missing_set(0, 1), TENON_INVALID);
  RELEASE(x, o, y, p);
}

TEST("a gradient of the wrong shape, or by an operator that is not registered, is an error") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = then(apply("autograd::wrong", x, NULL), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "autograd::wrong: its gradient for an input of shape [2] has shape [1]");
  tenon_tensor_t *z = then(apply("autograd::absent", x, NULL), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(z, 0), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(),
             "the gradient of autograd::absent calls elsewhere::f, which is not registered");
  RELEASE(x, y, z);
}

TEST("what a missing gradient means can be set for all backends, for one backend and for one "
     "operator") {
  tenon_registration_t *cpu = NULL;
  tenon_registration_t *all = NULL;
  tenon_registration_t *own = NULL;
  tenon_tensor_t *x = leaf("f64[] 3");
  CHECK_STATUS(tenon_fallback_add("autograd", tenon_grad_missing_warn, NULL, NULL, 0, &all),
               TENON_OK);
  tenon_tensor_t *o = apply("autograd::opaque", x, NULL);
  tenon_tensor_t *y = apply("core::mul", o, x);
  CHECK_STATUS(backward(y, 0), TENON_OK); /* The gradient of o is missing and counts as zero. */
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[] 3");
  CHECK_STATUS(tenon_fallback_add("autograd cpu", tenon_grad_missing_pass, NULL, NULL, 0, &cpu),
               TENON_OK);
  tenon_tensor_t *p = apply("autograd::opaque", x, NULL);
  CHECK(!tenon_tensor_requires_grad(p));
  CHECK_STATUS(tenon_kernel_add("autograd::opaque", "autograd", tenon_grad_missing_error, NULL,
                                NULL, 0, &own),
               TENON_OK);
  tenon_tensor_t *e = apply("autograd::opaque", x, NULL);
  CHECK_STATUS(backward(e, 0), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(),
             "autograd::opaque has no gradient: give it one (TENON_GRADIENT, or an \"autograd\" "
             "kernel), or say what to do with tenon_grad_missing_set before calling it");
  tenon_registration_release(cpu);
  tenon_registration_release(all);
  tenon_registration_release(own);
  RELEASE(x, o, y, p, e);
}

TEST("the gradient of an operator with a state reads the state that its call used") {
  tenon_tensor_t *x = leaf("f64[1] 3");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *z;
  const tenon_op_t *op = op_of("autograd::times");
  tenon_attrs_t *attrs = attrs_of(op, "by=5");
  tenon_bound_t *a = NULL;
  tenon_bound_t *b = NULL;
  int alive = times_alive;
  CHECK_STATUS(try_op("autograd::times", "by=4", x, NULL, &z),
               /* This call uses the operator's own state. */
               TENON_OK);
  CHECK_STATUS(backward(z, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[1] 1004");
  CHECK_STATUS(tenon_bound_create(op, attr_values(attrs), &a),
               /* Each bound call has a state of its own. */
               TENON_OK);
  CHECK_STATUS(tenon_bound_create(op, attr_values(attrs), &b), TENON_OK);
  tenon_tensor_t *ignored = NULL;
  CHECK_STATUS(tenon_bound_call(b, &x, &ignored, 0), TENON_OK);
  CHECK_STATUS(tenon_bound_call(b, &x, &y, 0), TENON_OK);
  tenon_bound_release(a);
  tenon_bound_release(b);
  CHECK(times_alive ==
        /* The state of b lives as long as the history of y needs it, and so does the state of
         * by=4. */
        alive + 2);
  CHECK_STATUS(tenon_tensor_grad_set(x, NULL), TENON_OK);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[1] 2005");
  RELEASE(y, ignored);
  CHECK(times_alive == alive + 1);
  tenon_attrs_release(attrs);
  RELEASE(x, z);
}

TEST("a gradient that reads a state its call did not have, or passes it to another library, is an "
     "error") {
  tenon_tensor_t *x = leaf("f64[1] 3");
  tenon_tensor_t *y = apply("autograd::stateless", x, NULL);
  tenon_tensor_t *z;
  CHECK_STATUS(backward(y, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "the gradient of autograd::stateless reads @state, but its call had no state");
  CHECK_STATUS(try_op("autograd::abroad", NULL, x, NULL, &z), TENON_OK);
  CHECK_STATUS(backward(z, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "the gradient of autograd::abroad passes its @state to core::neg, which "
             "belongs to another library");
  RELEASE(x, y, z);
}

/* hooks and retained gradients */

static int hook_calls, hooks_destroyed;

static tenon_status_t double_it(void *context, tenon_tensor_t *grad, tenon_tensor_t **out_grad) {
  hook_calls++;
  (void)context;
  return tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){grad, grad}, out_grad, 0);
}

static tenon_status_t look_at_it(void *context, tenon_tensor_t *grad, tenon_tensor_t **out_grad) {
  (void)out_grad;
  *(double *)context = tensor_float(grad, 0);
  return TENON_OK;
}

static tenon_status_t fail_it(void *context, tenon_tensor_t *grad, tenon_tensor_t **out_grad) {
  (void)context;
  (void)out_grad;
  tenon_tensor_retain(*out_grad = grad);
  return tn_fail(TENON_CANCELLED, "enough");
}

static void destroyed(void *context) {
  (void)context;
  hooks_destroyed++;
}

TEST("a hook sees the whole gradient of a tensor and may change it") {
  tenon_tensor_t *x = leaf("f64[] 3");
  tenon_tensor_t *m = apply("core::mul", x, x);
  tenon_tensor_t *y = apply("core::add", m, m);
  double seen = 0;
  hook_calls = hooks_destroyed = 0;
  tenon_hook_t *hook = NULL;
  CHECK_STATUS(tenon_tensor_hook(m, look_at_it, &seen, destroyed, NULL), TENON_OK);
  CHECK_STATUS(tenon_tensor_hook(m, double_it, NULL, destroyed, &hook), TENON_OK);
  CHECK_STATUS(tenon_tensor_retain_grad(m), TENON_OK);
  CHECK_STATUS(backward(y, TENON_GRAD_KEEP), TENON_OK);
  CHECK(seen == 2 && hook_calls == 1);
  CHECK_TENSOR(tenon_tensor_grad(m), "f64[] 4");
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[] 24");
  tenon_hook_remove(hook);
  CHECK_STATUS(tenon_tensor_grad_set(x, NULL), TENON_OK);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK(hook_calls == 1);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[] 12");
  RELEASE(m, y);
  CHECK(hooks_destroyed == 2);
  CHECK_STATUS(tenon_tensor_hook(x, fail_it, NULL, NULL, NULL), TENON_OK);
  y = apply("core::exp", x, NULL);
  CHECK_STATUS(backward(y, 0), TENON_CANCELLED);
  CHECK_TEXT(tenon_error(), "enough");
  RELEASE(x, y);
}

typedef struct descent_t {
  tenon_tensor_t *weight;
  double seen;
} descent_t;

/* Subtracts a tenth of the sum from the weight, and releases the sum. */
static tenon_status_t descend(void *context, tenon_tensor_t *grad, tenon_tensor_t **out_grad) {
  descent_t *d = context;
  (void)out_grad;
  d->seen = tensor_float(grad, 0);
  *(double *)d->weight->data -= d->seen / 10;
  return tenon_tensor_grad_set(d->weight, NULL);
}

TEST("a hook on the accumulated gradient sees the sum, and may consume it or change it") {
  tenon_tensor_t *x = leaf("f64[] 3");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *z = apply("core::add", y, x);
  tenon_tensor_t *seven = tensor_of("f64[] 7");
  descent_t d = {x, 0};
  double first = 0;
  tenon_hook_t *hook = NULL;
  CHECK_STATUS(tenon_tensor_grad_set(x, seven), TENON_OK);
  CHECK_STATUS(tenon_tensor_hook(x, look_at_it, &first, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_tensor_hook_sum(x, descend, &d, NULL, &hook), TENON_OK);
  CHECK_STATUS(backward(z, 0), TENON_OK); /* 2 * 3 + 1 */
  CHECK(first == 7 && d.seen == 14 && tenon_tensor_grad(x) == NULL &&
        tensor_float(x, 0) == 3 - 1.4);
  tenon_hook_remove(hook);
  CHECK_STATUS(tenon_tensor_hook_sum(x, double_it, NULL, NULL, NULL), TENON_OK);
  tenon_tensor_t *w = apply("core::neg", x, NULL);
  CHECK_STATUS(backward(w, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[] -2");
  CHECK_STATUS(tenon_tensor_hook_sum(y, descend, &d, NULL, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "on the sum of gradients: expected a leaf that requires a gradient");
  RELEASE(x, y, z, w, seven);
}

TEST("a detached tensor shares memory and has no history") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::exp", x, NULL);
  tenon_tensor_t *d;
  CHECK_STATUS(tenon_tensor_detach(y, &d), TENON_OK);
  CHECK(d->data == y->data && !tenon_tensor_requires_grad(d) && tenon_tensor_requires_grad(y));
  RELEASE(x, y, d);
}

TEST("backward goes through a history of a hundred thousand calls and frees it") {
  tenon_tensor_t *x = leaf("f64[] 0.5");
  tenon_tensor_t *zero = tensor_of("f64[] 0");
  tenon_tensor_t *y = apply("core::add", x, zero);
  const tenon_op_t *add = op_of("core::add");
  for (int i = 0; i < 100000; i++) {
    tenon_tensor_t *next = NULL;
    if (tenon_op_call(add, NULL, (tenon_tensor_t *[]){y, zero}, &next, 0) != TENON_OK) break;
    tenon_tensor_release(y);
    y = next;
  }
  CHECK_STATUS(backward(y, TENON_GRAD_KEEP), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[] 1");
  RELEASE(x, zero, y);
}

/* functions */

static tenon_status_t cube_forward(tenon_function_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *square = NULL;
  TENON_TRY(tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){x, x}, &square, 0));
  tenon_status_t status =
      tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){square, x}, call->outputs, 0);
  tenon_tensor_release(square);
  if (status == TENON_OK) status = tenon_function_save(call, x);
  if (status == TENON_OK) status = tenon_function_save(call, call->outputs[0]);
  return status;
}

static tenon_status_t cube_backward(tenon_function_call_t *call) { /* 3 y / x */
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *three = tensor_of("f64[] 3");
  tenon_tensor_t *a = NULL;
  tenon_tensor_t *b = NULL;
  tenon_status_t status = tenon_function_saved(call, 0, &x);
  if (status == TENON_OK) status = tenon_function_saved(call, 1, &y);
  if (status == TENON_OK) status = try_op("core::mul", NULL, y, three, &a);
  if (status == TENON_OK) status = try_op("core::div", NULL, a, x, &b);
  if (status == TENON_OK && call->needs & 1)
    status = try_op("core::mul", NULL, b, call->grads[0], &call->out_grads[0]);
  RELEASE(x, y, three, a, b);
  return status;
}

static int contexts;
static void drop_context(void *context) {
  (void)context;
  contexts--;
}
static tenon_function_t cube(void) {
  contexts++;
  return (tenon_function_t){
      sizeof(tenon_function_t), "cube", cube_forward, cube_backward, &contexts, drop_context};
}

TEST("a function defined by the program has its own backward, which can be differentiated again") {
  tenon_tensor_t *x = leaf("f64[2] 2 3");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *plain = tensor_of("f64[2] 1 2");
  tenon_tensor_t *first, *second;
  tenon_function_t f = cube();
  CHECK_STATUS(tenon_function_call(&f, &x, 1, &y, 1), TENON_OK);
  CHECK_TENSOR(y, "f64[2] 8 27");
  tenon_tensor_t *sum = apply("core::reduce_sum", y, NULL);
  CHECK_STATUS(tenon_gradients(&sum, NULL, 1, &x, 1, TENON_GRAD_CREATE, &first), TENON_OK);
  CHECK_TENSOR(first, "f64[2] 12 27");
  tenon_tensor_t *sum2 = apply("core::reduce_sum", first, NULL);
  CHECK_STATUS(tenon_gradients(&sum2, NULL, 1, &x, 1, 0, &second), TENON_OK);
  CHECK_TENSOR(second, "f64[2] 12 18");
  CHECK(contexts == 1);
  RELEASE(y, sum, first, sum2, second);
  CHECK(contexts == 0);
  f = cube();
  CHECK_STATUS(tenon_function_call(&f, &plain, 1, &y, 1), TENON_OK); /* Nothing is recorded. */
  CHECK(contexts == 0 && !tenon_tensor_requires_grad(y));
  RELEASE(x, y, plain);
}

TEST("backward refuses a tensor that a program's function saved and that was written to "
     "afterwards") {
  tenon_tensor_t *x = leaf("f64[2] 2 3");
  tenon_tensor_t *m = apply("core::mul", x, x);
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *out;
  tenon_function_t f = cube();
  CHECK_STATUS(tenon_function_call(&f, &m, 1, &y, 1), TENON_OK);
  CHECK_STATUS(try_op("autograd::scale_", "by=2", m, NULL, &out), TENON_OK);
  tenon_tensor_t *sum = apply("core::reduce_sum", y, NULL);
  CHECK_STATUS(backward(sum, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "backward of cube: cube: the gradient needs saved tensor 0");
  RELEASE(x, m, y, out, sum);
  CHECK(contexts == 0);
}

static tenon_status_t same_forward(tenon_function_call_t *call) {
  tenon_tensor_retain(call->outputs[0] = call->inputs[0]);
  return TENON_OK;
}
static tenon_status_t same_backward(tenon_function_call_t *call) {
  tenon_tensor_retain(call->out_grads[0] = call->grads[0]);
  return TENON_OK;
}

TEST("a program's function may return its input, and is refused if it returns too few outputs") {
  tenon_tensor_t *x = leaf("f64[] 2");
  tenon_tensor_t *y = NULL;
  tenon_function_t f = {sizeof f, "same", same_forward, same_backward, NULL, NULL};
  CHECK_STATUS(tenon_function_call(&f, &x, 1, &y, 1), TENON_OK);
  CHECK(y != x && y->data == x->data);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[] 1");
  tenon_tensor_release(y);
  tenon_tensor_t *two[2] = {NULL};
  CHECK_STATUS(tenon_function_call(&f, &x, 1, two, 2), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "same: forward returned no output 1");
  CHECK(!two[0] && !two[1]);
  RELEASE(x);
}

/* kernels for gradients by libraries */

static tenon_status_t
opaque_forward(tenon_function_call_t *call) { /* nothing is recorded here: the kernel runs */
  return tenon_op_call(op_of("autograd::opaque"), NULL, call->inputs, call->outputs, 0);
}
static tenon_status_t opaque_backward(tenon_function_call_t *call) {
  return tenon_op_call(op_of("core::neg"), NULL, (tenon_tensor_t *[]){call->grads[0], NULL},
                       call->out_grads, 0);
}
static tenon_status_t opaque_gradient(tenon_call_t *call) {
  tenon_function_t f = {sizeof f, "opaque", opaque_forward, opaque_backward, NULL, NULL};
  tenon_tensor_t *out = NULL;
  TENON_TRY(tenon_function_call(&f, call->inputs, 1, &out, 1));
  tenon_status_t status = call->host->assign(call, 0, out);
  tenon_tensor_release(out);
  return status;
}

TEST("a kernel registered for gradients records a function of its own") {
  tenon_registration_t *kernel = NULL;
  CHECK_STATUS(
      tenon_kernel_add("autograd::opaque", "autograd", opaque_gradient, NULL, NULL, 0, &kernel),
      TENON_OK);
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = then(apply("autograd::opaque", x, NULL), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] -1 -1");
  tenon_registration_release(kernel);
  tenon_tensor_t *z = then(apply("autograd::opaque", x, NULL), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(z, 0), TENON_UNIMPLEMENTED); /* This call has no history again. */
  RELEASE(x, y, z);
}

TEST("gradients flow through lists: a tensor is split, and its parts are concatenated again") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *parts;
  tenon_tensor_t *w = tensor_of("f64[4] 1 10 100 1000");
  tenon_tensor_t *whole;
  CHECK_STATUS(try_op("core::split", "count=2", x, NULL, &parts), TENON_OK);
  tenon_tensor_t *swapped = NULL;
  tenon_tensor_t *items[2] = {tenon_item(parts, 1), tenon_item(parts, 0)};
  CHECK_STATUS(tenon_tensor_list(items, 2, &swapped), TENON_OK);
  CHECK_STATUS(try_op("core::concat", "axis=0", swapped, NULL, &whole), TENON_OK);
  tenon_tensor_t *y = then(apply("core::mul", whole, w), "core::reduce_sum", NULL);
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 100 1000 1 10");
  /* No gradient arrives for the other part. */
  tenon_tensor_t *first = tenon_item(parts, 0);
  tenon_tensor_t *grad = tensor_of("f64[2] 5 6");
  tenon_tensor_grad_set(x, NULL);
  tenon_tensor_t *again;
  CHECK_STATUS(try_op("core::split", "count=2", x, NULL, &again), TENON_OK);
  first = tenon_item(again, 0);
  CHECK_STATUS(tenon_backward(&first, &grad, 1, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 5 6 0 0");
  RELEASE(x, parts, w, swapped, whole, y, grad, again);
}

TEST("a gradient that arrives for a result which no gradient formula reads is an error") {
  tenon_tensor_t *x = leaf("f64[3] 1 2 3");
  tenon_tensor_t *outputs[2] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of("autograd::half_read"), NULL, &x, outputs, 0), TENON_OK);
  tenon_tensor_t *y = apply("core::reduce_sum", outputs[1], NULL);
  CHECK_STATUS(backward(y, 0), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "autograd::half_read: a gradient arrived for result copy");
  RELEASE(x, outputs[0], outputs[1], y);
}

TEST("an unloadable library stays loaded while a history needs it, and is unloaded with that "
     "history") {
  tenon_library_t *library = NULL;
  const tenon_op_t *op = NULL;
  CHECK_STATUS(
      tenon_library_load(TEST_LIBRARIES "/libcontract.so", TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  if (!library) return;
  tenon_tensor_t *x = tensor_of("f32[3] 1 2 3");
  tenon_tensor_t *outputs[4] = {NULL};
  CHECK_STATUS(tenon_tensor_require_grad(x, 1), TENON_OK);
  int32_t recorded = 0;
  for (int32_t i = 0; i < tenon_library_op_count(library) && !recorded; i++) {
    op = tenon_library_op(library, i);
    tenon_op_info_t info = op_info(op);
    if (info.input_count != 1 || info.output_count != 1 || info.attr_count ||
        !strstr(info.schema, "(Tensor x) -> Tensor"))
      continue;
    if (tenon_op_call(op, NULL, &x, outputs, 0) == TENON_OK &&
        tenon_tensor_requires_grad(outputs[0]))
      recorded = 1;
    else {
      tenon_tensor_release(outputs[0]);
      outputs[0] = NULL;
    }
  }
  CHECK(recorded);
  char name[200] = "";
  snprintf(name, sizeof name, "%s", op_info(op).name);
  tenon_library_release(library);
  if (recorded) CHECK_STATUS(tenon_op_find(name, &op), TENON_OK);
  RELEASE(x, outputs[0]);
  if (recorded) CHECK_STATUS(tenon_op_find(name, &op), TENON_NOT_FOUND);
}
