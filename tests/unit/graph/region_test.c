/* Regions: pointwise nodes over equally many elements run piece by piece, and give the bits of the
 * plain run. Expected numbers are computed here, or come from the same graph compiled with
 * TENON_COMPILE_PLAIN, which runs node by node. */
#include <math.h>
#include <tenon/iterator.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "capture.h"
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

TEST("a loop reads the mean of the only row after the region has written it") {
  tenon_builder_t *b[2] = {graph_begin(), graph_begin()};
  tenon_executable_t *e[2];
  for (int i = 0; i < 2; i++) {
    const tenon_edge_t x = graph_input(b[i], "x", TENON_F32, 2);
    const tenon_edge_t y = graph_step(b[i], "core::abs", NULL, x);
    const tenon_edge_t m =
        two(b[i], "core::reduce_mean", y, graph_constant(b[i], "axes", "i64[1] 1"));
    graph_output(b[i], "m", m);
    graph_output(b[i], "z", two(b[i], "core::pow", y, m));
    e[i] = graph_compile(b[i], i ? TENON_COMPILE_PLAIN : 0);
  }
  int64_t shape[2] = {1, COUNT};
  tenon_tensor_t *t, *found[2] = {NULL, NULL}, *expected[2] = {NULL, NULL};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &t), TENON_OK);
  for (int round = 1; round < 4; round++) { /* a run must not read the mean of the run before */
    for (int i = 0; i < COUNT; i++)
      ((float *)t->data)[i] = (float)(round * (i % 5)) / 4;
    CHECK_STATUS(tenon_executable_run(e[0], &t, found, NULL), TENON_OK);
    CHECK_STATUS(tenon_executable_run(e[1], &t, expected, NULL), TENON_OK);
    for (int o = 0; o < 2; o++)
      check_same(found[o], expected[o]);
  }
  CHECK(count_in_plan(e[0], "region of 3: core::abs core::reduce_mean core::pow") == 1);
  tenon_tensor_release(t);
  for (int o = 0; o < 2; o++) {
    tenon_tensor_release(found[o]);
    tenon_tensor_release(expected[o]);
    tenon_executable_release(e[o]);
  }
}

