/* Chains of regions: links have the bits of the kernels in whose place they stand, for every form
 * of every operator, in each dtype, and wherever their operands lie. Expected results come from the
 * same graph compiled with TENON_COMPILE_PLAIN, which calls the kernel of each node. */
#include <math.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "base/cpu.h"
#include "capture.h"
#include "operators.h"

enum { MOST_OUTPUTS = 128 };

static uint32_t number_type; /* of what the graphs compute in */
static int output_count;

static void add_output(tenon_builder_t *b, tenon_edge_t value) {
  char name[16];
  snprintf(name, sizeof name, "out%d", output_count++);
  graph_output(b, name, value);
}

static tenon_edge_t three(tenon_builder_t *b, const char *name, const char *attrs, tenon_edge_t a,
                          tenon_edge_t c, tenon_edge_t d) {
  const tenon_edge_t inputs[16] = {a, c, d, -1};
  tenon_edge_t result;
  graph_node(b, NULL, name, attrs, inputs, &result, 1);
  return result;
}

static tenon_edge_t two(tenon_builder_t *b, const char *name, tenon_edge_t a, tenon_edge_t c) {
  return three(b, name, NULL, a, c, -1);
}

static int count_links(tenon_executable_t *e) { return count_in_plan(e, "    link  "); }

/* Compiles a graph as it is for i = 0, and to run node by node for i = 1. Equal nodes stay, because
 * each has a link of its own. */
static tenon_executable_t *compile(void (*build)(tenon_builder_t *b), int i) {
  tenon_builder_t *b = graph_begin();
  output_count = 0;
  build(b);
  return graph_compile_with(
      b, (tenon_compile_t){.flags = i ? TENON_COMPILE_PLAIN : 0, .without = "equal_nodes"});
}

static void check_outputs(tenon_tensor_t *const *found, tenon_tensor_t *const *expected) {
  for (int o = 0; o < output_count; o++) {
    const tenon_tensor_t *t = expected[o];
    const size_t size = (size_t)tenon_count(t) * (t->dtype.bits < 8 ? 8 : t->dtype.bits) / 8;
    CHECK(tenon_count(found[o]) == tenon_count(t));
    if (!CHECK(memcmp(found[o]->data, t->data, size) == 0))
      fprintf(stderr, "output %d differs\n", o);
    tenon_tensor_release(found[o]);
    tenon_tensor_release(expected[o]);
  }
}

/* All operators */

static tenon_edge_t as_type(tenon_builder_t *b, tenon_edge_t x) {
  const char *to = number_type == TENON_F16 ? "to=f16" : "to=bf16";
  return number_type == TENON_F32 ? x : graph_step(b, "core::cast", to, x);
}

static void add_ones(tenon_builder_t *b, tenon_edge_t x) {
  static const struct {
    const char *op;
    const char *attrs;
  } ones[] = {
      {"core::abs", NULL},
      {"core::neg", NULL},
      {"core::reciprocal", NULL},
      {"core::relu", NULL},
      {"core::rsqrt", NULL},
      {"core::sqrt", NULL},
      {"core::hard_swish", NULL},
      {"core::hard_sigmoid", "alpha=0.3; beta=0.6"},
      {"core::leaky_relu", "alpha=0.3"},
      {"core::cast", "to=f32"},
      {"core::cast", "to=f16"},
      {"core::cast", "to=bf16"},
      {"core::cast", "to=bool"},
  };
  for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
    add_output(b, graph_step(b, ones[i].op, ones[i].attrs, two(b, "core::max", x, x)));
}

/* Each operator gets the result of a link of its own, and a run, a number, or the same result, at
 * either side. */
static void add_twos(tenon_builder_t *b, tenon_edge_t x, tenon_edge_t y, tenon_edge_t number) {
  static const char *const twos[] = {"core::add",       "core::div",     "core::max",
                                     "core::min",       "core::mul",     "core::sub",
                                     "core::equal",     "core::less",    "core::less_equal",
                                     "core::not_equal", "core::greater", "core::greater_equal"};
  for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
    for (int form = 0; form < 5; form++) {
      tenon_edge_t block = two(b, "core::min", x, x);
      tenon_edge_t other = form < 2 ? y : number;
      if (form == 4) other = block;
      const tenon_edge_t inputs[2] = {block, other};
      add_output(b, two(b, twos[i], inputs[form % 2], inputs[1 - form % 2]));
    }
}

