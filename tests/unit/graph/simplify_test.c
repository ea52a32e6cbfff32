/* Nodes without effect are removed, zero padding moves into the convolution that follows, and the
 * transpose of a product into its factors: results stay the same, and other nodes stay. Expected
 * numbers are worked out by hand: a kernel of ones sums the elements under it. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#define IMAGE "f32[1,1,2,2] 1 2 3 4"
/* sums of 3 x 3 over a 2 x 2 image with a border of zeros */
#define SUMS "f32[1,1,2,2] 10 10 10 10"

typedef struct padding_t {
  const char *pads;
  const char *mode;
  const char *fill;
  const char *conv; /* fill NULL: no fill value */
  const char *expected;
  bool goes; /* whether the padding node is removed */
} padding_t;

static const padding_t paddings[] = {
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, NULL, NULL, SUMS, true},
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, "f32[] 0", "strides=[1, 1]", SUMS, true},
    {"i64[8] 0 0 0 0 0 0 0 0", NULL, NULL, "pads=[1, 1, 1, 1]", SUMS, true},
    {"i64[8] 0 0 1 0 0 0 1 0", NULL, NULL, "pads=[0, 1, 0, 1]", SUMS, true},
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, "f32[] 1", NULL, "f32[1,1,2,2] 15 15 15 15", false},
    {"i64[8] 0 0 1 1 0 0 1 1", "mode='edge'", NULL, NULL, "f32[1,1,2,2] 18 21 24 27", false},
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, NULL, "auto_pad='valid'", SUMS, true},
    {"i64[8] 0 0 1 1 0 0 1 1", NULL, NULL, "auto_pad='same_upper'",
     "f32[1,1,4,4] 1 3 3 2 4 10 10 6 4 10 10 6 3 7 7 4", false},
    {"i64[8] 0 0 -1 1 0 0 2 1", NULL, NULL, NULL, "f32[1,1,1,2] 7 7", false},
};

static void check_padding(const padding_t *p, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 4);
  tenon_edge_t w = graph_constant(b, "w", "f32[1,1,3,3] 1 1 1 1 1 1 1 1 1");
  tenon_edge_t y;
  tenon_edge_t pads = graph_constant(b, "pads", p->pads);
  tenon_edge_t fill = p->fill ? graph_constant(b, "fill", p->fill) : -1;
  graph_node(b, "the_padding", "core::pad", p->mode, (tenon_edge_t[]){x, pads, fill, -1}, &y, 1);
  graph_node(b, "the_sum", "core::conv", p->conv, (tenon_edge_t[]){y, w, -1, -1}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, flags);
  char *plan = NULL;
  CHECK_GRAPH(e, TEXTS(IMAGE), TEXTS(p->expected));
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  CHECK(plan && (strstr(plan, "nodes 0 to 0,") != NULL) == (p->goes && !flags));
  tenon_text_release(plan);
  tenon_executable_release(e);
}

TEST("zero padding before a convolution becomes the convolution's own, and other padding stays") {
  for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags += TENON_COMPILE_PLAIN)
      check_padding(&paddings[i], flags);
}

/* transposed products */

typedef struct product_t {
  const char *a;
  const char *b;
  const char *attrs; /* of the product */
  const char *perm;  /* of the transpose that follows; NULL: the default */
  const char *expected;
  bool goes; /* whether the transpose is removed */
} product_t;

/* Products of rows with columns, worked out by hand. */
static const product_t products[] = {
    {"f32[2,3] 1 2 3 4 5 6", "f32[3,2] 1 0 0 1 1 1", NULL, NULL, "f32[2,2] 4 10 5 11", true},
    {"f32[3,2] 1 4 2 5 3 6", "f32[3,2] 1 0 0 1 1 1", "transpose_a=True", "perm=[1, 0]",
     "f32[2,2] 4 10 5 11", true},
    {"f32[2,3] 1 2 3 4 5 6", "f32[2,3] 1 0 1 0 1 1", "transpose_b=True", NULL, "f32[2,2] 4 10 5 11",
     true},
    {"f32[3,2] 1 4 2 5 3 6", "f32[2,3] 1 0 1 0 1 1", "transpose_a=True; transpose_b=True", NULL,
     "f32[2,2] 4 10 5 11", true},
    {"f32[2,1,2] 1 2 3 4", "f32[2,2] 1 2 3 4", NULL, "perm=[0, 2, -2]", "f32[2,2,1] 7 10 15 22",
     true},
    {"f32[2,1,2] 1 2 3 4", "f32[2,2] 1 2 3 4", NULL, "perm=[1, 0, 2]", "f32[1,2,2] 7 10 15 22",
     false},
    {"f32[2,2] 1 -2 3 4", "f32[2,1] 1 2", "activation='relu'", NULL, "f32[1,2] 0 11", false},
};

TEST("the transpose of a product becomes a product of transposed factors") {
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    const product_t *p = &products[i];
    tenon_builder_t *b = graph_begin();
    tenon_edge_t y;
    tenon_edge_t x = graph_input(b, "a", TENON_F32, p->a[7] == ',' ? 3 : 2);
    tenon_edge_t inputs[16] = {x, graph_input(b, "b", TENON_F32, 2), -1, -1};
    graph_node(b, "the_product", "core::matmul", p->attrs, inputs, &y, 1);
    graph_output(b, "y", graph_step(b, "core::transpose", p->perm, y));
    tenon_executable_t *e = graph_compile(b, 0);
    char *plan = NULL;
    CHECK_GRAPH(e, TEXTS(p->a, p->b), TEXTS(p->expected));
    CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
    CHECK(plan && (strstr(plan, "nodes 0 to 0,") != NULL) == p->goes);
    tenon_text_release(plan);
    tenon_executable_release(e);
  }
}

