/* Concats whose operands are written where the result has them. Results have the bits of the plain
 * run, which copies, and a few are worked out by hand. The plan says which values are parts. */
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

static tenon_executable_t *compile_text(const char *body, uint32_t flags, const char *without) {
  char text[2048];
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  const tenon_compile_t options = {.size = sizeof options, .flags = flags, .without = without};
  snprintf(text, sizeof text, "tenon graph 1\ngraph %s\n}\n", body);
  CHECK_STATUS(tenon_graph_read(text, strlen(text), NULL, &graph), TENON_OK);
  if (graph) CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_OK);
  tenon_graph_release(graph);
  return e;
}

/* How many values of the plan are parts of others. */
static int count_parts(tenon_executable_t *e) {
  char *plan = NULL;
  int count = 0;
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  for (const char *at = plan; at && (at = strstr(at, " part ")) != NULL; at++)
    count += strstr(at, " at byte ") != NULL;
  tenon_text_release(plan);
  return count;
}

enum { INPUTS = 2, OUTPUTS = 3 };

/* Inputs of floats that differ from run to run. */
static tenon_tensor_t *make_input(int32_t ndim, const int64_t *shape, int number) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), ndim, shape, &t), TENON_OK);
  for (int64_t i = 0; i < tenon_count(t); i++)
    ((float *)t->data)[i] = (float)((i * 37 + number * 11) % 101) / 8 - 6;
  return t;
}

static void check_same(const tenon_tensor_t *found, const tenon_tensor_t *expected) {
  const size_t size = (size_t)tenon_count(expected) * expected->dtype.bits / 8;
  CHECK(found->ndim == expected->ndim && tenon_count(found) == tenon_count(expected));
  CHECK(memcmp(found->data, expected->data, size) == 0);
}

typedef struct placed_t {
  const char *what;
  const char *body;
  int32_t ndim;
  int64_t shapes[2][4]; /* of both inputs, in two runs */
  int parts[2];         /* in the plans of these runs */
} placed_t;

