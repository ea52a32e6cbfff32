/* The functions of tenon.h that call operators: results that are created, results that are given,
 * refused calls and their messages, inputs that are written to, and calls that do not allocate. */
#include "base/memory.h"
#include "base/thread.h"
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "faults.h"
#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  static int started;
  if (!started++)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

/* Checks that a call is refused: its message contains the text, and outputs stay NULL. */
static void check_refused(const char *name, const char *attrs, const char *const *inputs,
                          tenon_status_t status, const char *part) {
  tenon_tensor_t *outputs[4] = {NULL};
  CHECK_STATUS(call_op(name, attrs, inputs, outputs), status);
  CHECK_TEXT(tenon_error(), part);
  CHECK_TEXT(tenon_error(), name);
  for (int i = 0; i < 4; i++)
    CHECK(outputs[i] == NULL);
}

/* refused calls */

TEST("a call names the input that is missing, or has a wrong dtype or a wrong shape") {
  start();
  check_refused("contract::project", "units=2", TEXTS("f32[2,2] 1 2 3 4", NULL), TENON_INVALID,
                "weight");
  check_refused("contract::project", "units=2", TEXTS("f32[2,2] 1 2 3 4", "f64[2,2] 1 2 3 4"),
                TENON_INVALID, "'weight': expected f32");
  check_refused("contract::project", "units=2", TEXTS("f32[2,2] 1 2 3 4", "f32[2,3] 1 2 3 4 5 6"),
                TENON_INVALID,
                "'weight': expected shape [units, k] with k = 2, from 'x', found [2, 3]");
  check_refused("contract::project", "units=3", TEXTS("f32[2,2] 1 2 3 4", "f32[2,2] 1 2 3 4"),
                TENON_INVALID, "units");
  check_refused("contract::split", "n=2", TEXTS("f32[3] 1 2 3"), TENON_INVALID, "2 = 3");
  check_refused("contract::split", "n=2; axis=4", TEXTS("f32[3] 1 2 3"), TENON_INVALID,
                "axis 4 of a tensor of rank 1");
  check_refused("contract::stack", NULL, TEXTS("f32[3] 1 2 3"), TENON_INVALID, "expected a list");
  check_refused("contract::stack", NULL, TEXTS("{}"), TENON_INVALID, "empty list");
  check_refused("contract::stack", NULL, TEXTS("{f32[1] 1; i32[1] 1}"), TENON_INVALID,
                "expected f32");
  check_refused("contract::flat", NULL, TEXTS("{f32[1] 1}"), TENON_INVALID, "found a list");
  check_refused("contract::four", NULL, TEXTS("i32[2] 1 2", "i32[3] 1 2 3", "i32[] 1", "i32[] 1"),
                TENON_INVALID, "2");
  check_refused("contract::clamp", NULL, TEXTS("u8[1] 1"), TENON_INVALID, "expected f32");
}

TEST("a call without attributes lists those that the operator needs") {
  start();
  check_refused("contract::split", NULL, TEXTS("f32[2] 1 2"), TENON_INVALID, "'n'");
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  CHECK_STATUS(tenon_attrs_create(op_of("contract::split"), &attrs), TENON_OK);
  CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "'n'");
  CHECK_STATUS(tenon_attrs_int(attrs, "m", 1), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "split(Tensor x, *, int n, int axis=0) -> Tensor[n]");
  CHECK_STATUS(tenon_attrs_text(attrs, "n", "two"), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "expected int");
  CHECK_STATUS(tenon_attrs_int(attrs, "n", 1), TENON_OK);
  CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_OK);
  tenon_attrs_release(attrs);
}

TEST("the operator's own validate function can refuse attributes") {
  start();
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  CHECK_STATUS(tenon_attrs_create(op_of("contract::clamp"), &attrs), TENON_OK);
  CHECK_STATUS(tenon_attrs_float(attrs, "low", 2), TENON_OK);
  CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "contract::clamp: low 2 is above high 1");
  /* An int is accepted for a float. */
  CHECK_STATUS(tenon_attrs_int(attrs, "high", 3), TENON_OK);
  CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_OK);
  tenon_attrs_release(attrs);
}

