/* Constant scales and shifts of channels become part of the convolutions and products around them,
 * and convolutions of the same value that are added become one. Every graph also runs as it was
 * built, and both results are compared with numbers that are worked out by hand. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

/* Checks the results of a graph of one output with and without optimisation. `last` is the number
 * of the last node that remains. */
static void check_folding(tenon_builder_t *(*build)(const void *), const void *row,
                          const char *input, const char *expected, int last) {
  for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN) {
    tenon_executable_t *e = graph_compile(build(row), flags);
    char *plan = NULL;
    char nodes[32];
    snprintf(nodes, sizeof nodes, "nodes 0 to %d,", last);
    CHECK_GRAPH(e, TEXTS(input), TEXTS(expected));
    CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
    if (!flags) CHECK_TEXT(plan, nodes);
    tenon_text_release(plan);
    tenon_executable_release(e);
  }
}

static tenon_edge_t add_node(tenon_builder_t *b, const char *op, const char *attrs, tenon_edge_t x,
                             tenon_edge_t y, tenon_edge_t z) {
  tenon_edge_t out;
  tenon_edge_t inputs[16] = {x, y, z, -1, -1};
  graph_node(b, NULL, op, attrs, inputs, &out, 1);
  return out;
}

/* A batch_norm of two channels that scales by 2 and 3, and shifts by -1 and 4. */
static tenon_edge_t add_norm(tenon_builder_t *b, tenon_edge_t x) {
  tenon_edge_t out;
  tenon_edge_t inputs[16] = {
      x, graph_constant(b, NULL, "f32[2] 2 6"), graph_constant(b, NULL, "f32[2] 1 10"),
      graph_constant(b, NULL, "f32[2] 1 2"), graph_constant(b, NULL, "f32[2] 1 4")};
  graph_node(b, NULL, "core::batch_norm", "epsilon=0.0", inputs, &out, 1);
  return out;
}

static tenon_builder_t *begin(int rank, tenon_edge_t *x) {
  tenon_builder_t *b = graph_begin();
  *x = graph_input(b, "x", TENON_F32, rank);
  return b;
}

/* One scale or shift after or before a product */

typedef struct step_t {
  const char *product; /* operator, with its weights, bias and attributes */
  const char *w;
  const char *bias;
  const char *attrs;
  const char *op; /* batch_norm, or an operator with a constant */
  const char *constant;
  bool is_before; /* the step comes before the product */
  bool is_first;  /* the constant is the first operand */
  const char *input;
  const char *expected;
  int last;
} step_t;

