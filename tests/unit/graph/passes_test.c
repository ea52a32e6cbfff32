/* Passes and partitioners of a library: how they change graphs, and how their errors are
 * handled. */
#define TENON_STATIC /* the library below is linked in */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "failing.h"

#include "passes_library.h"

static void start(void) {
  static bool done;
  if (!done)
    done = CHECK_STATUS(tenon_library_add(tenon_library_surgery(), NULL, NULL, NULL), TENON_OK);
}

/* graphs and how they are changed */

static tenon_graph_t *finish(tenon_builder_t *b) {
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

/* log(exp(a + b)): nodes 0, 1, 2. */
static tenon_graph_t *chain(void) {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t in[2] = {graph_input(b, "a", TENON_F32, 1), graph_input(b, "b", TENON_F32, 1)};
  tenon_edge_t sum;
  graph_node(b, "sum", "core::add", NULL, in, &sum, 1);
  graph_output(b, "y", graph_step(b, "core::log", NULL, graph_step(b, "core::exp", NULL, sum)));
  return finish(b);
}

/* y = exp(x) + neg(exp(x)), z = abs(y): exp 0, neg 1, add 2, abs 3. */
static tenon_graph_t *diamond(void) {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t in[2], sum;
  in[0] = graph_step(b, "core::exp", NULL, graph_input(b, "x", TENON_F32, 1));
  in[1] = graph_step(b, "core::neg", NULL, in[0]);
  graph_node(b, NULL, "core::add", NULL, in, &sum, 1);
  graph_output(b, "y", sum);
  graph_output(b, "z", graph_step(b, "core::abs", NULL, sum));
  return finish(b);
}

/* "key=value key=value" */
static tenon_status_t apply(const tenon_graph_t *graph, const char *name, const char *words,
                            tenon_graph_t **out) {
  char text[256];
  tenon_option_t options[8];
  int32_t count = 0;
  snprintf(text, sizeof text, "%s", words);
  for (char *at = strtok(text, " "); at; at = strtok(NULL, " ")) {
    char *equals = strchr(at, '=');
    *equals = 0;
    options[count++] = (tenon_option_t){at, equals + 1};
  }
  *out = NULL;
  return tenon_graph_apply(graph, name, options, count, out);
}

static tenon_graph_t *applied(tenon_graph_t *graph, const char *name, const char *words) {
  tenon_graph_t *out;
  CHECK_STATUS(apply(graph, name, words, &out), TENON_OK);
  tenon_graph_release(graph);
  return out;
}

static void refused(tenon_graph_t *graph, const char *name, const char *words,
                    tenon_status_t status, const char *part) {
  tenon_graph_t *out;
  char *before = NULL;
  char *after = NULL;
  CHECK_STATUS(tenon_graph_dump(graph, &before), TENON_OK);
  CHECK_STATUS(apply(graph, name, words, &out), status);
  CHECK_TEXT(tenon_error(), part);
  CHECK(out == NULL);
  CHECK_STATUS(tenon_graph_dump(graph, &after), TENON_OK);
  CHECK(before && after && strcmp(before, after) == 0);
  tenon_text_release(before);
  tenon_text_release(after);
  tenon_graph_release(graph);
}

/* Returns the operators of the nodes in order, with those of subgraphs in brackets: "core::add
 * [core::exp core::log]". */
static void list_ops(const tenon_graph_t *graph, char *out, size_t capacity) {
  for (int32_t n = 0; n < tenon_graph_node_count(graph); n++) {
    tenon_graph_part_t node = {.size = sizeof node};
    CHECK_STATUS(tenon_graph_node(graph, n, &node), TENON_OK);
    size_t used = strlen(out);
    const char *name = op_info(node.op).name;
    bool is_cut = strcmp(name, "surgery::fused") == 0;
    snprintf(out + used, capacity - used, "%s%s", n ? " " : "", is_cut ? "[" : name);
    if (!is_cut) continue;
    list_ops(node.attrs[0].as.graph, out, capacity);
    used = strlen(out);
    snprintf(out + used, capacity - used, "]");
  }
}

static void check_ops(const tenon_graph_t *graph, const char *expected) {
  char found[512] = "";
  list_ops(graph, found, sizeof found);
  CHECK_TEXT(found, expected);
  CHECK(strlen(found) == strlen(expected));
}

static void check_run(tenon_graph_t *graph, const char *const *inputs,
                      const char *const *expected) {
  tenon_executable_t *e = NULL;
  if (graph) CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_OK);
  tenon_graph_release(graph);
  if (e) CHECK_GRAPH(e, inputs, expected);
  tenon_executable_release(e);
}