TEST("an operator that fails while it runs is named together with its message") {
  start();
  check_refused("contract::refuse", "above=2.0", TEXTS("f32[4] 1 2 3 4"), TENON_RANGE,
                "contract::refuse: element 2 is 3: expected at most 2");
  check_refused("contract::top", "k=2", TEXTS("f32[2] 1 1"), TENON_INVALID,
                "fewer than 2 different values");
  check_refused("contract::deep", NULL, TEXTS("f32[2] 1 2"), TENON_RANGE,
                "contract::deep: contract::refuse: element 1 is 2: expected at most 1.5");
  check_refused("contract::counter", "start=-1", TEXTS("f32[1] 1"), TENON_INVALID,
                "start -1 is negative");
}

TEST("run cannot return more elements than infer declared, another rank, or no shape") {
  start();
  check_refused("contract::liar", NULL, TEXTS("f32[1] 1"), TENON_RANGE,
                "result out is [2], infer said at most [1]");
  check_refused("contract::liar", "rank=2", TEXTS("f32[1] 1"), TENON_INVALID, "dimensions");
  check_refused("contract::liar", "rank=-1", TEXTS("f32[1] 1"), TENON_INVALID, "dimensions");
  check_refused("contract::silent", NULL, TEXTS("f32[1] 1"), TENON_INTERNAL,
                "did not state the shape");
}

TEST("a composite cannot assign another dtype than its contract declares") {
  start();
  check_refused("contract::wrong", NULL, TEXTS("f32[1] 1"), TENON_INVALID,
                "expected dtype f32, found i64");
}

TEST("the message for an unknown operator suggests the nearest name") {
  start();
  const tenon_op_t *op = NULL;
  CHECK_STATUS(tenon_op_find("contract::splat", &op), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "did you mean 'contract::split'?");
  CHECK_TEXT(tenon_error(), "libraries loaded: core, contract");
  CHECK(op == NULL);
  CHECK_STATUS(tenon_op_find("MatMul", &op),
               TENON_NOT_FOUND); /* The name lacks its library, and case is ignored. */
  CHECK_TEXT(tenon_error(), "did you mean 'core::matmul'?");
  /* Two neighbouring letters are exchanged. */
  CHECK_STATUS(tenon_op_find("contract::spilt", &op), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "did you mean 'contract::split'?");
  char name[101] = "";
  CHECK_STATUS(tenon_op_find(memset(name, 'm', sizeof name - 1), &op), TENON_NOT_FOUND);
  CHECK(strstr(tenon_error(), "did you mean") == NULL);
}

/* given results */

TEST("given results must have the dtype and the shape that infer declares") {
  start();
  const tenon_op_t *op = op_of("contract::both");
  tenon_tensor_t *inputs[] = {tensor_of("f32[2] 1 2"), tensor_of("f32[2] 3 5")};
  tenon_tensor_t *outputs[] = {tensor_of("f32[2] 0 0"), NULL};
  CHECK_STATUS(tenon_op_call_into(op, NULL, inputs, outputs), TENON_OK);
  CHECK_TENSOR(outputs[0], "f32[2] 4 7");
  tenon_tensor_t *wrong[] = {tensor_of("f16[2] 0 0"), tensor_of("f32[3] 0 0 0"),
                             tensor_of("f32[1,2] 0 0")};
  static const char *const messages[] = {"result sum: expected dtype f32, found f16",
                                         "result sum: expected shape [2], found [3]",
                                         "result sum: expected shape [2], found [1, 2]"};
  for (int i = 0; i < 3; i++) {
    tenon_tensor_t *given[] = {wrong[i], NULL};
    CHECK_STATUS(tenon_op_call_into(op, NULL, inputs, given), TENON_INVALID);
    CHECK_TEXT(tenon_error(), messages[i]);
  }
  tenon_tensor_t *none[] = {NULL, outputs[0]};
  CHECK_STATUS(tenon_op_call_into(op, NULL, inputs, none), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "result sum: no tensor is given");
  for (int i = 0; i < 3; i++)
    tenon_tensor_release(wrong[i]);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(inputs[i]);
  tenon_tensor_release(outputs[0]);
}