TEST("a value with one element that is an output as well is written before links read it") {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
  tenon_edge_t size = graph_step(b, "core::abs", NULL, x);
  tenon_edge_t y = two(b, "core::add", size, graph_constant(b, "one", "f32[] 1"));
  tenon_edge_t z = two(b, "core::mul", size, size);
  z = two(b, "core::mul", z, graph_constant(b, "half", "f32[] 0.5"));
  graph_output(b, "y", y);
  graph_output(b, "z", two(b, "core::sub", z, y));
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_GRAPH(e, TEXTS("f32[] 4"), TEXTS("f32[] 5", "f32[] 3"));
  CHECK_GRAPH(e, TEXTS("f32[] -6"), TEXTS("f32[] 7", "f32[] 11"));
  CHECK(count_in_plan(e, "region of 5") == 1);
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

TEST("the trace shows each node of a planned run, and regions return after it") {
  start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t y;
  graph_node(b, "twice", "core::add", NULL, (tenon_edge_t[]){x, x, -1}, &y, 1);
  graph_node(b, "the_rows", "contract::softmax", NULL, (tenon_edge_t[]){y, -1}, &y, 1);
  graph_output(b, "y", y);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_STATUS(tenon_trace_set("dispatch,args"), TENON_OK);
  capture();
  CHECK_GRAPH(e, TEXTS("f32[1,2] 3 3"), TEXTS("f32[1,2] 0.5 0.5"));
  const char *lines = release_capture();
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_TEXT(lines, "node twice core::add -> cpu loop f32, f32 -> f32");
  CHECK_TEXT(lines, "node the_rows contract::softmax -> cpu row f32 -> f32 [contract] "
                    "(f32[1, 2])\n");
  CHECK_GRAPH(e, TEXTS("f32[1,2] 3 3"), TEXTS("f32[1,2] 0.5 0.5"));
  CHECK(count_in_plan(e, "region of 2") == 1);
  tenon_executable_release(e);
}

/* rows */

/* Compiles the graph of `build`, runs it with inputs of these shapes and numbers, and compares the
 * results with those of the plain run, bit by bit. The caller releases the executable. */
static tenon_executable_t *check_with_plain(void (*build)(tenon_builder_t *b),
                                            const char *const *texts) {
  tenon_builder_t *graphs[2] = {graph_begin(), graph_begin()};
  tenon_executable_t *e[2];
  tenon_tensor_t *outputs[2][16] = {{NULL}};
  start();
  for (int i = 0; i < 2; i++) {
    build(graphs[i]);
    e[i] = graph_compile(graphs[i], i ? TENON_COMPILE_PLAIN : 0);
    CHECK_STATUS(graph_run(e[i], texts, outputs[i]), TENON_OK);
  }
  const int32_t count = tenon_graph_output_count(tenon_executable_graph(e[0]));
  for (int32_t o = 0; o < count; o++) {
    check_same(outputs[0][o], outputs[1][o]);
    tenon_tensor_release(outputs[0][o]);
    tenon_tensor_release(outputs[1][o]);
  }
  tenon_executable_release(e[1]);
  return e[0];
}

static void build_norm(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 3);
  tenon_edge_t bias = graph_input(b, "bias", TENON_F32, 1);
  tenon_edge_t y = two(b, "core::add", x, bias);
  y = graph_step(b, "core::gelu", NULL, y);
  tenon_edge_t inputs[16] = {two(b, "core::add", y, x), graph_input(b, "scale", TENON_F32, 1), bias,
                             -1};
  tenon_edge_t results[3];
  graph_node(b, NULL, "core::layer_norm", NULL, inputs, results, 3);
  y = two(b, "core::mul", two(b, "core::sub", inputs[0], results[1]), results[2]);
  y = graph_step(b, "contract::softmax", NULL, two(b, "core::add", results[0], y));
  graph_output(b, "y", graph_step(b, "contract::halve", NULL, y));
  graph_output(b, "mean", results[1]);
}

TEST("a bias, a norm with its statistics, a row kernel of a library and loops are one region") {
  tenon_executable_t *e =
      check_with_plain(build_norm, TEXTS("f32[3,29,131] ~1", "f32[131] ~2", "f32[131] ~3"));
  CHECK(count_in_plan(e, "region of 9: core::add core::gelu core::layer_norm core::sub core::mul "
                         "contract::softmax contract::halve") == 1);
  CHECK(count_in_plan(e, " of 87 rows of 131 elements") == 1);
  CHECK(count_in_plan(e, "    call  ") == 2);
  CHECK(count_in_plan(e, "no other node of this stage reads its values") == 1);
  CHECK(count_in_plan(e, " tile ") == 9);
  tenon_executable_release(e);
}

static tenon_edge_t input_as_f16(tenon_builder_t *b, const char *name, int32_t ndim) {
  return graph_step(b, "core::cast", "to=f16", graph_input(b, name, TENON_F32, ndim));
}

static void build_per_row(tenon_builder_t *b) {
  tenon_edge_t x = input_as_f16(b, "x", 2);
  tenon_edge_t last = graph_constant(b, "last", "i64[1] -1");
  tenon_edge_t y = two(b, "core::reduce_mean", two(b, "core::mul", x, x), last);
  y = two(b, "core::add", y, graph_constant(b, "least", "f16[] 0.125"));
  y = two(b, "contract::product", x, graph_step(b, "core::sqrt", NULL, y));
  tenon_edge_t inputs[16] = {y, -1};
  tenon_edge_t results[2];
  graph_node(b, NULL, "contract::peak", NULL, inputs, results, 2);
  graph_output(b, "row", results[1]);
  y = two(b, "core::reshape", results[0], graph_constant(b, "column", "i64[2] -1 1"));
  graph_output(b, "y", two(b, "core::sub", inputs[0], y));
}

