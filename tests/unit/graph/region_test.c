/* Regions: pointwise nodes over equally many elements run piece by piece, and give the bits of the
 * plain run. Expected numbers are computed here, or come from the same graph compiled with
 * TENON_COMPILE_PLAIN, which runs node by node. */
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("contract::census", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

static tenon_edge_t two(tenon_builder_t *b, const char *name, tenon_edge_t a, tenon_edge_t c) {
  tenon_edge_t inputs[16] = {a, c, -1, -1};
  tenon_edge_t result;
  graph_node(b, NULL, name, NULL, inputs, &result, 1);
  return result;
}

/* How often a text is in the dump of the plan. */
static int count_in_plan(tenon_executable_t *e, const char *text) {
  char *plan = NULL;
  int count = 0;
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  for (const char *at = plan; at && (at = strstr(at, text)) != NULL; at += strlen(text))
    count++;
  tenon_text_release(plan);
  return count;
}

static void check_same(const tenon_tensor_t *found, const tenon_tensor_t *expected) {
  const size_t size = (size_t)tenon_count(expected) * expected->dtype.bits / 8;
  CHECK(found->ndim == expected->ndim && tenon_count(found) == tenon_count(expected));
  CHECK(memcmp(found->data, expected->data, size) == 0);
}

/* numbers worked out here */

enum {
  ROWS = 137,
  COLUMNS = 67,
  COUNT = ROWS * COLUMNS, /* more than a region runs as a whole */
};

static tenon_edge_t build_chain(tenon_builder_t *b, tenon_edge_t x, tenon_edge_t row) {
  tenon_edge_t y = two(b, "core::mul", x, graph_constant(b, "three", "f32[] 3"));
  y = two(b, "core::add", y, row);
  graph_output(b, "y", y);
  y = two(b, "core::reshape", y, graph_constant(b, "flat", "i64[1] 9179"));
  y = graph_step(b, "contract::halve", NULL, y);
  return two(b, "core::sub", y, graph_constant(b, "one", "f32[1] 1"));
}

TEST("scalars, rows, views, a kernel of a library and a value that is an output as well") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  graph_output(b, "z", build_chain(b, x, graph_input(b, "row", TENON_F32, 1)));
  tenon_executable_t *e = graph_compile(b, 0);
  int64_t shape[2] = {ROWS, COLUMNS};
  tenon_tensor_t *in[2], *out[2] = {NULL, NULL};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &in[0]), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape + 1, &in[1]), TENON_OK);
  for (int i = 0; i < COUNT; i++)
    ((float *)in[0]->data)[i] = (float)i;
  for (int i = 0; i < COLUMNS; i++)
    ((float *)in[1]->data)[i] = (float)(1000 * i);
  for (int round = 0; round < 2; round++) {
    CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_OK);
    for (int i = 0; i < COUNT; i++) {
      const float y = (float)(3 * i + 1000 * (i % COLUMNS));
      CHECK(((float *)out[0]->data)[i] == y);
      CHECK(((float *)out[1]->data)[i] == y / 2 - 1);
    }
    memset(out[0]->data, 0, COUNT * sizeof(float)); /* The second run writes to the same tensors. */
    memset(out[1]->data, 0, COUNT * sizeof(float));
  }
  CHECK(count_in_plan(e, "region of 4: core::mul core::add contract::halve core::sub") == 1);
  CHECK(count_in_plan(e, " tile ") == 2);
  for (int i = 0; i < 2; i++) {
    tenon_tensor_release(in[i]);
    tenon_tensor_release(out[i]);
  }
  tenon_executable_release(e);
}

TEST("an output that is in the memory of an input") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t twice = two(b, "core::add", x, x);
  graph_output(b, "y", two(b, "core::mul", twice, x));
  tenon_executable_t *e = graph_compile(b, 0);
  int64_t shape[1] = {COUNT};
  tenon_tensor_t *t;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &t), TENON_OK);
  for (int i = 0; i < COUNT; i++)
    ((float *)t->data)[i] = (float)(i % 100);
  tenon_tensor_t *in[1] = {t}, *out[1] = {t};
  CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_OK);
  for (int i = 0; i < COUNT; i++)
    CHECK(((float *)t->data)[i] == (float)(2 * (i % 100) * (i % 100)));
  tenon_tensor_release(t);
  tenon_executable_release(e);
}

