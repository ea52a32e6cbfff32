/* Calls whose results are added to the content of outputs: by kernels that accumulate, and by
 * core::add for all others. Also refused calls, layers, gradients and devices. */
#include "check.h"
#include "tensors.h"

#include "capture.h"
#include "npu.h"
#include "operators.h"

#include "../autograd/tape.h"
#include "../device/there.h"
#include "adding.h"
#include "failing.h"
#include "sparse.h"

/* any kernel */

static const char *const dtypes[] = {"f16", "bf16", "f32", "f64", "i8",  "i16",
                                     "i32", "i64",  "u8",  "u16", "u32", "u64"};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static tenon_tensor_t *of_dtype(int dtype, const char *rest) {
  char text[100];
  snprintf(text, sizeof text, "%s%s", dtypes[dtype], rest);
  return tensor_of(text);
}

/* Computes y += a * b, and y = a * b without the bit. */
static void check_product(int dtype, tenon_device_t device, bool is_turned) {
  tenon_tensor_t *a = of_dtype(dtype, "[2, 3] 1 2 3 4 5 6");
  tenon_tensor_t *b = of_dtype(dtype, "[2, 3] 2 3 4 5 6 7");
  tenon_tensor_t *y = of_dtype(dtype, "[2, 3] 10 9 8 7 6 5");
  tenon_tensor_t *in[2] = {copied(a, device), copied(b, device)};
  tenon_tensor_t *out = is_turned ? turned(y) : copied(y, device);
  double sum[6], product[6];
  for (int i = 0; i < 6; i++) {
    product[i] = number(a, i) * number(b, i);
    sum[i] = number(y, i) + product[i];
  }
  CHECK_STATUS(tenon_op_call_add(op_of("core::mul"), NULL, in, &out, 1), TENON_OK);
  check_numbers(out, sum, 0);
  CHECK_STATUS(tenon_op_call_add(op_of("core::mul"), NULL, in, &out, 0), TENON_OK);
  check_numbers(out, product, 0);
  RELEASE(a, b, y, out, in[0], in[1]);
}

TEST("a product is added in every dtype that add supports, dense and strided, on the CPU and by "
     "fallbacks") {
  npu_start();
  tenon_device_t sim_device = sim_open(0, "");
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_fallback_add("sim", tenon_fallback_cpu, NULL, NULL, 0, &r), TENON_OK);
  for (int d = 0; d < DTYPES; d++) {
    check_product(d, cpu, false);
    check_product(d, cpu, true);
    check_product(d, npu_device, false);
    check_product(d, sim_device, false);
  }
  tenon_registration_release(r);
  tenon_shutdown();
}

TEST("an output that is an input, or overlaps one, is read as it was before the call") {
  tenon_tensor_t *y = tensor_of("i32[4] 1 2 3 4");
  tenon_tensor_t *same[2] = {y, y};
  tenon_tensor_t *low = NULL;
  tenon_tensor_t *high = NULL;
  int64_t three = 3;
  CHECK_STATUS(tenon_op_call_add(op_of("core::mul"), NULL, same, &y, 1), TENON_OK);
  CHECK_TENSOR(y, "i32[4] 2 6 12 20");
  CHECK_STATUS(tenon_tensor_borrow(y->data, y->dtype, 1, &three, NULL, NULL, NULL, &low), TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow((int32_t *)y->data + 1, y->dtype, 1, &three, NULL, NULL, NULL, &high),
      TENON_OK);
  CHECK_STATUS(tenon_op_call_add(op_of("core::neg"), NULL, &low, &high, 1), TENON_OK);
  CHECK_TENSOR(y, "i32[4] 2 4 6 8");
  RELEASE(low, high, y);
}

/* several results */

/* The outputs that a run got, as bits. */
static uint64_t seen;
static uint64_t bits; /* its call->accumulate */
static int runs, fails;

