/* Lets the n-th allocation fail, for every n: in recorded calls, backward, functions and second
 * derivatives. */
#define TENON_STATIC
#include <math.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "failing.h"
#include "operators_library.h"
#include "tape.h"

/* Makes a call and passes its failure on; releases `in`. */
static tenon_status_t step(const char *name, tenon_tensor_t *in, tenon_tensor_t *second,
                           tenon_tensor_t **out) {
  const tenon_op_t *op;
  tenon_tensor_t *outputs[8] = {NULL};
  *out = NULL;
  if (!in) return TENON_MEMORY;
  tenon_status_t status = tenon_op_find(name, &op);
  if (status == TENON_OK)
    status = tenon_op_call(op, NULL, (tenon_tensor_t *[]){in, second, NULL, NULL}, outputs, 1);
  tenon_tensor_release(in);
  *out = outputs[0];
  return status;
}

static tenon_status_t make(tenon_tensor_t **out) {
  int64_t shape[2] = {2, 2};
  TENON_TRY(tenon_tensor_create(tenon_dtype(TENON_F64), 2, shape, out));
  for (int i = 0; i < 4; i++)
    ((double *)(*out)->data)[i] = 0.5 + i;
  tenon_status_t status = tenon_tensor_require_grad(*out, 1);
  if (status != TENON_OK) {
    tenon_tensor_release(*out);
    *out = NULL;
  }
  return status;
}

/* Computes the gradients of sum(dropout(transpose(exp(x) * x))^2) for x and for its product, then
 * does the same while recording. */
static tenon_status_t go_back(void *context) {
  (void)context;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *grad = NULL;
  tenon_tensor_t *again = NULL;
  tenon_status_t status = make(&x);
  if (status != TENON_OK) return status;
  tenon_tensor_retain(x);
  status = step("core::exp", x, NULL, &y);
  if (status == TENON_OK) status = step("core::mul", y, x, &y);
  if (status == TENON_OK) status = step("core::transpose", y, NULL, &y);
  if (status == TENON_OK) status = step("core::flatten", y, NULL, &y);
  if (status == TENON_OK) status = step("core::dropout", y, NULL, &y);
  if (status == TENON_OK) status = step("core::reduce_sum_square", y, NULL, &y);
  if (status == TENON_OK) status = tenon_gradients(&y, NULL, 1, &x, 1, TENON_GRAD_CREATE, &grad);
  if (status == TENON_OK) status = step("core::reduce_sum", grad, NULL, &again);
  if (status == TENON_OK) status = tenon_backward(&again, NULL, 1, TENON_GRAD_KEEP);
  if (status == TENON_OK) status = tenon_backward(&again, NULL, 1, 0);
  RELEASE(x, y, again);
  return status;
}

static tenon_status_t write_to(void *context) {
  (void)context;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_status_t status = make(&x);
  if (status != TENON_OK) return status;
  tenon_tensor_retain(x);
  status = step("core::mul", x, x, &y);
  if (status == TENON_OK) status = step("autograd::square_", y, NULL, &y);
  if (status == TENON_OK) status = step("autograd::twice", y, NULL, &y);
  if (status == TENON_OK) status = step("core::reduce_sum", y, NULL, &y);
  if (status == TENON_OK) status = tenon_backward(&y, NULL, 1, 0);
  RELEASE(x, y);
  return status;
}

/* Computes sum(y^2) of y = x * x after writing to a transposed view of y and to a part of that
 * view. */
static tenon_status_t write_to_views(void *context) {
  (void)context;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *t = NULL;
  tenon_tensor_t *part = NULL;
  tenon_tensor_t *sum = NULL;
  tenon_status_t status = make(&x);
  if (status != TENON_OK) return status;
  tenon_tensor_retain(x);
  status = step("core::mul", x, x, &y);
  if (status == TENON_OK) {
    tenon_tensor_retain(y);
    status = step("core::transpose", y, NULL, &t);
  }
  if (status == TENON_OK) {
    tenon_tensor_retain(t);
    status = step("core::transpose", t, NULL, &part);
  }
  if (status == TENON_OK) {
    tenon_tensor_retain(t);
    status = step("autograd::square_", t, NULL, &sum);
  }
  RELEASE(sum);
  sum = NULL;
  if (status == TENON_OK) {
    tenon_tensor_retain(y);
    status = step("autograd::square_", y, NULL, &sum);
  }
  RELEASE(sum);
  sum = NULL;
  if (status == TENON_OK) {
    tenon_tensor_retain(part);
    status = step("core::reduce_sum_square", part, NULL, &sum);
  }
  if (status == TENON_OK) status = tenon_backward(&sum, NULL, 1, 0);
  RELEASE(x, y, t, part, sum);
  return status;
}

static int alive;
static void gone(void *context) {
  (void)context;
  alive--;
}

static tenon_status_t forward(tenon_function_call_t *call) {
  tenon_tensor_retain(call->inputs[0]);
  TENON_TRY(step("core::exp", call->inputs[0], NULL, &call->outputs[0]));
  return tenon_function_save(call, call->outputs[0]);
}

static tenon_status_t back(tenon_function_call_t *call) {
  tenon_tensor_t *y;
  TENON_TRY(tenon_function_saved(call, 0, &y));
  return step("core::mul", y, call->grads[0], &call->out_grads[0]);
}

static tenon_status_t call_function(void *context) {
  (void)context;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_status_t status = make(&x);
  if (status != TENON_OK) return status;
  tenon_function_t f = {sizeof f, "f", forward, back, NULL, gone};
  alive++;
  status = tenon_function_call(&f, &x, 1, &y, 1);
  if (status == TENON_OK) status = step("core::reduce_sum", y, NULL, &y);
  if (status == TENON_OK) status = tenon_backward(&y, NULL, 1, 0);
  RELEASE(x, y);
  return status;
}

TEST("backward, run twice and while recording, survives the failure of each allocation") {
  CHECK_STATUS(tenon_start(), TENON_OK);
  fail_each("going back", go_back, NULL, 1);
}

TEST("calls that write to tensors, and composites, survive the failure of each allocation") {
  tenon_library_t *library = NULL;
  CHECK_STATUS(tenon_library_add(tenon_library_autograd(), NULL, NULL, &library), TENON_OK);
  fail_each("written tensors", write_to, NULL, 1);
  fail_each("written views", write_to_views, NULL, 1);
  tenon_library_release(library);
}

TEST("functions of the program survive it, too, and their context is released each time") {
  fail_each("a function", call_function, NULL, 1);
  CHECK(alive == 0);
}
