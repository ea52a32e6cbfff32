/* Autocast: the precision of each operator, operators that are left alone, and the settings. The
 * expected results come from the same calculation with explicit casts. */
#include "base/parallel.h"
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "autograd/tape.h"

static tenon_status_t copy(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  memcpy(call->outputs[0]->data, x->data, (size_t)tenon_count(x) * x->dtype.bits / 8);
  return TENON_OK;
}

static tenon_status_t product(tenon_call_t *call) { /* a composite */
  tenon_tensor_t *outputs[1] = {NULL};
  tenon_tensor_t *inputs[8] = {call->inputs[0], call->inputs[1]};
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, inputs, outputs));
  return call->host->assign(call, 0, outputs[0]);
}

/* clang-format off */
static const tenon_item_t items[] = {
  TENON_OP("single(Tensor x) -> Tensor", TENON_TYPES("x: float; out = x"), TENON_SHAPES("out = x"),
    TENON_KERNEL("cpu", copy), TENON_RULE("autocast f32")),
  TENON_OP("half_only(Tensor x, Tensor y) -> Tensor",
    TENON_TYPES("x, y: f16|f32; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", copy),
    TENON_RULE("autocast lower")),
  TENON_OP("free(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = x"), TENON_SHAPES("out = x"), TENON_KERNEL("cpu", copy)),
  TENON_OP("product(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a, b: float; out = a"), TENON_SHAPES("a: [n, k]; b: [k, m]; out: [n, m]"),
    TENON_USES("core::matmul"), TENON_COMPOSITE(product)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t precise = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "precise", "1.0.0", items};

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("precise::free", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(&precise, NULL, NULL, NULL), TENON_OK);
}

static const tenon_dtype_t off;

static tenon_tensor_t *as(tenon_tensor_t *t, const char *dtype) {
  char attrs[32];
  tenon_tensor_t *out;
  snprintf(attrs, sizeof attrs, "to=%s", dtype);
  CHECK_STATUS(try_op("core::cast", attrs, t, NULL, &out), TENON_OK);
  return out;
}

static void check_same(tenon_tensor_t *found, tenon_tensor_t *expected) {
  char a[2000], b[2000];
  tensor_print(found, a, sizeof a);
  tensor_print(expected, b, sizeof b);
  check_report(strcmp(a, b) == 0, __FILE__, __LINE__, b, a);
  tenon_tensor_release(found);
  tenon_tensor_release(expected);
}

TEST("operators of the list 'lower' run in the dtype that the thread chose, and return it") {
  start();
  tenon_tensor_t *a = tensor_of("f32[2, 3] 1.001 2.002 3.003 -4.004 5.005 6.006");
  tenon_tensor_t *b = tensor_of("f32[3, 2] 0.1 0.2 0.3 0.4 0.5 0.6");
  static const char *const dtypes[] = {"f16", "bf16"};
  for (int i = 0; i < 2; i++) {
    tenon_dtype_t dtype;
    tenon_tensor_t *low_a = as(a, dtypes[i]);
    tenon_tensor_t *low_b = as(b, dtypes[i]);
    tenon_tensor_t *expected = apply("core::matmul", low_a, low_b);
    CHECK_STATUS(tenon_dtype_parse(dtypes[i], &dtype), TENON_OK);
    CHECK_STATUS(tenon_autocast_set("cpu", dtype), TENON_OK);
    CHECK(tenon_dtype_id(tenon_autocast_get("cpu")) == tenon_dtype_id(dtype));
    tenon_tensor_t *found = apply("core::matmul", a, b);
    tenon_tensor_t *mixed = apply("core::matmul", low_a, b);
    tenon_tensor_retain(expected);
    check_same(mixed, expected);
    check_same(found, expected);
    CHECK_STATUS(tenon_autocast_set("cpu", off), TENON_OK);
    CHECK(!tenon_autocast_get("cpu").bits);
    RELEASE(low_a, low_b);
  }
  tenon_tensor_t *plain = apply("core::matmul", a, b);
  CHECK(tensor_has(plain, TENON_F32));
  RELEASE(plain, a, b);
}