/* Returns x, 10 x and 100 x. */
static tenon_status_t parts_run(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  seen = 0;
  bits = call->accumulate;
  runs++;
  for (int o = 0, scale = 1; o < 3; o++, scale *= 10) {
    if (!call->outputs[o]) continue;
    seen |= (uint64_t)1 << o;
    for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
      ((float *)call->outputs[o]->data)[i] = x[i] * (float)scale;
  }
  return fails ? tenon_fail(call, TENON_UNAVAILABLE, "out of parts") : TENON_OK;
}

static tenon_registration_t *define_parts(void) {
  static const tenon_item_t items[] = {
      TENON_OP("demo::parts(Tensor x) -> (Tensor a, Tensor? b, Tensor c)",
               TENON_TYPES("x: f32; a = x; b = x; c = x"), TENON_SHAPES("a = x; b = x; c = x"),
               TENON_KERNEL("cpu", parts_run)),
      {0}};
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &r), TENON_OK);
  return r;
}

TEST("each result is overwritten, added or unwanted, and an unwanted one that is not optional is "
     "created and dropped") {
  tenon_registration_t *r = define_parts();
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *a = tensor_of("f32[2] 5 5");
  tenon_tensor_t *c = tensor_of("f32[2] 7 7");
  const tenon_op_t *op = op_of("demo::parts");
  CHECK_STATUS(tenon_op_call_add(op, NULL, &x, (tenon_tensor_t *[]){a, NULL, c}, 4), TENON_OK);
  CHECK(seen == 5 && bits == 0);
  CHECK_TENSOR(a, "f32[2] 1 2");
  CHECK_TENSOR(c, "f32[2] 107 207");
  CHECK_STATUS(tenon_op_call_add(op, NULL, &x, (tenon_tensor_t *[]){NULL, a, NULL}, 2), TENON_OK);
  CHECK(seen == 7);
  CHECK_TENSOR(a, "f32[2] 11 22");
  CHECK_STATUS(tenon_op_call_add(op, NULL, &x, (tenon_tensor_t *[]){a, a, NULL}, 3), TENON_OK);
  CHECK_TENSOR(a, "f32[2] 22 44");
  CHECK_STATUS(tenon_op_call_add(op, NULL, &x, (tenon_tensor_t *[]){NULL, NULL, NULL}, 0),
               TENON_OK);
  CHECK(seen == 5);
  RELEASE(x, a, c);
  tenon_registration_release(r);
}

TEST("a call that fails adds nothing") {
  tenon_registration_t *r = define_parts();
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *a = tensor_of("f32[2] 5 5");
  tenon_tensor_t *c = tensor_of("f32[2] 7 7");
  fails = 1;
  CHECK_STATUS(
      tenon_op_call_add(op_of("demo::parts"), NULL, &x, (tenon_tensor_t *[]){a, NULL, c}, 5),
      TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "out of parts");
  CHECK_TENSOR(a, "f32[2] 5 5");
  CHECK_TENSOR(c, "f32[2] 7 7");
  fails = 0;
  RELEASE(x, a, c);
  tenon_registration_release(r);
}

/* refused calls */

static void check_refused(const char *name, const char *attrs_text, const char *x_text,
                          const char *y_text, uint64_t add, tenon_status_t code, const char *part) {
  tenon_attrs_t *attrs = attrs_of(op_of(name), attrs_text);
  tenon_tensor_t *inputs[4] = {tensor_of(x_text), tensor_of(x_text)};
  tenon_tensor_t *y = tensor_of(y_text);
  tenon_tensor_t *outputs[4] = {y};
  CHECK_STATUS(tenon_op_call_add(op_of(name), attr_values(attrs), inputs, outputs, add), code);
  CHECK_TEXT(tenon_error(), part);
  if (y) CHECK_TENSOR(y, y_text);
  RELEASE(inputs[0], inputs[1], y);
  tenon_attrs_release(attrs);
}