TEST("a call creates the results that are NULL, except optional ones that are not wanted") {
  start();
  const tenon_op_t *op = op_of("contract::both");
  tenon_tensor_t *inputs[] = {tensor_of("f32[2] 1 2"), tensor_of("f32[] 3")};
  tenon_tensor_t *outputs[2] = {NULL, NULL};
  CHECK_STATUS(tenon_op_call(op, NULL, inputs, outputs, 1), TENON_OK);
  CHECK_TENSOR(outputs[0], "f32[2] 4 5");
  CHECK(outputs[1] == NULL);
  memset(outputs[0]->data, 0, 8);
  CHECK_STATUS(tenon_op_call(op, NULL, inputs, outputs, 0),
               TENON_OK); /* The first result is given, and the second one is created. */
  CHECK_TENSOR(outputs[0], "f32[2] 4 5");
  CHECK_TENSOR(outputs[1], "f32[2] -2 -1");
  tenon_tensor_release(outputs[0]);
  outputs[0] = NULL;
  memset(outputs[1]->data, 0, 8);
  CHECK_STATUS(tenon_op_call(op, NULL, inputs, outputs, 2),
               TENON_OK); /* A result that is not optional is always created. */
  CHECK_TENSOR(outputs[0], "f32[2] 4 5");
  CHECK_TENSOR(outputs[1], "f32[2] -2 -1");
  for (int i = 0; i < 2; i++) {
    tenon_tensor_release(inputs[i]);
    tenon_tensor_release(outputs[i]);
  }
}

TEST("a bounded result may be given with room for its bound, and has its actual shape afterwards") {
  start();
  const tenon_op_t *op = op_of("contract::nonzero");
  tenon_tensor_t *x = tensor_of("f32[4] 0 1 0 2");
  tenon_tensor_t *out = tensor_of("i64[4] 0 0 0 0");
  void *data = out->data;
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &out), TENON_OK);
  CHECK_TENSOR(out, "i64[2] 1 3");
  CHECK(out->data == data);
  /* The given result is too small now. */
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "result out: expected shape [4], found [2]");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  int64_t shape[1] = {4};
  int64_t strides[1], values[4];
  tenon_tensor_t view;
  tenon_tensor_t *given = &view;
  x = tensor_of("f32[4] 5 0 0 0");
  CHECK_STATUS(tenon_tensor_view(&view, values, tenon_dtype(TENON_I64), 1, shape, NULL, strides),
               TENON_OK);
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &given), TENON_OK);
  CHECK(shape[0] == 1 && values[0] == 0);
  tenon_tensor_release(x);
}

TEST("views on a caller's stack can be inputs and results") {
  start();
  float x[6] = {1, 2, 3, 4, 5, 6};
  float y[6];
  int64_t shape[2] = {2, 3};
  int64_t room[2];
  int64_t back[2] = {3, 2};
  int64_t strides[2];
  tenon_tensor_t a, b;
  tenon_tensor_t *inputs[] = {&a};
  tenon_tensor_t *outputs[] = {&b};
  tenon_tensor_t *made[1] = {NULL};
  CHECK_STATUS(tenon_tensor_view(&a, x, tenon_dtype(TENON_F32), 2, shape, NULL, room), TENON_OK);
  CHECK_STATUS(tenon_tensor_view(&b, y, tenon_dtype(TENON_F32), 2, back, NULL, strides), TENON_OK);
  CHECK_STATUS(tenon_op_run(op_of("contract::transpose"), NULL, inputs, outputs), TENON_OK);
  CHECK_TENSOR(&b, "f32[3,2] 1 4 2 5 3 6");
  CHECK_STATUS(tenon_op_call(op_of("contract::transpose"), NULL, inputs, made, 0), TENON_OK);
  memset(x, 0, sizeof x); /* The result has memory of its own, so x may change. */
  CHECK_TENSOR(made[0], "f32[3,2] 1 4 2 5 3 6");
  tenon_tensor_release(made[0]);
  made[0] = NULL;
  for (int i = 0; i < 6; i++)
    x[i] = (float)i;
  CHECK_STATUS(tenon_op_call(op_of("contract::swapped"), NULL, inputs, made, 0), TENON_OK);
  memset(x, 0, sizeof x);
  CHECK_TENSOR(made[0], "f32[3,2] 0 3 1 4 2 5");
  tenon_tensor_release(made[0]);
}

