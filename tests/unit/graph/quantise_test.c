/* Operators between dequantize_linear and quantize_linear are computed in integers where that gives
 * the same, and stay in floats where it would not. Expected numbers are worked out by hand; the
 * scales are powers of two, so that floats are exact as well. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

/* Two channels of two pixels; with the zero point 1 and the scale 0.5: 0 1 | 2 -0.5 */
#define X "u8[1,2,1,2] 1 3 5 0"
/* Two filters of 1 x 1, with the scale 0.25: 1 2 | -1 0.5. Results: 4 0 | 1 -1.25 */
#define W "i8[2,2,1,1] 4 8 -4 2"
#define ROOM 4096

typedef struct chain_t {
  const char *what;
  const char *w_scale;
  const char *bias;       /* NULL: none */
  const char *bias_scale; /* NULL: the bias is f32 */
  const char *activation; /* NULL: none */
  const char *attrs;
  const char *y_zero;
  const char *expected;
  bool is_integer;
  bool is_read; /* the floats of the convolution are an output as well */
} chain_t;

/* The results have the scale 0.5. */
static const chain_t chains[] = {
    {"alone", "f32[] 0.25", NULL, NULL, NULL, NULL, "u8[] 10", "u8[1,2,1,2] 18 10 12 8", true,
     false},
    {"signed", "f32[] 0.25", NULL, NULL, NULL, NULL, "i8[] -1", "i8[1,2,1,2] 7 -1 1 -3", true,
     false},
    {"scales of filters", "f32[2] 0.25 0.5", NULL, NULL, NULL, NULL, "u8[] 10",
     "u8[1,2,1,2] 18 10 14 5", true, false},
    {"bias", "f32[] 0.25", "i32[2] 8 -16", "f32[] 0.125", NULL, NULL, "u8[] 10",
     "u8[1,2,1,2] 20 12 8 4", true, false},
    {"bias of another scale", "f32[] 0.25", "i32[2] 4 -8", "f32[] 0.25", NULL, NULL, "u8[] 10",
     "u8[1,2,1,2] 20 12 8 4", false, false},
    {"bias in floats", "f32[] 0.25", "f32[2] 1 -2", NULL, NULL, NULL, "u8[] 10",
     "u8[1,2,1,2] 20 12 8 4", false, false},
    {"relu that saturation implies", "f32[] 0.25", NULL, NULL, "core::relu", NULL, "u8[] 0",
     "u8[1,2,1,2] 8 0 2 0", true, false},
    {"relu that changes results", "f32[] 0.25", NULL, NULL, "core::relu", NULL, "u8[] 10",
     "u8[1,2,1,2] 18 10 12 10", false, false},
    {"another activation", "f32[] 0.25", NULL, NULL, "core::neg", NULL, "u8[] 10",
     "u8[1,2,1,2] 2 10 8 12", false, false},
    {"floats that are read", "f32[] 0.25", NULL, NULL, NULL, NULL, "u8[] 10",
     "u8[1,2,1,2] 18 10 12 8", false, true},
};

/* Checks whether the graph, after it has run, consists of one node. */
static void check_plan(tenon_executable_t *e, bool is_one, const char *what) {
  char *plan = NULL;
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  bool is_found = plan && strstr(plan, "nodes 0 to 0,") != NULL;
  if (!CHECK(is_found == is_one)) fprintf(stderr, "  %s: %s\n", what, plan ? plan : "no plan");
  tenon_text_release(plan);
}

static tenon_edge_t dequantise(tenon_builder_t *b, tenon_edge_t x, tenon_edge_t scale,
                               tenon_edge_t zero, const char *attrs) {
  tenon_edge_t y;
  graph_node(b, NULL, "core::dequantize_linear", attrs, (tenon_edge_t[]){x, scale, zero}, &y, 1);
  return y;
}

static tenon_edge_t bias_of(tenon_builder_t *b, const chain_t *c) {
  if (!c->bias) return -1;
  tenon_edge_t bias = graph_constant(b, "bias", c->bias);
  if (!c->bias_scale) return bias;
  return dequantise(b, bias, graph_constant(b, "bias_scale", c->bias_scale), -1, "axis=0");
}