typedef struct bounded_t {
  const char *dtype;
  const char *op; /* what follows the convolution, with the constant bounds of clip */
  const char *low;
  const char *high;
  const char *expected;
  int last; /* the number of the last node that remains */
} bounded_t;

/* A convolution of pixels of two channels: the sums are -4 7 2049, which f16 rounds to 2048. */
static const bounded_t bounded[] = {
    {"f16", "core::relu", NULL, NULL, "f16[1,1,1,3] 0 7 2048", 0},
    {"f16", "core::clip", "f16[] -1.5", "f16[] 6", "f16[1,1,1,3] -1.5 6 6", 0},
    {"f16", "core::clip", "f16[] -5", "f16[] 2050", "f16[1,1,1,3] -4 7 2048", 0},
    {"bf16", "core::clip", "bf16[] -1.5", "bf16[] 6", "bf16[1,1,1,3] -1.5 6 6", 0},
    {"f16", "core::hard_swish", NULL, NULL, "f16[1,1,1,3] 0 7 2048", 0},
    {"f16", "core::abs", NULL, NULL, "f16[1,1,1,3] 4 7 2048",
     1}, /* no activation of convolutions */
};

TEST("an activation of f16 or bf16 becomes part of the convolution before it") {
  for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++) {
    const bounded_t *p = &bounded[i];
    const bool is_f16 = p->dtype[0] == 'f';
    tenon_builder_t *b = graph_begin();
    tenon_edge_t y;
    char w[40], x[60], nodes[32];
    snprintf(w, sizeof w, "%s[1,2,1,1] 1 1", p->dtype);
    snprintf(x, sizeof x, "%s[1,2,1,3] -8 3 2048 4 4 1", p->dtype);
    snprintf(nodes, sizeof nodes, "nodes 0 to %d,", p->last);
    tenon_edge_t inputs[16] = {graph_input(b, "x", is_f16 ? TENON_F16 : TENON_BF16, 4),
                               graph_constant(b, NULL, w), -1, -1};
    graph_node(b, NULL, "core::conv", NULL, inputs, &y, 1);
    tenon_edge_t bounds[16] = {y, p->low ? graph_constant(b, NULL, p->low) : -1,
                               p->high ? graph_constant(b, NULL, p->high) : -1};
    graph_node(b, NULL, p->op, NULL, bounds, &y, 1);
    graph_output(b, "y", y);
    tenon_executable_t *e = graph_compile(b, 0);
    char *plan = NULL;
    CHECK_GRAPH(e, TEXTS(x), TEXTS(p->expected));
    CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
    CHECK_TEXT(plan, nodes);
    tenon_text_release(plan);
    tenon_executable_release(e);
  }
}

TEST("a product of f16 and its bias are rounded once, and node by node if nothing is optimised") {
  for (int plain = 0; plain < 2; plain++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t product, sum;
    tenon_edge_t inputs[16] = {graph_input(b, "x", TENON_F16, 2),
                               graph_constant(b, NULL, "f16[2,1] 1 1"), -1};
    graph_node(b, NULL, "core::matmul", NULL, inputs, &product, 1);
    tenon_edge_t terms[16] = {product, graph_constant(b, NULL, "f16[1] 1")};
    graph_node(b, NULL, "core::add", NULL, terms, &sum, 1);
    graph_output(b, "y", sum);
    tenon_executable_t *e = graph_compile(b, plain ? TENON_COMPILE_PLAIN : 0);
    /* f16 has no 2049: it becomes 2048, and so does the sum of 2048 and 1 */
    CHECK_GRAPH(e, TEXTS("f16[1,2] 2048 1"), TEXTS(plain ? "f16[1,1] 2048" : "f16[1,1] 2050"));
    tenon_executable_release(e);
  }
}

TEST("axes are not taken apart before a transpose that something else reads") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x, y;
  const tenon_axis_t axes[1] = {{12, NULL}};
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, axes, &x), TENON_OK);
  tenon_edge_t apart = graph_constant(b, "apart", "i64[3] 2 3 2");
  graph_node(b, NULL, "core::reshape", NULL, (tenon_edge_t[]){x, apart, -1}, &y, 1);
  y = graph_step(b, "core::transpose", "perm=[0,2,1]", y);
  graph_output(b, "turned", y);
  tenon_edge_t four = graph_constant(b, "four", "i64[4] 1 2 2 3");
  graph_node(b, NULL, "core::reshape", NULL, (tenon_edge_t[]){y, four, -1}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(
      e, TEXTS("f32[12] 0 1 2 3 4 5 6 7 8 9 10 11"),
      TEXTS("f32[2,2,3] 0 2 4 1 3 5 6 8 10 7 9 11", "f32[1,2,2,3] 0 2 4 1 3 5 6 8 10 7 9 11"));
  tenon_executable_release(e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
