/* Offloading: subgraphs of a graph that a device runs as one piece of work, and claims that are
 * handed back. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "claimer.h"

#include "device/stream.h"

/* valid claims */

TEST("an offloaded subgraph runs as one piece of work and gives the results of its nodes") {
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), start(), NULL);
  check_dump(
      e, "claims",
      "offload to sim:0: 1 subgraph with 4 of 4 nodes\n  subgraph 1 (core::matmul 'product', "
      "core::add "
      "'sum', core::relu 'positive', core::mul 'square'): 4 nodes: 4 operators of f32 in one");
  check_dump(e, "graph", "core::matmul(x, w, None)  # product, offloaded subgraph 1\n");
  for (int i = 1; i <= 3; i++) {
    CHECK_GRAPH(e, given, wanted);
    CHECK(runs == i && made == 1);
  }
  CHECK(stats_of(device_of("sim", 0)).live ==
        /* The subgraph owns its weights; there is no other copy of them. */
        0);
  tenon_executable_release(e);
  CHECK(freed == 1);
}

TEST("an offloaded subgraph gets memory and offset where the device's memory is handles") {
  tenon_shutdown();
  setenv("TENON_SIM", "handles=1", 1);
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), start(), NULL);
  CHECK_GRAPH(e, given, wanted);
  CHECK(runs == 1);
  tenon_executable_release(e);
  tenon_shutdown();
  unsetenv("TENON_SIM");
}

TEST("a node outside between two parts makes two subgraphs, and the nodes get an order that can "
     "run") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
  tenon_edge_t constant = graph_constant(b, "c", "f32[] 3");
  tenon_edge_t one = two(b, "one", "core::add", x, constant);
  tenon_edge_t outside = two(b, "outside", "core::exp", one, -1);
  tenon_edge_t middle = two(b, "middle", "core::mul", one, constant);
  tenon_edge_t log = two(b, "log", "core::log", outside, -1);
  tenon_edge_t three = two(b, "three", "core::add", log, middle);
  tenon_edge_t four = two(b, "four", "core::mul", three, one);
  graph_output(b, "y", four);
  tenon_executable_t *e = compiled(b, device, "");
  check_dump(e, "claims", "2 subgraphs with 4 of 6 nodes");
  check_dump(e, "claims", "declined by the device: 1 of core::exp: sim has no such operator\n");
  CHECK_GRAPH(e, TEXTS("f32[] 1"), TEXTS("f32[] 64")); /* (log(exp(4)) + 12) * 4 */
  CHECK(runs == 2);
  tenon_executable_release(e);
}

TEST("nodes of an offloaded subgraph are not fused with the nodes before and behind it") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_axis_t axes[2] = {{1, NULL}, {2, NULL}};
  tenon_edge_t x;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  tenon_edge_t w = graph_constant(b, "w", "f32[2, 2] 1 0 0 1");
  tenon_edge_t sum = two(b, "sum", "core::add", x, x);
  tenon_edge_t product = two(b, "product", "core::matmul", sum, w);
  tenon_edge_t tanh = two(b, "behind", "core::tanh", product, -1);
  graph_output(b, "y", two(b, "last", "core::mul", two(b, "next", "core::add", tanh, tanh), tanh));
  tenon_executable_t *e = compiled(b, device, NULL);
  check_dump(e, "claims", "2 subgraphs with 4 of 5 nodes");
  check_dump(e, "graph", "w, None)  # product, offloaded subgraph 1\n");
  CHECK_GRAPH(e, TEXTS("f32[1, 2] 0 0.5"), TEXTS("f32[1, 2] 0 1.16005136")); /* 2 tanh(1)^2 */
  tenon_executable_release(e);
  is_wrong = wrong_count = 1;
  wrong[0].count = 2;
  wrong[0].nodes[0] = 1;
  wrong[0].nodes[1] = 2;
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  check_dump(e, "graph", "core::matmul(x, w, None)  # product\n");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
}

TEST("a subgraph with symbolic extents gets outputs of the shapes that its nodes infer, also empty "
     "ones") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t sum = two(b, "sum", "core::add", x, x);
  graph_output(b, "y", two(b, "positive", "core::relu", sum, -1));
  is_wrong = is_own = wrong_count = 1;
  wrong[0].count = 2;
  wrong[0].nodes[0] = 1;
  wrong[0].nodes[1] = 0;
  tenon_executable_t *e = compiled(b, device, NULL);
  check_dump(e, "claims", "1 subgraph with 2 of 2 nodes");
  CHECK_GRAPH(e, TEXTS("f32[1, 2] 1 -2"), TEXTS("f32[1, 2] 2 0"));
  CHECK_GRAPH(e, TEXTS("f32[3, 1] 1 2 3"), TEXTS("f32[3, 1] 2 4 6"));
  CHECK_GRAPH(e, TEXTS("f32[0, 4]"), TEXTS("f32[0, 4]"));
  CHECK(runs == 3);
  tenon_executable_release(e);
  CHECK(freed == 1);
}

