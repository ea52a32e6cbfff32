/* Writing to tensors that share memory: bases, views, and views of views. Expected gradients are
 * those of PyTorch for the same programs (torch 2.13, f64), and finite differences for random
 * programs. */
#define TENON_STATIC
#include <math.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "operators_library.h"
#include "tape.h"

__attribute__((constructor)) static void add_library(void) {
  if (tenon_library_add(tenon_library_autograd(), NULL, NULL, NULL) != TENON_OK)
    puts(tenon_error());
}

static tenon_tensor_t *ints(int64_t a, int64_t b, int count) {
  int64_t shape = count;
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I64), 1, &shape, &t), TENON_OK);
  ((int64_t *)t->data)[0] = a;
  if (count > 1) ((int64_t *)t->data)[1] = b;
  return t;
}

/* x[begin:end] along one axis. */
static tenon_tensor_t *part(tenon_tensor_t *x, int64_t begin, int64_t end, int64_t axis) {
  tenon_tensor_t *inputs[5] = {x, ints(begin, 0, 1), ints(end, 0, 1), ints(axis, 0, 1), NULL};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::slice"), NULL, inputs, &out, 0), TENON_OK);
  RELEASE(inputs[1], inputs[2], inputs[3]);
  return out;
}

/* Calls an operator that writes to `to`. */
static tenon_status_t write_to(const char *name, const char *attrs, tenon_tensor_t *to,
                               tenon_tensor_t *x) {
  tenon_tensor_t *out = NULL;
  tenon_status_t status = try_op(name, attrs, to, x, &out);
  CHECK(status != TENON_OK || out == to);
  tenon_tensor_release(out);
  return status;
}

static void scale(tenon_tensor_t *to, const char *by) {
  CHECK_STATUS(write_to("autograd::scale_", by, to, NULL), TENON_OK);
}

/* The sum of x * w, where w has the first of 1, 10, 100, 1000 for each element of x. */
static tenon_tensor_t *weighted(tenon_tensor_t *x) {
  tenon_tensor_t *w = tensor_of("f64[4] 1 10 100 1000");
  tenon_tensor_t *head = part(w, 0, tenon_count(x), 0);
  tenon_tensor_t *out = then(apply("core::mul", x, head), "core::reduce_sum", NULL);
  RELEASE(w, head);
  return out;
}

static tenon_tensor_t *sum_of_squares(tenon_tensor_t *x) {
  return apply("core::reduce_sum_square", x, NULL);
}

/* Runs backward from the sum of these scalars, and releases them. */
static void backward_of(tenon_tensor_t *a, tenon_tensor_t *b, tenon_tensor_t *c) {
  tenon_tensor_t *all[3] = {a, b, c};
  tenon_tensor_t *ones[3] = {NULL};
  int32_t count = 1 + (b != NULL) + (c != NULL);
  CHECK_STATUS(tenon_backward(all, ones, count, 0), TENON_OK);
  RELEASE(a, b, c);
}

/* how views and bases learn of writes */

TEST("the gradient through a view takes writes to its base into account") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *v = part(y, 1, 3, 0);
  scale(y, "by=3");
  CHECK_TENSOR(v, "f64[2] 12 27");
  backward_of(weighted(v), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 0 12 180 0");
  RELEASE(x, y, v);
}

TEST("the gradient through a base takes writes to its views into account") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *v = part(y, 1, 3, 0);
  scale(v, "by=3");
  CHECK_TENSOR(y, "f64[4] 1 12 27 16");
  backward_of(weighted(y), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 2 120 1800 8000");
  RELEASE(x, y, v);
}

TEST("a write to a view of a view also reaches the base and overlapping views") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *v = part(y, 1, 4, 0);
  tenon_tensor_t *u = part(v, 0, 2, 0);
  tenon_tensor_t *s = part(y, 0, 3, 0);
  tenon_tensor_t *w = tensor_of("f64[3] 10 100 1000");
  CHECK_STATUS(write_to("autograd::square_", NULL, u, NULL), TENON_OK);
  backward_of(weighted(y), sum_of_squares(s),
              then(apply("core::mul", v, w), "core::reduce_sum", NULL));
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 6 1664 39096 16000");
  RELEASE(x, y, v, u, s, w);
}

