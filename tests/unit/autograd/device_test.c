/* Recording and backward on a device: gradients, and values that stand in for missing ones, are
 * stored where their tensors are. Values must equal those of the same calls on the CPU. */
#define TENON_STATIC
#include <math.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "device/there.h"
#include "npu.h"
#include "operators_library.h"
#include "tape.h"

static tenon_tensor_t *on_npu(tenon_tensor_t *t) {
  tenon_tensor_t *there = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(t, npu_device, &there), TENON_OK);
  return there;
}

static tenon_tensor_t *on_cpu(tenon_tensor_t *t) {
  tenon_tensor_t *here = NULL;
  if (t) CHECK_STATUS(tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &here), TENON_OK);
  return here;
}

typedef tenon_tensor_t *(*program_fn)(tenon_tensor_t *a, tenon_tensor_t *b);

/* Runs the same program on both devices: the gradients of both leaves are equal and are stored
 * where the leaves are. */
static void compare(const char *a_text, const char *b_text, program_fn program) {
  tenon_tensor_t *here[2] = {tensor_of(a_text), tensor_of(b_text)};
  tenon_tensor_t *there[2] = {on_npu(here[0]), on_npu(here[1])};
  for (int i = 0; i < 2; i++)
    CHECK_STATUS(tenon_tensor_require_grad(here[i], 1), TENON_OK);
  for (int i = 0; i < 2; i++)
    CHECK_STATUS(tenon_tensor_require_grad(there[i], 1), TENON_OK);
  tenon_tensor_t *y = program(here[0], here[1]);
  tenon_tensor_t *z = program(there[0], there[1]);
  CHECK_STATUS(backward(y, TENON_GRAD_KEEP), TENON_OK);
  CHECK_STATUS(backward(z, TENON_GRAD_KEEP), TENON_OK);
  /* The second pass adds to the gradients of the first. */
  CHECK_STATUS(backward(y, 0), TENON_OK);
  CHECK_STATUS(backward(z, 0), TENON_OK);
  for (int i = 0; i < 2; i++) {
    tenon_tensor_t *expected = tenon_tensor_grad(here[i]);
    tenon_tensor_t *found = on_cpu(tenon_tensor_grad(there[i]));
    CHECK((expected != NULL) == (found != NULL));
    if (!found) continue;
    CHECK(tenon_tensor_grad(there[i])->device.type == npu_device.type);
    CHECK(tenon_count(found) == tenon_count(expected));
    for (int64_t k = 0; k < tenon_count(found); k++)
      CHECK(tensor_float(found, k) == tensor_float(expected, k));
    tenon_tensor_release(found);
  }
  RELEASE(y, z, here[0], here[1], there[0], there[1]);
}

static tenon_tensor_t *products(tenon_tensor_t *a, tenon_tensor_t *b) {
  return then(then(apply("core::mul", a, b), "core::exp", NULL), "core::reduce_sum", NULL);
}
static tenon_tensor_t *means(tenon_tensor_t *a, tenon_tensor_t *b) { /* reads sizes */
  return then(then(apply("core::matmul", a, b), "core::tanh", NULL), "core::reduce_mean", NULL);
}
static tenon_tensor_t *views(tenon_tensor_t *a, tenon_tensor_t *b) { /* reads shapes */
  tenon_tensor_t *t = apply("core::transpose", a, NULL);
  tenon_tensor_t *f = apply("core::flatten", t, NULL);
  tenon_tensor_t *g = apply("core::flatten", b, NULL);
  tenon_tensor_t *y = then(apply("core::add", f, g), "core::reduce_sum_square", NULL);
  RELEASE(t, f, g);
  return y;
}
static tenon_tensor_t *casts(tenon_tensor_t *a, tenon_tensor_t *b) { /* reads a dtype */
  tenon_tensor_t *c;
  CHECK_STATUS(try_op("core::cast", "to=f32", a, NULL, &c), TENON_OK);
  tenon_tensor_t *d;
  CHECK_STATUS(try_op("core::cast", "to=f64", c, NULL, &d), TENON_OK);
  tenon_tensor_t *y = then(apply("core::mul", d, b), "core::reduce_sum", NULL);
  RELEASE(c, d);
  return y;
}
/* a literal in a gradient formula */
static tenon_tensor_t *numbers(tenon_tensor_t *a, tenon_tensor_t *b) {
  tenon_tensor_t *c = apply("core::sqrt", a, NULL);
  tenon_tensor_t *d = apply("core::pow", b, c);
  tenon_tensor_t *y = apply("core::reduce_sum", d, NULL);
  RELEASE(c, d);
  return y;
}
static tenon_tensor_t *parts(tenon_tensor_t *a,
                             /* No gradient arrives for one part: it counts as zeros. */
                             tenon_tensor_t *b) {
  tenon_tensor_t *list, *first, *y;
  CHECK_STATUS(try_op("core::split", "count=2", a, NULL, &list), TENON_OK);
  first = tenon_item(list, 0);
  y = then(apply("core::mul", first, first), "core::reduce_sum", NULL);
  RELEASE(list);
  (void)b;
  return y;
}