TEST("the inputs of an offloaded subgraph are made row-major") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_axis_t axes[2] = {{2, NULL}, {3, NULL}};
  tenon_edge_t x, out, turned;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  graph_node(b, "turn", "core::transpose", "perm=1,0", (tenon_edge_t[]){x}, &turned, 1);
  out = two(b, "positive", "core::relu", two(b, "sum", "core::add", turned, turned), -1);
  graph_output(b, "y", out);
  tenon_executable_t *e = compiled(b, device, NULL);
  check_dump(e, "claims", "1 subgraph with 2 of 3 nodes");
  CHECK_GRAPH(e, given, TEXTS("f32[3, 2] 2 8 4 10 6 12"));
  CHECK(runs == 1);
  tenon_executable_release(e);
}

TEST("an offloaded subgraph waits for other streams' work on its inputs, and a missing wait is "
     "found") {
  tenon_device_t device = start();
  tenon_stream_t *own, *other, *before;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK_STATUS(tenon_stream_create(device, &own), TENON_OK);
  CHECK_STATUS(tenon_stream_create(device, &other), TENON_OK);
  for (uint64_t skip = 0; skip < 2; skip++) {
    tenon_tensor_t *outputs[2] = {NULL};
    tenon_tensor_t *x;
    tenon_tensor_t *y = NULL;
    CHECK_STATUS(tenon_stream_use(device, other, &before), TENON_OK);
    x = tensor_there(device, "f32[2, 3] 0.5 1 1.5 2 2.5 3");
    CHECK_STATUS(tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &y, 0),
                 TENON_OK);
    CHECK_STATUS(tenon_stream_use(device, own, NULL), TENON_OK);
    tn_waits_skip(skip);
    tenon_status_t status = tenon_executable_run(e, (tenon_tensor_t *[]){y}, outputs, NULL);
    tn_waits_skip(0);
    CHECK(skip ? status == TENON_PRECONDITION : status == TENON_OK);
    if (skip) CHECK_TEXT(tenon_error(), "sim: race: group ");
    if (status == TENON_OK) CHECK_TENSOR(outputs[0], wanted[0]);
    CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
    tenon_tensor_release(outputs[0]);
    tenon_tensor_release(outputs[1]);
    tenon_tensor_release(x);
    tenon_tensor_release(y);
  }
  tenon_executable_release(e);
  tenon_stream_release(own);
  tenon_stream_release(other);
}

/* several devices */

/* Two chains, of three nodes and of two, with one node between them. */
static tenon_builder_t *two_chains(void) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
  tenon_edge_t c = graph_constant(b, "c", "f32[] 3");
  tenon_edge_t a =
      two(b, "a3", "core::add", two(b, "a2", "core::mul", two(b, "a1", "core::add", x, c), c), c);
  tenon_edge_t between = two(b, "between", "core::abs", a, -1);
  graph_output(b, "y", two(b, "b2", "core::mul", two(b, "b1", "core::add", between, c), c));
  return b;
}

static tenon_executable_t *spread(const char *claims, uint32_t pin_count, const tenon_pin_t *pins) {
  tenon_device_t both[2] = {device_of("sim", 0), device_of("sim", 1)};
  return graph_compile_with(two_chains(), (tenon_compile_t){.devices = both,
                                                            .device_count = 2,
                                                            .claims = claims,
                                                            .pin_count = pin_count,
                                                            .pins = pins});
}

TEST("several devices are asked in turn about the nodes that are left, and a node runs with its "
     "subgraph") {
  tenon_shutdown(); /* The shutdown also ends the stream that failed. */
  (void)start();
  tenon_executable_t *e = spread("groups=1", 0, NULL);
  check_dump(e, "claims",
             "offload to sim:0: 1 subgraph with 3 of 6 nodes\n  subgraph 1 (core::add 'a1', ");
  check_dump(e, "claims",
             "offload to sim:1: 1 subgraph with 2 of 6 nodes\n  subgraph 2 (core::add 'b1', "
             "core::mul 'b2')");
  check_dump(e, "placement", "core::mul  sim:0        offloaded");
  check_dump(e, "placement", "core::mul  sim:1        offloaded");
  CHECK_GRAPH(e, TEXTS("f32[] 1"), TEXTS("f32[] 54")); /* (4 3 + 3 + 3) 3 */
  CHECK(runs == 2 && made == 2);
  tenon_executable_release(e);
}

