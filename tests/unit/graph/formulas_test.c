/* Formulas that programs write out become one node: the plan has a single node, and the results
 * stay. Similar formulas that compute something else stay as they are. Expected numbers were
 * computed by Python's math module. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

typedef struct formula_t formula_t;
struct formula_t {
  const char *name;
  tenon_edge_t (*build)(tenon_builder_t *b, tenon_edge_t x, const formula_t *formula);
  bool is_one; /* whether it becomes one node */
  const char *input;
  const char *expected;
  const char *axes;    /* of reductions */
  const char *factor;  /* layer_norm: divides the sums; gelu: stands for 1 / 2 */
  const char *largest; /* softmax: beside the largest element; NULL: nothing */
};

static tenon_edge_t node_of(tenon_builder_t *b, const char *op, tenon_edge_t x, tenon_edge_t y) {
  tenon_edge_t out = -1;
  const char *attrs = strstr(op, "reduce") ? "keepdims=False" : NULL;
  graph_node(b, NULL, op, attrs, (tenon_edge_t[]){x, y}, &out, 1);
  return out;
}

static tenon_edge_t constant_of(tenon_builder_t *b, const char *value) {
  return graph_constant(b, NULL, value);
}

/* Reduces x and gives it back its axes, with extent 1. */
static tenon_edge_t reduce(tenon_builder_t *b, const char *op, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t axes = constant_of(b, f->axes);
  return node_of(b, "core::unsqueeze", node_of(b, op, x, axes), axes);
}

static tenon_edge_t build_softmax(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t largest = reduce(b, "core::reduce_max", x, f);
  if (f->largest) largest = node_of(b, "core::max", constant_of(b, f->largest), largest);
  tenon_edge_t powers = node_of(b, "core::exp", node_of(b, "core::sub", x, largest), -1);
  return node_of(b, "core::div", powers, reduce(b, "core::reduce_sum", powers, f));
}

static tenon_edge_t mean_of(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  return node_of(b, "core::div", reduce(b, "core::reduce_sum", x, f), constant_of(b, f->factor));
}

static tenon_edge_t deviation_of(tenon_builder_t *b, tenon_edge_t centred, const formula_t *f) {
  tenon_edge_t variance = mean_of(b, node_of(b, "core::mul", centred, centred), f);
  tenon_edge_t sum = node_of(b, "core::add", variance, constant_of(b, "f32[] 0.5625"));
  return node_of(b, "core::rsqrt", sum, -1);
}

static tenon_edge_t build_layer_norm(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t centred = node_of(b, "core::sub", x, mean_of(b, x, f));
  tenon_edge_t y = node_of(b, "core::mul", centred, deviation_of(b, centred, f));
  y = node_of(b, "core::mul", y, constant_of(b, "f32[1,4] 2 2 2 4"));
  return node_of(b, "core::add", constant_of(b, "f32[4] 1 1 1 0"), y);
}

/* Scales the reciprocal of the deviation first, as Flax does. */
static tenon_edge_t build_scaled_first(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t centred = node_of(b, "core::sub", x, mean_of(b, x, f));
  tenon_edge_t scale = constant_of(b, "f32[4] 2 2 2 4");
  tenon_edge_t factor = node_of(b, "core::mul", deviation_of(b, centred, f), scale);
  tenon_edge_t y = node_of(b, "core::mul", centred, factor);
  return node_of(b, "core::add", y, constant_of(b, "f32[4] 1 1 1 0"));
}

/* Multiplies x and the negative mean by the scaled deviation, as Keras does. */
static tenon_edge_t build_shifted(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t mean = mean_of(b, x, f);
  tenon_edge_t deviation = deviation_of(b, node_of(b, "core::sub", x, mean), f);
  tenon_edge_t factor = node_of(b, "core::mul", deviation, constant_of(b, "f32[1,4] 2 2 2 4"));
  tenon_edge_t shift = node_of(b, "core::mul", node_of(b, "core::neg", mean, -1), factor);
  shift = node_of(b, "core::add", shift, constant_of(b, "f32[1,4] 1 1 1 0"));
  return node_of(b, "core::add", node_of(b, "core::mul", x, factor), shift);
}