TEST("results with one element for each row are read along the row, and rows have their numbers") {
  tenon_executable_t *e = check_with_plain(build_per_row, TEXTS("f32[150,66] ~1"));
  CHECK(count_in_plan(e, "region of 8: core::cast core::mul core::reduce_mean core::add core::sqrt "
                         "contract::product contract::peak core::sub") == 1);
  tenon_executable_release(e);
}

static void build_square(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t y = graph_step(b, "core::softmax", NULL, two(b, "core::add", x, x));
  tenon_edge_t last = graph_constant(b, "last", "i64[1] 1");
  tenon_edge_t sums;
  graph_node(b, NULL, "core::reduce_sum", "keepdims=False", (tenon_edge_t[]){y, last, -1}, &sums,
             1);
  graph_output(b, "y", two(b, "core::sub", y, sums)); /* the sums of rows, along columns */
}

TEST("an element for each row does not stand for a column of the same length") {
  tenon_executable_t *e = check_with_plain(build_square, TEXTS("f32[97,97] ~1"));
  CHECK(count_in_plan(e, "region of 3: core::add core::softmax core::reduce_sum") == 1);
  CHECK(count_in_plan(e, "(core::sub) reads a value of it, but reads the value in another "
                         "layout") == 1);
  tenon_executable_release(e);
}

static void build_other_rows(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 3);
  tenon_edge_t y = graph_step(b, "core::softmax", NULL, two(b, "core::add", x, x));
  graph_output(b, "y", graph_step(b, "core::softmax", "axis=1", y));
  y = two(b, "core::reduce_max", y, graph_constant(b, "first", "i64[1] 0"));
  graph_output(b, "z", y);
}

TEST("rows of another length, and reductions over first axes, end a region") {
  tenon_executable_t *e = check_with_plain(build_other_rows, TEXTS("f32[5,40,50] ~1"));
  CHECK(count_in_plan(e, "region of 2: core::add core::softmax") == 1);
  CHECK(count_in_plan(e, "(core::softmax) reads a value of it, but has rows of another length") ==
        1);
  tenon_executable_release(e);
}

static void build_long_rows(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t y = two(b, "core::mul", two(b, "core::add", x, x), x);
  graph_output(b, "y", graph_step(b, "core::log_softmax", NULL, y));
}

TEST("rows that do not stay in cache end a region") {
  tenon_executable_t *e = check_with_plain(build_long_rows, TEXTS("f32[2,16385] ~1"));
  CHECK(count_in_plan(e, "region of 2: core::add core::mul") == 1);
  CHECK(count_in_plan(e, "but has rows of more than 16384 elements") == 1);
  tenon_executable_release(e);
}

static void build_turned(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t y = graph_step(b, "core::softmax", NULL, two(b, "core::add", x, x));
  tenon_edge_t turned = graph_step(b, "core::transpose", NULL, y);
  graph_output(b, "y", graph_step(b, "core::softmax", NULL, turned));
  /* The rows of an input that is not dense are copied before. */
  turned = graph_step(b, "core::transpose", NULL, x);
  graph_output(b, "z", two(b, "core::mul", graph_step(b, "core::softmax", NULL, turned), x));
}

TEST("rows of transposed values are copied before a region reads them") {
  tenon_executable_t *e = check_with_plain(build_turned, TEXTS("f32[101,101] ~1"));
  CHECK(count_in_plan(e, "region of 2: core::add core::softmax") == 1);
  CHECK(count_in_plan(e, "region of 2: core::softmax core::mul") == 1);
  tenon_executable_release(e);
}

static tenon_status_t triple_stub(const tenon_iterator_t *it) {
  for (int64_t i = it->begin; i < it->end; i++) {
    const char *x = (const char *)it->tensors[0]->data + tenon_iterator_at(it, 0, i, 0);
    char *out = (char *)it->tensors[1]->data + tenon_iterator_at(it, 1, i, 0);
    *(float *)(void *)out = 3 * *(const float *)(const void *)x;
  }
  return TENON_OK;
}