static const placed_t cases[] = {
    {"chains along the first axis",
     "(x: f32[n, m], y: f32[n, m]) {\n  two = f32[] 2.0\n"
     "  a = core::mul(x, two)\n  b = core::add(a, y)\n  c = core::sub(y, x)\n"
     "  d = core::mul(c, two)\n  e = core::concat([b, d], axis=0)\n  f = core::neg(e)\n"
     "  return f\n",
     2,
     {{5, 7}, {130, 90}},
     {2, 2}},
    {"a part that waits while other values come and go",
     "(x: f32[n, m], y: f32[n, m]) {\n  a = core::softmax(x)\n  b = core::softmax(y, axis=0)\n"
     "  c = core::softmax(b, axis=0)\n  d = core::softmax(c, axis=0)\n"
     "  e = core::concat([a, d], axis=0)\n  f = core::softmax(e)\n  return f\n",
     2,
     {{5, 7}, {130, 90}},
     {2, 2}},
    {"a part that a view of a later stage reads",
     "(x: f32[n, m], y: f32[n, m]) {\n  a = core::neg(x)\n  b = core::exp(y)\n"
     "  e = core::concat([a, b], axis=0)\n  found = core::nonzero(e)\n"
     "  places = core::neg(found)\n  one = i64[1] [1]\n  most = i64[1] [99]\n"
     "  axis = i64[1] [0]\n  c = core::slice(b, one, most, axis)\n  return places, c\n",
     2,
     {{5, 7}, {130, 90}},
     {2, 2}},
    {"the second axis, if the first one has one element",
     "(x: f32[n, m], y: f32[n, m]) {\n  two = f32[] 2.0\n"
     "  a = core::mul(x, two)\n  b = core::add(a, y)\n  c = core::sub(y, x)\n"
     "  d = core::mul(c, two)\n  e = core::concat([b, d], axis=-1)\n  return e\n",
     2,
     {{1, 7}, {3, 70}},
     {2, 0}},
    {"loops alone write with gaps",
     "(x: f32[n, m], y: f32[n, m]) {\n  b = core::abs(y)\n"
     "  e = core::concat([x, b], axis=1)\n  return e\n",
     2,
     {{3, 20}, {3, 5}},
     {1, 0}},
    {"inputs, constants and outputs are copied",
     "(x: f32[n, m], y: f32[n, m]) {\n  one = f32[1, 3] [1.0, 2.0, 3.0]\n  a = core::neg(x)\n"
     "  b = core::exp(y)\n  e = core::concat([x, a, b], axis=0)\n  f = core::neg(e)\n"
     "  return f, a\n",
     2,
     {{2, 3}, {4, 3}},
     {1, 1}},
    {"a value is placed once",
     "(x: f32[n, m], y: f32[n, m]) {\n  a = core::exp(x)\n  b = core::exp(y)\n"
     "  e = core::concat([a, a, b], axis=0)\n  f = core::concat([b, a], axis=0)\n"
     "  g = core::neg(a)\n  return e, f, g\n",
     2,
     {{2, 3}, {4, 3}},
     {2, 2}},
    {"views of all of a value, but not of a part",
     "(x: f32[n, m], y: f32[n, m]) {\n  shape = i64[1] [-1]\n  from = i64[1] [0]\n"
     "  to = i64[1] [-1]\n  a = core::exp(x)\n  b = core::exp(y)\n"
     "  c = core::reshape(a, shape)\n  d = core::reshape(b, shape)\n"
     "  s = core::slice(d, from, to)\n  t = core::transpose(b, perm=[1, 0])\n"
     "  u = core::reshape(t, shape)\n"
     "  e = core::concat([c, s, u], axis=0)\n  f = core::neg(b)\n  return e, f\n",
     2,
     {{2, 3}, {4, 3}},
     {2, 2}},
    {"a concat is a part of another one",
     "(x: f32[n, m], y: f32[n, m]) {\n  a = core::exp(x)\n  b = core::exp(y)\n  c = core::neg(x)\n"
     "  d = core::concat([a, b], axis=0)\n  e = core::abs(d)\n"
     "  f = core::concat([c, a, b], axis=0)\n  return e, f\n",
     2,
     {{2, 3}, {40, 30}},
     {4, 4}},
    {"and has gaps there",
     "(x: f32[n, m], y: f32[n, m]) {\n  zero = f32[] 0.0\n  s = core::softmax(x)\n"
     "  t = core::softmax(y)\n"
     "  d = core::concat([s, t], axis=1)\n  e = core::max(d, zero)\n  r = core::softmax(e)\n"
     "  f = core::concat([s, t, t], axis=1)\n  return r, f\n",
     2,
     {{3, 20}, {3, 4}},
     {1, 0}},
    {"channels-last images",
     "(x: f32[n, m, h, w], y: f32[n, m, h, w]) {\n"
     "  a = core::transpose(x, perm=[0, 3, 1, 2])\n  b = core::relu(a)\n  c = core::exp(b)\n"
     "  d = core::transpose(y, perm=[0, 3, 1, 2])\n  e = core::exp(d)\n"
     "  f = core::concat([b, e], axis=2)\n  g = core::concat([b, e], axis=1)\n"
     "  return c, f, g\n",
     4,
     {{1, 3, 4, 24}, {2, 3, 4, 24}},
     {2, 0}},
    {"batch_norm of a concat that is a part, with gaps between the channels of positions",
     "(x: f32[n, m, h, w], y: f32[n, m, h, w]) {\n"
     "  k = f32[16] [1, -2, 3, -4, 5, 6, 7, 8, -1, 2, -3, 4, 5, 6, -7, 8]\n"
     "  v = f32[16] [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8]\n"
     "  a = core::transpose(x, perm=[0, 3, 1, 2])\n  b = core::relu(a)\n"
     "  d = core::transpose(y, perm=[0, 3, 1, 2])\n  e = core::exp(d)\n"
     "  f = core::concat([b, e], axis=1)\n  g = core::batch_norm(f, k, v, k, v)\n"
     "  q = core::abs(g)\n  h = core::concat([e, b, e], axis=1)\n  i = core::neg(h)\n"
     "  return q, i\n",
     4,
     {{1, 3, 5, 8}, {2, 3, 5, 8}},
     {1, 1}},
    {"what a later stage reads",
     "(x: f32[n, m], y: f32[n, m]) {\n  a = core::exp(x)\n  b = core::exp(y)\n"
     "  e = core::concat([a, b], axis=0)\n  k = core::nonzero(e)\n  l = core::cast(k, to='f32')\n"
     "  s = core::reduce_sum(l)\n  f = core::mul(a, s)\n  return f\n",
     2,
     {{2, 3}, {4, 3}},
     {2, 2}},
};