#define PIXELS "f32[1,2,1,2] 1 2 3 4"
#define CROSSED "f32[2,2,1,1] 1 1 0 2" /* a + b, 2 b */
static const step_t steps[] = {
    /* sums are 4 6 and 6 8 */
    {"core::conv", CROSSED, NULL, NULL, "core::batch_norm", NULL, false, false, PIXELS,
     "f32[1,2,1,2] 7 11 22 28", 0},
    {"core::conv", CROSSED, "f32[2] 1 -1", NULL, "core::batch_norm", NULL, false, false, PIXELS,
     "f32[1,2,1,2] 9 13 19 25", 0},
    {"core::conv", CROSSED, NULL, NULL, "core::mul", "f32[2,1,1] 2 3", false, false, PIXELS,
     "f32[1,2,1,2] 8 12 18 24", 0},
    {"core::conv", CROSSED, NULL, NULL, "core::mul", "f32[] 0.5", false, true, PIXELS,
     "f32[1,2,1,2] 2 3 3 4", 0},
    {"core::conv", CROSSED, NULL, NULL, "core::add", "f32[1,2,1,1] 1 2", false, true, PIXELS,
     "f32[1,2,1,2] 5 7 8 10", 0},
    {"core::conv", CROSSED, NULL, NULL, "core::sub", "f32[1,2,1,1] 1 2", false, false, PIXELS,
     "f32[1,2,1,2] 3 5 4 6", 0},
    {"core::conv", CROSSED, NULL, NULL, "core::sub", "f32[] 1", false, true, PIXELS,
     "f32[1,2,1,2] -3 -5 -5 -7", 0},
    {"core::conv", CROSSED, NULL, NULL, "core::div", "f32[] 2", false, false, PIXELS,
     "f32[1,2,1,2] 2 3 3 4", 0},
    /* a divisor that is computed, a constant that differs along another axis, and infinity stay */
    {"core::conv", CROSSED, NULL, NULL, "core::div", "f32[] 24", false, true, PIXELS,
     "f32[1,2,1,2] 6 4 4 3", 1},
    {"core::conv", CROSSED, NULL, NULL, "core::mul", "f32[2] 2 3", false, false, PIXELS,
     "f32[1,2,1,2] 8 18 12 24", 1},
    {"core::conv", CROSSED, NULL, NULL, "core::mul", "f32[] inf", false, false, PIXELS,
     "f32[1,2,1,2] inf inf inf inf", 1},
    {"core::conv", CROSSED, NULL, "activation='relu'", "core::add", "f32[] 1", false, false, PIXELS,
     "f32[1,2,1,2] 5 7 7 9", 1},
    /* groups: each output reads its own channel */
    {"core::conv", "f32[2,1,1,1] 1 2", NULL, "group=2", "core::batch_norm", NULL, false, false,
     PIXELS, "f32[1,2,1,2] 1 3 22 28", 0},
    {"core::conv", "f32[2,1,1,1] 1 2", NULL, "group=2", "core::batch_norm", NULL, true, false,
     PIXELS, "f32[1,2,1,2] 1 3 26 32", 0},
    /* before: a is 1 3, b is 13 16 */
    {"core::conv", CROSSED, "f32[2] 1 -1", NULL, "core::batch_norm", NULL, true, false, PIXELS,
     "f32[1,2,1,2] 15 20 25 31", 0},
    {"core::conv", CROSSED, NULL, "pads=[0, 1, 0, 0]", "core::mul", "f32[] 2", true, false, PIXELS,
     "f32[1,2,1,3] 0 8 12 0 12 16", 0},
    /* whether x has one channel or two is not known before the product */
    {"core::conv", CROSSED, NULL, "pads=[0, 1, 0, 0]", "core::mul", "f32[2,1,1] 2 3", true, false,
     PIXELS, "f32[1,2,1,3] 0 11 16 0 18 24", 1},
    /* the zeros of the padding are not shifted, so the norm stays */
    {"core::conv", CROSSED, NULL, "pads=[0, 1, 0, 0]", "core::batch_norm", NULL, true, false,
     PIXELS, "f32[1,2,1,3] 0 14 19 0 26 32", 1},
    {"core::conv", CROSSED, NULL, "auto_pad='valid'", "core::batch_norm", NULL, true, false, PIXELS,
     "f32[1,2,1,2] 14 19 26 32", 0},
    /* matrices: 1 2 by columns */
    {"core::matmul", "f32[2,2] 1 0 1 2", NULL, NULL, "core::batch_norm", NULL, false, false,
     "f32[1,2] 1 2", "f32[1,2] 5 16", 0},
    {"core::matmul", "f32[2,2] 1 1 0 2", "f32[2] 1 1", "transpose_b=True", "core::batch_norm", NULL,
     false, false, "f32[1,2] 1 2", "f32[1,2] 7 19", 0},
    {"core::gemm", "f32[2,2] 1 1 0 2", "f32[2] 1 1", "trans_b=True", "core::batch_norm", NULL,
     false, false, "f32[1,2] 1 2", "f32[1,2] 7 19", 0},
    {"core::gemm", "f32[2,2] 1 0 1 2", NULL, "alpha=2.0", "core::mul", "f32[2] 2 3", false, false,
     "f32[1,2] 1 2", "f32[1,2] 12 24", 1},
};

static tenon_edge_t add_step(tenon_builder_t *b, const step_t *s, tenon_edge_t x) {
  if (strcmp(s->op, "core::batch_norm") == 0) return add_norm(b, x);
  tenon_edge_t constant = graph_constant(b, NULL, s->constant);
  return add_node(b, s->op, NULL, s->is_first ? constant : x, s->is_first ? x : constant, -1);
}

static tenon_builder_t *build_step(const void *row) {
  const step_t *s = row;
  tenon_edge_t x;
  tenon_builder_t *b = begin(strcmp(s->product, "core::conv") == 0 ? 4 : 2, &x);
  tenon_edge_t bias = s->bias ? graph_constant(b, NULL, s->bias) : -1;
  tenon_edge_t w = graph_constant(b, NULL, s->w);
  if (s->is_before) x = add_step(b, s, x);
  x = add_node(b, s->product, s->attrs, x, w, bias);
  if (!s->is_before) x = add_step(b, s, x);
  graph_output(b, "y", x);
  return b;
}

