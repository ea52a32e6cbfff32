/* Runs of graphs: errors and that later runs work, inputs that nodes write to, shapes and values
 * known only in a run, layouts, states, prepared weights, subgraphs and profiles. */
#include "base/thread.h"
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::census", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

static tenon_edge_t two(tenon_builder_t *b, const char *name, tenon_edge_t a,
                        tenon_edge_t c) { /* Adds a node with two inputs and one result. */
  tenon_edge_t inputs[16] = {a, c, -1, -1};
  tenon_edge_t result;
  graph_node(b, NULL, name, NULL, inputs, &result, 1);
  return result;
}

/* errors */

TEST("an operator that fails in a run is named with its node, and the next run works") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y, z;
  graph_node(b, "the_check", "contract::refuse", "above=3.0",
             (tenon_edge_t[]){graph_step(b, "contract::halve", NULL, x)}, &y, 1);
  z = graph_step(b, "contract::plus_one", NULL, y);
  graph_output(b, "y", y);
  graph_output(b, "z", z);
  tenon_executable_t *e = graph_compile(b, 0);
  for (int i = 0; i < 3; i++) {
    CHECK_GRAPH(e, TEXTS("f32[2] 2 4"), TEXTS("f32[2] 1 2", "f32[2] 2 3"));
    check_run_refused(e, TEXTS("f32[3] 2 4 8"), TENON_RANGE,
                      "node 'the_check' (contract::refuse): contract::refuse: element 2 is 4: "
                      "expected at most 3");
    check_run_refused(e, TEXTS("f32[2] 8 4"), TENON_RANGE, "element 0 is 4");
  }
  tenon_tensor_t *in = tensor_of("f32[1] 100");
  tenon_tensor_t *given[2] = {tensor_of("f32[1] 5"), NULL};
  CHECK_STATUS(tenon_executable_run(e, &in, given, NULL), TENON_RANGE);
  CHECK(given[0] != NULL && given[1] == NULL); /* The caller's own output stays. */
  tenon_tensor_release(in);
  tenon_tensor_release(given[0]);
  tenon_executable_release(e);
}

TEST("inputs of a wrong dtype, rank or extent, missing ones, and axes that disagree are named") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x, y, sum;
  tenon_axis_t axes[2] = {{-1, "batch"}, {3, NULL}};
  tenon_axis_t one[1] = {{-1, "batch"}};
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  CHECK_STATUS(tenon_builder_input(b, "y", tenon_dtype(TENON_F32), 1, one, &y), TENON_OK);
  graph_node(b, NULL, "contract::peak", NULL, (tenon_edge_t[]){x}, &sum, 1);
  graph_output(b, "out", two(b, "contract::both", sum, y));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[2,3] 1 2 3 4 5 6", "f32[2] 10 20"), TEXTS("f32[2] 13 26"));
  check_run_refused(e, TEXTS("f64[2,3] 1 2 3 4 5 6", "f32[2] 1 2"), TENON_INVALID,
                    "input 'x': expected dtype f32, found f64");
  check_run_refused(e, TEXTS("f32[6] 1 2 3 4 5 6", "f32[2] 1 2"), TENON_INVALID,
                    "input 'x': expected 2 dimensions, found shape [6]");
  check_run_refused(e, TEXTS("f32[3,2] 1 2 3 4 5 6", "f32[3] 1 2 3"), TENON_INVALID,
                    "input 'x': expected extent 3 in axis 1, found shape [3, 2]");
  check_run_refused(e, TEXTS("f32[2,3] 1 2 3 4 5 6", NULL), TENON_INVALID, "input 'y' is missing");
  check_run_refused(
      e, TEXTS("f32[2,3] 1 2 3 4 5 6", "f32[3] 1 2 3"), TENON_INVALID,
      "input 'y': axis 0 (batch) has extent 3, but the axis of the same name of input "
      "'x' has 2");
  CHECK_GRAPH(e, TEXTS("f32[1,3] 1 2 3", "f32[1] 10"), TEXTS("f32[1] 13"));
  CHECK_GRAPH(e, TEXTS("f32[0,3]", "f32[0]"), TEXTS("f32[0]"));
  tenon_tensor_t *in[2] = {tensor_of("f32[1,3] 1 2 3"), tensor_of("f32[1] 1")};
  tenon_tensor_t *out[1] = {tensor_of("f32[2] 0 0")};
  CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "output 'out'");
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(in[i]);
  tenon_tensor_release(out[0]);
  tenon_executable_release(e);
}