TEST("a result that cannot be accumulated into is refused, and stays unchanged") {
  static const tenon_item_t items[] = {
      TENON_OP("demo::pair(Tensor x, *, int n=2) -> Tensor[n]", TENON_TYPES("x: f32; out = x"),
               TENON_SHAPES("out = x"), TENON_KERNEL("cpu", parts_run)),
      {0}};
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &r), TENON_OK);
  check_refused("core::mul", NULL, "f32[2] 1 2", NULL, 1, TENON_INVALID,
                "core::mul: result out: no tensor is given");
  check_refused("core::mul", NULL, "f32[2] 1 2", "f32[2] 1 1", 2, TENON_INVALID,
                "`add` is 0x2: expected bits of its 1");
  check_refused("core::mul", NULL, "f32[2] 1 2", "f32[3] 1 1 1", 1, TENON_INVALID,
                "expected shape [2], found [3]");
  check_refused("core::mul", NULL, "f32[2] 1 2", "f64[2] 1 1", 1, TENON_INVALID,
                "expected dtype f32, found f64");
  check_refused("core::less", NULL, "f32[2] 1 2", "bool[2] 0 1", 1, TENON_INVALID,
                "core::add has no dtype bool");
  check_refused("core::identity", NULL, "string[1] a", "string[1] b", 1, TENON_INVALID, "core::");
  check_refused("core::reshape", NULL, "i64[1] 1", "i64[1] 3", 1, TENON_INVALID,
                "is an input or a view of one");
  check_refused("demo::pair", NULL, "f32[1] 1", "{f32[1] 1; f32[1] 2}", 1, TENON_INVALID,
                "is a list");
  check_refused("core::matmul", NULL, "f32[2, 2] 1 2 3 4", "f32[2] 1 1", 1, TENON_INVALID,
                "expected shape [2, 2]");
  tenon_registration_release(r);
}

TEST("read-only memory, quantised and sparse results are refused") {
  float numbers[2] = {1, 2};
  int64_t two = 2;
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *same[2] = {x, x};
  tenon_tensor_t *fixed = NULL;
  tenon_external_t external = {.size = sizeof external,
                               .flags = TENON_EXTERNAL_READ_ONLY,
                               .device = cpu,
                               .data = numbers,
                               .dtype = x->dtype,
                               .ndim = 1,
                               .shape = &two};
  CHECK_STATUS(tenon_tensor_import(&external, &fixed), TENON_OK);
  CHECK_STATUS(tenon_op_call_add(op_of("core::mul"), NULL, same, &fixed, 1), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::mul: result out: the tensor that is given is read-only");
  CHECK(numbers[0] == 1 && numbers[1] == 2);
  tenon_tensor_t *scale = tensor_of("f32[] 0.5");
  tenon_tensor_t *y = tensor_of("f32[2] 1 1");
  tenon_detail_t detail = {
      .size = sizeof detail, .kind = TENON_DETAIL_QUANTISED, .axis = -1, .scale = scale};
  CHECK_STATUS(tenon_tensor_detail_set(y, &detail), TENON_OK);
  CHECK_STATUS(tenon_op_call_add(op_of("core::mul"), NULL, same, &y, 1), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "result out is added: expected a dense tensor, found a quantised one");
  tenon_tensor_t *sparse = sparse_of((int64_t[]){2, 2}, "f32[1] 5", "i64[1] 0", "i64[3] 0 1 1");
  CHECK_STATUS(tenon_op_call_add(op_of("core::mul"), NULL, same, &sparse, 1), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "result out is added: expected a dense tensor, found a csr one");
  RELEASE(x, fixed, scale, y, sparse);
}

static tenon_status_t say_nothing(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}

TEST("`accumulates` is accepted for kernels of backends only") {
  tenon_registration_t *r = NULL;
  static const char *const wrong[] = {"composite accumulates", "autograd accumulates",
                                      "autocast accumulates"};
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(tenon_kernel_add("core::neg", wrong[i], say_nothing, NULL, NULL, 0, &r),
                 TENON_INVALID);
    CHECK_TEXT(tenon_error(), "accumulates is a word of a backend's KERNEL");
  }
}

