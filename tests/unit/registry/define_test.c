/* Operators that a running program defines: they are checked like those of a library, they have a
 * context and a handle that undoes them, and their destroy function runs once, when no call can
 * reach the operator any more. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "failing.h"
#include "operators.h"

/* The data that a program keeps for its operator. */
typedef struct scale_t {
  double by;
  int destroyed;
  int inferred;
} scale_t;

static void scale_destroy(void *context) { ((scale_t *)context)->destroyed++; }

static tenon_status_t scale_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  __atomic_fetch_add(&((scale_t *)infer->context)->inferred, 1,
                     __ATOMIC_RELAXED); /* Several threads may call at once. */
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[d] = x->dims[d];
  return TENON_OK;
}

static tenon_status_t scale_run(tenon_call_t *call) {
  double by = ((const scale_t *)call->context)->by;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    ((float *)call->outputs[0]->data)[i] = (float)(((const float *)call->inputs[0]->data)[i] * by);
  return TENON_OK;
}

#define SCALE                                                                                      \
  TENON_OP("demo::scale(Tensor x) -> Tensor", TENON_DOC("x times what the program says."),         \
           TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(scale_infer),     \
           TENON_GRADIENT("x: scale(grad)"), TENON_KERNEL("cpu", scale_run))

static tenon_registration_t *define(scale_t *scale) {
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_op_add((const tenon_item_t[]){SCALE, {0}}, scale, scale_destroy, 0, &r),
               TENON_OK);
  return r;
}

/* Returns NAN if the call is refused. */
static float scaled(const tenon_op_t *op, float value) {
  int64_t one = 1;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_borrow(&value, tenon_dtype(TENON_F32), 1, &one, NULL, NULL, NULL, &x),
               TENON_OK);
  tenon_status_t status = tenon_op_call(op, NULL, &x, &out, 0);
  float result = status == TENON_OK ? ((const float *)out->data)[0] : 0.0f / 0.0f;
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  return result;
}