TEST("shapes that turn out to be wrong only in a run are refused then, with the node's name") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = graph_input(b, "y", TENON_F32, 1);
  graph_output(b, "out", two(b, "contract::both", x, y));
  tenon_executable_t *e = graph_compile(b, 0);
  check_run_refused(e, TEXTS("f32[2] 1 2", "f32[3] 1 2 3"), TENON_INVALID, "contract::both");
  CHECK_TEXT(tenon_error(), "node '");
  CHECK_GRAPH(e, TEXTS("f32[2] 1 2", "f32[1] 1"), TEXTS("f32[2] 2 3"));
  tenon_executable_release(e);
}

/* inputs that nodes write to */

TEST("an input that a node writes to becomes an extra result, and other readers see the original "
     "value") {
  start();
  for (int plain = 0; plain < 2; plain++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
    tenon_edge_t y = graph_input(b, "y", TENON_F32, 1);
    tenon_edge_t h, before, after, once, twice;
    h = graph_step(b, "contract::halve", NULL, y); /* h is a value inside the graph. */
    before = graph_step(b, "contract::plus_one", NULL, h);
    graph_node(b, NULL, "contract::axpy_", "alpha=10.0", (tenon_edge_t[]){x, h}, &once, 1);
    after = graph_step(b, "contract::plus_one", NULL, h);
    graph_node(b, NULL, "contract::add_", NULL, (tenon_edge_t[]){once, x}, &twice, 1);
    graph_output(b, "before", before);
    graph_output(b, "once", once);
    graph_output(b, "after", after);
    graph_output(b, "twice", twice);
    graph_output(b, "h", h);
    tenon_executable_t *e = graph_compile(b, plain ? TENON_COMPILE_PLAIN : 0);
    for (int i = 0; i < 2; i++) {
      CHECK_GRAPH(e, TEXTS("f32[2] 1 2", "f32[2] 4 8"),
                  TEXTS("f32[2] 3 5", "f32[2] 12 24", "f32[2] 3 5", "f32[2] 13 26", "f32[2] 2 4"));
      CHECK_GRAPH(e, TEXTS("f32[1] 3", "f32[1] 2"),
                  TEXTS("f32[1] 2", "f32[1] 31", "f32[1] 2", "f32[1] 34", "f32[1] 1"));
    }
    tenon_executable_release(e);
  }
}

TEST("inputs of the run, and constants, keep their values if a node writes to them") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t c = graph_constant(b, "c", "f32[2] 100 200");
  tenon_edge_t a, d;
  graph_node(b, NULL, "contract::axpy_", NULL, (tenon_edge_t[]){c, x}, &a, 1);
  graph_node(b, NULL, "contract::axpy_", NULL, (tenon_edge_t[]){x, c}, &d, 1);
  graph_output(b, "a", a);
  graph_output(b, "d", d);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *in = tensor_of("f32[2] 1 2");
  tenon_tensor_t *out[2] = {NULL};
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(tenon_executable_run(e, &in, out, NULL), TENON_OK);
    CHECK_TENSOR(out[0], "f32[2] 101 202");
    CHECK_TENSOR(out[1], "f32[2] 101 202");
    CHECK_TENSOR(in, "f32[2] 1 2");
    if (i < 2) continue;
    tenon_tensor_release(out[0]);
    tenon_tensor_release(out[1]);
  }
  tenon_tensor_release(in);
  tenon_executable_release(e);
}