/* clang-format off */
static const tenon_item_t stub_items[] = {
  TENON_OP("triple(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_STUB("cpu f32", triple_stub)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t stubs = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "stubs", "1.0.0", stub_items};

static void build_stub(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t y = graph_step(b, "stubs::triple", NULL, two(b, "core::add", x, x));
  graph_output(b, "y", graph_step(b, "contract::softmax", NULL, y));
}

TEST("the stub of a pointwise operator of a library joins") {
  CHECK_STATUS(tenon_library_add(&stubs, NULL, NULL, NULL), TENON_OK);
  tenon_executable_t *e = check_with_plain(build_stub, TEXTS("f32[211,53] ~1"));
  CHECK(count_in_plan(e, "region of 3: core::add stubs::triple contract::softmax") == 1);
  tenon_executable_release(e);
}

static void build_shared(tenon_builder_t *b) {
  tenon_edge_t gain = input_as_f16(b, "gain", 2);
  tenon_edge_t per_row = input_as_f16(b, "per_row", 3);
  tenon_edge_t x = input_as_f16(b, "x", 3);
  tenon_edge_t y = two(b, "contract::scale", two(b, "core::add", x, x), gain);
  y = two(b, "core::mul", y, per_row);
  graph_output(b, "y", two(b, "contract::scale", y, x));
}

TEST("a row that all rows share and an input with an element for each row join") {
  tenon_executable_t *e =
      check_with_plain(build_shared, TEXTS("f32[1,50] ~2", "f32[7,31,1] ~3", "f32[7,31,50] ~1"));
  CHECK(count_in_plan(e, "region of 5: core::cast core::add contract::scale core::mul") == 1);
  tenon_executable_release(e);
}

/* links of chains */

static const char *const ones[] = {"core::abs",  "core::neg",   "core::reciprocal",
                                   "core::relu", "core::rsqrt", "core::sqrt"};
static const char *const twos[] = {"core::add", "core::div", "core::max",
                                   "core::min", "core::mul", "core::sub"};

static void add_output(tenon_builder_t *b, tenon_edge_t value, int *count) {
  char name[16];
  snprintf(name, sizeof name, "out%d", (*count)++);
  graph_output(b, name, value);
}

/* Each operator gets the result of a link of its own. */
static void build_links(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = graph_input(b, "y", TENON_F32, 1);
  tenon_edge_t number = graph_input(b, "number", TENON_F32, 0);
  int count = 0;
  for (int i = 0; i < 6; i++) {
    add_output(b, graph_step(b, ones[i], NULL, two(b, "core::max", x, x)), &count);
    for (int form = 0; form < 5; form++) {
      tenon_edge_t block = two(b, "core::min", x, x);
      tenon_edge_t other = form < 2 ? y : number;
      if (form == 4) other = block;
      const tenon_edge_t inputs[2] = {block, other};
      add_output(b, two(b, twos[i], inputs[form % 2], inputs[1 - form % 2]), &count);
    }
  }
}

/* Compares the links with their kernels, for each of some numbers as the one that is broadcast. */
static void check_links(tenon_executable_t *const *e, int64_t count) {
  static const float special[] = {0.0f, -0.0f,  1.0f,    -2.5f,   INFINITY, -INFINITY,
                                  NAN,  1e-40f, -1e-40f, 3.4e38f, 0.1f};
  enum { KINDS = sizeof special / sizeof *special };
  tenon_tensor_t *in[3];
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), i < 2, &count, &in[i]), TENON_OK);
  for (int64_t i = 0; i < count; i++) {
    ((float *)in[0]->data)[i] = special[i % KINDS];
    ((float *)in[1]->data)[i] = special[i / KINDS % KINDS];
  }
  for (int kind = 0; kind < KINDS; kind++) {
    tenon_tensor_t *out[2][36] = {{NULL}};
    *(float *)in[2]->data = special[kind];
    for (int i = 0; i < 2; i++)
      CHECK_STATUS(tenon_executable_run(e[i], in, out[i], NULL), TENON_OK);
    for (int o = 0; o < 36; o++) {
      check_same(out[0][o], out[1][o]);
      tenon_tensor_release(out[0][o]);
      tenon_tensor_release(out[1][o]);
    }
  }
  for (int i = 0; i < 3; i++)
    tenon_tensor_release(in[i]);
}

