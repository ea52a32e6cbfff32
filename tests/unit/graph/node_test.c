/* What nodes of a graph keep and use within a run and between runs: states, prepared weights,
 * random numbers, subgraphs and profile spans. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::census", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

/* states, weights, numbers */

enum {
  OPENED,
  CREATED,
  DESTROYED,
  PREPARED,
  RELEASED,
};

static int64_t census(int what) {
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of("contract::census"), NULL, NULL, out, 0), TENON_OK);
  int64_t count = out[0] ? ((int64_t *)out[0]->data)[what] : -1;
  tenon_tensor_release(out[0]);
  return count;
}

TEST("each node has a state of its own, from compilation to release") {
  start();
  int64_t created = census(CREATED);
  int64_t destroyed = census(DESTROYED);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  graph_output(b, "a", graph_step(b, "contract::counter", NULL, x));
  graph_output(b, "b", graph_step(b, "contract::counter", "start=10", x));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK(census(CREATED) - created == 2);
  CHECK_GRAPH(e, TEXTS("f32[1] 0"), TEXTS("f32[1] 0", "f32[1] 10"));
  CHECK_GRAPH(e, TEXTS("f32[2] 0 1"), TEXTS("f32[2] 1 2", "f32[2] 11 12"));
  CHECK_GRAPH(e, TEXTS("f32[1] 0"), TEXTS("f32[1] 2", "f32[1] 12"));
  CHECK(census(CREATED) - created == 2 && census(DESTROYED) == destroyed);
  tenon_executable_release(e);
  CHECK(census(DESTROYED) - destroyed == 2);
}

TEST("a state that cannot be created fails the compilation, and the message names the node") {
  start();
  int64_t created = census(CREATED);
  int64_t destroyed = census(DESTROYED);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y;
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  graph_output(b, "a", graph_step(b, "contract::counter", NULL, x));
  graph_node(b, "bad", "contract::counter", "start=-1", (tenon_edge_t[]){x}, &y, 1);
  graph_output(b, "b", y);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "node 'bad' (contract::counter): contract::counter: start -1 is negative");
  CHECK(e == NULL && census(CREATED) - created == census(DESTROYED) - destroyed);
  tenon_builder_release(b);
  tenon_graph_release(graph);
}

TEST("infer finds the state while a graph is compiled and while it runs") {
  start();
  tenon_builder_t *b = graph_begin();
  graph_output(b, "y",
               graph_step(b, "contract::padded", "to=4", graph_input(b, "x", TENON_F32, 1)));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[1] 5"), TEXTS("f32[4] 5 0 0 0"));
  CHECK_GRAPH(e, TEXTS("f32[2] 5 6"), TEXTS("f32[4] 5 6 0 0"));
  tenon_executable_release(e);
}

TEST("a constant weight is prepared once, another weight is not, and what was prepared is "
     "released") {
  start();
  int64_t prepared = census(PREPARED);
  int64_t released = census(RELEASED);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t w = graph_constant(b, "w", "f32[2,3] 1 2 3 4 5 6");
  tenon_edge_t v = graph_input(b, "v", TENON_F32, 2);
  tenon_edge_t first[2], second[2];
  graph_node(b, NULL, "contract::matvec", NULL, (tenon_edge_t[]){w, x}, first, 2);
  graph_node(b, NULL, "contract::matvec", NULL, (tenon_edge_t[]){v, x}, second, 2);
  for (int i = 0; i < 2; i++) {
    graph_output(b, i ? "is_prepared" : "y", first[i]);
    graph_output(b, i ? "is_prepared2" : "y2", second[i]);
  }
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK(census(PREPARED) - prepared == 2 && census(RELEASED) == released);
  for (int i = 0; i < 2; i++)
    CHECK_GRAPH(e, TEXTS("f32[3] 1 10 100", "f32[1,3] 7 8 9"),
                TEXTS("f32[2] 321 654", "f32[1] 987", "bool[] 1", "bool[] 0"));
  CHECK(census(PREPARED) - prepared == 2);
  tenon_executable_release(e);
  CHECK(census(RELEASED) - released == 1); /* Only the constant weight had a plan. */
  tenon_tensor_t *out[2] = {NULL};
  CHECK_STATUS(call_op("contract::matvec", NULL, TEXTS("f32[1,1] 2", "f32[1] 3"), out), TENON_OK);
  CHECK_TENSOR(out[0], "f32[1] 6");
  CHECK_TENSOR(out[1], "bool[] 0");
  tenon_tensor_release(out[0]);
  tenon_tensor_release(out[1]);
}

