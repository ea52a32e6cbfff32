/* The builder: nodes that it refuses and that it stays usable afterwards, ports, names, and graphs
 * as text. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "failing.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::census", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

static tenon_status_t add(tenon_builder_t *b, const char *name, const char *attrs_text,
                          const tenon_operand_t *operands, int32_t output_count) {
  const tenon_op_t *op = op_of(name);
  tenon_edge_t outputs[8];
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_status_t status =
      tenon_builder_node(b, "n", op, attr_values(attrs), operands, outputs, output_count);
  tenon_attrs_release(attrs);
  return status;
}

TEST("a node that does not fit its operator is refused by name, and the builder stays usable") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t pair[2] = {x, x};
  tenon_edge_t wrong = 99;
  CHECK_STATUS(add(b, "contract::both", NULL, (tenon_operand_t[]){{1, &x}, {0, NULL}}, 1),
               TENON_INVALID);
  CHECK_TEXT(
      tenon_error(),
      "node 'n' (contract::both): the required input b is missing; the schema is both(Tensor a, "
      "Tensor b)");
  CHECK_STATUS(add(b, "contract::both", NULL, (tenon_operand_t[]){{1, &x}, {2, pair}}, 1),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "input b takes one tensor, found 2");
  CHECK_STATUS(add(b, "contract::both", NULL, (tenon_operand_t[]){{1, &x}, {1, &wrong}}, 1),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "input b is not a value of this graph");
  CHECK_STATUS(add(b, "contract::both", NULL, (tenon_operand_t[]){{1, &x}, {1, &x}}, 3),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the operator has 2 results, found 3");
  CHECK_STATUS(add(b, "contract::split", NULL, (tenon_operand_t[]){{1, &x}}, 2), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "node 'n': ");
  CHECK_TEXT(tenon_error(), "'n'");
  CHECK_STATUS(add(b, "contract::split", "n=2", (tenon_operand_t[]){{1, &x}}, 3), TENON_INVALID);
  CHECK_STATUS(tenon_builder_output(b, "y", 99), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "output 'y' is not a value of this graph");
  CHECK_STATUS(tenon_builder_output(b, "y", -1), TENON_INVALID);
  CHECK_STATUS(tenon_builder_output(b, "y", graph_step(b, "contract::halve", NULL, x)), TENON_OK);
  CHECK_STATUS(tenon_builder_output(b, "y", x), TENON_EXISTS);
  CHECK_TEXT(tenon_error(), "two outputs named 'y'");
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[1] 4"), TEXTS("f32[1] 2"));
  tenon_executable_release(e);
}

TEST("impossible inputs and constants are refused") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t e = -1;
  tenon_axis_t axes[TENON_RANK_MAX + 1] = {{1, NULL}};
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), TENON_RANK_MAX + 1, axes, &e),
               TENON_INVALID);
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), -2, axes, &e), TENON_INVALID);
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, axes, &e), TENON_OK);
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, axes, &e), TENON_EXISTS);
  CHECK_TEXT(tenon_error(), "two values named 'x'");
  CHECK_STATUS(tenon_builder_constant(b, "c", NULL, &e), TENON_INVALID);
  float value = 1;
  tenon_tensor_t view;
  tenon_tensor_t *one = tensor_of("f32[1] 1");
  CHECK_STATUS(tenon_tensor_view(&view, &value, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL),
               TENON_OK);
  CHECK_STATUS(tenon_builder_constant(b, "c", &view, &e),
               TENON_INVALID); /* The tensor may not outlive the call. */
  CHECK_TEXT(tenon_error(),
             "constant 'c': expected a tensor created by Tenon, found a tensor of another owner");
  CHECK_STATUS(tenon_builder_constant(b, "x", one, &e), TENON_EXISTS);
  tenon_tensor_release(one);
  tenon_builder_release(b);
  tenon_builder_release(NULL);
}

