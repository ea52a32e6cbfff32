/* Graphs with sparse inputs, results and constants: those that run, errors and when they occur, and
 * the text of a dump. */
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

static tenon_edge_t sparse_input(tenon_builder_t *b, const char *name, uint32_t layout) {
  tenon_edge_t edge = graph_input(b, name, TENON_F32, 2);
  CHECK_STATUS(tenon_builder_sparse(b, edge, layout), TENON_OK);
  return edge;
}

/* The transpose at = a', the product d = a' x, and p, the rows of a' that store elements: a csr
 * input, values between nodes, and outputs. */
static tenon_executable_t *chain(uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t a = sparse_input(b, "a", TENON_DETAIL_CSR);
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t d;
  tenon_edge_t at = graph_step(b, "contract::csr_transpose", NULL, a);
  graph_node(b, "dot", "contract::csr_dot", NULL, (tenon_edge_t[]){at, x}, &d, 1);
  tenon_edge_t p = graph_step(b, "contract::csr_pack", NULL, at);
  tenon_edge_t whole =
      graph_step(b, "core::to_dense", NULL, graph_step(b, "contract::csr_transpose", NULL, p));
  graph_output(b, "d", d);
  graph_output(b, "at", at);
  graph_output(b, "whole", whole);
  graph_output(b, "again", a);
  return graph_compile(b, flags);
}

static void check_chain(tenon_executable_t *e) {
  tenon_tensor_t *a = matrix();
  tenon_tensor_t *x = tensor_of("f32[3,1] 1 10 100");
  tenon_tensor_t *out[4] = {NULL};
  tenon_tensor_t *before[4] = {NULL};
  tenon_tensor_t *other = sparse_of((int64_t[]){3, 4}, "f32[1] 9", "i64[1] 3", "i64[4] 0 0 1 1");
  for (int i = 0; i < 3;
       /* The first run makes a plan, the second one fits it, and the third one has other extents
        * and counts. */
       i++) {
    tenon_tensor_t *of = i < 2 ? a : other;
    CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){of, x}, out, NULL), TENON_OK);
    if (i == 0) {
      memcpy(before, out, sizeof out);
      memset(out, 0, sizeof out);
    }
    if (i == 0) continue;
    if (i == 1) {
      CHECK_TENSOR(out[0], "f32[3,1] 5 700 6");
      CHECK_SPARSE(out[1], matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0", "i64[4] 0 1 2 3");
      CHECK_TENSOR(out[2], "f32[3,3] 5 0 6 0 0 0 0 7 0");
      CHECK_SPARSE(out[3], matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
    } else {
      CHECK_TENSOR(out[0], "f32[4,1] 0 0 0 90");
      CHECK_SPARSE(out[1], ((int64_t[]){4, 3}), "f32[1] 9", "i64[1] 1", "i64[5] 0 0 0 0 1");
      CHECK_TENSOR(out[2], "f32[3,1] 0 9 0");
    }
    for (int k = 0; k < 4; k++) {
      tenon_tensor_release(out[k]);
      out[k] = NULL;
    }
  }
  CHECK_SPARSE(before[1], matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0",
               "i64[4] 0 1 2 3"); /* Later runs do not change it. */
  for (int k = 0; k < 4; k++)
    tenon_tensor_release(before[k]);
  tenon_tensor_release(a);
  tenon_tensor_release(x);
  tenon_tensor_release(other);
}

TEST("a graph runs with sparse inputs, values between its nodes, and outputs") {
  start();
  tenon_executable_t *e = chain(0);
  check_chain(e);
  tenon_executable_release(e);
  e = chain(TENON_COMPILE_PLAIN);
  check_chain(e);
  tenon_executable_release(e);
}

TEST("a graph with sparse tensors runs in the same way if it records a history") {
  start();
  tenon_executable_t *e = chain(TENON_COMPILE_GRADIENTS);
  check_chain(e);
  tenon_executable_release(e);
}