TEST("a scale or shift of channels becomes part of the convolution or product before or after it") {
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    check_folding(build_step, &steps[i], steps[i].input, steps[i].expected, steps[i].last);
}

/* Sums of branches */

typedef struct branch_t {
  const char *w;     /* of a convolution; NULL: the value itself, or its batch_norm */
  const char *attrs; /* of the convolution */
  bool is_scaled;    /* a batch_norm follows */
} branch_t;

typedef struct sum_t {
  branch_t branches[3]; /* the third may be absent: w and attrs are NULL and it is not scaled */
  int count;
  bool is_left; /* the sum of the first two is the second operand of the outer sum */
  bool is_normed;
  const char *expected;
  int last;
} sum_t;

#define ROW "f32[1,2,1,3] 1 2 3 4 5 6"
#define SWAP "f32[2,2,1,1] 0 1 1 0"
/* each element and its left neighbour, of the same channel */
#define PAIR "f32[2,2,1,3] 1 1 0 0 0 0 0 0 0 1 1 0"
#define PADDED "pads=[0, 1, 0, 1]"
static const sum_t sums[] = {
    /* 4 5 6, 1 2 3 and 1 3 5, 4 9 11 */
    {{{SWAP, NULL, false}, {PAIR, PADDED, false}},
     2,
     false,
     false,
     "f32[1,2,1,3] 5 8 11 5 11 14",
     0},
    {{{PAIR, PADDED, false}, {SWAP, NULL, true}},
     2,
     false,
     false,
     "f32[1,2,1,3] 8 12 16 11 19 24",
     0},
    /* the value itself, and its norm: 1 3 5, 16 19 22 */
    {{{PAIR, PADDED, false}, {NULL, NULL, false}},
     2,
     false,
     false,
     "f32[1,2,1,3] 2 5 8 8 14 17",
     0},
    {{{NULL, NULL, true}, {PAIR, PADDED, false}},
     2,
     false,
     false,
     "f32[1,2,1,3] 2 6 10 20 28 33",
     0},
    {{{NULL, NULL, true}, {SWAP, NULL, false}, {PAIR, PADDED, false}},
     3,
     false,
     false,
     "f32[1,2,1,3] 6 11 16 21 30 36",
     0},
    /* the middle term lies between two that merge */
    {{{SWAP, NULL, false},
      {"f32[2,2,1,1] 1 0 0 1", "activation='relu'", false},
      {PAIR, PADDED, false}},
     3,
     false,
     false,
     "f32[1,2,1,3] 6 10 14 9 16 20",
     1},
    {{{SWAP, NULL, false},
      {"f32[2,2,1,1] 1 0 0 1", "activation='relu'", false},
      {PAIR, PADDED, false}},
     3,
     true,
     false,
     "f32[1,2,1,3] 6 10 14 9 16 20",
     1},
    /* a norm of the sum */
    {{{SWAP, NULL, false}, {PAIR, PADDED, false}},
     2,
     false,
     true,
     "f32[1,2,1,3] 9 15 21 19 37 46",
     0},
    /* dilated kernels and strides that do not fit stay: 1 + 0 0 0, and twice each second element */
    {{{"f32[2,2,1,2] 1 1 0 0 0 0 1 1", "pads=[0, 1, 0, 1]; dilations=[1, 2]", false},
      {"f32[2,2,1,2] 1 1 0 0 0 0 1 1", "pads=[0, 0, 0, 1]", false}},
     2,
     false,
     false,
     "f32[1,2,1,3] 5 9 5 14 21 11",
     1},
    {{{"f32[2,1,1,1] 1 2", "group=2", false}, {SWAP, NULL, false}},
     2,
     false,
     false,
     "f32[1,2,1,3] 5 7 9 9 12 15",
     1},
};

static tenon_edge_t add_branch(tenon_builder_t *b, const branch_t *branch, tenon_edge_t x) {
  if (branch->w)
    x = add_node(b, "core::conv", branch->attrs, x, graph_constant(b, NULL, branch->w), -1);
  return branch->is_scaled ? add_norm(b, x) : x;
}