TEST("shapes and types that contradict each other are found when the graph is finished, and the "
     "builder stays usable") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_axis_t two = {2, NULL};
  tenon_axis_t three = {3, NULL};
  tenon_edge_t x, y, in[2], out;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, &two, &x), TENON_OK);
  CHECK_STATUS(tenon_builder_input(b, "y", tenon_dtype(TENON_F32), 1, &three, &y), TENON_OK);
  in[0] = x;
  in[1] = y;
  graph_node(b, "sum", "contract::both", NULL, in, &out, 1);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "node 'sum' (contract::both): ");
  CHECK(graph == NULL);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_INVALID);
  tenon_builder_release(b);
  b = graph_begin();
  graph_node(b, "half", "contract::halve", NULL,
             (tenon_edge_t[]){graph_input(b, "x", TENON_I32, 1)}, &out, 1);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "input 'x': expected f16|f32|f64, found i32");
  tenon_builder_release(b);
}

TEST("a builder that checks refuses a node at once, and reports what is known of values") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_axis_t n = {-1, "n"};
  tenon_axis_t three = {3, NULL};
  tenon_edge_t x, y, in[2], out;
  tenon_edge_t half = -1;
  tenon_port_t port = {.size = sizeof port};
  tenon_operand_t operands[2] = {{1, &in[0]}, {1, &in[1]}};
  tenon_builder_check(b, 1);
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, &n, &x), TENON_OK);
  CHECK_STATUS(tenon_builder_input(b, "y", tenon_dtype(TENON_I32), 1, &three, &y), TENON_OK);
  in[0] = x;
  in[1] = y;
  CHECK_STATUS(tenon_builder_node(b, "sum", op_of("contract::both"), NULL, operands, &out, 1),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "node 'sum' (contract::both): ");
  CHECK_STATUS(tenon_builder_node(b, "half", op_of("contract::halve"), NULL, operands, &half, 1),
               TENON_OK);
  CHECK(half == 2); /* The refused node left nothing behind. */
  CHECK_STATUS(tenon_builder_value(b, half, &port), TENON_OK);
  CHECK(tenon_dtype_id(port.dtype) == TENON_F32 && port.ndim == 1 && port.axes[0].extent == -1);
  CHECK_TEXT(port.axes[0].name, "n");
  CHECK_STATUS(tenon_builder_value(b, 3, &port), TENON_RANGE);
  CHECK_STATUS(tenon_builder_output(b, "z", half), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_graph_part_t node = {.size = sizeof node};
  tenon_graph_edge_t edge = {.size = sizeof edge};
  char *type = NULL;
  CHECK(tenon_graph_node_count(graph) == 1);
  CHECK_STATUS(tenon_graph_node(graph, 0, &node), TENON_OK);
  CHECK(strcmp(node.name, "half") == 0 && node.op == op_of("contract::halve") &&
        node.output_count == 1);
  CHECK(node.operands[0].count == 1 && node.operands[0].edges[0] == x && node.outputs[0] == half);
  CHECK_STATUS(tenon_graph_edge(graph, half, &edge, &type), TENON_OK);
  CHECK(edge.node == 0 && edge.input == -1 && !edge.constant && type &&
        strcmp(type, "f32[n]") == 0);
  CHECK_STATUS(tenon_graph_edge(graph, y, &edge, NULL), TENON_OK);
  CHECK(edge.node == -1 && edge.input == 1 && strcmp(edge.name, "y") == 0);
  CHECK_STATUS(tenon_graph_node(graph, 1, &node), TENON_RANGE);
  CHECK_STATUS(tenon_graph_edge(graph, -1, &edge, NULL), TENON_RANGE);
  tenon_text_release(type);
  tenon_builder_release(b);
  tenon_graph_release(graph);
}

TEST("the dtypes of results are known before their shapes") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x;
  tenon_edge_t y = -1;
  tenon_port_t port = {.size = sizeof port};
  tenon_operand_t operand = {1, &x};
  tenon_builder_check(b, 1);
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F64), -1, NULL, &x), TENON_OK);
  CHECK_STATUS(tenon_builder_node(b, "y", op_of("core::exp"), NULL, &operand, &y, 1), TENON_OK);
  CHECK_STATUS(tenon_builder_value(b, y, &port), TENON_OK);
  CHECK(tenon_dtype_id(port.dtype) == TENON_F64 && port.ndim == -1);
  operand.edges = &y;
  CHECK_STATUS(tenon_builder_node(b, "n", op_of("core::shape"), NULL, &operand, &y, 1), TENON_OK);
  CHECK_STATUS(tenon_builder_value(b, y, &port), TENON_OK);
  CHECK(tenon_dtype_id(port.dtype) == TENON_I64);
  tenon_builder_release(b);
}

