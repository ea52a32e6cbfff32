/* What operators keep: states by attribute values, bound calls and workspace; and that all of it is
 * freed. */
#include "base/memory.h"
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::census", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

enum {
  OPENED,
  CREATED,
  DESTROYED,
  PREPARED,
  RELEASED,
};

static int64_t census(int what) {
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of("contract::census"), NULL, NULL, out, 0), TENON_OK);
  int64_t count = out[0] ? ((int64_t *)out[0]->data)[what] : -1;
  tenon_tensor_release(out[0]);
  return count;
}

/* Calls `counter` on 0. */
static double count_once(const char *attrs_text) {
  const tenon_op_t *op = op_of("contract::counter");
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_tensor_t *x = tensor_of("f32[1] 0");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &x, &out, 0), TENON_OK);
  double value = out ? tensor_float(out, 0) : -1;
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  return value;
}

TEST("calls with equal attributes share a state, and other calls have their own") {
  start();
  int64_t before = census(CREATED);
  CHECK(count_once(NULL) == 0 && count_once("start=0") == 1 && count_once(NULL) == 2);
  CHECK(count_once("start=10") == 10 && count_once("start=10") == 11);
  CHECK(count_once(NULL) == 3);
  CHECK(census(CREATED) - before == 2);
  tenon_tensor_t *x = tensor_of("f32[1] 0");
  tenon_tensor_t *out = tensor_of("f32[1] 0");
  CHECK_STATUS(tenon_op_run(op_of("contract::counter"), NULL, &x, &out), TENON_OK);
  CHECK_TENSOR(out, "f32[1] 4");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

TEST("a bound call has a state of its own, which is destroyed with it") {
  start();
  const tenon_op_t *op = op_of("contract::counter");
  int64_t created = census(CREATED);
  int64_t destroyed = census(DESTROYED);
  tenon_bound_t *a = NULL;
  tenon_bound_t *b = NULL;
  tenon_attrs_t *attrs = attrs_of(op, "start=5");
  CHECK_STATUS(tenon_bound_create(op, attr_values(attrs), &a), TENON_OK);
  CHECK_STATUS(tenon_bound_create(op, attr_values(attrs), &b), TENON_OK);
  tenon_attrs_release(attrs);
  tenon_tensor_t *x = tensor_of("f32[2] 0 1");
  tenon_tensor_t *out = tensor_of("f32[2] 0 0");
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_bound_run(a, &x, &out), TENON_OK);
  CHECK_STATUS(tenon_bound_run(a, &x, &out), TENON_OK);
  CHECK_TENSOR(out, "f32[2] 6 7");
  CHECK_STATUS(tenon_bound_call(b, &x, &made, 0), TENON_OK);
  CHECK_TENSOR(made, "f32[2] 5 6");
  CHECK(census(CREATED) - created == 2 && census(DESTROYED) - destroyed == 0);
  tenon_bound_release(a);
  tenon_bound_release(b);
  CHECK(census(DESTROYED) - destroyed == 2);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  tenon_tensor_release(made);
}

TEST("a state that cannot be created fails the call and the bound call") {
  start();
  const tenon_op_t *op = op_of("contract::counter");
  tenon_attrs_t *attrs = attrs_of(op, "start=-3");
  tenon_bound_t *bound = NULL;
  int64_t created = census(CREATED);
  CHECK_STATUS(tenon_bound_create(op, attr_values(attrs), &bound), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "contract::counter: start -3 is negative");
  CHECK(bound == NULL && census(CREATED) == created);
  tenon_attrs_release(attrs);
}

TEST("infer can read the state") {
  start();
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(call_op("contract::padded", "to=4", TEXTS("f32[2] 1 2"), out), TENON_OK);
  CHECK_TENSOR(out[0], "f32[4] 1 2 0 0");
  tenon_tensor_release(out[0]);
}

typedef struct counter_t {
  tenon_bound_t *bound;
  double sum;
} counter_t;

static void count_many(void *pointer) {
  counter_t *c = pointer;
  tenon_tensor_t *x = tensor_of("f32[1] 0");
  tenon_tensor_t *out = tensor_of("f32[1] 0");
  for (int i = 0; i < 1000; i++) {
    if (c->bound)
      tenon_bound_run(c->bound, &x, &out);
    else
      tenon_op_run(op_of("contract::counter"), NULL, &x, &out);
    c->sum += tensor_float(out, 0);
  }
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

TEST("threads share a state, and no count is lost") {
  tenon_shutdown();
  start();
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create(op_of("contract::counter"), NULL, &bound), TENON_OK);
  for (int i = 0; i < 2;
       /* first the operator's own state, which the first caller creates, then that of a bound
        * call */
       i++) {
    counter_t counters[3] = {{i ? bound : NULL, 0}, {i ? bound : NULL, 0}, {i ? bound : NULL, 0}};
    tn_spawned_t threads[3];
    for (int k = 0; k < 3; k++)
      CHECK(tn_spawn(&threads[k], count_many, &counters[k]));
    for (int k = 0; k < 3; k++)
      tn_join(&threads[k]);
    CHECK(counters[0].sum + counters[1].sum + counters[2].sum == 2999.0 * 3000 / 2);
  }
  tenon_bound_release(bound);
}

TEST("workspace is as large as infer requested, in every way of calling") {
  start();
  const tenon_op_t *op = op_of("contract::median");
  tenon_tensor_t *x = tensor_of("f32[5] 9 1 8 2 7");
  tenon_tensor_t *out = tensor_of("f32[] 0");
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create(op, NULL, &bound), TENON_OK);
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &out), TENON_OK);
  CHECK_TENSOR(out, "f32[] 7");
  *(float *)out->data = 0;
  CHECK_STATUS(tenon_op_run(op, NULL, &x, &out), TENON_OK);
  CHECK_TENSOR(out, "f32[] 7");
  *(float *)out->data = 0;
  CHECK_STATUS(tenon_bound_run(bound, &x, &out), TENON_OK);
  CHECK_TENSOR(out, "f32[] 7");
  tenon_bound_release(bound);
  tenon_tensor_release(x);
  x = tensor_of("f32[0]");
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "contract::median: the median of nothing");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

TEST("a state keeps the tensor that it was made of") {
  start();
  const tenon_op_t *op = op_of("contract::attributes");
  tenon_attrs_t *attrs = attrs_of(op, "");
  tenon_bound_t *bound = NULL;
  tenon_tensor_t *given = tensor_of("f32[1] 3.5");
  tenon_tensor_t *out = NULL;
  tenon_value_t value = {TENON_KIND_TENSOR, 0, {.tensor = given}};
  CHECK_STATUS(tenon_attrs_set(attrs, "given", &value), TENON_OK);
  tenon_tensor_release(given);
  CHECK_STATUS(tenon_bound_create(op, attr_values(attrs), &bound), TENON_OK);
  tenon_attrs_release(attrs);
  CHECK_STATUS(tenon_bound_call(bound, NULL, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "f32[5] 10 0 0 -1 3.5");
  tenon_bound_release(bound);
  tenon_tensor_release(out);
}

TEST("every state that was created is destroyed at shutdown") {
  start();
  CHECK(count_once("start=1") == 1 && count_once("start=2") == 2);
  tenon_shutdown();
  start();
  CHECK(census(CREATED) == census(DESTROYED));
  tenon_shutdown();
}