static void check_chain(const chain_t *c, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t scale = graph_constant(b, "scale", "f32[] 0.5");
  tenon_edge_t zero = graph_constant(b, "zero", "u8[] 1");
  bool has_vector = strncmp(c->w_scale, "f32[2]", 6) == 0;
  tenon_edge_t w_zero = graph_constant(b, "w_zero", has_vector ? "i8[2] 0 0" : "i8[] 0");
  tenon_edge_t x = dequantise(b, graph_input(b, "x", TENON_U8, 4), scale, zero, NULL);
  tenon_edge_t w = dequantise(b, graph_constant(b, "w", W),
                              graph_constant(b, "w_scale", c->w_scale), w_zero, "axis=0");
  tenon_edge_t y;
  tenon_edge_t floats;
  graph_node(b, NULL, "core::conv", NULL, (tenon_edge_t[]){x, w, bias_of(b, c), -1}, &floats, 1);
  y = floats;
  if (c->activation) graph_node(b, NULL, c->activation, c->attrs, (tenon_edge_t[]){floats}, &y, 1);
  tenon_edge_t y_zero = graph_constant(b, "y_zero", c->y_zero);
  graph_node(b, NULL, "core::quantize_linear", NULL, (tenon_edge_t[]){y, scale, y_zero}, &y, 1);
  graph_output(b, "y", y);
  if (c->is_read) graph_output(b, "floats", floats);
  tenon_executable_t *e = graph_compile(b, flags);
  if (c->is_read)
    CHECK_GRAPH(e, TEXTS(X), TEXTS(c->expected, "f32[1,2,1,2] 4 0 1 -1.25"));
  else
    CHECK_GRAPH(e, TEXTS(X), TEXTS(c->expected));
  check_plan(e, c->is_integer && !flags, c->what);
  tenon_executable_release(e);
}

TEST("convolutions between 8-bit numbers are computed in integers where results are the same") {
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN)
      check_chain(&chains[i], flags);
}

typedef struct matrices_t {
  const char *operator;
  const char *attrs;
  const char *w;
  const char *w_scale;
  const char *axis;
  const char *bias;
  const char *expected;
  bool is_integer;
} matrices_t;

/* x is 0 1 | 2 -0.5, and b, with the scale 0.25, 1 2 | -1 0.5: x b = -1 0.5 | 2.5 3.75 */
static const matrices_t matrices[] = {
    {"core::matmul", NULL, "i8[2,2] 4 8 -4 2", "f32[] 0.25", NULL, NULL, "u8[2,2] 8 11 15 18",
     true},
    {"core::gemm", NULL, "i8[2,2] 4 8 -4 2", "f32[] 0.25", NULL, "i32[2] 8 -16",
     "u8[2,2] 10 7 17 14", true},
    {"core::gemm", "trans_b=True", "i8[2,2] 4 -4 8 2", "f32[] 0.25", NULL, NULL,
     "u8[2,2] 8 11 15 18", true},
    {"core::gemm", "trans_b=True", "i8[2,2] 4 -4 4 1", "f32[2] 0.25 0.5", "axis=0", NULL,
     "u8[2,2] 8 11 15 18", true},
    {"core::matmul", NULL, "i8[2,2] 4 4 -4 1", "f32[2] 0.25 0.5", "axis=1", NULL,
     "u8[2,2] 8 11 15 18", true},
    {"core::matmul", NULL, "i8[2,2] 4 8 -2 1", "f32[2] 0.25 0.5", "axis=0", NULL,
     "u8[2,2] 8 11 15 18", false},
    {"core::gemm", "alpha=2.0", "i8[2,2] 2 4 -2 1", "f32[] 0.25", NULL, NULL, "u8[2,2] 8 11 15 18",
     false},
};

static void check_matrices(const matrices_t *c, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t scale = graph_constant(b, "scale", "f32[] 0.5");
  tenon_edge_t x = dequantise(b, graph_input(b, "x", TENON_U8, 2), scale,
                              graph_constant(b, "z", "u8[] 1"), NULL);
  tenon_edge_t w_zero = graph_constant(b, "w_zero", c->axis ? "i8[2] 0 0" : "i8[] 0");
  tenon_edge_t w = dequantise(b, graph_constant(b, "w", c->w),
                              graph_constant(b, "w_scale", c->w_scale), w_zero, c->axis);
  tenon_edge_t bias = -1;
  tenon_edge_t y;
  if (c->bias)
    bias = dequantise(b, graph_constant(b, "bias", c->bias),
                      graph_constant(b, "bias_scale", "f32[] 0.125"), -1, "axis=0");
  graph_node(b, NULL, c->operator, c->attrs, (tenon_edge_t[]){x, w, bias}, &y, 1);
  graph_node(b, NULL, "core::quantize_linear", NULL,
             (tenon_edge_t[]){y, scale, graph_constant(b, "y_zero", "u8[] 10")}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, flags);
  CHECK_GRAPH(e, TEXTS("u8[2,2] 1 3 5 0"), TEXTS(c->expected));
  check_plan(e, c->is_integer && !flags, c->w);
  tenon_executable_release(e);
}