TEST("a message that a bridge sets is this thread's last message") {
  char text[] = "node 'x': 100% wrong";
  CHECK_STATUS(tenon_error_set(TENON_UNIMPLEMENTED, text), TENON_UNIMPLEMENTED);
  text[0] = 'N';
  CHECK(strcmp(tenon_error(), "node 'x': 100% wrong") == 0);
}

static tenon_status_t try_refused(void *context) {
  tenon_builder_t *b = NULL;
  tenon_axis_t axes[2] = {{-1, "n"}, {4, NULL}};
  tenon_edge_t x, in[2], out;
  tenon_port_t port = {.size = sizeof port};
  tenon_operand_t operands[2] = {{1, &in[0]}, {1, &in[1]}};
  tenon_operand_t one = {1, &x};
  tenon_status_t status = tenon_builder_create(&b);
  if (status == TENON_OK) tenon_builder_check(b, 1);
  if (status == TENON_OK) status = tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x);
  if (status == TENON_OK)
    status = tenon_builder_input(b, "any", (tenon_dtype_t){0, 0, 0}, -1, NULL, &in[0]);
  if (status == TENON_OK)
    status = tenon_builder_node(b, "kept", op_of("contract::halve"), NULL, &one, &in[0], 1);
  if (status == TENON_OK) status = tenon_builder_constant(b, "c", context, &in[1]);
  if (status == TENON_OK) {
    status = tenon_builder_node(b, "refused", op_of("contract::both"), NULL, operands, &out, 1);
    CHECK(status == TENON_INVALID || status == TENON_MEMORY);
    if (status == TENON_INVALID) CHECK_TEXT(tenon_error(), "node 'refused' (contract::both): ");
    status = status == TENON_INVALID ? tenon_builder_value(b, in[0], &port) : status;
    CHECK(status != TENON_OK ||
          (port.ndim == 2 && strcmp(port.axes[0].name, "n") == 0 && port.axes[1].extent == 4));
  }
  tenon_builder_release(b);
  return status;
}

TEST("when memory runs out, a refused node leaves the builder unchanged, or the builder reports "
     "it") {
  start();
  tenon_tensor_t *c = tensor_of("i32[3] 1 2 3");
  fail_each("a node that is refused", try_refused, c, 1);
  tenon_tensor_release(c);
}

TEST("ports show what the builder was told and what inference found") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_axis_t axes[2] = {{-1, "batch"}, {4, NULL}};
  tenon_edge_t x;
  tenon_edge_t w = graph_input(b, "w", TENON_F32, -1);
  tenon_edge_t y;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  graph_node(b, NULL, "contract::project", "units=3", (tenon_edge_t[]){x, w}, &y, 1);
  CHECK_STATUS(tenon_builder_output(b, "y", y), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK(tenon_graph_input_count(graph) == 2 && tenon_graph_output_count(graph) == 1);
  tenon_port_t port = {.size = sizeof port};
  CHECK_STATUS(tenon_graph_input(graph, 1, &port), TENON_OK);
  CHECK(strcmp(port.name, "x") == 0 && port.ndim == 2 && tenon_dtype_id(port.dtype) == TENON_F32 &&
        port.edge == x);
  CHECK(port.axes[0].extent == -1 && strcmp(port.axes[0].name, "batch") == 0 &&
        port.axes[1].extent == 4);
  CHECK_STATUS(tenon_graph_input(graph, 0, &port), TENON_OK);
  CHECK(port.ndim == 2 && port.axes[0].extent == 3 && port.axes[1].extent == 4); /* inferred */
  CHECK_STATUS(tenon_graph_output(graph, 0, &port), TENON_OK);
  CHECK(strcmp(port.name, "y") == 0 && port.edge == y && port.ndim == 2 &&
        port.axes[1].extent == 3 && strcmp(port.axes[0].name, "batch") == 0);
  CHECK_STATUS(tenon_graph_input(graph, 2, &port), TENON_RANGE);
  CHECK_STATUS(tenon_graph_output(graph, -1, &port), TENON_RANGE);
  tenon_builder_release(b);
  tenon_graph_release(graph);
}