TEST("a scalar view needs neither shape nor strides") {
  start();
  float x = 3;
  float y = 0;
  tenon_tensor_t a, b;
  tenon_tensor_t *inputs[] = {&a};
  tenon_tensor_t *outputs[] = {&b};
  CHECK_STATUS(tenon_tensor_view(&a, &x, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_tensor_view(&b, &y, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_op_call_into(op_of("contract::halve"), NULL, inputs, outputs), TENON_OK);
  CHECK(y == 1.5f);
  CHECK_STATUS(tenon_op_call_into(op_of("contract::flat"), NULL, inputs, outputs), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "expected shape [1], found []");
  outputs[0] = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::copy"), NULL, inputs, outputs, 0), TENON_OK);
  CHECK_TENSOR(outputs[0], "f32[] 3");
  tenon_tensor_release(outputs[0]);
}

/* ranks and extents */

TEST("tensors of rank 64 go through loops, kernels and views") {
  start();
  int64_t shape[TENON_RANK_MAX], more[TENON_RANK_MAX + 1];
  tenon_tensor_t *a = NULL;
  tenon_tensor_t *outputs[4] = {NULL};
  tenon_tensor_t *small = tensor_of("i32[2] 10 20");
  for (int i = 0; i < TENON_RANK_MAX; i++) {
    shape[i] = i == 0 || i == 63 ? 2 : 1;
    more[i] = 1;
  }
  more[TENON_RANK_MAX] = 1;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I32), TENON_RANK_MAX, shape, &a), TENON_OK);
  for (int i = 0; i < 4; i++)
    ((int32_t *)a->data)[i] = i;
  tenon_tensor_t *inputs[] = {a, small, small, a};
  CHECK_STATUS(tenon_op_call(op_of("contract::four"), NULL, inputs, outputs, 0), TENON_OK);
  CHECK(outputs[0]->ndim == TENON_RANK_MAX);
  static const int32_t expected[] = {20, 34, 8, 22}; /* a - 3 b + 5 c - 7 a */
  for (int i = 0; i < 4 && outputs[0]; i++)
    CHECK(((int32_t *)outputs[0]->data)[i] == expected[i]);
  tenon_tensor_release(outputs[0]);
  outputs[0] = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::transpose"), NULL, inputs, outputs, 0), TENON_OK);
  CHECK(outputs[0]->shape[0] == 2 && tensor_int(outputs[0], 1) == 2 &&
        tensor_int(outputs[0], 2) == 1);
  tenon_tensor_release(outputs[0]);
  outputs[0] = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I32), TENON_RANK_MAX + 1, more, &outputs[0]),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "0 to 64 dimensions, found 65");
  tenon_tensor_release(a);
  tenon_tensor_release(small);
}

/* inputs that are written to */

TEST("an input that the schema marks is modified in place") {
  start();
  tenon_attrs_t *attrs = attrs_of(op_of("contract::axpy_"), "alpha=2.0");
  tenon_tensor_t *inputs[] = {tensor_of("f32[2] 1 2"), tensor_of("f32[2] 10 20")};
  tenon_tensor_t *none[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of("contract::axpy_"), attr_values(attrs), inputs, none, 0),
               TENON_OK);
  CHECK_TENSOR(inputs[1], "f32[2] 12 24");
  CHECK_STATUS(tenon_op_call_into(op_of("contract::axpy_"), attr_values(attrs), inputs, none),
               TENON_OK);
  CHECK_STATUS(tenon_op_run(op_of("contract::axpy_"), attr_values(attrs), inputs, none), TENON_OK);
  CHECK_TENSOR(inputs[1], "f32[2] 16 32");
  tenon_attrs_release(attrs);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(inputs[i]);
}

TEST("a written input that is also the result is that same tensor") {
  start();
  const tenon_op_t *op = op_of("contract::add_");
  tenon_tensor_t *inputs[] = {tensor_of("f32[2] 10 20"), tensor_of("f32[2] 1 2")};
  tenon_tensor_t *outputs[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op, NULL, inputs, outputs, 0), TENON_OK);
  CHECK(outputs[0] == inputs[0]);
  CHECK_TENSOR(outputs[0], "f32[2] 11 22");
  tenon_tensor_release(outputs[0]);
  outputs[0] = inputs[0];
  CHECK_STATUS(tenon_op_call_into(op, NULL, inputs, outputs), TENON_OK);
  CHECK_TENSOR(inputs[0], "f32[2] 12 24");
  outputs[0] = inputs[1];
  CHECK_STATUS(tenon_op_call_into(op, NULL, inputs, outputs), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "contract::add_: result out is input y itself");
  CHECK_TENSOR(inputs[0], "f32[2] 12 24");
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(inputs[i]);
}