static tenon_tensor_t *writes(tenon_tensor_t *a,
                              /* Writes to a base that has a view, and to the view. */
                              tenon_tensor_t *b) {
  tenon_tensor_t *y = apply("core::mul", a, b);
  tenon_tensor_t *t = apply("core::transpose", y, NULL);
  tenon_tensor_t *out;
  CHECK_STATUS(try_op("autograd::scale_", "by=3", t, NULL, &out), TENON_OK);
  tenon_tensor_release(out);
  CHECK_STATUS(try_op("autograd::square_", NULL, y, NULL, &out), TENON_OK);
  tenon_tensor_release(out);
  tenon_tensor_t *sum = then(apply("core::mul", t, a), "core::reduce_sum", NULL);
  RELEASE(y, t);
  return sum;
}

TEST("gradients on a device equal those of the CPU and are stored on the device") {
  npu_start();
  CHECK_STATUS(tenon_library_add(tenon_library_autograd(), NULL, NULL, NULL), TENON_OK);
  compare("f64[2] 1 2", "f64[2] 0.5 0.25", products);
  /* The gradient is summed over the broadcast axis. */
  compare("f64[2, 1] 1 2", "f64[3] 0.5 0.25 1", products);
  compare("f64[2, 2] 1 2 3 4", "f64[2, 2] 0.5 0.25 1 2", means);
  compare("f64[2, 2] 1 2 3 4", "f64[2, 2] 0.5 0.25 1 2", views);
  compare("f64[2] 1 2", "f64[2] 0.5 0.25", casts);
  compare("f64[2] 1 2", "f64[2] 0.5 0.25", numbers);
  compare("f64[2] 1 2", "f64[2] 0.5 0.25", parts);
  compare("f64[2, 2] 1 2 3 4", "f64[2, 2] 0.5 0.25 1 2", writes);
}

TEST("a tensor saved for its gradient is found at its offset in memory, also where memory is a "
     "handle") {
  for (int handles = 0; handles < 2; handles++) {
    tenon_shutdown();
    setenv("TENON_SIM", handles ? "handles=1" : "", 1);
    tenon_device_t device = sim_open(0, "check=fail");
    tenon_tensor_t *a = tensor_there(device, "f32[3] 1 2 3");
    tenon_tensor_t *b = tensor_there(device, "f32[3] 4 5 6");
    CHECK(!handles ||
          /* Both tensors lie in one allocation. */
          (b->data == a->data && b->byte_offset != a->byte_offset));
    CHECK_STATUS(tenon_tensor_require_grad(a, 1), TENON_OK);
    CHECK_STATUS(tenon_tensor_require_grad(b, 1), TENON_OK);
    tenon_tensor_t *y = then(apply("core::mul", a, b), "core::reduce_sum", NULL);
    CHECK_STATUS(backward(y, 0), TENON_OK);
    check_there(tenon_tensor_grad(a), "f32[3] 4 5 6");
    check_there(tenon_tensor_grad(b), "f32[3] 1 2 3");
    RELEASE(y, a, b);
  }
  unsetenv("TENON_SIM");
}