TEST("an optional input that a node writes to may be absent, and its extra result is then absent") {
  start();
  for (int used = 0; used < 2; used++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
    tenon_edge_t there[2], absent[2];
    graph_node(b, NULL, "contract::touch_", NULL, (tenon_edge_t[]){x, x}, there, 2);
    graph_node(b, "without", "contract::touch_", NULL, (tenon_edge_t[]){x, -1}, absent, 2);
    graph_output(b, "a", there[0]);
    graph_output(b, "b", there[1]);
    graph_output(b, "c", absent[0]);
    if (used == 1) graph_output(b, "d", graph_step(b, "contract::copy", NULL, absent[1]));
    tenon_executable_t *e = graph_compile(b, 0);
    if (!used)
      CHECK_GRAPH(e, TEXTS("f32[2] 1 2"), TEXTS("f32[2] -1 -2", "f32[2] 1 2", "f32[2] -1 -2"));
    else
      check_run_refused(e, TEXTS("f32[2] 1 2"), TENON_INVALID,
                        "input x is an optional result that its node does not compute");
    tenon_executable_release(e);
  }
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(call_op("contract::touch_", NULL, TEXTS("f32[1] 1", NULL), out), TENON_OK);
  CHECK_TENSOR(out[0], "f32[1] -1");
  tenon_tensor_release(out[0]);
}

TEST("an input that a node writes to is made row-major first") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t a;
  graph_node(b, NULL, "contract::add_", NULL,
             (tenon_edge_t[]){graph_step(b, "contract::transpose", NULL, x), x}, &a, 1);
  graph_output(b, "a", a);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[2,2] 1 2 3 4"), TEXTS("f32[2,2] 2 5 5 8"));
  tenon_executable_release(e);
}

TEST("strings that a node writes to are copies, and known values that it writes to stay known") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t s = graph_input(b, "s", TENON_STRING, 1);
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t marked, bumped, shape, v;
  graph_node(b, NULL, "contract::mark_", NULL, (tenon_edge_t[]){s}, &marked, 1);
  shape = graph_step(b, "core::shape", NULL, x);
  graph_node(b, NULL, "contract::bump_", NULL, (tenon_edge_t[]){shape}, &bumped, 1);
  v = graph_constant(b, "v", "f32[] 7");
  graph_output(b, "s", s);
  graph_output(b, "marked", marked);
  graph_output(b, "shape", shape);
  graph_output(b, "bumped", bumped);
  graph_output(b, "filled", two(b, "contract::fill", v, bumped));
  tenon_executable_t *e = graph_compile(b, 0);
  for (int i = 0; i < 2; i++) {
    CHECK_GRAPH(e, TEXTS("string[2] a b", "f32[1,1] 1"),
                TEXTS("string[2] a b", "string[2] seen seen", "i64[2] 1 1", "i64[2] 2 2",
                      "f32[2,2] 7 7 7 7"));
    CHECK_GRAPH(e, TEXTS("string[1] a", "f32[1,0]"),
                TEXTS("string[1] a", "string[1] seen", "i64[2] 1 0", "i64[2] 2 1", "f32[2,1] 7 7"));
  }
  tenon_executable_release(e);
}

/* shapes and values known only in a run */

TEST("nodes can follow a shape that depends on data, also if the result is empty") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t where, picked, rest;
  where = graph_step(b, "contract::nonzero", NULL, x);
  picked = two(b, "core::gather", x, where);
  rest = graph_step(b, "contract::halve", NULL, picked);
  graph_output(b, "where", where);
  graph_output(b, "picked", picked);
  graph_output(b, "rest", rest);
  graph_output(b, "total", graph_step(b, "contract::total", NULL, rest));
  graph_output(b, "again",
               graph_step(b, "contract::nonzero", NULL,
                          graph_step(b, "contract::collect", "above=1.0", rest)));
  tenon_executable_t *e = graph_compile(b, 0);
  for (int i = 0; i < 2; i++) {
    CHECK_GRAPH(e, TEXTS("f32[4] 0 2 0 6"),
                TEXTS("i64[2] 1 3", "f32[2] 2 6", "f32[2] 1 3", "f32[1] 4", "i64[1] 0"));
    CHECK_GRAPH(e, TEXTS("f32[2] 0 0"), TEXTS("i64[0]", "f32[0]", "f32[0]", "f32[1] 0", "i64[0]"));
    CHECK_GRAPH(
        e, TEXTS("f32[4] 8 8 8 8"),
        TEXTS("i64[4] 0 1 2 3", "f32[4] 8 8 8 8", "f32[4] 4 4 4 4", "f32[1] 16", "i64[4] 0 1 2 3"));
    CHECK_GRAPH(e, TEXTS("f32[0]"), TEXTS("i64[0]", "f32[0]", "f32[0]", "f32[1] 0", "i64[0]"));
  }
  tenon_executable_release(e);
}