TEST("outputs that are given receive copies, and outputs of another layout are refused") {
  start();
  tenon_executable_t *e = chain(0);
  tenon_tensor_t *a = matrix();
  tenon_tensor_t *x = tensor_of("f32[3,1] 1 10 100");
  tenon_tensor_t *out[4] = {NULL};
  tenon_tensor_t *dense = tensor_of(MATRIX);
  tenon_tensor_t *given = sparse_of(matrix_shape, "f32[0]", "i64[0]", "i64[4] 0 0 0 0");
  out[1] = given;
  CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){a, x}, out, NULL), TENON_OK);
  CHECK(out[1] == given);
  CHECK_SPARSE(given, matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0", "i64[4] 0 1 2 3");
  for (int k = 0; k < 4; k++) {
    tenon_tensor_release(out[k]);
    out[k] = NULL;
  }
  out[1] = dense;
  CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){a, x}, out, NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "output 'at': cannot copy a csr tensor into a dense one");
  tenon_tensor_release(a);
  tenon_tensor_release(x);
  tenon_tensor_release(dense);
  tenon_executable_release(e);
}

TEST("inputs of another layout than the graph declares are refused") {
  start();
  tenon_executable_t *e = chain(0);
  tenon_tensor_t *a = matrix();
  tenon_tensor_t *x = tensor_of(MATRIX);
  tenon_tensor_t *r = sparse_of(matrix_shape, "f32[0,3]", "i64[0]", NULL);
  tenon_tensor_t *out[4] = {NULL};
  CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){x, x}, out, NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'a': expected a csr tensor, found a dense tensor");
  CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){r, x}, out, NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'a': expected a csr tensor, found a row_sparse tensor");
  CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){a, a}, out, NULL), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'x': expected a dense tensor, found a csr tensor: declare "
                         "sparse inputs with tenon_builder_sparse");
  tenon_tensor_release(a);
  tenon_tensor_release(x);
  tenon_tensor_release(r);
  tenon_executable_release(e);
}

TEST("a node without a kernel for sparse tensors is found when the graph is built") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_edge_t a = sparse_input(b, "a", TENON_DETAIL_CSR);
  tenon_edge_t t = graph_step(b, "contract::csr_transpose", NULL, a);
  graph_output(b, "y", graph_step(b, "core::identity", NULL, t));
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "(core::identity): input x is sparse (csr), but no kernel of the operator "
                         "is declared \"sparse\"");
  CHECK_STATUS(tenon_builder_sparse(b, a, TENON_DETAIL_ROW_SPARSE), TENON_PRECONDITION);
  CHECK_STATUS(tenon_builder_sparse(b, t, TENON_DETAIL_CSR), TENON_INVALID);
  tenon_edge_t line = graph_input(b, "line", TENON_F32, 1);
  tenon_edge_t any = graph_input(b, "any", TENON_F32, -1);
  CHECK_STATUS(tenon_builder_sparse(b, line, TENON_DETAIL_CSR), TENON_INVALID);
  CHECK_TEXT(tn_error(), "input 'line': a csr tensor cannot have 1 dimensions");
  CHECK_STATUS(tenon_builder_sparse(b, any, TENON_DETAIL_ROW_SPARSE), TENON_INVALID);
  CHECK_STATUS(tenon_builder_sparse(b, line, 7), TENON_INVALID);
  tenon_builder_release(b);
}

TEST("a kernel that creates no sparse result ends the run, and the next run works") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t w = graph_step(b, "contract::csr_wrong", "what='nothing'", x);
  graph_output(b, "y", graph_step(b, "contract::csr_transpose", NULL, w));
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *dense = tensor_of(MATRIX);
  tenon_tensor_t *out[1] = {NULL};
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tenon_executable_run(e, &dense, out, NULL), TENON_INTERNAL);
    CHECK_TEXT(
        tn_error(),
        "contract::csr_wrong: its run function returned without making the sparse result out");
    CHECK(!out[0]);
  }
  tenon_tensor_release(dense);
  tenon_executable_release(e);
}