TEST("writing values with a history to a view gives that history to its base and to overlapping "
     "views") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = tensor_of("f64[4] 0 0 0 0");
  tenon_tensor_t *v = part(y, 1, 3, 0);
  tenon_tensor_t *s = part(y, 2, 4, 0);
  tenon_tensor_t *head = part(x, 0, 2, 0);
  CHECK(!tenon_tensor_requires_grad(v));
  CHECK_STATUS(write_to("autograd::add_", NULL, v, head), TENON_OK);
  CHECK(tenon_tensor_requires_grad(y) && tenon_tensor_requires_grad(s) &&
        tenon_tensor_requires_grad(v));
  backward_of(weighted(y), sum_of_squares(s), NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 10 104 0 0");
  RELEASE(x, y, v, s, head);
}

TEST("a write to a view reaches overlapping views after their base was released") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *v = part(y, 0, 2, 0);
  tenon_tensor_t *s = part(y, 1, 3, 0);
  tenon_tensor_t *tail = part(x, 2, 4, 0);
  tenon_tensor_release(y);
  CHECK_STATUS(write_to("autograd::add_", NULL, v, tail), TENON_OK);
  backward_of(weighted(s), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 0 4 60 1");
  RELEASE(x, v, s, tail);
}

TEST("elements overwritten with constants have no gradient, and the other elements keep theirs") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *v = part(y, 1, 3, 0);
  tenon_tensor_t *numbers = tensor_of("f64[2] 5 6");
  CHECK_STATUS(write_to("autograd::put_", NULL, v, numbers), TENON_OK);
  CHECK(!tenon_tensor_requires_grad(v) && tenon_tensor_requires_grad(y));
  backward_of(weighted(y), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 2 0 0 8000");
  CHECK_STATUS(write_to("autograd::put_", NULL, y, numbers),
               /* The shape differs: nothing happened. */
               TENON_INVALID);
  CHECK(tenon_tensor_requires_grad(y));
  RELEASE(x, y, v, numbers);
}

TEST("a tensor that is overwritten with constants as a whole loses its history, and so do its "
     "views") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *v = part(y, 0, 1, 0);
  tenon_tensor_t *numbers = tensor_of("f64[2] 5 6");
  CHECK_STATUS(write_to("autograd::put_", NULL, y, numbers), TENON_OK);
  CHECK(!tenon_tensor_requires_grad(y) && !tenon_tensor_requires_grad(v));
  RELEASE(x, y, v, numbers);
}

TEST("gradients flow through transposed views and through their copies") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *square = apply("core::mul", x, x);
  tenon_tensor_t *two = ints(2, 2, 2);
  tenon_tensor_t *four = ints(4, 0, 1);
  tenon_tensor_t *y = apply("core::reshape", square, two);
  tenon_tensor_t *t = apply("core::transpose", y, NULL);
  tenon_tensor_t *row = part(t, 0, 1, 0);
  scale(row, "by=3");
  tenon_tensor_t *flat = apply("core::reshape", t, four);
  backward_of(weighted(flat), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 6 400 180 8000");
  /* flat is a copy and not a view, so no other tensor changes. */
  scale(flat, "by=2");
  CHECK_TENSOR(t, "f64[2, 2] 3 27 4 16");
  RELEASE(x, square, two, four, y, t, row, flat);
}

TEST("a base with gaps in memory, or with another order of axes, can be written to through its "
     "views") {
  tenon_tensor_t *x = leaf("f64[2, 2] 1 2 3 4");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *t = apply("core::transpose", y, NULL);
  tenon_tensor_t *base;
  /* The detached tensor is a base of its own, [[1, 9], [4, 16]]. */
  CHECK_STATUS(tenon_tensor_detach(t, &base), TENON_OK);
  tenon_tensor_t *v = part(base, 0, 1, 0);
  tenon_tensor_t *head = part(x, 0, 1, 0);
  tenon_tensor_t *flat = ints(4, 0, 1);
  CHECK_STATUS(write_to("autograd::add_", NULL, v, head), TENON_OK);
  tenon_tensor_t *copy = apply("core::reshape", base, flat);
  backward_of(weighted(copy), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2, 2] 1 10 0 0");
  CHECK_TENSOR(base, "f64[2, 2] 2 11 4 16");
  RELEASE(x, y, t, base, v, head, flat, copy);
}