TEST("nodes can follow a result whose rank only the run tells") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 3);
  tenon_edge_t s = graph_step(b, "contract::strip", NULL, x);
  graph_output(b, "y", two(b, "contract::both", s, graph_constant(b, "one", "f32[] 1")));
  graph_output(b, "t", graph_step(b, "contract::transpose", NULL, s));
  tenon_executable_t *e = graph_compile(b, 0);
  for (int i = 0; i < 2; i++) {
    CHECK_GRAPH(e, TEXTS("f32[1,2,1] 1 2"), TEXTS("f32[2] 2 3", "f32[2] 1 2"));
    CHECK_GRAPH(e, TEXTS("f32[1,1,1] 5"), TEXTS("f32[] 6", "f32[] 5"));
    CHECK_GRAPH(e, TEXTS("f32[2,1,3] 1 2 3 4 5 6"),
                TEXTS("f32[2,3] 2 3 4 5 6 7", "f32[3,2] 1 4 2 5 3 6"));
  }
  tenon_executable_release(e);
}

TEST("a run that reports a larger shape than infer allows, or none, is refused with the node's "
     "name") {
  start();
  static const char *const names[] = {"contract::liar", "contract::silent"};
  for (int i = 0; i < 2; i++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
    tenon_edge_t y;
    graph_node(b, "that_one", names[i], NULL, (tenon_edge_t[]){x}, &y, 1);
    graph_output(b, "y", y);
    tenon_executable_t *e = graph_compile(b, 0);
    for (int k = 0; k < 2; k++)
      check_run_refused(e, TEXTS("f32[1] 1"), i ? TENON_INTERNAL : TENON_RANGE,
                        i ? "node 'that_one' (contract::silent): its run function returned without "
                            "stating the shape"
                          : "node 'that_one' (contract::liar)");
    tenon_executable_release(e);
  }
}

TEST("values that infer reads are watched: a new value gives a new plan") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t v = graph_input(b, "v", TENON_F32, 0);
  tenon_edge_t s = graph_input(b, "s", TENON_I64, 1);
  graph_output(b, "y", graph_step(b, "contract::halve", NULL, two(b, "contract::fill", v, s)));
  tenon_executable_t *e = graph_compile(b, 0);
  for (int i = 0; i < 2; i++) {
    CHECK_GRAPH(e, TEXTS("f32[] 4", "i64[1] 2"), TEXTS("f32[2] 2 2"));
    CHECK_GRAPH(e, TEXTS("f32[] 4", "i64[1] 3"), TEXTS("f32[3] 2 2 2"));
    CHECK_GRAPH(e, TEXTS("f32[] 6", "i64[2] 1 2"), TEXTS("f32[1,2] 3 3"));
    CHECK_GRAPH(e, TEXTS("f32[] 6", "i64[0]"), TEXTS("f32[] 3"));
  }
  check_run_refused(e, TEXTS("f32[] 6", "i64[1] -1"), TENON_INVALID,
                    "extent 0 of result out would be -1");
  check_run_refused(e, TEXTS("f32[] 6", "i64[2] 4611686018427387904 4"), TENON_INVALID,
                    "too large");
  CHECK_GRAPH(e, TEXTS("f32[] 4", "i64[1] 2"), TEXTS("f32[2] 2 2"));
  tenon_executable_release(e);
}