#define TWO TEXTS("f32[2] 1 2", "f32[2] 3 4")
#define SUM TEXTS("f32[2] 4 6")

/* passes */

TEST("a pass replaces some nodes by others, and the nodes that it copies stay as they are") {
  tenon_graph_t *graph = applied(chain(), "surgery::replace", "from=core::log to=core::neg");
  check_ops(graph, "core::add core::exp core::neg");
  check_run(graph, TEXTS("f32[1] 0", "f32[1] 0"), TEXTS("f32[1] -1"));
}

TEST("a pass adds a parameter") {
  check_run(applied(chain(), "surgery::scale", "by=0.5"), TWO, TEXTS("f32[2] 2 3"));
}

TEST("a pass may return the graph that it was given") {
  tenon_graph_t *graph = chain();
  tenon_graph_t *same;
  CHECK_STATUS(apply(graph, "surgery::keep", "", &same), TENON_OK);
  CHECK(same == graph);
  tenon_graph_release(same);
  tenon_graph_release(graph);
}

TEST("the error of a pass is reported with the pass's name, and changes nothing") {
  refused(chain(), "surgery::replace", "from=core::log", TENON_INVALID,
          "surgery::replace: expected the options from and to");
  refused(chain(), "surgery::replace", "from=core::log to=core::nothing", TENON_NOT_FOUND,
          "core::nothing");
  refused(chain(), "surgery::nothing", "", TENON_INTERNAL,
          "surgery::nothing: its run function returned TENON_OK, but no graph");
}

TEST("unknown names and options without sense are errors, and the message lists the known names") {
  refused(chain(), "surgery::none", "", TENON_NOT_FOUND, "surgery::replace, surgery::scale");
  refused(chain(), "surgery::keep", "a=1 a=2", TENON_INVALID, "option 'a' is given twice");
}

TEST("passes and partitioners are listed with their library and strategies") {
  start();
  tenon_pass_info_t info = {.size = sizeof info};
  int32_t i = 0;
  int32_t found = 0;
  for (; tenon_pass_info(i, &info) == TENON_OK; i++) {
    if (strcmp(info.name, "surgery::keep") == 0)
      found += info.strategy_count == -1 && strcmp(info.doc, "Does nothing.") == 0;
    if (strcmp(info.name, "surgery::both") == 0)
      found +=
          info.strategy_count == 2 && strcmp(info.strategies[1], "second: surgery::fused") == 0;
  }
  CHECK(found == 2);
  CHECK_STATUS(tenon_pass_info(i, &info), TENON_RANGE);
}

/* partitioners */

TEST("supported nodes become one node, with the same symbols and results as before") {
  tenon_graph_t *graph = applied(chain(), "surgery::by_number", "ids=-2,-1,-1");
  check_ops(graph, "core::add [core::exp core::log]");
  tenon_port_t port = {.size = sizeof port};
  CHECK_STATUS(tenon_graph_output(graph, 0, &port), TENON_OK);
  CHECK(strcmp(port.name, "y") == 0 && port.ndim == 1 && tenon_dtype_id(port.dtype) == TENON_F32);
  check_run(graph, TWO, SUM);
}