static void add_choices(tenon_builder_t *b, tenon_edge_t x, tenon_edge_t y, tenon_edge_t number) {
  const tenon_edge_t one = graph_constant(b, NULL, "f32[] 1");
  add_output(b, three(b, "core::clip", NULL, two(b, "core::max", x, x), number, y));
  add_output(b, three(b, "core::clip", NULL, two(b, "core::max", x, x), -1, number));
  add_output(b, three(b, "core::clip", NULL, two(b, "core::max", x, x), y, -1));
  tenon_edge_t z = two(b, "core::max", x, x); /* is the bound, not the block */
  add_output(b, three(b, "core::clip", NULL, y, z, number));
  for (int form = 0; form < 7; form++) {
    const tenon_edge_t condition = two(b, "core::less", y, x);
    z = graph_step(b, "core::neg", NULL, x);
    const tenon_edge_t yes[] = {z, y, z, number, z, y, number};
    const tenon_edge_t no[] = {y, z, number, z, z, number, number};
    if (form == 5) add_output(b, graph_step(b, "core::cast", "to=f32", condition));
    z = three(b, "core::where", NULL, condition, yes[form], no[form]);
    add_output(b, z);
    if (form != 6) continue;
    z = graph_step(b, "core::cast", "to=f32", graph_step(b, "core::cast", "to=bool", z));
    add_output(b, two(b, "core::mul", z, one));
  }
}

static void build_all(tenon_builder_t *b) {
  const tenon_edge_t x = as_type(b, graph_input(b, "x", TENON_F32, 1));
  const tenon_edge_t y = as_type(b, graph_input(b, "y", TENON_F32, 1));
  const tenon_edge_t number = as_type(b, graph_input(b, "number", TENON_F32, 0));
  add_ones(b, x);
  add_twos(b, x, y, number);
  add_choices(b, x, y, number);
}

/* Numbers that are rounded, or change their kind, in one of the formats. */
static const float special[] = {
    0.0f,           -0.0f,   1.0f,     -2.5f,    INFINITY,  -INFINITY,   NAN,
    1e-40f,         -1e-40f, 3.4e38f,  -3.4e38f, 0.1f,      6.1e-5f,     2.98e-8f,
    5.9e-8f,        2.0f,    65504.0f, 65520.0f, -65519.0f, 1.00390625f, 1.01171875f,
    1.00048828125f, -3.0f,   3.0f,     0.5f};
enum { KINDS = sizeof special / sizeof *special };

/* Compares the results for each of some numbers as the one that is broadcast. */
static void check_all(tenon_executable_t *const *e, int64_t count) {
  tenon_tensor_t *in[3];
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), i < 2, &count, &in[i]), TENON_OK);
  for (int64_t i = 0; i < count; i++) {
    ((float *)in[0]->data)[i] = special[i % KINDS];
    ((float *)in[1]->data)[i] = special[i / KINDS % KINDS];
  }
  for (int kind = 0; kind < KINDS; kind++) {
    tenon_tensor_t *out[2][MOST_OUTPUTS] = {{NULL}};
    *(float *)in[2]->data = special[kind];
    for (int i = 0; i < 2; i++)
      CHECK_STATUS(tenon_executable_run(e[i], in, out[i], NULL), TENON_OK);
    check_outputs(out[0], out[1]);
  }
  for (int i = 0; i < 3; i++)
    tenon_tensor_release(in[i]);
}

/* Returns the number of links. */
static int check_type(uint32_t type) {
  tenon_executable_t *e[2];
  number_type = type;
  for (int i = 0; i < 2; i++)
    e[i] = compile(build_all, i);
  check_all(e, 9179); /* piece by piece */
  const int links = count_links(e[0]);
  check_all(e, 639); /* on whole values: every number with every other, and an end of vectors */
  tenon_executable_release(e[0]);
  tenon_executable_release(e[1]);
  return links;
}

TEST("each link of f32 has the bits of its kernel: zeros, infinities, NaN, and ends of vectors") {
  CHECK(check_type(TENON_F32) >= 170);
}