static void run_case(const placed_t *c, tenon_executable_t *e, tenon_executable_t *plain,
                     const int64_t *shape, int round) {
  tenon_tensor_t *in[INPUTS];
  tenon_tensor_t *found[OUTPUTS] = {NULL}, *expected[OUTPUTS] = {NULL};
  for (int i = 0; i < INPUTS; i++)
    in[i] = make_input(c->ndim, shape, 2 * round + i);
  for (int again = 0; again < 2; again++) { /* the second run writes to the same outputs */
    if (!CHECK_STATUS(tenon_executable_run(e, in, found, NULL), TENON_OK)) break;
    CHECK_STATUS(tenon_executable_run(plain, in, expected, NULL), TENON_OK);
    for (int o = 0; o < OUTPUTS && expected[o]; o++) {
      check_same(found[o], expected[o]);
      memset(found[o]->data, 0, (size_t)tenon_count(found[o]) * sizeof(float));
    }
  }
  for (int i = 0; i < INPUTS; i++)
    tenon_tensor_release(in[i]);
  for (int o = 0; o < OUTPUTS; o++) {
    tenon_tensor_release(found[o]);
    tenon_tensor_release(expected[o]);
  }
}

static void check_case(const placed_t *c) {
  tenon_executable_t *e = compile_text(c->body, 0, NULL);
  tenon_executable_t *copied = compile_text(c->body, 0, "placed_concat");
  tenon_executable_t *plain = compile_text(c->body, TENON_COMPILE_PLAIN, NULL);
  const int before = check_failures;
  for (int round = 0; round < 4 && e && copied && plain; round++) {
    run_case(c, e, plain, c->shapes[round % 2], round);
    run_case(c, copied, plain, c->shapes[round % 2], round);
    if (!CHECK(count_parts(e) == c->parts[round % 2]))
      fprintf(stderr, "  %d parts\n", count_parts(e));
    CHECK(count_parts(copied) == 0);
  }
  if (check_failures > before) {
    char *plan = NULL;
    tenon_executable_dump(e, "plan", &plan);
    fprintf(stderr, "  in the case: %s\n%s", c->what, plan ? plan : "");
    tenon_text_release(plan);
  }
  tenon_executable_release(e);
  tenon_executable_release(copied);
  tenon_executable_release(plain);
}

TEST("operands of concat are parts of its result where they can be, with the bits of copies") {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_case(&cases[i]);
}

TEST("parts that are worked out by hand, in outputs that share memory with an input") {
  tenon_executable_t *e = compile_text("(x: f32[n]) {\n  a = core::neg(x)\n  b = core::abs(x)\n"
                                       "  c = core::concat([a, b, x], axis=0)\n  return c\n",
                                       0, NULL);
  CHECK_GRAPH(e, TEXTS("f32[2] 1 -2"), TEXTS("f32[6] -1 2 1 2 1 -2"));
  CHECK_GRAPH(e, TEXTS("f32[1] -3"), TEXTS("f32[3] 3 3 -3"));
  CHECK(count_parts(e) == 2);
  float memory[6] = {9, 9, 9, 9, 4, -5};
  int64_t six = 6, two = 2, step = 1;
  tenon_tensor_t out = {memory, {1, 0},     1,   tenon_dtype(TENON_F32), &six, &step,
                        0,      TN_KEY_CPU, NULL};
  tenon_tensor_t in = out;
  in.data = memory + 4;
  in.shape = &two;
  tenon_tensor_t *inputs[1] = {&in}, *outputs[1] = {&out};
  CHECK_STATUS(tenon_executable_run(e, inputs, outputs, NULL), TENON_OK);
  const float expected[6] = {-4, 5, 4, 5, 4, -5};
  CHECK(memcmp(memory, expected, sizeof memory) == 0);
  tenon_executable_release(e);
}

TEST("a concat takes the result of another one, and the dump counts both rules") {
  tenon_executable_t *e =
      compile_text("(x: f32[n]) {\n  a = core::neg(x)\n  b = core::abs(x)\n  c = core::exp(x)\n"
                   "  d = core::concat([a, b], axis=0)\n  e = core::concat([a, b, c], axis=-1)\n"
                   "  f = core::concat([c, a, b, c], axis=0)\n  return d, e, f\n",
                   0, NULL);
  char *text = NULL;
  CHECK_GRAPH(e, TEXTS("f32[1] 0"), TEXTS("f32[2] -0 0", "f32[3] -0 0 1", "f32[4] 1 -0 0 1"));
  CHECK_STATUS(tenon_executable_dump(e, "rewrites", &text), TENON_OK);
  CHECK_TEXT(text, "nested_concat                            2\n");
  CHECK_TEXT(text, "placed_concat ");
  tenon_text_release(text);
  tenon_executable_release(e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