TEST("the dtype of a graph's input that states none follows from the other inputs of its node") {
  start();
  const tenon_dtype_t none = {0, 0, 0};
  tenon_axis_t axes[1] = {{2, NULL}};
  tenon_port_t port = {.size = sizeof port};
  for (int known = 0; known < 2; known++) {
    tenon_builder_t *b = graph_begin();
    tenon_graph_t *graph = NULL;
    tenon_executable_t *e = NULL;
    tenon_edge_t x, y;
    CHECK_STATUS(tenon_builder_input(b, "x", known ? tenon_dtype(TENON_F16) : none, 1, axes, &x),
                 TENON_OK);
    CHECK_STATUS(tenon_builder_input(b, "y", none, 1, axes, &y), TENON_OK);
    graph_output(b, "out", two(b, "contract::both", x, y));
    CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
    tenon_builder_release(b);
    CHECK_STATUS(tenon_graph_input(graph, 1, &port), TENON_OK);
    CHECK(tenon_dtype_id(port.dtype) == (known ? (uint32_t)TENON_F16 : tenon_dtype_id(none)));
    CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_OK);
    tenon_graph_release(graph);
    CHECK_GRAPH(e, TEXTS("f16[2] 1 2", "f16[2] 10 20"), TEXTS("f16[2] 11 22"));
    if (known) {
      check_run_refused(e, TEXTS("f16[2] 1 2", "f32[2] 10 20"), TENON_INVALID,
                        "input 'y': expected dtype f16, found f32");
    } else {
      /* Nothing is known: each run may have another dtype, as long as its inputs agree. */
      CHECK_GRAPH(e, TEXTS("f32[2] 1 2", "f32[2] 10 20"), TEXTS("f32[2] 11 22"));
      check_run_refused(e, TEXTS("f32[2] 1 2", "f16[2] 10 20"), TENON_INVALID,
                        "input 'b': expected f32, the dtype of 'a', found f16");
    }
    tenon_executable_release(e);
  }
}

TEST("the shape of a weight is inferred from that of the input when the graph is compiled") {
  start();
  static const char *const names[] = {"contract::project", "contract::project_by_function"};
  for (int i = 0; i < 2; i++) {
    tenon_builder_t *b = graph_begin();
    tenon_axis_t axes[2] = {{-1, "batch"}, {3, NULL}};
    tenon_edge_t x;
    tenon_edge_t w = graph_input(b, "w", TENON_F32, -1);
    tenon_edge_t y;
    CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
    graph_node(b, NULL, names[i], "units=2", (tenon_edge_t[]){x, w}, &y, 1);
    graph_output(b, "y", y);
    tenon_executable_t *e = graph_compile(b, 0);
    char *text = NULL;
    CHECK_STATUS(tenon_executable_dump(e, "shapes", &text), TENON_OK);
    CHECK_TEXT(text, "w: f32[2, 3]");
    tenon_text_release(text);
    CHECK_GRAPH(e, TEXTS("f32[2,3] 1 0 0 0 1 0", "f32[1,3] 5 6 7"), TEXTS("f32[1,2] 5 6"));
    check_run_refused(e, TEXTS("f32[2,2] 1 0 0 1", "f32[1,3] 5 6 7"), TENON_INVALID,
                      "input 'w': expected extent 3 in axis 1, found shape [2, 2]");
    tenon_executable_release(e);
  }
}

/* layouts and memory */

TEST("strided kernels get views as they are, and dense kernels get a copy that is made once") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t t = graph_step(b, "contract::transpose", NULL, x);
  graph_output(b, "dense", graph_step(b, "contract::strides", NULL, t));
  graph_output(b, "any", graph_step(b, "contract::any_strides", NULL, t));
  graph_output(b, "flat", graph_step(b, "contract::flat", NULL, t));
  graph_output(b, "tail", graph_step(b, "contract::tail", NULL, t));
  graph_output(
      b, "copy",
      graph_step(b, "contract::dense_copy", NULL, graph_step(b, "contract::tail", NULL, t)));
  graph_output(b, "half", graph_step(b, "contract::halve", NULL, t));
  tenon_executable_t *e = graph_compile(b, 0);
  static const char *const expected[] = {"i64[2] 2 1",         "i64[2] 1 3",
                                         "f32[6] 1 4 2 5 3 6", "f32[2,2] 2 5 3 6",
                                         "f32[2,2] 2 5 3 6",   "f32[3,2] 0.5 2 1 2.5 1.5 3"};
  for (int i = 0; i < 2; i++)
    CHECK_GRAPH(e, TEXTS("f32[2,3] 1 2 3 4 5 6"), expected);
  char *text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, "plan", &text), TENON_OK);
  int copies = 0;
  for (const char *at = text; (at = strstr(at, "(dense copy)")); at++)
    copies++;
  CHECK(copies == 2); /* one copy of t and one of its tail */
  tenon_text_release(text);
  static const char *const strided[] = {"i64[2] 2 1",         "i64[2] 2 1",
                                        "f32[6] 1 4 2 5 3 6", "f32[2,2] 2 5 3 6",
                                        "f32[2,2] 2 5 3 6",   "f32[3,2] 0.5 2 1 2.5 1.5 3"};
  /* its transpose is row-major */
  tenon_tensor_t *in = tensor_strided("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *out[6] = {NULL};
  CHECK_STATUS(tenon_executable_run(e, &in, out, NULL), TENON_OK);
  for (int i = 0; i < 6; i++) {
    CHECK_TENSOR(out[i], strided[i]);
    CHECK(!(out[i]->keys & TN_KEY_STRIDED));
    tenon_tensor_release(out[i]);
  }
  tenon_tensor_release(in);
  CHECK_GRAPH(e, TEXTS("f32[2,3] 1 2 3 4 5 6"), expected);
  tenon_executable_release(e);
}