TEST("an operator defined by a program is found, listed, inferred and differentiated like any "
     "other") {
  scale_t scale = {.by = 3};
  tenon_registration_t *r = define(&scale);
  const tenon_op_t *op = op_of("demo::scale");
  tenon_op_info_t info = op_info(op);
  CHECK_TEXT(info.doc, "what the program says");
  CHECK(strcmp(info.library, "program") == 0 && strcmp(info.gradient, "x: scale(grad)") == 0);
  CHECK(scaled(op, 2) == 6 && scale.inferred > 0);
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *ones = tensor_of("f32[2] 1 10");
  CHECK_STATUS(tenon_tensor_require_grad(x, 1), TENON_OK);
  CHECK_STATUS(tenon_op_call(op, NULL, &x, &y, 0), TENON_OK);
  CHECK_STATUS(tenon_backward(&y, &ones, 1, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f32[2] 3 30");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(ones);
  tenon_registration_release(r);
  CHECK(scale.destroyed == 0);
  tenon_shutdown();
  CHECK(scale.destroyed == 1);
}

TEST("after undoing, the name is free and the handle still works; the context is destroyed once, "
     "at shutdown") {
  scale_t first = {.by = 2};
  scale_t second = {.by = 5};
  const tenon_op_t *gone = NULL;
  tenon_registration_t *r = define(&first);
  const tenon_op_t *op = op_of("demo::scale");
  tenon_registration_release(r);
  CHECK_STATUS(tenon_op_find("demo::scale", &gone), TENON_NOT_FOUND);
  CHECK(scaled(op, 2) == 4 && first.destroyed == 0);
  tenon_registration_t *again = define(&second);
  CHECK(scaled(op_of("demo::scale"), 2) == 10 && scaled(op, 2) == 4);
  /* The second release does nothing. */
  tenon_registration_release(r);
  CHECK(scaled(op_of("demo::scale"), 2) == 10);
  tenon_registration_release(again);
  CHECK(first.destroyed == 0 && second.destroyed == 0);
  tenon_shutdown();
  CHECK(first.destroyed == 1 && second.destroyed == 1);
}

TEST("a definition that is never undone is destroyed at shutdown") {
  scale_t scale = {.by = 2};
  (void)define(&scale);
  tenon_shutdown();
  CHECK(scale.destroyed == 1);
}

TEST("a bound call that outlives shutdown keeps the context, whether the definition was undone or "
     "not") {
  for (int undo = 0; undo < 2; undo++) {
    scale_t scale = {.by = 2};
    tenon_bound_t *bound = NULL;
    tenon_bound_t *early = NULL;
    tenon_registration_t *r = define(&scale);
    CHECK_STATUS(tenon_bound_create(op_of("demo::scale"), NULL, &bound), TENON_OK);
    CHECK_STATUS(tenon_bound_create(op_of("demo::scale"), NULL, &early), TENON_OK);
    if (undo) tenon_registration_release(r);
    tenon_bound_release(early);
    CHECK(scale.destroyed == 0);
    tenon_shutdown();
    CHECK(scale.destroyed == 0);
    tenon_bound_release(bound);
    CHECK(scale.destroyed == 1);
  }
}

TEST("an invalid definition is refused with all errors, adds nothing, and leaves the context to "
     "the program") {
  scale_t scale = {.by = 2};
  tenon_registration_t *r = NULL;
  const tenon_op_t *op = NULL;
  const tenon_item_t two[] = {
      TENON_OP("demo::a(Tensor x) -> Tensor", TENON_TYPES("x: f33; out = x")),
      TENON_OP("demo::b(Tensor x", TENON_TYPES("x: f32; out = x")),
      {0}};
  CHECK_STATUS(tenon_op_add(two, &scale, scale_destroy, 0, &r), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "f33");
  CHECK_TEXT(tenon_error(), "schema");
  CHECK_STATUS(tenon_op_find("demo::a", &op), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_op_add((const tenon_item_t[]){TENON_OP("demo::a(Tensor x) -> Tensor",
                                                            TENON_TYPES("x: f32; out = x"),
                                                            TENON_TRAITS(TENON_POINTWISE)),
                                                   {0}},
                            &scale, scale_destroy, 0, &r),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "cannot add operators: demo::a: no kernel");
  CHECK_STATUS(tenon_op_add(NULL, &scale, scale_destroy, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_op_add((const tenon_item_t[]){SCALE, {0}}, &scale, scale_destroy, 0, NULL),
               TENON_INVALID);
  CHECK_STATUS(tenon_op_add((const tenon_item_t[]){SCALE, {0}}, &scale, scale_destroy, 8, &r),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "unknown flags 0x8");
  CHECK(r == NULL);
  tenon_registration_t *there = define(&scale);
  CHECK_STATUS(tenon_op_add((const tenon_item_t[]){SCALE, {0}}, &scale, scale_destroy, 0, &r),
               TENON_EXISTS);
  CHECK_TEXT(tenon_error(), "operator demo::scale is there already, from library program");
  CHECK(scale.destroyed == 0 && r == NULL);
  tenon_registration_release(there);
  tenon_shutdown();
  CHECK(scale.destroyed == 1);
}

/* kernels that others add */

static tenon_status_t minus_run(tenon_call_t *call) {
  *(float *)call->outputs[0]->data = -*(const float *)call->inputs[0]->data;
  return TENON_OK;
}

static void check_dangling(const char *part) {
  char *text = NULL;
  CHECK_STATUS(tenon_dangling(&text), TENON_OK);
  if (part)
    CHECK_TEXT(text, part);
  else
    CHECK(text && !*text);
  tenon_text_release(text);
}

TEST("kernels that others added leave with the operator, wait, and join the next operator of that "
     "name") {
  scale_t scale = {.by = 2};
  tenon_registration_t *mine = NULL;
  tenon_registration_t *items = NULL;
  tenon_registration_t *r = define(&scale);
  const tenon_op_t *before = op_of("demo::scale");
  CHECK_STATUS(tenon_kernel_add("demo::scale", "cpu", minus_run, NULL, NULL, TENON_OVERRIDE, &mine),
               TENON_OK);
  /* Items and texts need not outlive the call. */
  {
    char name[] = "demo::scale";
    char where[] = "npu";
    CHECK_STATUS(tenon_op_add((const tenon_item_t[]){{TENON_TAG_EXTEND, 0, 0, name, NULL},
                                                     {TENON_TAG_KERNEL, 0, 0, where,
                                                      (tenon_any_fn)minus_run},
                                                     {0}},
                              NULL, NULL, 0, &items),
                 TENON_OK);
    memset(name, '?', sizeof name);
    memset(where, '?', sizeof where);
  }
  CHECK(scaled(before, 2) == -2);
  tenon_registration_release(r);
  check_dangling("demo::scale: kernels of library program wait");
  CHECK(scaled(before, 2) ==
        4); /* Its own kernel is in force again, so no library of others is needed. */
  r = define(&scale);
  check_dangling(NULL);
  CHECK(scaled(op_of("demo::scale"), 2) == -2 && tenon_op_has_kernel(op_of("demo::scale"), "npu"));
  tenon_registration_release(mine);
  tenon_registration_release(items);
  CHECK(scaled(op_of("demo::scale"), 2) == 4 && !tenon_op_has_kernel(op_of("demo::scale"), "npu"));
  tenon_registration_release(r);
  tenon_shutdown();
  CHECK(scale.destroyed == 2);
}

TEST(
    "operators, and kernels for other operators, that were added in one list are undone together") {
  tenon_registration_t *r = NULL;
  const tenon_op_t *gone = NULL;
  scale_t scale = {.by = 7};
  const tenon_item_t items[] = {SCALE,
                                TENON_EXTEND("core::neg", TENON_KERNEL("npu", minus_run)),
                                TENON_EXTEND("core::abs", TENON_KERNEL("npu", minus_run)),
                                {0}};
  CHECK_STATUS(tenon_op_add(items, &scale, scale_destroy, 0, &r), TENON_OK);
  CHECK(tenon_op_has_kernel(op_of("core::neg"), "npu") &&
        tenon_op_has_kernel(op_of("core::abs"), "npu"));
  tenon_registration_release(r);
  CHECK(!tenon_op_has_kernel(op_of("core::neg"), "npu") &&
        !tenon_op_has_kernel(op_of("core::abs"), "npu"));
  CHECK_STATUS(tenon_op_find("demo::scale", &gone), TENON_NOT_FOUND);
  tenon_shutdown();
  CHECK(scale.destroyed == 1);
}

/* memory, threads */

static tenon_status_t define_undo(void *context) {
  tenon_registration_t *r = NULL;
  tenon_registration_t *kernel = NULL;
  tenon_status_t status =
      tenon_op_add((const tenon_item_t[]){SCALE, {0}}, context, scale_destroy, 0, &r);
  if (status == TENON_OK)
    status = tenon_kernel_add("demo::scale", "npu", minus_run, NULL, NULL, 0, &kernel);
  tenon_registration_release(r);
  tenon_registration_release(kernel);
  tenon_shutdown();
  return status;
}

TEST("when any allocation fails nothing stays defined, and the next attempt works") {
  scale_t scale = {.by = 2};
  fail_each("defining an operator and undoing it", define_undo, &scale, 7);
}

typedef struct caller_t {
  const tenon_op_t *op;
  int *is_over;
  int wrong;
  int64_t calls;
} caller_t;

static void call_always(void *pointer) {
  caller_t *c = pointer;
  while (!__atomic_load_n(c->is_over, __ATOMIC_RELAXED) || !c->calls) {
    float value = scaled(c->op, 2);
    /* The result is that of its own kernel or of the other one. */
    c->wrong += value != 4 && value != -2;
    c->calls++;
  }
}

TEST("while a definition comes and goes, each call of another thread gets an old or a new kernel") {
  scale_t scale = {.by = 2};
  int is_over = 0;
  tenon_registration_t *r = define(&scale);
  caller_t callers[2] = {{op_of("demo::scale"), &is_over, 0, 0},
                         {op_of("demo::scale"), &is_over, 0, 0}};
  tn_spawned_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK(tn_spawn(&threads[i], call_always, &callers[i]));
  for (int i = 0; i < 300; i++) {
    tenon_registration_t *other = NULL;
    CHECK_STATUS(
        tenon_kernel_add("demo::scale", "cpu", minus_run, NULL, NULL, TENON_OVERRIDE, &other),
        TENON_OK);
    tenon_registration_release(r);
    tenon_registration_release(other);
    r = define(&scale);
  }
  __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++)
    tn_join(&threads[i]);
  CHECK(callers[0].wrong == 0 && callers[1].wrong == 0 && callers[0].calls > 0 &&
        callers[1].calls > 0);
  CHECK(scale.destroyed == 0);
  tenon_shutdown();
  CHECK(scale.destroyed == 301);
}
