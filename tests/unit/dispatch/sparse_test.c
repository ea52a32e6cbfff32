/* Sparse tensors in calls: kernels that support them, sparse results, calls that are refused, and
 * gradients. */
#include "base/status.h"
#include "check.h"
#include "core/sparse.h"
#include "tensors.h"

#include "operators.h"

#include "failing.h"
#include "sparse.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::level", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

/* Calls an operator with these inputs, and releases them. */
static tenon_status_t call2(const char *name, const char *attrs_text, tenon_tensor_t *a,
                            tenon_tensor_t *b, tenon_tensor_t **out) {
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_tensor_t *inputs[8] = {a, b};
  *out = NULL;
  tenon_status_t status = tenon_op_call(op, attr_values(attrs), inputs, out, 0);
  tenon_attrs_release(attrs);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  return status;
}

/* calls */

TEST("a kernel that declares `sparse` reads the parts of an input") {
  start();
  tenon_tensor_t *out;
  CHECK_STATUS(call2("contract::csr_dot", NULL, matrix(), tensor_of("f32[3,2] 1 2 3 4 5 6"), &out),
               TENON_OK);
  CHECK_TENSOR(out, "f32[3,2] 35 46 0 0 21 28");
  tenon_tensor_release(out);
  CHECK_STATUS(call2("contract::stored", NULL, rows(), NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "i64[] 2");
  tenon_tensor_release(out);
  CHECK_STATUS(call2("contract::stored", NULL, tensor_of("f32[1] 1"), NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "i64[] -1");
  tenon_tensor_release(out);
}

TEST("run creates a sparse result, as large as it declares") {
  start();
  tenon_tensor_t *out, *again;
  CHECK_STATUS(call2("contract::csr_transpose", NULL, matrix(), NULL, &out), TENON_OK);
  CHECK_SPARSE(out, matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0", "i64[4] 0 1 2 3");
  CHECK_STATUS(call2("contract::csr_transpose", NULL, out, NULL, &again), TENON_OK);
  CHECK_SPARSE(again, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  tenon_tensor_release(again);
  CHECK_STATUS(call2("contract::row_scale", "by=3", rows(), NULL, &out), TENON_OK);
  CHECK_SPARSE(out, rows_shape, "f32[2,2] 3 6 9 12", "i64[2] 1 3", NULL);
  tenon_tensor_release(out);
  CHECK_STATUS(
      call2("contract::csr_threshold", "least=2", tensor_of("f32[2,3] 1 -2 3 0 1 4"), NULL, &out),
      TENON_OK);
  CHECK_SPARSE(out, ((int64_t[]){2, 3}), "f32[3] -2 3 4", "i64[3] 1 2 2",
               "i64[3] 0 2 3"); /* The second request for memory counts. */
  tenon_tensor_release(out);
  CHECK_STATUS(
      call2("contract::csr_threshold", "least=9", tensor_of("f32[2,3] 1 -2 3 0 1 4"), NULL, &out),
      TENON_OK);
  CHECK_SPARSE(out, ((int64_t[]){2, 3}), "f32[0]", "i64[0]", "i64[3] 0 0 0");
  tenon_tensor_release(out);
}

TEST("the shape of a sparse result may be known only after run") {
  start();
  tenon_tensor_t *out;
  CHECK_STATUS(call2("contract::csr_pack", NULL, matrix(), NULL, &out), TENON_OK);
  CHECK_SPARSE(out, ((int64_t[]){2, 3}), "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[3] 0 2 3");
  tenon_tensor_release(out);
}

TEST("a composite assigns the sparse results of the operators that it calls") {
  start();
  tenon_tensor_t *out;
  CHECK_STATUS(call2("contract::csr_there_and_back", NULL, matrix(), NULL, &out), TENON_OK);
  CHECK_SPARSE(out, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  tenon_tensor_release(out);
}

TEST("items of a list may be sparse") {
  start();
  tenon_tensor_t *items[] = {matrix(), tensor_of("f32[2] 1 2"), rows()};
  tenon_tensor_t *list = NULL;
  tenon_tensor_t *out;
  CHECK_STATUS(tenon_tensor_list(items, 3, &list), TENON_OK);
  for (int i = 0; i < 3; i++)
    tenon_tensor_release(items[i]);
  CHECK_STATUS(call2("contract::stored_all", NULL, list, NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "i64[] 4");
  tenon_tensor_release(out);
}

TEST("layers see calls with sparse arguments and results") {
  start();
  tenon_layer_t *layer = NULL;
  CHECK_STATUS(tenon_layer_create("pass", "above autograd", tenon_call_next, NULL, &layer),
               TENON_OK);
  tenon_layer_enable(layer, 1);
  tenon_tensor_t *out;
  CHECK_STATUS(call2("contract::csr_transpose", NULL, matrix(), NULL, &out), TENON_OK);
  CHECK_SPARSE(out, matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0", "i64[4] 0 1 2 3");
  tenon_tensor_release(out);
  CHECK_STATUS(call2("contract::csr_pack", NULL, matrix(), NULL, &out), TENON_OK);
  CHECK_SPARSE(out, ((int64_t[]){2, 3}), "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[3] 0 2 3");
  tenon_tensor_release(out);
  CHECK_STATUS(call2("core::neg", NULL, matrix(), NULL, &out), TENON_UNIMPLEMENTED);
  CHECK_STATUS(call2("contract::csr_wrong", "what='nothing'", tensor_of(MATRIX), NULL, &out),
               TENON_INTERNAL);
  tenon_layer_enable(layer, 0);
  tenon_layer_release(layer);
}

/* given results */

TEST("a sparse tensor that is given as a result gets new parts, and other tensors keep the old "
     "ones") {
  start();
  tenon_tensor_t *x = matrix();
  tenon_tensor_t *out = sparse_of(matrix_shape, "f32[1] 1", "i64[1] 0", "i64[4] 0 0 0 1");
  tenon_tensor_t *old = NULL;
  const tenon_op_t *op = op_of("contract::csr_transpose");
  CHECK_STATUS(tenon_tensor_detach(out, &old), TENON_OK);
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(i == 1 ? tenon_op_run(op, NULL, &x, &out) : tenon_op_call_into(op, NULL, &x, &out),
                 TENON_OK);
    CHECK_SPARSE(out, matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0", "i64[4] 0 1 2 3");
  }
  CHECK_SPARSE(old, matrix_shape, "f32[1] 1", "i64[1] 0", "i64[4] 0 0 0 1");
  CHECK_STATUS(tenon_op_call(op, NULL, &x, &out, 0), TENON_OK);
  CHECK_SPARSE(out, matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0", "i64[4] 0 1 2 3");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  tenon_tensor_release(old);
}

TEST("given results of another layout, shape or dtype are refused, and so is an input itself") {
  start();
  tenon_tensor_t *x = matrix();
  tenon_tensor_t *dense = tensor_of(MATRIX);
  tenon_tensor_t *r = sparse_of(matrix_shape, "f32[0,3]", "i64[0]", NULL);
  tenon_tensor_t *small = sparse_of((int64_t[]){2, 3}, "f32[0]", "i64[0]", "i64[3] 0 0 0");
  tenon_tensor_t *s = NULL;
  tenon_tensor_t *wide = sparse_of(matrix_shape, "f64[0]", "i64[0]", "i64[4] 0 0 0 0");
  const tenon_op_t *op = op_of("contract::csr_transpose");
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &dense), TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "contract::csr_transpose: result out: expected a csr tensor, found a dense one");
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &r), TENON_INVALID);
  CHECK_TEXT(tn_error(), "found a row_sparse one");
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &small), TENON_INVALID);
  CHECK_TEXT(tn_error(), "expected shape [3, 3], found [2, 3]");
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &wide), TENON_INVALID);
  CHECK_TEXT(tn_error(), "expected dtype f32, found f64");
  CHECK_STATUS(tenon_op_call_into(op, NULL, &x, &x), TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "result out is input a, and a sparse result is made anew: give another tensor");
  /* The kernel itself refuses. */
  CHECK_STATUS(tenon_op_run(op, NULL, &x, &dense), TENON_INVALID);
  CHECK_SPARSE(x, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  s = matrix();
  CHECK_STATUS(tenon_op_call_into(op_of("contract::stored"), NULL, &x, &s), TENON_INVALID);
  CHECK_STATUS(
      tenon_op_call_into(op_of("contract::csr_dot"), NULL, (tenon_tensor_t *[]){x, dense}, &s),
      TENON_INVALID);
  CHECK_TEXT(tn_error(), "result out: expected a dense tensor, found a csr one");
  CHECK_STATUS(tenon_op_call_into(op_of("core::neg"), NULL, &dense, &s), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "core::neg: result out is sparse (csr), and no kernel says \"sparse\"");
  CHECK_SPARSE(s, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  tenon_tensor_release(x);
  tenon_tensor_release(dense);
  tenon_tensor_release(r);
  tenon_tensor_release(small);
  tenon_tensor_release(wide);
  tenon_tensor_release(s);
}

/* errors */

TEST("a kernel that does not create its sparse result, or creates another one, is an error") {
  start();
  const struct {
    const char *attrs;
    const char *why;
    tenon_status_t status;
  } wrong[] = {
      {"what='nothing'",
       "contract::csr_wrong: run did not make sparse result out (host->sparse, host->assign)",
       TENON_INTERNAL},
      {"what='resize'", "resize: result 0 is sparse: host->sparse makes it", TENON_INVALID},
      {"what='shape'", "sparse: result out cannot have shape [7, 7]: infer said [3, 3]",
       TENON_INVALID},
      {"what='count'",
       "contract::csr_wrong: sparse: result out: 10 stored elements requested: expected 0 to 9",
       TENON_RANGE},
      {"what='dense'", "assign: result out: expected a csr tensor, found a dense one",
       TENON_INVALID},
      {"what='like'", "sparse: result 0 is dense: infer states the layout of a sparse one",
       TENON_INVALID},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tenon_tensor_t *out;
    CHECK_STATUS(call2("contract::csr_wrong", wrong[i].attrs, tensor_of(MATRIX), NULL, &out),
                 wrong[i].status);
    CHECK_TEXT(tn_error(), wrong[i].why);
    CHECK(!out);
  }
  tenon_tensor_t *x = tensor_of(MATRIX);
  tenon_tensor_t *given = matrix();
  tenon_tensor_t *out;
  const tenon_op_t *op = op_of("contract::csr_wrong");
  tenon_attrs_t *attrs = attrs_of(op, "what='nothing'");
  CHECK_STATUS(tenon_op_run(op, attr_values(attrs), &x, &given), TENON_INTERNAL);
  CHECK_SPARSE(given, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1",
               "i64[4] 0 2 2 3"); /* The tensor is unchanged and can still be used. */
  CHECK_STATUS(call2("contract::stored", NULL, given, NULL, &out), TENON_OK);
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  CHECK_STATUS(call2("contract::csr_line", NULL, tensor_of("f32[3] 1 2 3"), NULL, &out),
               TENON_INVALID);
  CHECK_TEXT(tn_error(),
             "infer made result out sparse: a csr tensor cannot have 1 dimensions: expected 2");
  CHECK_STATUS(call2("contract::csr_deaf", NULL, tensor_of(MATRIX), NULL, &out),
               TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(),
             "contract::csr_deaf: result out is sparse (csr), and no kernel says \"sparse\"");
}

TEST("every other operator refuses a sparse tensor by name: loops, rows, views, composites, "
     "attributes") {
  start();
  tenon_tensor_t *out;
  static const char *const names[] = {
      "core::neg",       "core::softmax", "core::contiguous",   "core::identity",
      "core::transpose", "core::flatten", "contract::real_sum", "contract::dense_copy"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CHECK_STATUS(call2(names[i], NULL, matrix(), NULL, &out), TENON_UNIMPLEMENTED);
    CHECK_TEXT(tn_error(), names[i]);
    CHECK_TEXT(tn_error(), "sparse");
    CHECK_TEXT(tn_error(), "make it dense first (core::to_dense)");
    CHECK(!out);
  }
  CHECK_STATUS(call2("core::matmul", NULL, matrix(), tensor_of(MATRIX), &out), TENON_UNIMPLEMENTED);
  CHECK_TEXT(
      tn_error(),
      "core::matmul: input a is sparse (csr), and no kernel says \"sparse\": make it dense first");
  CHECK_STATUS(call2("contract::csr_dot", NULL, tensor_of(MATRIX), tensor_of(MATRIX), &out),
               TENON_INVALID);
  CHECK_TEXT(tn_error(), "contract::csr_dot: its first input is not csr");
  tenon_tensor_t *x = matrix();
  tenon_attrs_t *attrs = NULL;
  tenon_value_t value = {TENON_KIND_TENSOR, 0, {.tensor = x}};
  CHECK_STATUS(tenon_attrs_create(op_of("core::constant_of_shape"), &attrs), TENON_OK);
  CHECK_STATUS(tenon_attrs_set(attrs, "value", &value), TENON_INVALID);
  CHECK_TEXT(tn_error(), "it is sparse: only inputs can be sparse");
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
}

TEST("an operator that reads only shapes accepts sparse tensors") {
  start();
  tenon_tensor_t *out;
  CHECK_STATUS(call2("core::shape", NULL, rows(), NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "i64[2] 4 2");
  tenon_tensor_release(out);
}

/* conversions between sparse and dense */

static void check_both_ways(const char *dense, const char *layout) {
  tenon_tensor_t *sparse, *back;
  CHECK_STATUS(call2("core::to_sparse", layout, tensor_of(dense), NULL, &sparse), TENON_OK);
  CHECK(tn_layout(sparse) != 0);
  CHECK_STATUS(call2("core::to_dense", NULL, sparse, NULL, &back), TENON_OK);
  CHECK_TENSOR(back, dense);
  tenon_tensor_release(back);
}

TEST("to_sparse stores the nonzero elements, and to_dense restores them") {
  start();
  tenon_tensor_t *out;
  CHECK_STATUS(call2("core::to_sparse", NULL, tensor_of("f32[2,3] 0 -0.0 nan 2 0 -3"), NULL, &out),
               TENON_OK);
  CHECK_SPARSE(out, ((int64_t[]){2, 3}), "f32[3] nan 2 -3", "i64[3] 2 0 2", "i64[3] 0 1 3");
  tenon_tensor_release(out);
  CHECK_STATUS(call2("core::to_sparse", "layout='row_sparse'", tensor_of("i64[3,2] 0 0 0 1 0 0"),
                     NULL, &out),
               TENON_OK);
  CHECK_SPARSE(out, ((int64_t[]){3, 2}), "i64[1,2] 0 1", "i64[1] 1", NULL);
  tenon_tensor_release(out);
  static const char *const dense[] = {
      MATRIX,     "f16[2,2] 0 1 2 0", "u8[1,4] 0 255 0 1", "bool[2,2] 0 1 1 0", "f64[2,3] ~5",
      "f32[0,3]", "f32[3,0]",         "i64[2,2] 0 0 0 0",  "i16[1,3] 0 256 -1", "bf16[1,2] 0 1"};
  for (size_t i = 0; i < sizeof dense / sizeof *dense; i++) {
    check_both_ways(dense[i], NULL);
    check_both_ways(dense[i], "layout='row_sparse'");
  }
  check_both_ways("f32[3,2,2] 0 0 0 0 0 1 0 0 2 0 0 3", "layout='row_sparse'");
  check_both_ways("i32[3] 0 5 0", "layout='row_sparse'");
  CHECK_STATUS(call2("core::to_sparse", NULL, tensor_of("f32[3] 1 2 3"), NULL, &out),
               TENON_INVALID);
  CHECK_TEXT(tn_error(), "x has 1 dimensions; expected 2 for layout 'csr'");
  CHECK_STATUS(call2("core::to_sparse", "layout='row_sparse'", tensor_of("f32[] 1"), NULL, &out),
               TENON_INVALID);
  CHECK_STATUS(call2("core::to_sparse", NULL, matrix(), NULL, &out), TENON_INVALID);
  CHECK_TEXT(tn_error(), "x is sparse already");
  CHECK_STATUS(call2("core::to_dense", NULL, tensor_of(MATRIX), NULL, &out), TENON_OK);
  CHECK_TENSOR(out, MATRIX);
  tenon_tensor_release(out);
}

/* gradients */

TEST("gradients flow through operators with sparse inputs if their formulas allow it") {
  start();
  tenon_tensor_t *x = tensor_of("f32[3,1] 1 2 3");
  tenon_tensor_t *a = matrix();
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *ones = tensor_of("f32[3,1] 1 10 100");
  CHECK_STATUS(tenon_tensor_require_grad(x, 1), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("contract::csr_dot"), NULL, (tenon_tensor_t *[]){a, x}, &out, 0),
               TENON_OK);
  tenon_tensor_release(a); /* The history holds it. */
  CHECK_STATUS(tenon_backward(&out, &ones, 1, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f32[3,1] 5 700 6");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  tenon_tensor_release(ones);
}

TEST("gradients flow through sparse results, and are dense") {
  start();
  tenon_tensor_t *x = tensor_of("f32[2,2] 0 2 3 0");
  tenon_tensor_t *s = NULL;
  tenon_tensor_t *t = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *g = tensor_of("f32[2,2] 1 2 3 4");
  CHECK_STATUS(tenon_tensor_require_grad(x, 1), TENON_OK);
  tenon_attrs_t *attrs = attrs_of(op_of("core::to_sparse"), "layout='row_sparse'");
  CHECK_STATUS(tenon_op_call(op_of("core::to_sparse"), attr_values(attrs), &x, &s, 0), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("contract::row_scale"), NULL, &s, &t, 0), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("core::to_dense"), NULL, &t, &y, 0), TENON_OK);
  CHECK_TENSOR(y, "f32[2,2] 0 4 6 0");
  CHECK_STATUS(tenon_backward(&y, &g, 1, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), "f32[2,2] 2 4 6 8");
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
  tenon_tensor_release(s);
  tenon_tensor_release(t);
  tenon_tensor_release(y);
  tenon_tensor_release(g);
}

TEST("a gradient formula may give a sparse gradient, and the sum of sparse gradients is dense") {
  start();
  tenon_tensor_t *table = tensor_of("f32[4,2] 1 2 3 4 5 6 7 8");
  tenon_tensor_t *ids = tensor_of("i64[2] 1 3");
  tenon_tensor_t *y[2] = {NULL};
  tenon_tensor_t *g[2] = {tensor_of("f32[2,2] 1 2 3 4"), tensor_of("f32[2,2] 10 20 30 40")};
  const tenon_op_t *op = op_of("contract::rows");
  CHECK_STATUS(tenon_tensor_require_grad(table, 1), TENON_OK);
  for (int i = 0; i < 2; i++)
    CHECK_STATUS(tenon_op_call(op, NULL, (tenon_tensor_t *[]){table, ids}, &y[i], 0), TENON_OK);
  CHECK_STATUS(tenon_backward(y, g, 1, TENON_GRAD_KEEP), TENON_OK);
  CHECK_SPARSE(tenon_tensor_grad(table), rows_shape, "f32[2,2] 1 2 3 4", "i64[2] 1 3", NULL);
  /* The second backward adds to the gradient. */
  CHECK_STATUS(tenon_backward(y, g, 1, TENON_GRAD_KEEP), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(table), "f32[4,2] 0 0 2 4 0 0 6 8");
  CHECK_STATUS(tenon_tensor_grad_set(table, NULL), TENON_OK);
  /* Gradients of both outputs are added on the way. */
  CHECK_STATUS(tenon_backward(y, g, 2, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(table), "f32[4,2] 0 0 11 22 0 0 33 44");
  for (int i = 0; i < 2; i++) {
    tenon_tensor_release(y[i]);
    tenon_tensor_release(g[i]);
  }
  tenon_tensor_release(table);
  tenon_tensor_release(ids);
}

/* failing allocations */

static tenon_status_t try_calls(void *context) {
  tenon_tensor_t *x = context;
  tenon_tensor_t *made = NULL;
  tenon_tensor_t *again = NULL;
  tenon_tensor_t *dense = NULL;
  tenon_tensor_t *copy = NULL;
  tenon_status_t status = tenon_op_call(op_of("contract::csr_transpose"), NULL, &x, &made, 0);
  if (status == TENON_OK)
    status = tenon_op_call(op_of("contract::csr_there_and_back"), NULL, &made, &again, 0);
  if (status == TENON_OK)
    status = tenon_op_call_into(op_of("contract::csr_transpose"), NULL, &x, &again);
  if (status == TENON_OK) status = tenon_tensor_copy(again, &copy);
  if (status == TENON_OK) status = tenon_op_call(op_of("core::to_dense"), NULL, &copy, &dense, 0);
  if (status == TENON_OK)
    CHECK(memcmp(dense->data, (const float[]){5, 0, 0, 0, 0, 7, 6, 0, 0}, 36) == 0);
  if (again)
    CHECK(again->detail && again->detail->values &&
          !(again->keys & TN_TENSOR_UNSET)); /* for any failing allocation */
  tenon_tensor_release(made);
  tenon_tensor_release(again);
  tenon_tensor_release(dense);
  tenon_tensor_release(copy);
  return status;
}

static tenon_status_t try_create(void *context) {
  const parts_t *p = context;
  tenon_detail_t detail = detail_of(p);
  tenon_tensor_t *x = NULL;
  tenon_status_t status = tenon_tensor_create_sparse(&detail, 2, matrix_shape, 0, &x);
  CHECK((status == TENON_OK) == (x != NULL));
  tenon_tensor_release(x);
  return status;
}

TEST("sparse tensors are created as a whole or not at all if memory runs out") {
  start();
  tenon_tensor_t *x = matrix();
  parts_t p = parts_of("f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  fail_each("calls", try_calls, x, 1);
  fail_each("create", try_create, &p, 1);
  parts_release(&p);
  tenon_tensor_release(x);
}

TEST("nothing is left behind") { tenon_shutdown(); }