TEST("a written input on a caller's stack gives a result of its own") {
  start();
  float y[2] = {10, 20};
  int64_t shape[1] = {2};
  int64_t room[1];
  tenon_tensor_t view;
  tenon_tensor_t *inputs[] = {&view, tensor_of("f32[2] 1 2")};
  tenon_tensor_t *outputs[1] = {NULL};
  CHECK_STATUS(tenon_tensor_view(&view, y, tenon_dtype(TENON_F32), 1, shape, NULL, room), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("contract::add_"), NULL, inputs, outputs, 0), TENON_OK);
  CHECK(y[0] == 11 && y[1] == 22);
  y[0] = y[1] = 0;
  CHECK(outputs[0] != &view);
  CHECK_TENSOR(outputs[0], "f32[2] 11 22");
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(inputs[1]);
}

TEST(
    "a written input that is not row-major is copied in and out for a kernel that needs it dense") {
  start();
  tenon_tensor_t *inputs[] = {tensor_strided("f32[2,2] 1 2 3 4"), tensor_of("f32[2,2] 1 1 1 1")};
  tenon_tensor_t *outputs[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of("contract::add_"), NULL, inputs, outputs, 0), TENON_OK);
  CHECK(outputs[0] && outputs[0]->data == inputs[0]->data);
  CHECK_TENSOR(inputs[0], "f32[2,2] 2 3 4 5");
  tenon_tensor_release(outputs[0]);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(inputs[i]);
}

/* views */

TEST("the result of a view is the input's memory, and keeps it alive") {
  start();
  tenon_tensor_t *x = tensor_of("f32[3,2] 1 2 3 4 5 6");
  tenon_tensor_t *tail = NULL;
  tenon_tensor_t *back = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::tail"), NULL, &x, &tail, 0), TENON_OK);
  CHECK(tail->data == (float *)x->data + 2);
  CHECK_STATUS(tenon_op_call(op_of("contract::transpose"), NULL, &tail, &back, 0), TENON_OK);
  CHECK(back->data == tail->data && back->strides[0] == 1 && back->strides[1] == 2);
  tenon_tensor_release(x);
  tenon_tensor_release(tail);
  CHECK_TENSOR(back, "f32[2,2] 3 5 4 6");
  /* The operator needs a dense input, so a copy is made. */
  tenon_tensor_t *flat = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::flat"), NULL, &back, &flat, 0), TENON_OK);
  CHECK_TENSOR(flat, "f32[4] 3 5 4 6");
  tenon_tensor_release(back);
  tenon_tensor_release(flat);
}

TEST("a view of strings shares the strings") {
  start();
  tenon_tensor_t *x = tensor_of("string[2,2] a b c d");
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *upper = NULL;
  CHECK_STATUS(tenon_op_call(op_of("contract::transpose"), NULL, &x, &out, 0), TENON_OK);
  tenon_tensor_release(x);
  CHECK_TENSOR(out, "string[2,2] a c b d");
  CHECK_STATUS(tenon_op_call(op_of("contract::upper"), NULL, &out, &upper, 0), TENON_OK);
  CHECK_TENSOR(upper, "string[2,2] A C B D");
  tenon_tensor_release(out);
  tenon_tensor_release(upper);
}

TEST("a view that begins inside a byte is refused") {
  start();
  int64_t shape[1] = {4};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_U4), 1, shape, &x), TENON_OK);
  ((uint8_t *)x->data)[0] = 0x21;
  ((uint8_t *)x->data)[1] = 0x43;
  CHECK_STATUS(tenon_op_call(op_of("contract::tail"), NULL, &x, &out, 0), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "inside a byte");
  tenon_attrs_t *attrs = attrs_of(op_of("contract::tail"), "first=2");
  CHECK_STATUS(tenon_op_call(op_of("contract::tail"), attr_values(attrs), &x, &out, 0), TENON_OK);
  CHECK(out && ((uint8_t *)out->data)[0] == 0x43);
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

/* memory */

static int64_t allocations_of_runs(const char *name, const char *const *texts, tenon_tensor_t *out,
                                   int runs) {
  const tenon_op_t *op = op_of(name);
  tenon_tensor_t *inputs[8] = {NULL};
  tenon_tensor_t *outputs[2] = {out, NULL};
  for (int32_t i = 0; i < op_info(op).input_count; i++)
    inputs[i] = tensor_of(texts[i]);
  CHECK_STATUS(tenon_op_call_into(op, NULL, inputs, outputs), TENON_OK);
  CHECK_STATUS(tenon_op_run(op, NULL, inputs, outputs), TENON_OK);
  fault_memory(INT64_MAX, false); /* From here on allocations are counted. */
  for (int i = 0; i < runs; i++)
    CHECK(tenon_op_run(op, NULL, inputs, outputs) == TENON_OK);
  int64_t count = fault_count(FAULT_MEMORY);
  fault_end();
  for (int i = 0; i < 8; i++)
    tenon_tensor_release(inputs[i]);
  tenon_tensor_release(out);
  return count;
}