TEST("each link has the bits of its kernel: zeros, infinities, NaN, and ends of vectors") {
  tenon_executable_t *e[2];
  for (int i = 0; i < 2; i++) {
    tenon_builder_t *b = graph_begin();
    build_links(b);
    /* equal nodes stay, because each has a link of its own */
    e[i] = graph_compile_with(
        b, (tenon_compile_t){.flags = i ? TENON_COMPILE_PLAIN : 0, .without = "equal_nodes"});
  }
  check_links(e, COUNT); /* piece by piece */
  CHECK(count_in_plan(e[0], "    link  ") == 72);
  check_links(e, 333); /* on whole values */
  CHECK(count_in_plan(e[0], "    link  ") == 72);
  tenon_executable_release(e[0]);
  tenon_executable_release(e[1]);
}

static void build_kept(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t row = graph_input(b, "row", TENON_F32, 1); /* is packed for each piece */
  tenon_edge_t a = two(b, "core::mul", row, x);
  tenon_edge_t c = two(b, "core::add", a, graph_constant(b, "half", "f32[] 0.5"));
  tenon_edge_t d = two(b, "core::sub", c, a); /* a is kept for it, and c for the last node */
  tenon_edge_t mean = two(b, "core::reduce_mean", d, graph_constant(b, "last", "i64[1] -1"));
  tenon_edge_t f = two(b, "core::mul", graph_step(b, "core::tanh", NULL, d), mean);
  graph_output(b, "mean", graph_step(b, "core::neg", NULL, mean)); /* has other rows */
  graph_output(b, "f", f);
  graph_output(b, "y", two(b, "core::div", two(b, "core::max", f, c), row));
}

TEST("results of links are kept for later members, and links read rows and an element for each") {
  tenon_executable_release(check_with_plain(build_kept, TEXTS("f32[13,67] ~1", "f32[67] ~2")));
  tenon_executable_t *e = check_with_plain(build_kept, TEXTS("f32[137,67] ~1", "f32[67] ~2"));
  CHECK(count_in_plan(e, "region of 9") == 1);
  CHECK(count_in_plan(e, "    link  ") == 7);
  tenon_executable_release(e);
}

static void build_columns(tenon_builder_t *b) {
  tenon_edge_t x = graph_step(b, "core::transpose", NULL, graph_input(b, "x", TENON_F32, 2));
  tenon_edge_t row = graph_input(b, "row", TENON_F32, 1);
  tenon_edge_t y = graph_step(b, "contract::halve", NULL, two(b, "core::mul", x, row));
  y = two(b, "core::sub", y, two(b, "core::add", x, x));
  graph_output(b, "columns", y);
  y = two(b, "core::max", y, x);
  graph_output(b, "flat", graph_step(b, "core::neg", NULL, two(b, "core::mul", y, y)));
  y = graph_step(b, "core::exp", NULL, graph_step(b, "core::transpose", NULL, y));
  graph_output(b, "rows", two(b, "core::add", y, y));
}