TEST("one graph with subgraphs takes inputs of any extent") {
  tenon_executable_t *e = NULL;
  tenon_graph_t *graph = applied(chain(), "surgery::by_number", "ids=-1,-1,-1");
  check_ops(graph, "[core::add core::exp core::log]");
  CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_OK);
  CHECK_GRAPH(e, TWO, SUM);
  CHECK_GRAPH(e, TEXTS("f32[3] 1 2 3", "f32[3] 0 0 0"), TEXTS("f32[3] 1 2 3"));
  CHECK_GRAPH(e, TWO, SUM);
  tenon_executable_release(e);
  tenon_graph_release(graph);
}

TEST("different numbers keep subgraphs apart, and nodes with -1 join any subgraph") {
  tenon_graph_t *graph = applied(chain(), "surgery::by_number", "ids=0,0,1");
  check_ops(graph, "[core::add core::exp] [core::log]");
  check_run(graph, TWO, SUM);
  graph = applied(chain(), "surgery::by_number", "ids=3,-1,3");
  check_ops(graph, "[core::add core::exp core::log]");
  check_run(graph, TWO, SUM);
}

TEST("a subgraph that a path leaves and enters again is cut in two") {
  tenon_graph_t *graph = applied(diamond(), "surgery::by_number", "ids=-1,-2,-1,-1");
  check_ops(graph, "[core::exp] core::neg [core::add core::abs]");
  check_run(graph, TEXTS("f32[2] 0 1"), TEXTS("f32[2] 0 0", "f32[2] 0 0"));
}

TEST("a value with several readers is one output of its subgraph, and all results are outputs") {
  tenon_graph_t *graph = applied(diamond(), "surgery::by_number", "ids=-1,-1,-1,-1");
  tenon_graph_t *inner;
  check_ops(graph, "[core::exp core::neg core::add core::abs]");
  tenon_graph_part_t node = {.size = sizeof node};
  CHECK_STATUS(tenon_graph_node(graph, 0, &node), TENON_OK);
  inner = (tenon_graph_t *)(uintptr_t)node.attrs[0].as.graph;
  CHECK(tenon_graph_input_count(inner) == 1 && tenon_graph_output_count(inner) == 2 &&
        node.output_count == 2);
  check_run(graph, TEXTS("f32[2] 0 1"), TEXTS("f32[2] 0 0", "f32[2] 0 0"));
}

TEST("a selector chooses where subgraphs start, extends them over inputs and readers, and filters "
     "them") {
  tenon_graph_t *graph = applied(chain(), "surgery::by_name", "ops=core::exp,core::log");
  check_ops(graph, "core::add [core::exp core::log]");
  check_run(graph, TWO, SUM);
  graph = applied(chain(), "surgery::by_name", "ops=core::exp,core::log,core::add most=2");
  check_ops(graph,
            /* A node that is filtered out may start a subgraph of its own. */
            "[core::add core::exp] [core::log]");
  check_run(graph, TWO, SUM);
  graph = applied(diamond(), "surgery::by_name", "ops=core::exp,core::add");
  check_ops(graph, "[core::exp] core::neg [core::add] core::abs");
  check_run(graph, TEXTS("f32[2] 0 1"), TEXTS("f32[2] 0 0", "f32[2] 0 0"));
}

TEST("a review sees the parameters of a subgraph, sets attributes, and can reject it") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t in[2] = {graph_input(b, "x", TENON_F32, 1), graph_constant(b, "w", "f32[1] 3")};
  tenon_edge_t sum;
  start();
  graph_node(b, NULL, "core::add", NULL, in, &sum, 1);
  graph_output(b, "y", graph_step(b, "core::exp", NULL, graph_step(b, "core::neg", NULL, sum)));
  tenon_graph_t *graph = finish(b);
  tenon_graph_t *cut = NULL;
  CHECK_STATUS(apply(graph, "surgery::by_number", "ids=0,-2,1 reject=1 note=hello", &cut),
               TENON_OK);
  check_ops(cut, "[core::add] core::neg core::exp");
  tenon_graph_part_t node = {.size = sizeof node};
  CHECK_STATUS(tenon_graph_node(cut, 0, &node), TENON_OK);
  CHECK_TEXT(node.attrs[2].as.s, "hello 0 w=3");
  CHECK(strcmp(node.name, "fused0") == 0);
  tenon_graph_release(cut);
  refused(
      graph, "surgery::by_number", "ids=0,-2,1 unknown=1", TENON_NOT_FOUND,
      "surgery::by_number: strategy only: subgraph 0: surgery::fused has no attribute 'unknown'");
}