TEST("a graph is printed as text, with names, shapes and attributes") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_axis_t axes[1] = {{-1, "n"}};
  tenon_edge_t x, y;
  char *text = NULL;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, axes, &x), TENON_OK);
  graph_node(b, "limit", "contract::clamp", "high=5.0", (tenon_edge_t[]){x}, &y, 1);
  CHECK_STATUS(tenon_builder_output(b, "y", y), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK_STATUS(tenon_graph_dump(graph, &text), TENON_OK);
  CHECK_TEXT(text, "graph(x: f32[n]) {\n");
  CHECK_TEXT(text, "f32[n] = contract::clamp(x, high=5.0)  # limit\n");
  CHECK_TEXT(text, "return y=");
  tenon_text_release(text);
  text = NULL;
  tenon_executable_t *e = NULL;
  CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_OK);
  CHECK(tenon_executable_graph(e) == graph);
  CHECK_STATUS(tenon_executable_dump(e, "plan", &text), TENON_OK);
  CHECK_TEXT(text, "no memory plan: run the executable first");
  tenon_text_release(text);
  text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, "weather", &text), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "expected graph, shapes, rewrites, gradients, offload (or claims), "
                            "placement, plan, or a picture: graph.dot");
  tenon_graph_release(graph);
  tenon_builder_release(b);
  tenon_executable_retain(e);
  tenon_executable_release(e);
  CHECK_GRAPH(e, TEXTS("f32[2] 9 -9"), TEXTS("f32[2] 5 0"));
  tenon_executable_release(e);
  tenon_executable_release(NULL);
}

TEST("unused pure nodes do not run, other unused nodes do, and pure nodes on constants are "
     "computed once") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t unused, state;
  /* The node is pure and unused, so its failure is not noticed. */
  unused = graph_step(b, "contract::refuse", "above=0.0", x);
  (void)unused;
  graph_node(b, NULL, "contract::turns", NULL, NULL, &state, 1);
  tenon_edge_t c = graph_step(b, "contract::halve", NULL, graph_constant(b, "c", "f32[2] 2 4"));
  tenon_edge_t in[2] = {x, c};
  tenon_edge_t y;
  graph_node(b, NULL, "contract::both", NULL, in, &y, 1);
  CHECK_STATUS(tenon_builder_output(b, "y", y), TENON_OK);
  tenon_executable_t *e = graph_compile(b, 0);
  char *text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, "graph", &text), TENON_OK);
  CHECK(!strstr(text, "contract::refuse") && !strstr(text, "contract::halve") &&
        strstr(text, "contract::turns"));
  tenon_text_release(text);
  CHECK_GRAPH(e, TEXTS("f32[2] 1 1"), TEXTS("f32[2] 2 3"));
  tenon_executable_release(e);
}

/* Whether a constant row of 400 kB that is repeated stays a node. */
static bool stays_expanded(const char *shape) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t inputs[] = {graph_constant(b, "row", "f32[1,100000] ~1"),
                           graph_constant(b, "shape", shape)};
  tenon_edge_t rows;
  char *graph = NULL;
  graph_node(b, NULL, "core::expand", NULL, inputs, &rows, 1);
  graph_output(b, "rows", rows);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_STATUS(tenon_executable_dump(e, "graph", &graph), TENON_OK);
  const bool stays = graph && strstr(graph, "core::expand");
  tenon_text_release(graph);
  tenon_executable_release(e);
  return stays;
}

TEST("constants are folded unless the result is large and more than four times their size") {
  CHECK(!stays_expanded("i64[2] 4 1"));
  CHECK(stays_expanded("i64[2] 5 1"));
}

TEST("a failure during constant folding names the node") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  tenon_edge_t y;
  graph_node(b, "bad", "contract::refuse", "above=1.0",
             (tenon_edge_t[]){graph_constant(b, "c", "f32[1] 2")}, &y, 1);
  CHECK_STATUS(tenon_builder_output(b, "y", y), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_RANGE);
  CHECK_TEXT(tenon_error(), "node 'bad' (contract::refuse): contract::refuse: element 0 is 2");
  CHECK(e == NULL);
  tenon_builder_release(b);
  tenon_graph_release(graph);
}

TEST("nothing is left behind") { tenon_shutdown(); }