TEST("operators of the list 'f32' run in f32; in others, inputs that must agree get the widest "
     "dtype among them") {
  start();
  CHECK_STATUS(tenon_autocast_set("cpu", tenon_dtype(TENON_BF16)), TENON_OK);
  tenon_tensor_t *h = tensor_of("f16[2] 0.5 1");
  tenon_tensor_t *b = tensor_of("bf16[2] 2 3");
  tenon_tensor_t *f = tensor_of("f32[2] 0.1 0.2");
  tenon_tensor_t *d = tensor_of("f64[2] 1 2");
  tenon_tensor_t *i = tensor_of("i64[2] 1 2");
  tenon_tensor_t *out;
  out = apply("precise::single", h, NULL);
  CHECK_TENSOR(out, "f32[2] 0.5 1");
  tenon_tensor_release(out);
  out = apply("core::softmax", b, NULL);
  CHECK(tensor_has(out, TENON_F32));
  tenon_tensor_release(out);
  out = apply("core::add", h, f);
  CHECK_TENSOR(out, "f32[2] 0.6 1.2");
  tenon_tensor_release(out);
  out = apply("core::add", h, b);
  CHECK_TENSOR(out, "f32[2] 2.5 4");
  tenon_tensor_release(out);
  out = apply("core::add", h, h);
  CHECK_TENSOR(out, "f16[2] 1 2");
  tenon_tensor_release(out);
  out = apply("precise::free", h, NULL);
  CHECK_TENSOR(out, "f16[2] 0.5 1");
  tenon_tensor_release(out);
  out = apply("precise::single", d, NULL);
  CHECK_TENSOR(out, "f64[2] 1 2");
  tenon_tensor_release(out);
  out = apply("core::add", i, i);
  CHECK_TENSOR(out, "i64[2] 2 4");
  /* bf16 is not among its dtypes. */
  tenon_tensor_release(out);
  out = apply("precise::half_only", f, h);
  CHECK_TENSOR(out, "f32[2] 0.1 0.2");
  tenon_tensor_release(out);
  /* Autocast does not cast f64. */
  CHECK_STATUS(try_op("core::add", NULL, f, d, &out), TENON_INVALID);
  CHECK_STATUS(tenon_autocast_set("cpu", off), TENON_OK);
  CHECK_STATUS(try_op("core::add", NULL, h, f, &out), TENON_INVALID);
  RELEASE(h, b, f, d, i);
}

TEST("the items of a list are made to agree, too") {
  start();
  CHECK_STATUS(tenon_autocast_set("cpu", tenon_dtype(TENON_F16)), TENON_OK);
  tenon_tensor_t *list = tensor_of("{f16[1] 1; f32[1] 2; bf16[1] 3}");
  tenon_tensor_t *out;
  CHECK_STATUS(try_op("core::concat", "axis=0", list, NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "f32[3] 1 2 3");
  CHECK_STATUS(tenon_autocast_set("cpu", off), TENON_OK);
  RELEASE(list, out);
}

TEST("results that are given determine the dtype, and other backends are not affected") {
  start();
  tenon_tensor_t *a = tensor_of("f32[1, 2] 1.001 2.002");
  tenon_tensor_t *b = tensor_of("f32[2, 1] 0.1 0.2");
  tenon_tensor_t *out = tensor_of("f32[1, 1] 0");
  tenon_tensor_t *plain = apply("core::matmul", a, b);
  tenon_tensor_t *inputs[4] = {a, b};
  CHECK_STATUS(tenon_autocast_set("cpu", tenon_dtype(TENON_BF16)), TENON_OK);
  CHECK_STATUS(tenon_op_call_into(op_of("core::matmul"), NULL, inputs, &out), TENON_OK);
  tenon_tensor_retain(plain);
  check_same(out, plain);
  CHECK_STATUS(tenon_autocast_set("cpu", off), TENON_OK);
  CHECK_STATUS(tenon_autocast_set("elsewhere", tenon_dtype(TENON_BF16)), TENON_OK);
  check_same(apply("core::matmul", a, b), plain);
  tenon_tensor_t *half = tensor_of("f16[2] 1 2");
  tenon_tensor_t *result = NULL;
  CHECK_STATUS(try_op("core::softmax", NULL, half, NULL, &result), TENON_OK);
  CHECK(result && tenon_dtype_id(result->dtype) == TENON_F16); /* on the CPU it would be f32 */
  tenon_tensor_release(result);
  result = NULL;
  CHECK_STATUS(try_op("core::add", NULL, half, a, &result),
               TENON_INVALID); /* none makes them agree */
  CHECK_STATUS(tenon_autocast_set("elsewhere", off), TENON_OK);
  RELEASE(a, b, half);
}

TEST("an operator called by a kernel runs in the precision of the outer call, and a list may name "
     "a composite") {
  start();
  tenon_tensor_t *a = tensor_of("f32[1, 2] 1 2");
  tenon_tensor_t *b = tensor_of("f32[2, 1] 3 4");
  tenon_tensor_t *out;
  CHECK_STATUS(tenon_autocast_set("cpu", tenon_dtype(TENON_BF16)), TENON_OK);
  out = apply("precise::product", a, b);
  CHECK_TENSOR(out, "f32[1, 1] 11");
  tenon_tensor_release(out);
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("precise::product", "autocast lower", NULL, NULL, NULL, 0, &r),
               TENON_OK);
  out = apply("precise::product", a, b);
  CHECK_TENSOR(out, "bf16[1, 1] 11");
  tenon_registration_release(r);
  tenon_tensor_release(out);
  out = apply("precise::product", a, b);
  CHECK_TENSOR(out, "f32[1, 1] 11");
  CHECK_STATUS(tenon_autocast_set("cpu", off), TENON_OK);
  RELEASE(a, b, out);
}