TEST("inputs and constants may be outputs, and a value may be several outputs") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t c = graph_constant(b, "c", "i64[2] 5 6");
  tenon_edge_t y = graph_step(b, "contract::halve", NULL, x);
  graph_output(b, "x", x);
  graph_output(b, "c", c);
  graph_output(b, "y", y);
  graph_output(b, "y_again", y);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_tensor_t *in = tensor_of("f32[2] 2 4");
  tenon_tensor_t *out[4] = {NULL};
  CHECK_STATUS(tenon_executable_run(e, &in, out, NULL), TENON_OK);
  for (int i = 0; i < 4; i++)
    CHECK(out[i] && out[i]->data != in->data);
  CHECK(out[2]->data != out[3]->data);
  CHECK_TENSOR(out[0], "f32[2] 2 4");
  CHECK_TENSOR(out[1], "i64[2] 5 6");
  CHECK_TENSOR(out[2], "f32[2] 1 2");
  CHECK_TENSOR(out[3], "f32[2] 1 2");
  for (int i = 0; i < 4; i++)
    tenon_tensor_release(out[i]);
  tenon_tensor_release(in);
  tenon_executable_release(e);
}

TEST("a graph without nodes, and one without inputs, run") {
  start();
  tenon_builder_t *b = graph_begin();
  graph_output(b, "x", graph_input(b, "x", TENON_STRING, 1));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("string[2] a b"), TEXTS("string[2] a b"));
  tenon_executable_release(e);
  b = graph_begin();
  graph_output(b, "y",
               graph_step(b, "contract::halve", NULL, graph_constant(b, NULL, "f32[2] 1 2")));
  e = graph_compile(b, TENON_COMPILE_PLAIN);
  CHECK_GRAPH(e, TEXTS(NULL), TEXTS("f32[2] 0.5 1"));
  tenon_executable_release(e);
}

TEST("tensors of rank 64 run through a graph") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, TENON_RANK_MAX);
  graph_output(
      b, "y",
      graph_step(b, "contract::halve", NULL, graph_step(b, "contract::transpose", NULL, x)));
  graph_output(b, "z", graph_step(b, "contract::strip", NULL, x));
  tenon_executable_t *e = graph_compile(b, 0);
  int64_t shape[TENON_RANK_MAX];
  tenon_tensor_t *in = NULL;
  tenon_tensor_t *out[2] = {NULL};
  for (int i = 0; i < TENON_RANK_MAX; i++)
    shape[i] = i == 5 ? 3 : 1;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), TENON_RANK_MAX, shape, &in), TENON_OK);
  for (int i = 0; i < 3; i++)
    ((float *)in->data)[i] = (float)i * 2;
  CHECK_STATUS(tenon_executable_run(e, &in, out, NULL), TENON_OK);
  CHECK(out[0]->ndim == TENON_RANK_MAX && out[0]->shape[58] == 3 &&
        ((float *)out[0]->data)[2] == 2);
  CHECK_TENSOR(out[1], "f32[3] 0 2 4");
  tenon_tensor_release(in);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(out[1]);
  tenon_executable_release(e);
}