TEST("values whose columns lie one after another form a region, and those of rows another") {
  tenon_executable_t *e = check_with_plain(build_columns, TEXTS("f32[67,137] ~1", "f32[67] ~2"));
  CHECK(count_in_plan(e, "region of 7: core::mul contract::halve core::add core::sub") == 1);
  CHECK(count_in_plan(e, "but makes a result in another layout") == 1);
  CHECK(count_in_plan(e, "region of 2: core::exp core::add") == 1);
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

/* Adds a fold of each row, some loops over its results, and a node that reads them along rows. */
static tenon_edge_t add_per_row(tenon_builder_t *b, tenon_edge_t x, tenon_edge_t y,
                                const char *fold, bool keeps) {
  const tenon_edge_t inputs[16] = {x, graph_constant(b, NULL, "i64[1] -1"), -1};
  tenon_edge_t z;
  graph_node(b, NULL, fold, keeps ? NULL : "keepdims=False", inputs, &z, 1);
  z = graph_step(b, "core::abs", NULL, z);
  z = two(b, "core::add", z, graph_constant(b, NULL, "f32[] 0.5"));
  if (!keeps) z = two(b, "core::reshape", z, graph_constant(b, NULL, "i64[2] -1 1"));
  return two(b, keeps ? "core::div" : "contract::product", y, z);
}

/* Adds a node that reads earlier values, which all have shape [rows, columns] and dtype f32. */
static tenon_edge_t add_random_node(tenon_builder_t *b, const tenon_edge_t *values, int count,
                                    uint64_t seed, uint64_t *at) {
  static const char *const binary[] = {"core::add", "core::mul", "core::sub",
                                       "core::max", "core::min", "contract::product"};
  static const char *const unary[] = {"core::abs",       "core::neg",  "core::exp",
                                      "contract::halve", "core::tanh", "core::relu"};
  static const char *const rows[] = {"core::softmax",  "core::log_softmax", "core::layer_norm",
                                     "core::rms_norm", "contract::softmax", "contract::softmax"};
  static const char *const casts[] = {"to=f16", "to=bf16", "to=f64", "to=i32"};
  static const char *const folds[] = {"core::reduce_sum", "core::reduce_max", "core::reduce_mean",
                                      "core::reduce_l2"};
  const tenon_edge_t x = values[pick(seed, at, (uint32_t)count)];
  const tenon_edge_t y = values[pick(seed, at, (uint32_t)count)];
  tenon_edge_t z;
  switch (pick(seed, at, 18)) {
  case 0: /* rows and columns of another value, broadcast */
    z = two(b, "core::reduce_max", y, graph_constant(b, NULL, "i64[1] 1"));
    return two(b, "core::sub", x, z);
  case 1:
    z = two(b, "core::reduce_sum", y, graph_constant(b, NULL, "i64[1] 0"));
    return two(b, "core::add", z, x);
  case 2: /* a view in other axes, and back */
    z = two(b, "core::reshape", x, graph_constant(b, NULL, "i64[1] -1"));
    z = graph_step(b, unary[pick(seed, at, 6)], NULL, z);
    z = two(b, "core::reshape", z, graph_constant(b, NULL, "i64[2] 97 -1"));
    return two(b, binary[pick(seed, at, 6)], z, y);
  case 3: /* a transposed one */
    z = graph_step(b, "core::transpose", NULL, x);
    z = graph_step(b, unary[pick(seed, at, 6)], NULL, z);
    z = graph_step(b, "core::transpose", NULL, z);
    return two(b, "core::max", z, y);
  case 4: /* other dtypes */
    z = graph_step(b, "core::cast", casts[pick(seed, at, 4)], x);
    z = two(b, "core::add", z, z);
    return graph_step(b, "core::cast", "to=f32", z);
  case 5:
    z = graph_step(b, "core::cast", casts[pick(seed, at, 2)], x);
    z = graph_step(b, rows[pick(seed, at, 5)], NULL, z);
    return graph_step(b, "core::cast", "to=f32", graph_step(b, "core::abs", NULL, z));
  case 6:
    return graph_step(b, unary[pick(seed, at, 6)], NULL, x);
  case 7:
  case 8: /* kernels of rows, also of the library, over rows and columns */
    return graph_step(b, rows[pick(seed, at, 6)], NULL, x);
  case 9:
    return graph_step(b, rows[pick(seed, at, 3)], "axis=0", x);
  case 10:
    return add_per_row(b, x, y, folds[pick(seed, at, 4)], pick(seed, at, 2));
  case 11: /* a row that all rows share, and one for each */
    z = two(b, "core::reduce_mean", y, graph_constant(b, NULL, "i64[1] 0"));
    return two(b, "contract::scale", x, pick(seed, at, 2) ? z : y);
  case 12:
    z = graph_constant(b, NULL, pick(seed, at, 2) ? "f32[] -0.75" : "f32[] 1.5");
    return pick(seed, at, 2) ? two(b, binary[pick(seed, at, 6)], x, z)
                             : two(b, binary[pick(seed, at, 6)], z, x);
  default:
    return two(b, binary[pick(seed, at, 6)], x, y);
  }
}

/* Compiles the first `count` values of a graph. */
static tenon_executable_t *compile_random(uint64_t seed, int count, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t values[VALUES];
  uint64_t at = 0;
  char name[16];
  int i = 0;
  for (; i < INPUTS; i++) {
    snprintf(name, sizeof name, "x%d", i);
    values[i] = graph_input(b, name, TENON_F32, 2);
  }
  for (; i < count; i++)
    values[i] = add_random_node(b, values, i, seed, &at);
  for (i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "y%d", i);
    graph_output(b, name, values[INPUTS + pick(seed, &at, (uint32_t)(count - INPUTS))]);
  }
  graph_output(b, "last", values[count - 1]);
  return graph_compile(b, flags);
}