TEST("sparse constants can be inputs of nodes, and nodes that depend only on them are folded") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_tensor_t *weights = matrix();
  tenon_edge_t a, d;
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  CHECK_STATUS(tenon_builder_constant(b, "weights", weights, &a), TENON_OK);
  tenon_tensor_release(weights);
  tenon_edge_t t = graph_step(b, "contract::csr_transpose", NULL, a);
  graph_node(b, "dot", "contract::csr_dot", NULL, (tenon_edge_t[]){t, x}, &d, 1);
  graph_output(b, "d", d);
  graph_output(b, "t", t);
  graph_output(b, "stored", graph_step(b, "contract::stored", NULL, a));
  tenon_executable_t *e = graph_compile(b, 0);
  char *text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, "graph", &text), TENON_OK);
  CHECK(!strstr(text, "csr_transpose"));
  CHECK_TEXT(text, "f32[3, 3] csr = constant");
  tenon_text_release(text);
  tenon_tensor_t *in = tensor_of("f32[3,1] 1 10 100");
  tenon_tensor_t *out[3] = {NULL};
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tenon_executable_run(e, &in, out, NULL), TENON_OK);
    CHECK_TENSOR(out[0], "f32[3,1] 5 700 6");
    CHECK_SPARSE(out[1], matrix_shape, "f32[3] 5 7 6", "i64[3] 0 2 0", "i64[4] 0 1 2 3");
    CHECK_TENSOR(out[2], "i64[] 3");
    for (int k = 0; k < 3; k++) {
      tenon_tensor_release(out[k]);
      out[k] = NULL;
    }
  }
  tenon_tensor_release(in);
  tenon_executable_release(e);
}

TEST("dumps and ports show layouts, and export to ONNX is refused") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_edge_t a = sparse_input(b, "a", TENON_DETAIL_CSR);
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  graph_output(b, "t", graph_step(b, "contract::csr_transpose", NULL, a));
  graph_output(b, "n", graph_step(b, "core::neg", NULL, x));
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  tenon_port_t port = {.size = sizeof port};
  CHECK_STATUS(tenon_graph_input(graph, 0, &port), TENON_OK);
  CHECK(port.layout == TENON_DETAIL_CSR);
  CHECK_STATUS(tenon_graph_input(graph, 1, &port), TENON_OK);
  CHECK(port.layout == 0);
  CHECK_STATUS(tenon_graph_output(graph, 0, &port), TENON_OK);
  CHECK(port.layout == TENON_DETAIL_CSR);
  char *text = NULL;
  CHECK_STATUS(tenon_graph_dump(graph, &text), TENON_OK);
  CHECK_TEXT(text, "] csr = contract::csr_transpose(a)");
  tenon_text_release(text);
  CHECK_STATUS(tenon_graph_save(graph, "/tmp/tenon_sparse_test.onnx"), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "it is sparse");
  tenon_graph_release(graph);
}

static tenon_status_t try_runs(void *context) {
  tenon_executable_t *e = context;
  tenon_tensor_t *a = NULL;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out[4] = {NULL};
  parts_t p = {NULL};
  tenon_status_t status = TENON_OK;
  static float values[] = {5, 6, 7};
  static float column[] = {1, 10, 100};
  static int64_t indices[] = {0, 2, 1};
  static int64_t ends[] = {0, 2, 2, 3};
  static int64_t three[] = {3};
  static int64_t four[] = {4};
  static int64_t line[] = {3, 1};
  status =
      tenon_tensor_borrow(values, tenon_dtype(TENON_F32), 1, three, NULL, NULL, NULL, &p.values);
  if (status == TENON_OK)
    status = tenon_tensor_borrow(indices, tenon_dtype(TENON_I64), 1, three, NULL, NULL, NULL,
                                 &p.indices);
  if (status == TENON_OK)
    status =
        tenon_tensor_borrow(ends, tenon_dtype(TENON_I64), 1, four, NULL, NULL, NULL, &p.indptr);
  if (status == TENON_OK)
    status = tenon_tensor_borrow(column, tenon_dtype(TENON_F32), 2, line, NULL, NULL, NULL, &x);
  tenon_detail_t detail = detail_of(&p);
  if (status == TENON_OK) status = tenon_tensor_create_sparse(&detail, 2, matrix_shape, 0, &a);
  for (int i = 0; i < 2 && status == TENON_OK; i++) {
    status = tenon_executable_run(e, (tenon_tensor_t *[]){a, x}, out, NULL);
    if (status == TENON_OK) CHECK(memcmp(out[0]->data, (const float[]){5, 700, 6}, 12) == 0);
    for (int k = 0; k < 4; k++) {
      tenon_tensor_release(out[k]);
      out[k] = NULL;
    }
  }
  tenon_tensor_release(a);
  tenon_tensor_release(x);
  parts_release(&p);
  return status;
}

TEST("runs fail when memory runs out, and later runs work") {
  start();
  tenon_executable_t *e = chain(0);
  fail_each("runs", try_runs, e, 1);
  tenon_executable_release(e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