TEST("a quantised input is refused by name, also by a plan that was made for a plain input") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_U8, 2);
  tenon_edge_t y = graph_input(b, "y", TENON_U8, 2);
  tenon_edge_t s, r;
  graph_node(b, "stored", "contract::stored_sum", NULL, (tenon_edge_t[]){x}, &s, 1);
  graph_node(b, "real", "contract::real_sum", NULL,
             (tenon_edge_t[]){graph_step(b, "contract::transpose", NULL, y)}, &r, 1);
  graph_output(b, "stored", s);
  graph_output(b, "real", r);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_detail_t detail = {.size = sizeof detail, .kind = TENON_DETAIL_QUANTISED, .axis = -1};
  detail.scale = tensor_of("f32[1] 0.5");
  detail.zero_point = tensor_of("f32[1] 2");
  tenon_tensor_t *plain = tensor_of("u8[1,3] 4 6 8");
  tenon_tensor_t *q = tensor_of("u8[1,3] 4 6 8");
  tenon_tensor_t *out[2] = {NULL};
  q->detail = &detail;
  tn_tensor_mark(q);
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){plain, plain}, out, NULL), TENON_OK);
    CHECK_TENSOR(out[0], "f32[] 18");
    CHECK_TENSOR(out[1], "f32[] 18");
    for (int k = 0; k < 2; k++) {
      tenon_tensor_release(out[k]);
      out[k] = NULL;
    }
    CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){plain, q}, out, NULL), TENON_OK);
    CHECK_TENSOR(out[0], "f32[] 18");
    CHECK_TENSOR(out[1], "f32[] 6"); /* through a view and a dense copy */
    for (int k = 0; k < 2; k++) {
      tenon_tensor_release(out[k]);
      out[k] = NULL;
    }
    CHECK_STATUS(tenon_executable_run(e, (tenon_tensor_t *[]){q, q}, out, NULL),
                 TENON_UNIMPLEMENTED);
    CHECK_TEXT(tenon_error(),
               "node 'stored' (contract::stored_sum): contract::stored_sum: input x is quantised");
  }
  tenon_tensor_release(plain);
  tenon_tensor_release(q);
  tenon_tensor_release((tenon_tensor_t *)(uintptr_t)detail.scale);
  tenon_tensor_release((tenon_tensor_t *)(uintptr_t)detail.zero_point);
  tenon_executable_release(e);
}

static void check_text_runs(const char *text, const char *const *inputs,
                            const char *const *expected, int runs) {
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  CHECK_STATUS(tenon_graph_read(text, strlen(text), NULL, &graph), TENON_OK);
  if (graph) CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_OK);
  tenon_graph_release(graph);
  for (int i = 0; e && i < runs; i++) {
    tenon_tensor_t *in = tensor_of(inputs[i]);
    tenon_tensor_t *out = NULL;
    CHECK_STATUS(tenon_executable_run(e, &in, &out, NULL), TENON_OK);
    CHECK_TENSOR(out, expected[i]);
    tenon_tensor_release(in);
    tenon_tensor_release(out);
  }
  tenon_executable_release(e);
}

TEST(
    "numbers that inference reads from the items of a list are those of the run, not of the plan") {
  static const char *const inputs[] = {"i64[1] 1", "i64[1] 5", "i64[1] 1"};
  static const char *const joined[] = {"i64[2] 1 2", "i64[2] 5 2", "i64[2] 1 2"};
  static const char *const later[] = {"i64[2] 1 2", "i64[2] 3 2", "i64[2] 1 2"};
  check_text_runs("tenon graph 1\n"
                  "graph (n: i64[1]) {\n"
                  "  two = i64[1] [2]\n"
                  "  joined = core::concat([n, two], axis=0)\n"
                  "  return joined\n"
                  "}\n",
                  inputs, joined, 3);
  /* here an earlier stage of the run computes the number */
  check_text_runs("tenon graph 1\n"
                  "graph (n: i64[1]) {\n"
                  "  three = i64[1] [3]\n"
                  "  two = i64[1] [2]\n"
                  "  most = core::min(n, three)\n"
                  "  ones = core::expand(two, most)\n"
                  "  total = core::shape(ones)\n"
                  "  joined = core::concat([most, two], axis=0)\n"
                  "  sum = core::add(joined, total)\n"
                  "  result = core::sub(sum, total)\n"
                  "  return result\n"
                  "}\n",
                  inputs, later, 3);
}

TEST("nothing is left behind") { tenon_shutdown(); }