TEST("a node that is pinned to another device is not offloaded") {
  (void)start();
  tenon_pin_t pin = {"a3", device_of("sim", 1)};
  tenon_executable_t *e = spread("", 1, &pin);
  check_dump(e, "claims", "offload to sim:0: 2 subgraphs with 4 of 6 nodes");
  check_dump(e, "claims", "declined by the device: 1 of core::add: another device has taken it");
  check_dump(e, "placement", "core::add  sim:1        pinned by 'a3'");
  CHECK_GRAPH(e, TEXTS("f32[] 1"), TEXTS("f32[] 54"));
  tenon_executable_release(e);
  is_wrong = wrong_count = 1;
  wrong[0].count = 2;
  wrong[0].nodes[0] = 1;
  wrong[0].nodes[1] = 2;
  e = spread("", 1, &pin);
  check_dump(e, "claims", "node 'a3' (core::add): it is pinned to another device");
  CHECK_GRAPH(e, TEXTS("f32[] 1"), TEXTS("f32[] 54"));
  tenon_executable_release(e);
}

TEST("runs of offloaded subgraphs are captured") {
  tenon_compile_t options = {.device = start(), .flags = TENON_COMPILE_RECORD};
  tenon_executable_t *e = graph_compile_with(layers("f32[2] -30 -20"), options);
  for (int i = 0; i < 4; i++)
    CHECK_GRAPH(e, given, wanted);
  check_dump(e, "placement", "captured graphs: 1, replayed 4 times");
  CHECK(runs == 2); /* once before the capture, and once into the capture */
  tenon_executable_release(e);
}

/* settings */

TEST("offloading can be switched off, and a device that gets an unknown setting names it") {
  tenon_device_t device = start();
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, "off");
  check_dump(e, "claims", "offload to sim:0: switched off\n");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  e = compiled(layers("f32[2] -30 -20"), device, "groups=0");
  check_dump(e, "claims",
             "0 subgraphs with 0 of 4 nodes\n  declined by the device: 1 of core::matmul: its "
             "group is not among the largest groups");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  CHECK(runs == 0 && made == 0);
  tenon_builder_t *b = layers("f32[2] -30 -20");
  tenon_graph_t *graph = NULL;
  tenon_compile_t options = {.size = sizeof options, .device = device, .claims = "layers=2"};
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_INVALID);
  CHECK_TEXT(
      tenon_error(),
      "offload to device sim: sim: the setting 'layers=2' is unknown; the one setting is groups=N");
  options.size = offsetof(tenon_compile_t, claims); /* A caller that does not know this field. */
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_OK);
  check_dump(e, "claims", "1 subgraph with 4 of 4 nodes");
  tenon_executable_release(e);
  tenon_graph_release(graph);
  tenon_builder_release(b);
}

TEST("a device whose claim function fails offloads nothing, and the report gives the reason") {
  tenon_device_t device = start();
  claim_status = TENON_UNAVAILABLE;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  check_dump(e, "claims", "offload to sim:0: nothing is offloaded: the claimer has no time\n");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  e = compiled(layers("f32[2] -30 -20"), device_of("null", 0), NULL);
  check_dump(e, "claims", "offload to null:0: none: its plug-in has no claim function\n");
  tenon_executable_release(e);
}

/* claims that are handed back */

TEST("a subgraph that fails to compile is handed back, and its nodes are compiled as if never "
     "claimed") {
  tenon_device_t device = start();
  char *without = NULL;
  char *with = NULL;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, "off");
  CHECK_STATUS(tenon_executable_dump(e, "graph", &without), TENON_OK);
  /* The nodes are fused, as if nobody had claimed them. */
  CHECK_TEXT(without, "activation='relu'");
  tenon_executable_release(e);
  empty_cache();
  sim_set(device, "fail=group_compile:1");
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK_STATUS(tenon_executable_dump(e, "graph", &with), TENON_OK);
  CHECK(without && with && strcmp(without, with) == 0);
  check_dump(e, "claims",
             "0 subgraphs with 0 of 4 nodes\n  rejected: core::matmul 'product', core::add 'sum', "
             "core::relu 'positive', core::mul 'square': sim: this call of group_compile fails "
             "because a setting says so");
  check_dump(e, "claims", "    claimed by the device as: 4 operators of f32");
  CHECK_GRAPH(e, given, wanted);
  CHECK(runs == 0 && made == 1);
  tenon_executable_release(e);
  tenon_text_release(with);
  tenon_text_release(without);
}