/* The same with another number in place of the mean in the shift. */
static tenon_edge_t build_misplaced(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t mean = mean_of(b, x, f);
  tenon_edge_t factor = deviation_of(b, node_of(b, "core::sub", x, mean), f);
  tenon_edge_t other = node_of(b, "core::neg", node_of(b, "core::add", mean, mean), -1);
  tenon_edge_t shift = node_of(b, "core::mul", other, factor);
  return node_of(b, "core::add", node_of(b, "core::mul", x, factor), shift);
}

static tenon_edge_t gate_of(tenon_builder_t *b, tenon_edge_t x) {
  tenon_edge_t out = -1;
  tenon_edge_t sum = node_of(b, "core::add", x, constant_of(b, "f32[] 3"));
  tenon_edge_t limits[] = {sum, constant_of(b, "f32[] 0"), constant_of(b, "f32[] 6")};
  graph_node(b, NULL, "core::clip", NULL, limits, &out, 1);
  return out;
}

static tenon_edge_t build_hard_swish(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t sixth = node_of(b, "core::div", gate_of(b, x), constant_of(b, f->factor));
  return node_of(b, "core::mul", x, sixth);
}

static tenon_edge_t build_hard_swish_last(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t product = node_of(b, "core::mul", gate_of(b, x), x);
  return node_of(b, "core::mul", product, constant_of(b, f->factor));
}

static tenon_edge_t build_gelu(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t half = node_of(b, "core::mul", constant_of(b, f->factor), x);
  tenon_edge_t root = constant_of(b, "f32[] 0.70710678");
  tenon_edge_t scaled = node_of(b, "core::mul", node_of(b, "core::neg", x, -1), root);
  return node_of(b, "core::mul", half, node_of(b, "core::erfc", scaled, -1));
}

/* Divides `factor` by 1 + exp(-x). */
static tenon_edge_t build_sigmoid(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  tenon_edge_t powers = node_of(b, "core::exp", node_of(b, "core::neg", x, -1), -1);
  tenon_edge_t sum = node_of(b, "core::add", constant_of(b, "f32[] 1"), powers);
  return node_of(b, "core::div", constant_of(b, f->factor), sum);
}

static tenon_edge_t build_silu(tenon_builder_t *b, tenon_edge_t x, const formula_t *f) {
  return node_of(b, "core::mul", x, build_sigmoid(b, x, f));
}

#define ROWS "f32[2,4] 0 0 0 0 0 0.69314718 0 0"
#define BY_ROWS "f32[2,4] 0.25 0.25 0.25 0.25 0.2 0.4 0.2 0.2"
#define BY_COLUMNS "f32[2,4] 0.5 0.33333333 0.5 0.5 0.5 0.66666667 0.5 0.5"
#define NINTHS                                                                                     \
  "f32[2,4] 0.11111111 0.11111111 0.11111111 0.11111111 0.11111111 0.22222222 0.11111111 "         \
  "0.11111111"
#define UNEVEN "f32[2,4] 3 1 3 1 6 0 1 5"
#define NORMAL "f32[2,4] 2.6 -0.6 2.6 -3.2 3.2577301 -1.2577301 -0.50515339 3.0103068"
#define MISPLACED "f32[2,4] -0.8 -2.4 -0.8 -2.4 0 -2.2577301 -1.8814417 -0.37628835"
#define HARD "f32[2,4] 0 0 0 0 0 0.42664909 0 0"
#define OTHER                                                                                      \
  "f32[2,4] 1.4226164 -1.1130822 1.4226164 -4.2261644 2.2307692 -1.4615385 -0.84615385 1.2307692"