TEST("gradients through writes can be differentiated again") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = then(apply("core::mul", x, x), "core::mul", x);
  tenon_tensor_t *v = part(y, 1, 3, 0);
  tenon_tensor_t *grad;
  tenon_tensor_t *middle = part(x, 1, 3, 0);
  CHECK_STATUS(write_to("autograd::mul_", NULL, v, middle), TENON_OK);
  tenon_tensor_t *loss = sum_of_squares(y);
  CHECK_STATUS(tenon_gradients(&loss, NULL, 1, &x, 1, TENON_GRAD_CREATE, &grad), TENON_OK);
  CHECK_TENSOR(grad, "f64[4] 6 1024 17496 6144");
  backward_of(apply("core::reduce_sum", grad, NULL), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 30 3584 40824 7680");
  RELEASE(x, y, v, middle, loss, grad);
}

TEST("a retained gradient belongs to the value that the tensor has after the write") {
  tenon_tensor_t *x = leaf("f64[4] 1 2 3 4");
  tenon_tensor_t *y = apply("core::mul", x, x);
  CHECK_STATUS(tenon_tensor_retain_grad(y), TENON_OK);
  tenon_tensor_t *v = part(y, 1, 3, 0);
  scale(y, "by=3");
  backward_of(weighted(v), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(y), "f64[4] 0 1 10 0");
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[4] 0 12 180 0");
  RELEASE(x, y, v);
}

TEST("a result given to a call counts as written to, and its views take on the new history") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = tensor_of("f64[2] 0 0");
  tenon_tensor_t *v = part(y, 1, 2, 0);
  tenon_tensor_t *plain = tensor_of("f64[2] 5 6");
  CHECK_STATUS(tenon_op_call_into(op_of("core::mul"), NULL, (tenon_tensor_t *[]){x, x}, &y),
               TENON_OK);
  tenon_tensor_t *loss = weighted(v);
  CHECK_STATUS(backward(loss, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[2] 0 4");
  CHECK_STATUS(tenon_op_call_into(op_of("core::mul"), NULL, (tenon_tensor_t *[]){plain, plain}, &v),
               TENON_INVALID);
  tenon_tensor_t *one = part(plain, 0, 1, 0);
  CHECK_STATUS(tenon_op_call_into(op_of("core::mul"), NULL, (tenon_tensor_t *[]){one, one}, &v),
               TENON_OK);
  CHECK(!tenon_tensor_requires_grad(v) && tenon_tensor_requires_grad(y));
  tenon_tensor_t *again = weighted(y);
  CHECK_STATUS(tenon_tensor_grad_set(x, NULL), TENON_OK);
  /* Backward has gone through y's first call before. */
  CHECK_STATUS(backward(again, 0), TENON_PRECONDITION);
  RELEASE(x, y, v, plain, loss, one, again);
}

/* versions */

TEST("all tensors that share one memory have one version, detached tensors included") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::exp", x, NULL);
  tenon_tensor_t *v = part(y, 0, 1, 0);
  tenon_tensor_t *d;
  CHECK_STATUS(tenon_tensor_detach(y, &d), TENON_OK);
  CHECK(tenon_tensor_version(y) == 0 && tenon_tensor_version(d) == 0);
  scale(v, "by=2");
  CHECK(tenon_tensor_version(y) == 1 && tenon_tensor_version(v) == 1 &&
        tenon_tensor_version(d) == 1);
  /* The write is not recorded, but the version shows it. */
  scale(d, "by=2");
  tenon_tensor_t *loss = weighted(y);
  CHECK_STATUS(backward(loss, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(),
             "core::exp: the gradient needs result out as it was during the call, but "
             "its memory has been written to since: expected version 0, found 2; write "
             "to a copy, or use the operator that returns a new tensor");
  RELEASE(x, y, v, d, loss);
}

TEST("a call that fails does not advance the version of its written tensor") {
  tenon_tensor_t *y = tensor_of("f64[2] 1 2");
  tenon_tensor_t *x = tensor_of("f64[3] 1 2 3");
  CHECK_STATUS(write_to("autograd::add_", NULL, y, x), TENON_INVALID);
  CHECK_STATUS(write_to("autograd::fails_", NULL, y, NULL), TENON_CANCELLED);
  CHECK(tenon_tensor_version(y) == 0);
  CHECK_STATUS(tenon_op_run(op_of("autograd::add_"), NULL, (tenon_tensor_t *[]){y, y}, &y),
               TENON_OK);
  CHECK(tenon_tensor_version(y) == 1); /* tenon_op_run counts, too. */
  RELEASE(y, x);
}

TEST("backward refuses a saved input that the call's own result overwrote") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *a = tensor_of("f64[2] 3 4");
  CHECK_STATUS(tenon_op_call_into(op_of("core::mul"), NULL, (tenon_tensor_t *[]){a, x}, &a),
               TENON_OK);
  tenon_tensor_t *loss = weighted(a);
  CHECK_STATUS(backward(loss, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "core::mul: the gradient needs input a as it was");
  RELEASE(x, a, loss);
}

TEST(/* The leak sanitizer finds it if it does. */
     "a tensor that is saved and then written to does not keep itself alive: everything is freed") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *t = apply("core::mul", x, x);
  tenon_tensor_t *u = apply("core::mul", t, x);
  CHECK_STATUS(write_to("autograd::add_", NULL, t, u),
               /* t leads to the call that made u, and that call saved t. */
               TENON_OK);
  RELEASE(x, t, u);
}