static tenon_builder_t *build_sum(const void *row) {
  const sum_t *s = row;
  tenon_edge_t x;
  tenon_builder_t *b = begin(4, &x);
  tenon_edge_t y = add_node(b, "core::add", NULL, add_branch(b, &s->branches[0], x),
                            add_branch(b, &s->branches[1], x), -1);
  if (s->count == 3) {
    tenon_edge_t third = add_branch(b, &s->branches[2], x);
    y = add_node(b, "core::add", NULL, s->is_left ? third : y, s->is_left ? y : third, -1);
  }
  if (s->is_normed) y = add_norm(b, y);
  graph_output(b, "y", y);
  return b;
}

TEST("convolutions of the same value that are added become one convolution") {
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    check_folding(build_sum, &sums[i], ROW, sums[i].expected, sums[i].last);
}

/* Means */

typedef struct mean_t {
  const char *attrs;
  const char *axes;
  const char *expected;
  bool is_pool;
} mean_t;

/* of 1 2 | 3 4 and 5 6 | 7 12 */
static const mean_t means[] = {
    {"keepdims=True", "i64[2] 2 3", "f32[1,2,1,1] 2.5 7.5", true},
    {"keepdims=True", "i64[2] -1 -2", "f32[1,2,1,1] 2.5 7.5", true},
    {"keepdims=True", "i64[1] 3", "f32[1,2,2,1] 1.5 3.5 5.5 9.5", false},
    {"keepdims=True", "i64[3] 1 2 3", "f32[1,1,1,1] 5", false},
    {"keepdims=False", "i64[2] 2 3", "f32[1,2] 2.5 7.5", false},
};

TEST("a mean over all positions of each channel becomes a pool") {
  for (size_t i = 0; i < sizeof means / sizeof *means; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN) {
      tenon_axis_t axes[4] = {{1, NULL}, {2, NULL}, {2, NULL}, {2, NULL}};
      tenon_builder_t *b = graph_begin();
      tenon_edge_t x = -1;
      char *text = NULL;
      CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 4, axes, &x), TENON_OK);
      tenon_edge_t along = graph_constant(b, NULL, means[i].axes);
      graph_output(b, "y", add_node(b, "core::reduce_mean", means[i].attrs, x, along, -1));
      tenon_executable_t *e = graph_compile(b, flags);
      CHECK_GRAPH(e, TEXTS("f32[1,2,2,2] 1 2 3 4 5 6 7 12"), TEXTS(means[i].expected));
      CHECK_STATUS(tenon_executable_dump(e, "graph", &text), TENON_OK);
      bool is_found = text && strstr(text, "core::global_average_pool") != NULL;
      if (!CHECK(is_found == (means[i].is_pool && !flags)))
        fprintf(stderr, "  %s: %s\n", means[i].axes, text ? text : "no graph");
      tenon_text_release(text);
      tenon_executable_release(e);
    }
}

/* Results that are read elsewhere */

static tenon_builder_t *build_shared(const void *row) {
  tenon_edge_t x;
  tenon_builder_t *b = begin(4, &x);
  tenon_edge_t y = add_node(b, "core::conv", NULL, x, graph_constant(b, NULL, CROSSED), -1);
  tenon_edge_t z = add_norm(b, y);
  (void)row;
  graph_output(b, "y", add_node(b, "core::mul", NULL, y, z, -1));
  return b;
}

static tenon_builder_t *build_different(const void *row) {
  tenon_edge_t x;
  tenon_builder_t *b = begin(4, &x);
  tenon_edge_t a = add_node(b, "core::conv", NULL, x, graph_constant(b, NULL, CROSSED), -1);
  tenon_edge_t c = add_node(b, "core::conv", NULL, graph_step(b, "core::neg", NULL, x),
                            graph_constant(b, NULL, SWAP), -1);
  (void)row;
  graph_output(b, "y", add_norm(b, add_node(b, "core::add", NULL, a, c, -1)));
  return b;
}

TEST("a convolution whose result is read elsewhere keeps its weights") {
  check_folding(build_shared, NULL, PIXELS, "f32[1,2,1,2] 28 66 132 224", 2);
}

TEST("the norm of a sum becomes part of its terms, also of convolutions of different values") {
  /* 4 6 6 8 less 3 4 1 2: 1 2 5 6 */
  check_folding(build_different, NULL, PIXELS, "f32[1,2,1,2] 1 3 19 22", 2);
}

TEST("nothing is left behind") { tenon_shutdown(); }