/* kernels that accumulate */

static bool declines;

/* A dense kernel that returns 2 x. */
static tenon_status_t twice_run(tenon_call_t *call) {
  const float *x = show(call->inputs[0]);
  float *y = show(call->outputs[0]);
  bits = call->accumulate;
  runs++;
  if (declines && bits) return TENON_UNIMPLEMENTED;
  if (fails) return tenon_fail(call, TENON_UNAVAILABLE, "out of twos");
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    y[i] = (bits ? y[i] : 0) + 2 * x[i];
  return TENON_OK;
}

static tenon_registration_t *define_twice(const char *where) {
  const tenon_item_t items[] = {TENON_OP("demo::twice(Tensor x) -> Tensor",
                                         TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
                                         TENON_GRADIENT("x: demo::twice(grad)"),
                                         TENON_KERNEL(where, twice_run)),
                                {0}};
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &r), TENON_OK);
  runs = 0;
  return r;
}

static void add_twice(tenon_tensor_t *x, tenon_tensor_t *y, const char *expected) {
  uint64_t version = tenon_tensor_version(y);
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &x, &y, 1), TENON_OK);
  CHECK_TENSOR(y, expected);
  CHECK(tenon_tensor_version(y) == version + 1);
}

TEST("only a kernel that declares `accumulates` gets the bits, and every call counts one version") {
  tenon_registration_t *r = define_twice("cpu");
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *y = tensor_of("f32[2] 5 5");
  add_twice(x, y, "f32[2] 7 9");
  CHECK(bits == 0 && runs == 1);
  tenon_registration_release(r);
  r = define_twice("cpu accumulates");
  add_twice(x, y, "f32[2] 9 13");
  CHECK(bits == 1 && runs == 1);
  CHECK_STATUS(tenon_op_call_into(op_of("demo::twice"), NULL, &x, &y), TENON_OK);
  CHECK(bits == 0);
  CHECK_TENSOR(y, "f32[2] 2 4");
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create(op_of("demo::twice"), NULL, &bound), TENON_OK);
  CHECK_STATUS(tenon_bound_call_add(bound, &x, &y, 1), TENON_OK);
  CHECK(bits == 1);
  CHECK_TENSOR(y, "f32[2] 4 8");
  tenon_bound_release(bound);
  RELEASE(x, y);
  tenon_registration_release(r);
}

TEST("such a kernel may decline, never gets overlapping tensors, and sees the content of strided "
     "outputs") {
  tenon_registration_t *r = define_twice("cpu accumulates");
  tenon_tensor_t *x = tensor_of("f32[2, 3] 1 2 3 4 5 6");
  tenon_tensor_t *y = tensor_of("f32[2, 3] 1 1 1 1 1 1");
  tenon_tensor_t *z = turned(y);
  declines = true;
  add_twice(x, y, "f32[2, 3] 3 5 7 9 11 13");
  CHECK(bits == 0 && runs == 2);
  declines = false;
  add_twice(y, y, "f32[2, 3] 9 15 21 27 33 39");
  CHECK(bits == 0);
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &x, &z, 1), TENON_OK);
  CHECK(bits == 1 && z->strides[0] == 1);
  CHECK_TENSOR(z, "f32[2, 3] 3 5 7 9 11 13");
  fails = 1;
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &x, &z, 1), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "out of twos");
  CHECK_TENSOR(z, "f32[2, 3] 3 5 7 9 11 13");
  fails = 0;
  RELEASE(x, y, z);
  tenon_registration_release(r);
}