TEST("products of 8-bit matrices are computed in integers where results are the same") {
  for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN)
      check_matrices(&matrices[i], flags);
}

static void check_move(const char *y_zero, const char *expected, bool is_moved, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t scale = graph_constant(b, "scale", "f32[] 0.5");
  tenon_edge_t zero = graph_constant(b, "zero", "u8[] 1");
  tenon_edge_t x = dequantise(b, graph_input(b, "x", TENON_U8, 4), scale, zero, NULL);
  tenon_edge_t y;
  graph_node(b, NULL, "core::transpose", "perm=[0, 3, 2, 1]", &x, &y, 1);
  graph_node(b, NULL, "core::quantize_linear", NULL,
             (tenon_edge_t[]){y, scale, graph_constant(b, "y_zero", y_zero)}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, flags);
  CHECK_GRAPH(e, TEXTS(X), TEXTS(expected));
  check_plan(e, is_moved && !flags, "transpose");
  tenon_executable_release(e);
}

TEST("8-bit numbers are moved as they are if they have the same scale and zero point afterwards") {
  check_move("u8[] 1", "u8[1,2,1,2] 1 5 3 0", true, 0);
  check_move("u8[] 1", "u8[1,2,1,2] 1 5 3 0", true, TENON_COMPILE_PLAIN);
  check_move("u8[] 2", "u8[1,2,1,2] 2 6 4 1", false, 0);
}

/* The floats of x are 0 1 | 2 -0.5; those of the other operand have the scale 0.25 and the zero
 * point 2. The sum has the scale 0.5. */
typedef struct addition_t {
  const char *what;
  const char *other;
  const char *y_zero;
  const char *expected;
  bool is_integer;
  bool is_known; /* the extents of x are */
} addition_t;

static const addition_t additions[] = {
    /* 0.5 -0.5 | 1.25 10: the sums are 0.5 0.5 | 3.25 9.5, of which 6.5 becomes 6 */
    {"one shape", "u8[1,2,1,2] 4 0 7 42", "u8[] 10", "u8[1,2,1,2] 11 11 16 29", true, true},
    {"extents that are not known", "u8[1,2,1,2] 4 0 7 42", "u8[] 10", "u8[1,2,1,2] 11 11 16 29",
     false, false},
    {"a shape that broadcasts", "u8[1,1,1,2] 4 0", "u8[] 10", "u8[1,2,1,2] 11 11 15 8", false,
     true},
    {"another dtype", "u8[1,2,1,2] 4 0 7 42", "i8[] -10", "i8[1,2,1,2] -9 -9 -4 9", false, true},
};

static void check_addition(const addition_t *c, bool has_relu, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t scale = graph_constant(b, "scale", "f32[] 0.5");
  tenon_edge_t input = -1;
  if (c->is_known)
    CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_U8), 4,
                                     (tenon_axis_t[]){{1, NULL}, {2, NULL}, {1, NULL}, {2, NULL}},
                                     &input),
                 TENON_OK);
  else
    input = graph_input(b, "x", TENON_U8, 4);
  tenon_edge_t x = dequantise(b, input, scale, graph_constant(b, "zero", "u8[] 1"), NULL);
  tenon_edge_t other =
      dequantise(b, graph_constant(b, "other", c->other), graph_constant(b, "s", "f32[] 0.25"),
                 graph_constant(b, "z", "u8[] 2"), NULL);
  tenon_edge_t y;
  graph_node(b, NULL, "core::add", NULL, (tenon_edge_t[]){x, other}, &y, 1);
  if (has_relu) graph_node(b, NULL, "core::relu", NULL, (tenon_edge_t[]){y}, &y, 1);
  graph_node(b, NULL, "core::quantize_linear", NULL,
             (tenon_edge_t[]){y, scale, graph_constant(b, "y_zero", c->y_zero)}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, flags);
  CHECK_GRAPH(e, TEXTS(X), TEXTS(c->expected));
  check_plan(e, c->is_integer && !flags, c->what);
  tenon_executable_release(e);
}