TEST("strategies run one after the other, each on the result of the one before") {
  tenon_graph_t *graph = applied(chain(), "surgery::both", "");
  check_ops(graph, "[core::add] [core::exp] core::log");
  check_run(graph, TWO, SUM);
}

TEST("subgraphs may have subgraphs") {
  tenon_graph_t *graph = applied(chain(), "surgery::by_number", "ids=-2,-1,-1");
  graph = applied(graph, "surgery::by_number", "ids=-1,-1");
  check_ops(graph, "[core::add [core::exp core::log]]");
  check_run(graph, TWO, SUM);
}

TEST("a shape that a node reads moves into the subgraph as a constant, and a parameter becomes an "
     "input") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t in[2] = {graph_input(b, "x", TENON_F32, 1),
                        graph_constant(b, "shape", "i64[2] 2 2")};
  tenon_edge_t y;
  graph_node(b, NULL, "core::reshape", NULL, in, &y, 1);
  in[0] = y;
  in[1] = graph_constant(b, "w", "f32[2] 1 2");
  graph_node(b, NULL, "core::add", NULL, in, &y, 1);
  graph_output(b, "y", y);
  tenon_graph_t *graph = applied(finish(b), "surgery::by_number", "ids=-1,-1");
  check_ops(graph, "[core::reshape core::add]");
  tenon_graph_part_t node = {.size = sizeof node};
  CHECK_STATUS(tenon_graph_node(graph, 0, &node), TENON_OK);
  CHECK(node.operands[0].count == 2);
  tenon_port_t port = {.size = sizeof port};
  CHECK_STATUS(tenon_graph_output(graph, 0, &port), TENON_OK);
  CHECK(port.ndim == 2 && port.axes[1].extent == 2);
  check_run(graph, TEXTS("f32[4] 1 2 3 4"), TEXTS("f32[2, 2] 2 4 4 6"));
}

TEST("a graph with subgraphs is written and read back") {
  tenon_graph_t *graph = applied(chain(), "surgery::by_number", "ids=-2,-1,-1 note=kept");
  tenon_graph_t *back = NULL;
  char path[] = "/tmp/tenon-passes-XXXXXX.onnx";
  CHECK(close(mkstemps(path, (int)strlen(".onnx"))) == 0);
  CHECK_STATUS(tenon_graph_save(graph, path), TENON_OK);
  tenon_graph_release(graph);
  CHECK_STATUS(tenon_graph_load(path, NULL, &back), TENON_OK);
  remove(path);
  if (back) check_ops(back, "core::add [core::exp core::log]");
  check_run(back, TWO, SUM);
}

/* errors of libraries */

TEST("a wrong answer of a strategy is an error, and nothing is changed") {
  refused(chain(), "surgery::by_number", "ids=-3,-1,-1", TENON_INVALID,
          "node 'sum' has subgraph number -3");
  refused(chain(), "surgery::by_number", "ids=-1,-1,-1 fail=ids", TENON_ABORTED,
          "strategy only: as asked");
  refused(chain(), "surgery::by_number", "ids=-1,-1,-1 fail=review", TENON_ABORTED,
          "subgraph 0: as asked");
  refused(chain(), "surgery::by_name", "ops=core::exp fail=begin", TENON_ABORTED,
          "strategy only: as asked");
  refused(chain(), "surgery::by_name", "ops=core::exp fail=select", TENON_ABORTED,
          "strategy only: as asked");
  refused(chain(), "surgery::by_name", "ops=core::exp,core::log fail=filter_other", TENON_INVALID,
          "its filter returned node 0, which was not selected");
  refused(chain(), "surgery::by_name", "ops=core::exp,core::log fail=filter_more", TENON_INVALID,
          "its filter returned 7 nodes, expected at most the 2 that were selected");
  refused(chain(), "surgery::by_name", "ops=core::add,core::exp,core::log fail=filter_hole",
          TENON_INVALID, "but a path through it returns to node");
  refused(chain(), "surgery::no_operator", "", TENON_NOT_FOUND, "surgery::missing");
  refused(chain(), "surgery::no_body", "", TENON_INVALID, "surgery::plain has no BODY");
}

