/* tenon_op_gradients: the gradients of one call, without a tape of the caller. */
#define TENON_STATIC
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "tape.h"

static tenon_value_t value_of(tenon_tensor_t *t) {
  return (tenon_value_t){.kind = TENON_KIND_TENSOR, .as.tensor = t};
}

TEST("the gradients of a product are those of its factors, and the factors become no leaves") {
  tenon_tensor_t *a = tensor_of("f64[3] 1 2 3");
  tenon_tensor_t *b = tensor_of("f64[3] 4 5 6");
  tenon_tensor_t *grad = tensor_of("f64[3] 1 10 100");
  tenon_tensor_t *made[2];
  const tenon_value_t values[] = {value_of(a), value_of(b)};
  const tenon_op_t *op = op_of("core::mul");
  CHECK_STATUS(tenon_op_gradients(op, values, 2, 1, &grad, 1, 3, made, 2), TENON_OK);
  CHECK_TENSOR(made[0], "f64[3] 4 50 600");
  CHECK_TENSOR(made[1], "f64[3] 1 20 300");
  RELEASE(made[0], made[1]);
  CHECK_STATUS(tenon_op_gradients(op, values, 2, 1, &grad, 1, 2, made, 1), TENON_OK);
  CHECK_TENSOR(made[0], "f64[3] 1 20 300");
  RELEASE(made[0]);
  CHECK(!tenon_tensor_requires_grad(a) && !tenon_tensor_grad(a));
  RELEASE(a, b, grad);
}

TEST("every item of a list gets a gradient, and absent inputs get none") {
  tenon_tensor_t *items[] = {tensor_of("f64[1] 1"), tensor_of("f64[2] 2 3")};
  tenon_tensor_t *grad = tensor_of("f64[3] 7 8 9");
  tenon_tensor_t *made[2];
  const tenon_value_t values[] = {{.kind = TENON_KIND_TENSORS, .count = 2, .as.tensors = items},
                                  {.kind = TENON_KIND_INT, .as.i = 0}};
  const tenon_op_t *op = op_of("core::concat");
  CHECK_STATUS(tenon_op_gradients(op, values, 2, 1, &grad, 1, 1, made, 2), TENON_OK);
  CHECK_TENSOR(made[0], "f64[1] 7");
  CHECK_TENSOR(made[1], "f64[2] 8 9");
  RELEASE(made[0], made[1], items[0], items[1], grad);
  tenon_tensor_t *x = tensor_of("f64[2] -1 5");
  const tenon_value_t clip[] = {value_of(x), {.kind = TENON_KIND_NONE}, {.kind = TENON_KIND_NONE}};
  grad = tensor_of("f64[2] 3 4");
  CHECK_STATUS(tenon_op_gradients(op_of("core::clip"), clip, 3, 1, &grad, 1, 7, made, 1), TENON_OK);
  CHECK_TENSOR(made[0], "f64[2] 3 4");
  RELEASE(made[0], x, grad);
}

TEST("an input that the results do not depend on has a gradient of zeros") {
  tenon_tensor_t *x = tensor_of("f64[2] 1.5 2.5");
  tenon_tensor_t *grad = tensor_of("f64[2] 1 1");
  tenon_tensor_t *made[1];
  const tenon_value_t values[] = {value_of(x)};
  CHECK_STATUS(tenon_op_gradients(op_of("core::floor"), values, 1, 1, &grad, 1, 1, made, 1),
               TENON_OK);
  CHECK_TENSOR(made[0], "f64[2] 0 0");
  RELEASE(made[0], x, grad);
}

TEST("wrong numbers of gradients are refused by name, and nothing is left behind") {
  tenon_tensor_t *a = tensor_of("f64[1] 1");
  tenon_tensor_t *grads[2] = {tensor_of("f64[1] 1"), tensor_of("f64[1] 1")};
  tenon_tensor_t *made[3];
  const tenon_value_t values[] = {value_of(a), value_of(a)};
  const tenon_op_t *op = op_of("core::mul");
  CHECK_STATUS(tenon_op_gradients(op, values, 2, 1, grads, 1, 1, made, 2), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::mul: expected room for 1 gradients, found 2");
  CHECK_STATUS(tenon_op_gradients(op, values, 2, 1, grads, 2, 1, made, 1), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::mul: expected 1 gradients, one for each given result, found 2");
  CHECK(!made[0]);
  RELEASE(a, grads[0], grads[1]);
}