TEST("sums of 8-bit numbers of one shape are computed at once") {
  static const addition_t clamped = {"relu that saturation implies",
                                     "u8[1,2,1,2] 0 0 2 0",
                                     "u8[] 0",
                                     "u8[1,2,1,2] 0 1 4 0",
                                     true,
                                     true};
  for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN) {
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++)
      check_addition(&additions[i], false, flags);
    check_addition(&clamped, true, flags);
  }
}

/* x of u8 with the scale 0.5 and the zero point 1 is 0 1 | 2 -0.5. Nodes between it and the result,
 * which has the scale 0.25 and the zero point 10: */
typedef struct table_t {
  const char *what;
  const char *names[3]; /* operators, one after another; those with two operands have `other` */
  const char *other;    /* NULL: the floats of x */
  const char *expected;
  bool is_table;
} table_t;

static const table_t tables[] = {
    {"one node", {"core::neg"}, NULL, "u8[1,2,1,2] 10 6 2 12", true},
    {"two nodes and a number",
     {"core::abs", "core::mul"},
     "f32[] 2",
     "u8[1,2,1,2] 10 18 26 14",
     true},
    {"x twice", {"core::neg", "core::mul"}, NULL, "u8[1,2,1,2] 10 6 0 9", true},
    {"another scale", {NULL}, NULL, "u8[1,2,1,2] 10 14 18 8", true},
    {"a constant for each element", {"core::add"}, "f32[2] 1 2", "u8[1,2,1,2] 14 22 22 16", false},
    {"a node that joins elements", {"core::softmax"}, NULL, "u8[1,2,1,2] 11 13 14 10", false},
};

static void check_table(const table_t *c, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t scale = graph_constant(b, "scale", "f32[] 0.5");
  tenon_edge_t zero = graph_constant(b, "zero", "u8[] 1");
  tenon_edge_t x = dequantise(b, graph_input(b, "x", TENON_U8, 4), scale, zero, NULL);
  tenon_edge_t y = x;
  for (int i = 0; i < 3 && c->names[i]; i++) {
    bool is_binary = !strcmp(c->names[i], "core::add") || !strcmp(c->names[i], "core::mul");
    tenon_edge_t other = x;
    if (is_binary && c->other) other = graph_constant(b, "other", c->other);
    graph_node(b, NULL, c->names[i], NULL, (tenon_edge_t[]){y, is_binary ? other : -1}, &y, 1);
  }
  tenon_edge_t y_scale = graph_constant(b, "y_scale", "f32[] 0.25");
  tenon_edge_t y_zero = graph_constant(b, "y_zero", "u8[] 10");
  graph_node(b, NULL, "core::quantize_linear", NULL, (tenon_edge_t[]){y, y_scale, y_zero}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, flags);
  CHECK_GRAPH(e, TEXTS(X), TEXTS(c->expected));
  check_plan(e, c->is_table && !flags, c->what);
  tenon_executable_release(e);
}

TEST("pointwise operators between 8-bit numbers become a table if all else is one number") {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN)
      check_table(&tables[i], flags);
}

/* gelu as quantisers write it: each node has 8-bit numbers before and after it. */
TEST("tables of one tensor are joined to one table") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t scale = graph_constant(b, "scale", "f32[] 0.5");
  tenon_edge_t zero = graph_constant(b, "zero", "i8[] -1");
  tenon_edge_t input = graph_input(b, "x", TENON_I8, 1);
  tenon_edge_t x = dequantise(b, input, scale, zero, NULL);
  tenon_edge_t y;
  graph_node(b, NULL, "core::neg", NULL, &x, &y, 1);
  graph_node(b, NULL, "core::quantize_linear", NULL, (tenon_edge_t[]){y, scale, zero}, &y, 1);
  y = dequantise(b, y, scale, zero, NULL);
  graph_node(b, NULL, "core::mul", NULL, (tenon_edge_t[]){y, x}, &y, 1);
  graph_node(b, NULL, "core::quantize_linear", NULL, (tenon_edge_t[]){y, scale, zero}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  /* x: 0 0.5 -1 64 -63.5; the negation of -63.5 is 63.5, and that of 64 is -64, within i8 */
  CHECK_GRAPH(e, TEXTS("i8[5] -1 0 -3 127 -128"), TEXTS("i8[5] -1 -1 -3 -128 -128"));
  check_plan(e, true, "joined tables");
  tenon_executable_release(e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