TEST("random nodes draw different numbers in each run, and the same numbers from the same seed") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t two_results[2];
  graph_output(b, "a", graph_step(b, "contract::noise", NULL, x));
  graph_output(b, "b", graph_step(b, "contract::noise", NULL, x));
  graph_node(b, NULL, "contract::dropped_twice", NULL, (tenon_edge_t[]){x}, two_results, 2);
  graph_output(b, "c", two_results[0]);
  graph_output(b, "d", two_results[1]);
  tenon_executable_t *e = graph_compile(b, 0);
  int64_t n = 1000;
  tenon_tensor_t *in = NULL;
  tenon_tensor_t *out[3][4] = {{NULL}};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &n, &in), TENON_OK);
  for (int64_t i = 0; i < n; i++)
    ((float *)in->data)[i] = 1;
  /* Runs 0 and 1 follow the seed, and run 2 follows the same seed again. */
  for (int run = 0; run < 3; run++) {
    if (run != 1) tenon_random_seed(77);
    CHECK_STATUS(tenon_executable_run(e, &in, out[run], NULL), TENON_OK);
  }
  for (int i = 0; i < 4; i++) {
    CHECK(!tensor_equal(out[0][i], out[1][i], 0));
    CHECK(tensor_equal(out[0][i], out[2][i], 0));
  }
  CHECK(!tensor_equal(out[0][0], out[0][1], 0) && !tensor_equal(out[0][2], out[0][3], 0));
  for (uint64_t i = 0; i < 2000; i += 2)
    CHECK(((uint64_t *)out[0][0]->data)[i / 2] ==
          ((uint64_t)tenon_random(77, i) << 32 | tenon_random(77, i + 1)));
  for (int run = 0; run < 3; run++)
    for (int i = 0; i < 4; i++)
      tenon_tensor_release(out[run][i]);
  tenon_tensor_release(in);
  tenon_executable_release(e);
}

typedef struct turn_t {
  tenon_executable_t *e;
  int mistakes;
} turn_t;

static void take_turns(void *pointer) {
  turn_t *turn = pointer;
  for (int i = 0; i < 500; i++) {
    tenon_tensor_t *out[1] = {NULL};
    turn->mistakes += tenon_executable_run(turn->e, NULL, out, NULL) != TENON_OK;
    tenon_tensor_release(out[0]);
  }
}

TEST("a serial node never runs twice at once") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t y;
  graph_node(b, NULL, "contract::turns", NULL, NULL, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  turn_t turns[2] = {{e, 0}, {e, 0}};
  tn_spawned_t threads[2];
  for (int k = 0; k < 2; k++)
    CHECK(tn_spawn(&threads[k], take_turns, &turns[k]));
  for (int k = 0; k < 2; k++)
    tn_join(&threads[k]);
  CHECK(turns[0].mistakes == 0 && turns[1].mistakes == 0);
  CHECK_GRAPH(e, TEXTS(NULL), TEXTS("i64[] 1001"));
  tenon_executable_release(e);
}

/* subgraphs */

static tenon_graph_t *body(const char *step, const char *attrs) {
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  graph_output(b, "y", graph_step(b, step, attrs, graph_input(b, "x", TENON_F32, 1)));
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

TEST("a kernel evaluates a graph that is an attribute, in a call and in a graph") {
  start();
  const tenon_op_t *op = op_of("contract::apply");
  tenon_graph_t *inner = body("contract::halve", NULL);
  tenon_attrs_t *attrs = attrs_of(op, "times=3");
  tenon_value_t value = {TENON_KIND_GRAPH, 0, {.graph = inner}};
  CHECK_STATUS(tenon_attrs_set(attrs, "body", &value), TENON_OK);
  tenon_graph_release(inner);
  tenon_tensor_t *in = tensor_of("f32[2] 8 16");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &in, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "f32[2] 1 2");
  tenon_tensor_release(in);
  tenon_tensor_release(out);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y;
  CHECK_STATUS(
      tenon_builder_node(b, NULL, op, attr_values(attrs), &(tenon_operand_t){1, &x}, &y, 1),
      TENON_OK);
  tenon_attrs_release(attrs);
  graph_output(b, "y", graph_step(b, "contract::plus_one", NULL, y));
  tenon_executable_t *e = graph_compile(b, 0);
  for (int i = 0; i < 2; i++) {
    CHECK_GRAPH(e, TEXTS("f32[1] 8"), TEXTS("f32[1] 2"));
    CHECK_GRAPH(e, TEXTS("f32[3] 8 16 24"), TEXTS("f32[3] 2 3 4"));
  }
  tenon_executable_release(e);
}

TEST("a graph attribute is refused if its inputs are not those that the kernel passes") {
  start();
  const tenon_op_t *op = op_of("contract::apply");
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *inner = NULL;
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  graph_input(b, "y", TENON_F32, 1);
  graph_output(b, "x", x);
  CHECK_STATUS(tenon_builder_finish(b, &inner), TENON_OK);
  tenon_builder_release(b);
  tenon_attrs_t *attrs = attrs_of(op, "");
  tenon_value_t value = {TENON_KIND_GRAPH, 0, {.graph = inner}};
  CHECK_STATUS(tenon_attrs_set(attrs, "body", &value), TENON_OK);
  tenon_graph_release(inner);
  tenon_tensor_t *in = tensor_of("f32[1] 1");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &in, &out, 0), TENON_INVALID);
  CHECK_TEXT(
      tenon_error(),
      "contract::apply: its subgraph has 2 inputs and 1 outputs, found 1 inputs and 1 outputs");
  tenon_attrs_release(attrs);
  tenon_tensor_release(in);
}