TEST("gradients flow through the casts to the tensors that were cast") {
  start();
  tenon_tensor_t *a = leaf("f32[1, 2] 1.001 2.002");
  tenon_tensor_t *b = leaf("f32[2, 1] 0.1 0.2");
  tenon_tensor_t *c = leaf("f32[1, 2] 1.001 2.002");
  tenon_tensor_t *d = leaf("f32[2, 1] 0.1 0.2");
  CHECK_STATUS(tenon_autocast_set("cpu", tenon_dtype(TENON_BF16)), TENON_OK);
  tenon_tensor_t *found = apply("core::matmul", a, b);
  CHECK_STATUS(tenon_autocast_set("cpu", off), TENON_OK);
  tenon_tensor_t *low_c = as(c, "bf16");
  tenon_tensor_t *low_d = as(d, "bf16");
  tenon_tensor_t *expected = apply("core::matmul", low_c, low_d);
  CHECK(tensor_has(found, TENON_BF16) && tenon_tensor_requires_grad(found));
  CHECK_STATUS(backward(found, 0), TENON_OK);
  CHECK_STATUS(backward(expected, 0), TENON_OK);
  CHECK(tensor_has(tenon_tensor_grad(a), TENON_F32) &&
        tensor_equal(tenon_tensor_grad(a), tenon_tensor_grad(c), 0));
  CHECK(tensor_equal(tenon_tensor_grad(b), tenon_tensor_grad(d), 0));
  RELEASE(a, b, c, d, low_c, low_d, found, expected);
}

static tenon_status_t ask(void *argument, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    ((uint32_t *)argument)[i] = tenon_dtype_id(tenon_autocast_get("cpu"));
  return TENON_OK;
}

static void ask_alone(void *argument) { (void)ask(argument, 0, 1); }

TEST("autocast is set for a thread, and for worker threads that run parts of its loops") {
  enum { PARTS = 64 };
  uint32_t found[PARTS] = {0};
  tn_spawned_t thread;
  start();
  CHECK_STATUS(tenon_autocast_set("cpu", tenon_dtype(TENON_BF16)), TENON_OK);
  CHECK_STATUS(tn_parallel(PARTS, 1, ask, found), TENON_OK);
  for (int i = 0; i < PARTS; i++)
    CHECK(found[i] == TENON_BF16);
  CHECK(tn_spawn(&thread, ask_alone, found));
  tn_join(&thread);
  CHECK(found[0] == 0);
  CHECK_STATUS(tenon_autocast_set("cpu", off), TENON_OK);
}

static void check_refused(const char *where, tenon_run_fn run, const char *message) {
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("precise::free", where, run, NULL, NULL, 0, &r), TENON_INVALID);
  CHECK_TEXT(tenon_error(), message);
}

TEST("settings that make no sense are refused") {
  start();
  static const char expected[] = "expected 'autocast lower', or autocast and one of f16, bf16, f32";
  check_refused("autocast f64", NULL, expected);
  check_refused("autocast f16|f32", NULL, expected);
  check_refused("autocast i32", NULL, expected);
  check_refused("autocast lower f32", NULL, expected);
  check_refused("autocast f32 avx2", NULL, expected);
  check_refused("autocast npu lower", NULL, expected);
  check_refused("autocast lower fallthrough", NULL, expected);
  check_refused("autocast lower", copy, "passes calls by and has no function of its own");
  check_refused("cpu lower", copy, "lower is a word of 'autocast'");
  CHECK_STATUS(tenon_autocast_set("cpu", tenon_dtype(TENON_F32)), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "autocast on cpu to f32: expected f16, bf16, or no dtype (off)");
  CHECK_STATUS(tenon_autocast_set(NULL, off), TENON_INVALID);
  CHECK(!tenon_autocast_get("nowhere").bits && !tenon_autocast_get(NULL).bits);
}

TEST("nothing is left behind") { tenon_shutdown(); }