TEST("few elements run in a region as well") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = two(b, "core::mul", x, graph_input(b, "by", TENON_F32, 0));
  graph_output(b, "y", two(b, "core::add", y, x));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[3] 1 2 3", "f32[] 10"), TEXTS("f32[3] 11 22 33"));
  CHECK_GRAPH(e, TEXTS("f32[3] 1 2 3", "f32[] 20"), TEXTS("f32[3] 21 42 63"));
  CHECK(count_in_plan(e, "region of 2") == 1);
  CHECK_GRAPH(e, TEXTS("f32[0]", "f32[] 20"), TEXTS("f32[0]"));
  tenon_executable_release(e);
}

/* what is outside */

TEST("a value that another node reads is whole, and a call joins past that node if it can") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t a = two(b, "core::add", x, x);
  tenon_edge_t turned = graph_step(b, "core::transpose", NULL, a);
  tenon_edge_t product = two(b, "core::matmul", turned, x);
  tenon_edge_t c = two(b, "core::mul", a, x);             /* joins the first addition */
  tenon_edge_t d = two(b, "core::add", product, product); /* cannot: the product is not there yet */
  graph_output(b, "c", two(b, "core::add", c, x));
  graph_output(b, "d", two(b, "core::mul", d, product));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[2,2] 1 2 3 4"),
              TEXTS("f32[2,2] 3 10 21 36", "f32[2,2] 800 1568 1568 3200"));
  CHECK(count_in_plan(e, "region of 3: core::add core::mul") == 1);
  CHECK(count_in_plan(e, "region of 2: core::add core::mul") == 1);
  CHECK(count_in_plan(e, " tile ") == 2);
  tenon_executable_release(e);
}

TEST("a node that reads a transposed view of the region's value does not join") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t a = two(b, "core::add", x, x);
  a = two(b, "core::mul", a, x);
  tenon_edge_t turned = graph_step(b, "core::transpose", NULL, a);
  graph_output(b, "y", two(b, "core::sub", turned, x));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[2,2] 1 2 3 4"), TEXTS("f32[2,2] 1 16 5 28"));
  CHECK(count_in_plan(e, "region of 2: core::add core::mul") == 1);
  tenon_executable_release(e);
}

/* errors and watching */

TEST("an error in a region names the node and the element, and the next run works") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = two(b, "core::add", x, x);
  graph_node(b, "the_check", "contract::refuse", "above=3.0", (tenon_edge_t[]){y, -1}, &y, 1);
  graph_output(b, "y", two(b, "core::add", y, x));
  tenon_executable_t *e = graph_compile(b, 0);
  int64_t shape[1] = {COUNT};
  tenon_tensor_t *in, *out = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &in), TENON_OK);
  memset(in->data, 0, COUNT * sizeof(float));
  for (int round = 0; round < 2; round++) {
    ((float *)in->data)[9000] = 2;
    CHECK_STATUS(tenon_executable_run(e, &in, &out, NULL), TENON_RANGE);
    CHECK_TEXT(tenon_error(), "node 'the_check' (contract::refuse): contract::refuse: element 9000 "
                              "is 4: expected at most 3");
    CHECK(!out);
    ((float *)in->data)[9000] = 1;
    CHECK_STATUS(tenon_executable_run(e, &in, &out, NULL), TENON_OK);
    CHECK(((float *)out->data)[9000] == 3);
    tenon_tensor_release(out);
    out = NULL;
  }
  tenon_tensor_release(in);
  tenon_executable_release(e);
}

TEST("the search for NaN sees every node of a region, and regions return after it") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y;
  graph_node(b, "the_root", "core::sqrt", NULL, (tenon_edge_t[]){x, -1}, &y, 1);
  graph_output(b, "y", two(b, "core::max", two(b, "core::sub", y, y), x));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[2] 4 9"), TEXTS("f32[2] 4 9"));
  CHECK(count_in_plan(e, "region of 3") == 1);
  CHECK_STATUS(tenon_nan_set("stop"), TENON_OK);
  check_run_refused(e, TEXTS("f32[2] 4 -1"), TENON_ABORTED, "the_root");
  CHECK(count_in_plan(e, "region of") == 0);
  CHECK_STATUS(tenon_nan_set(NULL), TENON_OK);
  CHECK_GRAPH(e, TEXTS("f32[2] 4 9"), TEXTS("f32[2] 4 9"));
  CHECK(count_in_plan(e, "region of 3") == 1);
  tenon_executable_release(e);
}

/* random graphs against the plain run */

enum {
  VALUES = 40,
  INPUTS = 3,
};

static uint32_t pick(uint64_t seed, uint64_t *at, uint32_t count) {
  return tenon_random(seed, (*at)++) % count;
}