/* A graph with all kinds of nodes; the constants are the positions of the nodes in graph order. */
enum {
  ADD,
  OUTSIDE,
  MUL,
  DRAW,
  NEXT,
  SHAPE,
  AS_SHAPE,
  FIND,
  WORDS,
};
static tenon_executable_t *kinds(tenon_device_t device) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t t = graph_input(b, "t", TENON_STRING, 1);
  tenon_edge_t out;
  tenon_edge_t add = two(b, "add", "core::add", x, x);
  tenon_edge_t outside = two(b, "outside", "core::exp", add, -1);
  graph_output(b, "y", two(b, "mul", "core::mul", add, outside));
  graph_node(b, "draw", "core::dropout", "ratio=0.5; training=True", (tenon_edge_t[]){add}, &out,
             1);
  graph_output(b, "drawn", two(b, "next", "core::mul", out, out));
  graph_output(b, "s", two(b, "shape", "core::shape", x, -1));
  tenon_edge_t extents;
  CHECK_STATUS(
      tenon_builder_input(b, "n", tenon_dtype(TENON_I64), 1, (tenon_axis_t[]){{2, NULL}}, &extents),
      TENON_OK);
  graph_output(b, "r", two(b, "as_shape", "core::reshape", add, extents));
  graph_output(b, "f", two(b, "find", "core::nonzero", x, -1));
  graph_output(b, "u", two(b, "words", "core::string_concat", t, t));
  tenon_executable_t *e = compiled(b, device, NULL);
  return e;
}

static void check_refused(tenon_device_t device, const char *why) {
  is_wrong = 1;
  tenon_executable_t *e = kinds(device);
  check_dump(e, "claims", why);
  tenon_tensor_t *outputs[8] = {NULL};
  CHECK_STATUS(graph_run(e, TEXTS("f32[2] 1 -1", "string[1] a", "i64[2] 2 1"), outputs), TENON_OK);
  if (outputs[0])
    CHECK_TENSOR(outputs[0], "f32[2] 14.7781122 -0.27067057"); /* 2 exp 2, -2 exp -2 */
  for (int i = 0; i < 8; i++)
    tenon_tensor_release(outputs[i]);
  tenon_executable_release(e);
}

#define CLAIM(group, ...)                                                                          \
  claims_of((group), sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                         \
            (const uint32_t[]){__VA_ARGS__})

TEST("claims that cannot become subgraphs are handed back, each with its reason, and the graph "
     "runs") {
  tenon_device_t device = start();
  is_own = 0;
  claims_of(0, 0, NULL);
  check_refused(device, "rejected: : it has no nodes");
  CLAIM(0, ADD, 99);
  check_refused(
      device,
      "rejected: core::add 'add' and 1 more: node 99 does not exist: the graph has 9 nodes");
  CLAIM(0, MUL, MUL);
  check_refused(device, "node 'mul' is listed twice");
  CLAIM(0, ADD, MUL);
  check_refused(
      device,
      "rejected: core::add 'add', core::mul 'mul': a path leaves the group through "
      "node 'outside' (core::exp) and returns to node 'mul' (core::mul), so neither can run first");
  CLAIM(0, DRAW, NEXT);
  check_refused(device, "node 'draw' (core::dropout): it draws random numbers");
  CLAIM(0, SHAPE);
  check_refused(device, "node 'shape' (core::shape): its result out is a host value");
  CLAIM(0, AS_SHAPE);
  check_refused(device, "node 'as_shape' (core::reshape): its input shape must be a host "
                        "value, and 'n' is not a constant");
  CLAIM(0, FIND);
  check_refused(
      device,
      "node 'find' (core::nonzero): the shape of its result is known only after it has run");
  CLAIM(0, WORDS);
  check_refused(device, "node 'words' (core::string_concat): value 't' is a tensor of strings, "
                        "which stay on the host");
  CHECK(made == 0);
}

TEST("of two claims of one node, or of two that would wait for each other, the first is accepted") {
  tenon_device_t device = start();
  for (int way = 0; way < 2; way++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
    tenon_edge_t z = graph_input(b, "z", TENON_F32, 0);
    tenon_edge_t a1 = two(b, "a1", "core::add", x, x);
    tenon_edge_t b1 = two(b, "b1", "core::mul", a1, a1);
    tenon_edge_t b2 = two(b, "b2", "core::add", z, z);
    tenon_edge_t a2 = two(b, "a2", "core::mul", b2, b2);
    graph_output(b, "y", two(b, "last", "core::sub", b1, a2));
    is_wrong = 1;
    CLAIM(0, 0, 3);
    if (way)
      CLAIM(1, 1, 2);
    else
      CLAIM(1, 3, 2);
    tenon_executable_t *e = compiled(b, device, NULL);
    check_dump(
        e, "claims",
        way ? "rejected: core::mul 'b1', core::add 'b2': a path leaves the group through "
              "node 'a2' (core::mul) and returns to node 'b1' (core::mul)"
            : "rejected: core::add 'b2', core::mul 'a2': node 'a2' is in subgraph 1 already");
    check_dump(e, "claims", "1 subgraph with 2 of 5 nodes");
    CHECK_GRAPH(e, TEXTS("f32[] 3", "f32[] 3"), TEXTS("f32[] 0"));
    tenon_executable_release(e);
  }
}

TEST("nothing is left behind") { end(); }
