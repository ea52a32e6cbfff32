/* Calls with one array of values: values that are given, omitted or refused. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#define TENSOR(t)                                                                                  \
  {                                                                                                \
    TENON_KIND_TENSOR, 0, { .tensor = (t) }                                                        \
  }
#define INT(n)                                                                                     \
  {                                                                                                \
    TENON_KIND_INT, 0, { .i = (n) }                                                                \
  }
#define NONE                                                                                       \
  {                                                                                                \
    TENON_KIND_NONE, 0, { .i = 0 }                                                                 \
  }

static tenon_tensor_t *call(const char *name, const tenon_value_t *values, uint32_t count) {
  tenon_tensor_t *outputs[8] = {NULL};
  CHECK_STATUS(tenon_op_call_values(op_of(name), values, count, outputs, 1), TENON_OK);
  return outputs[0];
}

TEST("values are tensors first, then attributes, and omitted ones are absent or have their "
     "default") {
  tenon_tensor_t *x = tensor_of("f32[2, 2] 1 2 3 4");
  tenon_tensor_t *axes = tensor_of("i64[1] 0");
  tenon_tensor_t *out;
  tenon_value_t all[] = {
      TENSOR(x), TENSOR(axes), {TENON_KIND_BOOL, 0, {.i = 0}}, {TENON_KIND_BOOL, 0, {.i = 0}}};
  out = call("core::reduce_sum", all, 4);
  CHECK_TENSOR(out, "f32[2] 4 6");
  tenon_tensor_release(out);
  all[2].kind = TENON_KIND_NONE; /* keepdims keeps its default, true. */
  out = call("core::reduce_sum", all, 4);
  CHECK_TENSOR(out, "f32[1, 2] 4 6");
  tenon_tensor_release(out);
  out = call("core::reduce_sum", all, 2);
  CHECK_TENSOR(out, "f32[1, 2] 4 6");
  tenon_tensor_release(out);
  all[1].kind = TENON_KIND_NONE;
  out = call("core::reduce_sum", all, 3);
  CHECK_TENSOR(out, "f32[1, 1] 10");
  tenon_tensor_release(out);
  out = call("core::reduce_sum", all, 1);
  CHECK_TENSOR(out, "f32[1, 1] 10");
  tenon_tensor_release(x);
  tenon_tensor_release(axes);
  tenon_tensor_release(out);
}

TEST("a list is an array of tensors, and given results are written to") {
  tenon_tensor_t *a = tensor_of("f32[1] 1");
  tenon_tensor_t *b = tensor_of("f32[2] 2 3");
  tenon_tensor_t *items[] = {a, b};
  tenon_tensor_t *given = tensor_of("f32[3] 0 0 0");
  tenon_tensor_t *data = given;
  tenon_value_t values[] = {{TENON_KIND_TENSORS, 2, {.tensors = items}}, INT(0)};
  CHECK_STATUS(tenon_op_call_values(op_of("core::concat"), values, 2, &given, 0), TENON_OK);
  CHECK(given == data);
  CHECK_TENSOR(given, "f32[3] 1 2 3");
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(given);
}

static void check_refused(const char *name, const tenon_value_t *values, uint32_t count,
                          const char *message) {
  tenon_tensor_t *outputs[8] = {NULL};
  CHECK_STATUS(tenon_op_call_values(op_of(name), values, count, outputs, 1), TENON_INVALID);
  CHECK_TEXT(tenon_error(), message);
  CHECK(!outputs[0]);
}

TEST("too many values, values of another kind, and missing required values are refused") {
  tenon_tensor_t *x = tensor_of("f32[1] 1");
  tenon_tensor_t *items[] = {x};
  tenon_value_t values[] = {TENSOR(x), TENSOR(x), INT(3)};
  tenon_value_t number[] = {INT(3), TENSOR(x)};
  tenon_value_t list[] = {TENSOR(x), {TENON_KIND_TENSORS, 1, {.tensors = items}}};
  tenon_value_t none[] = {TENSOR(x), NONE};
  tenon_value_t attr[] = {TENSOR(x), {TENON_KIND_STR, 1, {.s = "f"}}};
  check_refused("core::add", values, 3,
                "core::add: 3 arguments: expected at most 2, 2 tensors and then 0 attributes");
  check_refused("core::add", number, 2, "core::add: argument 0, 'a': expected tensor, found int");
  check_refused("core::add", list, 2,
                "core::add: argument 1, 'b': expected tensor, found list of tensors");
  check_refused("core::add", none, 2, "input b is missing");
  check_refused("core::add", none, 0, "input a is missing");
  check_refused("core::cast", attr, 2, "'to'");
  check_refused("core::cast", attr, 1, "'to'");
  tenon_tensor_release(x);
}

TEST("arguments that validate refuses, and symbolic extents, never reach a kernel") {
  tenon_tensor_t *x = tensor_of("f32[1] 1");
  const int64_t symbol = INT64_MIN;
  const tenon_value_t ratio[] = {
      TENSOR(x), {TENON_KIND_FLOAT, 0, {.f = -1}}, {TENON_KIND_BOOL, 0, {.i = 1}}};
  const tenon_value_t shape[] = {{TENON_KIND_DIMS, 1, {.ints = &symbol}}};
  check_refused("core::dropout", ratio, 3, "ratio is -1");
  check_refused("core::randn", shape, 1,
                "core::randn: attribute shape: expected -2^62 or more, found");
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create(op_of("core::dropout"), ratio + 1, &bound), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "ratio is -1");
  CHECK(!bound);
  tenon_tensor_release(x);
}

TEST("nothing is left behind") { tenon_shutdown(); }