/* refused writes */

TEST("writing to a view of a leaf is refused, and allowed while recording is off") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *v = part(x, 0, 1, 0);
  CHECK_STATUS(write_to("autograd::scale_", "by=2", v, NULL), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(),
             "autograd::scale_: input y is a view of a leaf that requires a gradient and would be "
             "written to: use an operator that returns a new tensor, or switch recording off to "
             "update the leaf (tenon_grad_mode_set(0))");
  tenon_grad_mode_set(0);
  CHECK_STATUS(write_to("autograd::scale_", "by=2", v, NULL), TENON_OK);
  tenon_grad_mode_set(1);
  CHECK_TENSOR(x, "f64[2] 2 2");
  RELEASE(x, v);
}

TEST("a view created while recording was off cannot be written to while recording is on") {
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *plain = tensor_of("f64[2] 0 0");
  tenon_tensor_t *out;
  tenon_grad_mode_set(0);
  tenon_tensor_t *v = part(y, 0, 1, 0);
  tenon_tensor_t *p = part(plain, 0, 1, 0);
  tenon_grad_mode_set(1);
  tenon_tensor_t *head = part(x, 0, 1, 0);
  CHECK_STATUS(write_to("autograd::scale_", "by=2", v, NULL),
               /* The base of v has a history. */
               TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(),
             "autograd::scale_: input y is a view that was created while recording was "
             "off and would be written to while recording is on");
  CHECK_STATUS(write_to("autograd::add_", NULL, p, head),
               /* The written values have a history. */
               TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "a view that was created while recording was off");
  /* Neither of them has a history. */
  CHECK_STATUS(write_to("autograd::scale_", "by=2", p, NULL), TENON_OK);
  CHECK_STATUS(try_op("core::exp", NULL, v, NULL, &out),
               /* Where the view is only read, it is a constant. */
               TENON_OK);
  CHECK(!tenon_tensor_requires_grad(out));
  tenon_tensor_release(out);
  scale(y, "by=2");
  CHECK_STATUS(try_op("core::exp", NULL, v, NULL, &out), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "core::exp: input x is a view that was created while recording was "
                            "off, and its memory has been "
                            "written to since while recording was on: create the view again, or "
                            "detach it (tenon_tensor_detach)");
  tenon_inference_mode_set(1);
  tenon_tensor_t *u = part(y, 0, 1, 0);
  tenon_inference_mode_set(0);
  CHECK_STATUS(write_to("autograd::scale_", "by=2", u, NULL), TENON_PRECONDITION);
  RELEASE(x, y, plain, v, p, head, u);
}