TEST("on a device the kernel accumulates, or declines, or gets tensors of the host among the "
     "arguments") {
  npu_start();
  tenon_registration_t *r = define_twice("npu accumulates");
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *y = tensor_of("f32[2] 5 5");
  tenon_tensor_t *there = copied(x, npu_device);
  tenon_tensor_t *sum = copied(y, npu_device);
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &there, &sum, 1), TENON_OK);
  CHECK(bits == 1);
  check_numbers(sum, (double[]){7, 9}, 0);
  declines = true;
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &there, &sum, 1), TENON_OK);
  CHECK(bits == 0);
  check_numbers(sum, (double[]){9, 13}, 0);
  declines = false;
  CHECK_STATUS(tenon_mixed_set(TENON_MIXED_MOVE), TENON_OK);
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &there, &y, 1), TENON_OK);
  CHECK(bits == 0);
  CHECK_TENSOR(y, "f32[2] 7 9");
  CHECK_STATUS(tenon_mixed_set(0), TENON_OK);
  RELEASE(x, y, there, sum);
  tenon_registration_release(r);
  tenon_shutdown();
}

TEST("on meta nothing is added, and a backend that shares its key is told apart") {
  tenon_device_t meta;
  tenon_device_t late = {0, 0};
  char name[16] = "";
  CHECK_STATUS(tenon_device_find("meta", 0, &meta), TENON_OK);
  for (int i = 0; i < 60; i++) {
    snprintf(name, sizeof name, "late%d", i);
    CHECK_STATUS(tenon_device_find(name, 0, &late), TENON_OK);
  }
  tenon_registration_t *r = define_twice("late59 accumulates");
  float numbers[4] = {1, 2, 5, 5};
  int64_t two = 2;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *m = NULL;
  tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  CHECK_STATUS(tenon_tensor_borrow_on(late, hide(numbers), f32, 1, &two, NULL, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow_on(late, hide(numbers + 2), f32, 1, &two, NULL, NULL, NULL, &y),
               TENON_OK);
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &x, &y, 1), TENON_OK);
  CHECK(bits == 1 && runs == 1 && numbers[2] == 7 && numbers[3] == 9);
  CHECK_STATUS(tenon_tensor_create_on(meta, f32, 1, &two, &m), TENON_OK);
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &m, &m, 1), TENON_OK);
  CHECK(runs == 1);
  RELEASE(x, y, m);
  tenon_registration_release(r);
}

static tenon_status_t falls(tenon_call_t *call) {
  bits = call->accumulate;
  return tenon_fallback_cpu(call);
}

TEST("a kernel that passes the bits on to the CPU gets the sum, whether the CPU's kernel "
     "accumulates or not") {
  npu_start();
  for (int i = 0; i < 2; i++) {
    tenon_registration_t *r = define_twice(i ? "cpu accumulates" : "cpu");
    tenon_registration_t *npu = NULL;
    CHECK_STATUS(tenon_kernel_add("demo::twice", "npu accumulates", falls, NULL, NULL, 0, &npu),
                 TENON_OK);
    tenon_tensor_t *x = tensor_of("f32[2] 1 2");
    tenon_tensor_t *y = tensor_of("f32[2] 5 5");
    tenon_tensor_t *there = copied(x, npu_device);
    tenon_tensor_t *sum = copied(y, npu_device);
    CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &there, &sum, 1), TENON_OK);
    CHECK(bits == (i ? 1 : 0));
    check_numbers(sum, (double[]){7, 9}, 0);
    RELEASE(x, y, there, sum);
    tenon_registration_release(npu);
    tenon_registration_release(r);
  }
  tenon_shutdown();
}

/* layers and gradients */

static char calls[200];
static tenon_status_t note(tenon_call_t *call) {
  CHECK(call->accumulate == 0);
  strcat(strcat(calls, " "), tenon_call_name(call));
  return tenon_call_next(call);
}