static void refused_library(const tenon_item_t *items, const char *part) {
  const tenon_descriptor_t library = {sizeof library, TENON_ABI, TENON_LAYOUT, 0,
                                      "wrong",        "1",       items};
  tenon_pass_info_t info = {.size = sizeof info};
  CHECK_STATUS(tenon_library_add(&library, NULL, NULL, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), part);
  for (int32_t i = 0; tenon_pass_info(i, &info) == TENON_OK; i++)
    CHECK(strncmp(info.name, "wrong::", 7) != 0);
}
#define WRONG(part, ...) refused_library((const tenon_item_t[]){__VA_ARGS__, {0}}, part)

TEST("a library whose passes or partitioners are incomplete is refused as a whole") {
  tenon_pass_t pass = surgery_keep;
  tenon_strategy_t strategy = surgery_only;
  const tenon_strategy_t *strategies[] = {&strategy, NULL};
  tenon_partitioner_t partitioner = {sizeof partitioner, TENON_GRAPH_ABI, "p", NULL, strategies};
  WRONG("pass or partitioner keep is stated twice", TENON_PASS(&pass), TENON_PASS(&surgery_keep));
  WRONG("the table of a pass is NULL", TENON_PASS(NULL));
  pass.run = NULL;
  WRONG("pass keep has no function", TENON_PASS(&surgery_keep), TENON_PASS(&pass));
  pass.name = "a b";
  WRONG("pass 'a b': expected letters", TENON_PASS(&pass));
  pass.abi = 9u << 16;
  WRONG("of contract 9, this host has 1", TENON_PASS(&pass));
  strategy.select = surgery_strategy.select;
  WRONG("expected either supported or select", TENON_PARTITIONER(&partitioner));
  strategy.supported = NULL;
  strategy.select_input = NULL;
  WRONG("with select go select_input and select_output", TENON_PARTITIONER(&partitioner));
  strategies[0] = NULL;
  WRONG("partitioner p has no strategies", TENON_PARTITIONER(&partitioner));
  WRONG("BODY 'graph': expected the name of an attribute of kind graph",
        TENON_OP("f(Tensor[] inputs, *, int count) -> Tensor[count]",
                 TENON_TYPES("inputs, out = ?"), TENON_BODY("graph"),
                 TENON_KERNEL("cpu", surgery_fused)));
  WRONG("expected a schema such as",
        TENON_OP("f(Tensor x, *, graph g) -> Tensor", TENON_TYPES("x, out = ?"), TENON_BODY("g"),
                 TENON_KERNEL("cpu", surgery_fused)));
}

/* failing allocations */

static tenon_status_t cut(void *context) {
  tenon_graph_t *made = NULL;
  tenon_executable_t *e = NULL;
  tenon_status_t status = apply(context, "surgery::by_number", "ids=-2,-1,-1 note=n", &made);
  if (status == TENON_OK) status = tenon_executable_create(made, NULL, &e);
  tenon_executable_release(e);
  tenon_graph_release(made);
  return status;
}

static tenon_status_t pass(void *context) {
  tenon_graph_t *made = NULL;
  tenon_status_t status = apply(context, "surgery::replace", "from=core::log to=core::neg", &made);
  tenon_graph_release(made);
  return status;
}

TEST("changing a graph survives the failure of each allocation") {
  tenon_graph_t *graph = chain();
  fail_each("a pass", pass, graph, 1);
  fail_each("a partitioner", cut, graph, 1);
  tenon_graph_release(graph);
}