TEST("a tensor of which several elements share one address cannot be written to") {
  tenon_tensor_t *x = leaf("f64[1] 3");
  tenon_tensor_t *y = apply("core::mul", x, x);
  tenon_tensor_t *shape = ints(4, 0, 1);
  tenon_tensor_t *e = apply("core::expand", y, shape);
  CHECK_STATUS(write_to("autograd::scale_", "by=2", e, NULL), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(),
             "autograd::scale_: input y would be written to, but several of its elements "
             "share one address");
  /* The tensor that was expanded may be written to. */
  scale(y, "by=2");
  backward_of(apply("core::reduce_sum", e, NULL), NULL, NULL);
  CHECK_TENSOR(tenon_tensor_grad(x), "f64[1] 48");
  RELEASE(x, y, shape, e);
}

/* random programs */

enum {
  MOST = 8,
  STEPS = 12,
  PROGRAMS = 150,
};

typedef struct program_t {
  uint64_t seed;
  int32_t made;
} program_t;

static uint32_t draw(program_t *p, uint32_t below) {
  p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(p->seed >> 33) % below;
}

static tenon_tensor_t *random_view(program_t *p, tenon_tensor_t *t) {
  if (t->ndim == 2 && draw(p, 3) == 0) return apply("core::transpose", t, NULL);
  int64_t axis = t->ndim > 1 ? draw(p, 2) : 0;
  int64_t extent = t->shape[axis];
  int64_t begin = draw(p, (uint32_t)extent);
  int64_t size = 1 + draw(p, (uint32_t)(extent - begin));
  return part(t, begin, begin + size, axis);
}

static tenon_status_t random_write(program_t *p, tenon_tensor_t *t, tenon_tensor_t *x) {
  switch (draw(p, 4)) {
  case 0:
    return write_to("autograd::scale_", "by=1.25", t, NULL);
  case 1:
    return write_to("autograd::square_", NULL, t, NULL);
  default:
    break;
  }
  /* A tensor [1, 1] expanded to the shape of t. */
  tenon_tensor_t *scalar = apply("core::reduce_mean", x, NULL);
  tenon_tensor_t *shape = NULL;
  tenon_tensor_t *e = NULL;
  TENON_TRY(try_op("core::shape", NULL, t, NULL, &shape));
  tenon_tensor_t *flat = ints(1, 0, 1);
  tenon_tensor_t *one = apply("core::reshape", scalar, flat);
  tenon_status_t status = try_op("core::expand", NULL, one, shape, &e);
  if (status == TENON_OK)
    status = write_to(draw(p, 2) ? "autograd::add_" : "autograd::put_", NULL, t, e);
  RELEASE(scalar, shape, flat, one, e);
  return status;
}

/* Views of x * x are made, written to and released at random; the remaining tensor is the
 * result. */
static tenon_status_t run_program(void *context, tenon_tensor_t *const *inputs,
                                  tenon_tensor_t **outputs) {
  program_t p = *(program_t *)context;
  tenon_tensor_t *all[MOST] = {apply("core::mul", inputs[0], inputs[0])};
  uint32_t count = 1;
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < STEPS && status == TENON_OK; i++) {
    uint32_t at = draw(&p, count);
    switch (draw(&p, 5)) {
    case 0:
    case 1:
      if (count < MOST) {
        all[count] = random_view(&p, all[at]);
        count++;
      }
      break;
    case 2:
      if (count > 2) {
        tenon_tensor_release(all[at]);
        all[at] = all[--count];
      }
      break;
    default:
      status = random_write(&p, all[at], inputs[0]);
    }
  }
  for (uint32_t i = 0; i < MOST; i++) {
    if (i < count && status == TENON_OK)
      outputs[i] = all[i];
    else if (status == TENON_OK) {
      outputs[i] = tensor_of("f64[1] 0");
      outputs[i]->shape[0] = 1;
    } else if (i < count)
      tenon_tensor_release(all[i]);
  }
  return status;
}

TEST("random programs of views and writes have the gradients that finite differences give") {
  tenon_tensor_t *x = leaf("f64[3, 4] 0.3 0.5 0.7 0.2 0.9 0.4 0.6 0.8 0.1 0.55 0.35 0.75");
  const tenon_gradient_check_t options = {sizeof options, 0, 1e-3, 1e-7};
  for (uint64_t i = 0; i < PROGRAMS; i++) {
    program_t p = {i * 977 + 1, 0};
    CHECK_STATUS(tenon_gradient_check(run_program, &p, &x, 1, MOST, &options), TENON_OK);
  }
  RELEASE(x);
}