TEST("layers and modes see the call, and then the addition") {
  tenon_registration_t *r = define_twice("cpu accumulates");
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *y = tensor_of("f32[2] 5 5");
  tenon_layer_t *layer = NULL;
  CHECK_STATUS(tenon_layer_create("note", "above autograd", note, NULL, &layer), TENON_OK);
  tenon_layer_enable(layer, 1);
  add_twice(x, y, "f32[2] 7 9");
  tenon_layer_enable(layer, 0);
  tenon_layer_release(layer);
  CHECK_STATUS(tenon_mode_push(note, NULL), TENON_OK);
  add_twice(x, y, "f32[2] 9 13");
  tenon_mode_pop();
  CHECK(strcmp(calls, " demo::twice core::add demo::twice core::add") == 0);
  CHECK(bits == 0);
  add_twice(x, y, "f32[2] 11 17");
  CHECK(bits == 1);
  RELEASE(x, y);
  tenon_registration_release(r);
}

TEST("gradients flow through the added result and through the previous contents") {
  tenon_registration_t *r = define_twice("cpu accumulates");
  tenon_tensor_t *x = leaf("f32[2] 1 2");
  tenon_tensor_t *w = leaf("f32[2] 3 4");
  tenon_tensor_t *y = apply("core::mul", w, w);
  add_twice(x, y, "f32[2] 11 20");
  tenon_tensor_t *total = apply("core::reduce_sum", y, NULL);
  CHECK_STATUS(backward(total, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f32[2] 2 2");
  CHECK_TENSOR(tenon_tensor_grad(w), "f32[2] 6 8");
  CHECK_STATUS(tenon_op_call_add(op_of("demo::twice"), NULL, &x, &w, 1), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "demo::twice: result out is added: core::add: result out is a leaf");
  CHECK_TENSOR(w, "f32[2] 3 4");
  CHECK_STATUS(tenon_op_call_add(op_of("core::mul"), NULL, (tenon_tensor_t *[]){y, y}, &y, 1),
               TENON_OK);
  tenon_tensor_t *late = apply("core::reduce_sum", y, NULL);
  /* The gradient of mul needs y as it was. */
  CHECK_STATUS(backward(late, 0), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "core::mul");
  RELEASE(x, w, y, total, late);
  tenon_registration_release(r);
}

/* failing allocations */

static tenon_status_t try_parts(void *context) {
  tenon_tensor_t *x = context;
  tenon_tensor_t *a = NULL;
  tenon_tensor_t *c = NULL;
  tenon_status_t status = tenon_tensor_copy(x, &a);
  if (status == TENON_OK) status = tenon_tensor_copy(x, &c);
  if (status == TENON_OK) {
    status = tenon_op_call_add(op_of("demo::parts"), NULL, &x, (tenon_tensor_t *[]){NULL, a, c}, 4);
    CHECK(((float *)c->data)[1] == (status == TENON_OK ? 202 : 2));
  }
  RELEASE(a, c);
  return status;
}

static tenon_status_t try_twice(void *context) {
  tenon_tensor_t *x = context;
  tenon_tensor_t *y = NULL;
  tenon_status_t status = tenon_tensor_copy(x, &y);
  if (status == TENON_OK) {
    status = tenon_op_call_add(op_of("demo::twice"), NULL, &x, &y, 1);
    CHECK(((float *)y->data)[1] == (status == TENON_OK ? 6 : 2));
  }
  tenon_tensor_release(y);
  return status;
}

TEST("when any allocation fails, nothing is added and nothing leaks") {
  tenon_registration_t *parts = define_parts();
  tenon_registration_t *twice = define_twice("cpu accumulates");
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  fail_each("parts", try_parts, x, 1);
  for (int i = 0; i < 2; i++, declines = !declines)
    fail_each("twice", try_twice, x, 1);
  tenon_tensor_release(x);
  tenon_registration_release(parts);
  tenon_registration_release(twice);
}