static const formula_t formulas[] = {
    {"softmax", build_softmax, true, ROWS, BY_ROWS, "i64[1] 1", NULL, NULL},
    {"with minus infinity", build_softmax, true, ROWS, BY_ROWS, "i64[1] -1", NULL, "f32[] -inf"},
    {"along columns", build_softmax, true, ROWS, BY_COLUMNS, "i64[1] 0", NULL, NULL},
    {"with another number", build_softmax, false, ROWS, BY_ROWS, "i64[1] 1", NULL, "f32[] 0"},
    {"over two axes", build_softmax, false, ROWS, NINTHS, "i64[2] 0 1", NULL, NULL},
    {"layer_norm", build_layer_norm, true, UNEVEN, NORMAL, "i64[1] 1", "f32[] 4", NULL},
    {"scaled first", build_scaled_first, true, UNEVEN, NORMAL, "i64[1] 1", "f32[] 4", NULL},
    {"another divisor", build_layer_norm, false, UNEVEN, OTHER, "i64[1] 1", "f32[] 3", NULL},
    {"shifted", build_shifted, true, UNEVEN, NORMAL, "i64[1] 1", "f32[] 4", NULL},
    {"another shift", build_misplaced, false, UNEVEN, MISPLACED, "i64[1] 1", "f32[] 4", NULL},
    {"hard_swish", build_hard_swish, true, ROWS, HARD, NULL, "f32[] 6", NULL},
    {"hard_swish, divided last", build_hard_swish_last, true, ROWS, HARD, NULL, "f32[] 0.16666667",
     NULL},
    {"by five", build_hard_swish, false, ROWS, "f32[2,4] 0 0 0 0 0 0.51197889 0 0", NULL, "f32[] 5",
     NULL},
    {"gelu", build_gelu, true, ROWS, "f32[2,4] 0 0 0 0 0 0.523944 0 0", NULL, "f32[] 0.5", NULL},
    {"twice gelu", build_gelu, false, ROWS, "f32[2,4] 0 0 0 0 0 1.047888 0 0", NULL, "f32[] 1",
     NULL},
    {"sigmoid", build_sigmoid, true, ROWS, "f32[2,4] 0.5 0.5 0.5 0.5 0.5 0.66666667 0.5 0.5", NULL,
     "f32[] 1", NULL},
    {"silu", build_silu, true, ROWS, "f32[2,4] 0 0 0 0 0 0.46209812 0 0", NULL, "f32[] 1", NULL},
    {"twice silu", build_silu, false, ROWS, "f32[2,4] 0 0 0 0 0 0.92419624 0 0", NULL, "f32[] 2",
     NULL},
};

static void check_formula(const formula_t *f, uint32_t flags) {
  const tenon_axis_t axes[] = {{2, NULL}, {4, NULL}};
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = -1;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  graph_output(b, "y", f->build(b, x, f));
  tenon_executable_t *e = graph_compile(b, flags);
  char *plan = NULL;
  CHECK_GRAPH(e, TEXTS(f->input), TEXTS(f->expected));
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  const bool is_one = plan && strstr(plan, "nodes 0 to 0,");
  check_report(is_one == (f->is_one && !flags), __FILE__, __LINE__, f->name, plan);
  tenon_text_release(plan);
  tenon_executable_release(e);
}

TEST("written-out formulas become one node, and similar ones stay") {
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN)
      check_formula(&formulas[i], flags);
}

/* A training step reads the powers again. */
TEST("a softmax whose powers are read again stays") {
  const formula_t f = {.axes = "i64[1] 1"};
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t powers =
      node_of(b, "core::exp", node_of(b, "core::sub", x, reduce(b, "core::reduce_max", x, &f)), -1);
  graph_output(b, "y", node_of(b, "core::div", powers, reduce(b, "core::reduce_sum", powers, &f)));
  graph_output(b, "powers", powers);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[1,4] 0 0.69314718 0 0"),
              TEXTS("f32[1,4] 0.2 0.4 0.2 0.2", "f32[1,4] 0.5 1 0.5 0.5"));
  tenon_executable_release(e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