TEST("each link of bf16 has the bits of its kernel, which are rounded after each") {
  CHECK(check_type(TENON_BF16) >= 150);
}

TEST("each link of f16 has the bits of its kernel, where there are instructions to round") {
  const int links = check_type(TENON_F16);
  const bool has_f16 = tn_cpu_has(tn_cpu_rank("avx2", 4));
  CHECK(has_f16 ? links >= 150 : links > 0);
}

/* Operands elsewhere */

/* x has [5, 40, n]. Of the others some are broadcast along first, middle, last, or several axes. */
static void build_places(tenon_builder_t *b) {
  const tenon_edge_t x = as_type(b, graph_input(b, "x", TENON_F32, 3));
  const tenon_edge_t row = as_type(b, graph_input(b, "row", TENON_F32, 1));
  const tenon_edge_t matrix = as_type(b, graph_input(b, "matrix", TENON_F32, 2));
  const tenon_edge_t column = as_type(b, graph_input(b, "column", TENON_F32, 2));
  const tenon_edge_t planes = as_type(b, graph_input(b, "planes", TENON_F32, 3));
  const tenon_edge_t wide = as_type(b, graph_input(b, "wide", TENON_F32, 3));
  const tenon_edge_t zero = graph_constant(b, NULL, "f32[] 0");
  const tenon_edge_t mask = two(b, "core::less", graph_input(b, "mask", TENON_F32, 2), zero);
  tenon_edge_t y = two(b, "core::add", x, row);
  y = two(b, "core::mul", matrix, y);
  y = two(b, "core::sub", y, column);
  y = two(b, "core::max", y, planes);
  add_output(b, y);
  const tenon_edge_t n = graph_step(b, "core::shape", "start=2; end=3", x);
  const tenon_edge_t axis = graph_constant(b, NULL, "i64[1] 2");
  const tenon_edge_t ends[16] = {wide, graph_constant(b, NULL, "i64[1] 0"), n, axis, -1};
  const tenon_edge_t rest[16] = {wide, n, graph_constant(b, NULL, "i64[1] 99999"), axis, -1};
  tenon_edge_t left;
  tenon_edge_t right;
  graph_node(b, NULL, "core::slice", NULL, ends, &left, 1);
  graph_node(b, NULL, "core::slice", NULL, rest, &right, 1);
  y = two(b, "core::add", y, two(b, "core::mul", left, graph_step(b, "core::relu", NULL, right)));
  add_output(b, y);
  if (number_type != TENON_F32) return;
  y = three(b, "core::where", NULL, mask, y, graph_constant(b, NULL, "f32[] -3"));
  add_output(b, graph_step(b, "core::neg", NULL, two(b, "core::min", y, column)));
}

static void check_places(uint32_t type, int n) {
  tenon_tensor_t *in[7];
  tenon_tensor_t *out[2][MOST_OUTPUTS] = {{NULL}};
  char text[64];
  static const char *const texts[] = {"f32[5,40,%d] ~1", "f32[%d] ~2",     "f32[40,%d] ~3",
                                      "f32[40,1] ~4",    "f32[5,1,%d] ~5", "f32[5,40,%d] ~6",
                                      "f32[40,%d] ~7"};
  tenon_executable_t *e[2];
  number_type = type;
  for (int i = 0; i < 7; i++) {
    snprintf(text, sizeof text, texts[i], i == 5 ? 2 * n : n);
    in[i] = tensor_of(text);
  }
  for (int i = 0; i < 2; i++) {
    e[i] = compile(build_places, i);
    CHECK_STATUS(tenon_executable_run(e[i], in, out[i], NULL), TENON_OK);
  }
  check_outputs(out[0], out[1]);
  CHECK(count_links(e[0]) >= (type == TENON_F16 ? 0 : 7));
  for (int i = 0; i < 7; i++)
    tenon_tensor_release(in[i]);
  tenon_executable_release(e[0]);
  tenon_executable_release(e[1]);
}

TEST("links read operands that are broadcast or slices, of few and of many elements") {
  static const int extents[] = {1, 7, 37, 40, 50, 67, 128, 131, 300};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
    check_places(TENON_F32, extents[i]);
    check_places(TENON_BF16, extents[i]);
    check_places(TENON_F16, extents[i]);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