TEST("a failure inside nested graphs names the path to the node") {
  start();
  const tenon_op_t *op = op_of("contract::apply");
  tenon_graph_t *inner = body("contract::refuse", "above=5.0");
  tenon_attrs_t *attrs = attrs_of(op, "");
  tenon_value_t value = {TENON_KIND_GRAPH, 0, {.graph = inner}};
  CHECK_STATUS(tenon_attrs_set(attrs, "body", &value), TENON_OK);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y;
  CHECK_STATUS(
      tenon_builder_node(b, "outer", op, attr_values(attrs), &(tenon_operand_t){1, &x}, &y, 1),
      TENON_OK);
  tenon_attrs_release(attrs);
  tenon_graph_release(inner);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  check_run_refused(e, TEXTS("f32[1] 8"), TENON_RANGE, "node 'outer' (contract::apply): ");
  CHECK_TEXT(tenon_error(), "(contract::refuse): contract::refuse: element 0 is 8");
  CHECK_GRAPH(e, TEXTS("f32[1] 4"), TEXTS("f32[1] 4"));
  tenon_executable_release(e);
}

/* profiles */

static void check_span(const tenon_profile_t *p, int32_t i, int32_t depth, const char *name,
                       const char *kind) {
  tenon_span_t s = {.size = sizeof s};
  CHECK_STATUS(tenon_profile_span(p, i, &s), TENON_OK);
  if (!CHECK(s.depth == depth && strcmp(s.name, name) == 0 && strcmp(s.kind, kind) == 0))
    fprintf(stderr, "  span %d: depth %d, '%s' '%s'\n", (int)i, (int)s.depth, s.name, s.kind);
  CHECK(s.end >= s.begin && s.begin > 0);
}

TEST("a profile contains the nodes, and inside them the sections that kernels opened, also after a "
     "failure") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t n = graph_input(b, "n", TENON_I64, 1);
  tenon_edge_t y, z;
  graph_node(b, "first", "contract::deep", NULL, (tenon_edge_t[]){x}, &y, 1);
  graph_node(b, "second", "contract::tally", NULL, (tenon_edge_t[]){n}, &z, 1);
  graph_output(b, "y", y);
  graph_output(b, "z", z);
  tenon_executable_t *e = graph_compile(b, 0);
  tenon_profile_t *p = NULL;
  CHECK_STATUS(tenon_profile_create(&p), TENON_OK);
  tenon_threads_set(1);
  tenon_tensor_t *in[2] = {tensor_of("f32[1] 1"), tensor_of("i64[2] 1 2")};
  tenon_tensor_t *bad[2] = {tensor_of("f32[1] 9"), in[1]};
  for (int32_t round = 0; round < 2; round++) {
    tenon_tensor_t *out[2] = {NULL};
    int32_t base = tenon_profile_count(p);
    CHECK_STATUS(tenon_executable_run(e, in, out, p), TENON_OK);
    static const struct {
      int32_t depth;
      const char *name;
      const char *kind;
    } expected[] = {
        {0, "first", "contract::deep"},   {1, "before", ""}, {2, "within", ""}, {1, "part", ""},
        {0, "second", "contract::tally"}, {1, "tally", ""},  {2, "part", ""}};
    CHECK(tenon_profile_count(p) - base == 7);
    for (int32_t i = 0; i < 7; i++)
      check_span(p, base + i, expected[i].depth, expected[i].name, expected[i].kind);
    tenon_tensor_release(out[0]);
    tenon_tensor_release(out[1]);
    out[0] = out[1] = NULL;
    CHECK_STATUS(tenon_executable_run(e, bad, out, p),
                 TENON_RANGE); /* The failing kernel leaves a span open. */
    check_span(p, base + 7, 0, "first", "contract::deep");
    check_span(p, base + 10, 1, "part", "");
  }
  tenon_threads_set(0);
  char path[] = TEST_LIBRARIES "/profile.json";
  char line[256] = "";
  CHECK_STATUS(tenon_profile_write(p, path), TENON_OK);
  FILE *file = fopen(path, "r");
  CHECK(file && fgets(line, sizeof line, file));
  CHECK_TEXT(line, "traceEvents");
  if (file) fclose(file);
  CHECK_STATUS(tenon_profile_write(p, "/nowhere/profile.json"), TENON_NOT_FOUND);
  tenon_span_t s = {.size = sizeof s};
  CHECK_STATUS(tenon_profile_span(p, 1000, &s), TENON_RANGE);
  tenon_profile_release(p);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(in[i]);
  tenon_tensor_release(bad[0]);
  tenon_executable_release(e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