/* Returns whether the first `count` values of a graph have the bits of the plain run. */
static bool agrees(uint64_t seed, int count, int *out_regions) {
  tenon_executable_t *e = compile_random(seed, count, 0);
  tenon_executable_t *plain = compile_random(seed, count, TENON_COMPILE_PLAIN);
  tenon_tensor_t *in[INPUTS], *out[5] = {NULL}, *expected[5] = {NULL};
  char text[48];
  bool is_same = true;
  for (int i = 0; i < INPUTS; i++) {
    snprintf(text, sizeof text, "f32[97,%d] ~%d", (const int[]){7, 97, 131, 331}[seed % 4],
             (int)(seed % 1000) + i);
    in[i] = tensor_of(text);
  }
  CHECK_STATUS(tenon_executable_run(plain, in, expected, NULL), TENON_OK);
  CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_OK);
  for (int i = 0; i < 5; i++) {
    const size_t size = (size_t)tenon_count(expected[i]) * sizeof(float);
    is_same &= memcmp(out[i]->data, expected[i]->data, size) == 0;
    tenon_tensor_release(out[i]);
    tenon_tensor_release(expected[i]);
  }
  for (int i = 0; i < INPUTS; i++)
    tenon_tensor_release(in[i]);
  *out_regions = count_in_plan(e, "region of");
  CHECK(count_in_plan(plain, "region of") == 0);
  tenon_executable_release(e);
  tenon_executable_release(plain);
  return is_same;
}

/* Returns the number of regions. Of a graph that fails, the shortest beginning that fails is
 * told. */
static int check_random(uint64_t seed) {
  int regions;
  if (CHECK(agrees(seed, VALUES, &regions))) return regions;
  int count = INPUTS + 1;
  int ignored;
  while (count < VALUES && agrees(seed, count, &ignored))
    count++;
  fprintf(stderr, "graph %llu differs from its %dth node on; TENON_GRAPH=%llu TENON_GRAPHS=1\n",
          (unsigned long long)seed, count - INPUTS, (unsigned long long)seed);
  return regions;
}

/* Reads a number from a variable: TENON_GRAPHS is the number of graphs, and TENON_GRAPH the first
 * of them. */
static uint64_t number_of(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

TEST("random graphs give the bits of the plain run") {
  start();
  const uint64_t first = number_of("TENON_GRAPH", 0);
  const uint64_t count = number_of("TENON_GRAPHS", 400);
  int regions = 0;
  for (uint64_t seed = first; seed < first + count; seed++)
    regions += check_random(seed);
  CHECK(regions >= (int)(2 * count));
}

TEST("nothing is left behind") { tenon_shutdown(); }