TEST("runs of kernels, loops and rows do not allocate") {
  start();
  CHECK(allocations_of_runs("contract::level", TEXTS("f32[2] 1 2"), tensor_of("f32[2] 0 0"), 3) ==
        0);
  CHECK(allocations_of_runs("contract::product", TEXTS("f32[2] 1 2", "f32[1] 2"),
                            tensor_of("f32[2] 0 0"), 3) == 0);
  CHECK(allocations_of_runs("contract::affine", TEXTS("f16[2] 1 2", NULL, "f16[] 1"),
                            tensor_of("f16[2] 0 0"), 3) == 0);
  CHECK(allocations_of_runs("contract::softmax", TEXTS("f16[2] 1 1"), tensor_of("f16[2] 0 0"), 3) ==
        0);
}

TEST("memory of released results serves the next results, in each thread") {
  start();
  const tenon_op_t *op = op_of("contract::four");
  tenon_tensor_t *x = tensor_of("i32[2,1,3] 1 2 3 4 5 6");
  tenon_tensor_t *inputs[] = {x, x, x, x};
  tenon_tensor_t *out = NULL;
  void *seen[2] = {NULL};
  for (int i = 0; i < 10; i++) {
    CHECK_STATUS(tenon_op_call(op, NULL, inputs, &out, 0), TENON_OK);
    CHECK_TENSOR(out, "i32[2,1,3] -4 -8 -12 -16 -20 -24");
    if (i > 0) CHECK(out == seen[0] && out->data == seen[1]);
    seen[0] = out;
    seen[1] = out->data;
    tenon_tensor_release(out);
    out = NULL;
  }
  tenon_tensor_release(x);
}

static void call_and_hand_over(void *pointer) {
  tenon_tensor_t **out = pointer;
  tenon_tensor_t *x = tensor_of("i32[3] 1 2 3");
  tenon_tensor_t *inputs[] = {x, x, x, x};
  tenon_tensor_t *own = NULL;
  /* another thread created this tensor */
  tenon_tensor_release(*out);
  *out = NULL;
  for (int i = 0; i < 200; i++) {
    CHECK(tenon_op_call(op_of("contract::four"), NULL, inputs, i ? &own : out, 0) == TENON_OK);
    tenon_tensor_release(own);
    own = NULL;
  }
  tenon_tensor_release(x);
}

TEST("a thread may release results that another thread created") {
  start();
  enum { THREADS = 4 };
  tenon_tensor_t *out[THREADS] = {NULL};
  tn_spawned_t threads[THREADS];
  for (int t = 0; t < THREADS; t++)
    CHECK_STATUS(call_op("contract::halve", NULL, TEXTS("f32[2] 2 4"), &out[t]), TENON_OK);
  for (int t = 0; t < THREADS; t++)
    CHECK(tn_spawn(&threads[t], call_and_hand_over, &out[t]));
  for (int t = 0; t < THREADS; t++) {
    tn_join(&threads[t]);
    CHECK_TENSOR(out[t], "i32[3] -4 -8 -12");
    tenon_tensor_release(out[t]);
  }
}

TEST("many calls in a row take no more scratch memory than one") {
  start();
  int64_t few = allocations_of_runs("contract::transpose", TEXTS("f32[1,2] 1 2"),
                                    tensor_of("f32[2,1] 0 0"), 10);
  int64_t many = allocations_of_runs("contract::transpose", TEXTS("f32[1,2] 1 2"),
                                     tensor_of("f32[2,1] 0 0"), 3000);
  CHECK(many == 300 * few);
  CHECK(allocations_of_runs(
            "contract::sum",
            TEXTS("f32[0]", "f32[0]", "f32[0]", "f32[0]", "f32[0]", "f32[0]", "f32[0]"),
            tensor_of("f32[0]"), 3000) == 0);
}

TEST("nothing is left behind") { tenon_shutdown(); }