/* Adds a node that reads earlier values, which all have shape [rows, columns] and dtype f32. */
static tenon_edge_t add_random_node(tenon_builder_t *b, const tenon_edge_t *values, int count,
                                    uint64_t seed, uint64_t *at) {
  static const char *const binary[] = {"core::add", "core::mul", "core::sub", "core::max",
                                       "contract::product"};
  static const char *const unary[] = {"core::abs", "core::neg", "core::exp", "contract::halve",
                                      "core::tanh"};
  const tenon_edge_t x = values[pick(seed, at, (uint32_t)count)];
  const tenon_edge_t y = values[pick(seed, at, (uint32_t)count)];
  tenon_edge_t z;
  switch (pick(seed, at, 10)) {
  case 0: /* rows and columns of another value, broadcast */
    z = two(b, "core::reduce_max", y, graph_constant(b, NULL, "i64[1] 1"));
    return two(b, "core::sub", x, z);
  case 1:
    z = two(b, "core::reduce_sum", y, graph_constant(b, NULL, "i64[1] 0"));
    return two(b, "core::add", z, x);
  case 2: /* a view in other axes, and back */
    z = two(b, "core::reshape", x, graph_constant(b, NULL, "i64[1] -1"));
    z = graph_step(b, unary[pick(seed, at, 5)], NULL, z);
    z = two(b, "core::reshape", z, graph_constant(b, NULL, "i64[2] 31 -1"));
    return two(b, binary[pick(seed, at, 5)], z, y);
  case 3: /* a transposed one */
    z = graph_step(b, "core::transpose", NULL, x);
    z = graph_step(b, unary[pick(seed, at, 5)], NULL, z);
    z = graph_step(b, "core::transpose", NULL, z);
    return two(b, "core::max", z, y);
  case 4: /* other dtypes */
    z = graph_step(b, "core::cast", "to=f16", x);
    z = two(b, "core::add", z, z);
    return graph_step(b, "core::cast", "to=f32", z);
  case 5:
    z = graph_step(b, "core::cast", "to=f64", x);
    z = graph_step(b, "core::abs", NULL, z);
    return graph_step(b, "core::cast", "to=f32", z);
  case 6:
    return graph_step(b, unary[pick(seed, at, 5)], NULL, x);
  default:
    return two(b, binary[pick(seed, at, 5)], x, y);
  }
}

static tenon_executable_t *compile_random(uint64_t seed, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t values[VALUES];
  uint64_t at = 0;
  char name[16];
  int count = 0;
  for (; count < INPUTS; count++) {
    snprintf(name, sizeof name, "x%d", count);
    values[count] = graph_input(b, name, TENON_F32, 2);
  }
  for (; count < VALUES; count++)
    values[count] = add_random_node(b, values, count, seed, &at);
  for (int i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "y%d", i);
    graph_output(b, name, values[INPUTS + pick(seed, &at, VALUES - INPUTS)]);
  }
  graph_output(b, "last", values[VALUES - 1]);
  return graph_compile(b, flags);
}

static int check_random(uint64_t seed) {
  tenon_executable_t *e = compile_random(seed, 0);
  tenon_executable_t *plain = compile_random(seed, TENON_COMPILE_PLAIN);
  tenon_tensor_t *in[INPUTS], *out[5] = {NULL}, *expected[5] = {NULL};
  char text[48];
  for (int i = 0; i < INPUTS; i++) {
    snprintf(text, sizeof text, "f32[31,%d] ~%d", (const int[]){7, 131, 331}[seed % 3],
             (int)seed + i);
    in[i] = tensor_of(text);
  }
  CHECK_STATUS(tenon_executable_run(plain, in, expected, NULL), TENON_OK);
  CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_OK);
  for (int i = 0; i < 5; i++) {
    check_same(out[i], expected[i]);
    tenon_tensor_release(out[i]);
    tenon_tensor_release(expected[i]);
  }
  for (int i = 0; i < INPUTS; i++)
    tenon_tensor_release(in[i]);
  const int regions = count_in_plan(e, "region of");
  CHECK(count_in_plan(plain, "region of") == 0);
  tenon_executable_release(e);
  tenon_executable_release(plain);
  return regions;
}

TEST("100 random graphs give the bits of the plain run") {
  start();
  int regions = 0;
  for (uint64_t seed = 0; seed < 100; seed++)
    regions += check_random(seed);
  CHECK(regions > 200);
}

TEST("nothing is left behind") { tenon_shutdown(); }
