/* Regions on devices: pointwise nodes with source kernels, built-in ones and those of libraries,
 * run as one kernel, and give the bits of the plain run, which launches each node. Expected numbers
 * are computed here where operations are exact. The texts of kernels also compile as CUDA C++,
 * where nvcc is installed. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "tensors.h"

#include "device/fused.h"
#include "drivers/grid.h"
#include "graph/device_region.h"
#include "operators.h"

#include "failing.h"
#include "there.h"

static const char *const names[] = {"sim", "opencl", "cuda"};
static const uint32_t groups[] = {0, 1, 3, 64};
static char folder[] = "/tmp/tenon-region-XXXXXX";

static void start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("fused::tilt", &op) == TENON_OK) return;
  CHECK(mkdtemp(folder) != NULL);
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libsource.so", 0, NULL), TENON_OK);
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libfused.so", 0, NULL), TENON_OK);
}

static bool is_there(const char *name) {
  int32_t count;
  return tenon_device_count(name, &count) == TENON_OK;
}

static tenon_edge_t one(tenon_builder_t *b, const char *name, const char *attrs, tenon_edge_t x) {
  return graph_step(b, name, attrs, x);
}

static tenon_edge_t two(tenon_builder_t *b, const char *name, tenon_edge_t a, tenon_edge_t c) {
  const tenon_edge_t inputs[16] = {a, c, -1, -1};
  tenon_edge_t result;
  graph_node(b, NULL, name, NULL, inputs, &result, 1);
  return result;
}

static tenon_edge_t three(tenon_builder_t *b, const char *name, tenon_edge_t a, tenon_edge_t c,
                          tenon_edge_t d) {
  const tenon_edge_t inputs[16] = {a, c, d, -1};
  tenon_edge_t result;
  graph_node(b, NULL, name, NULL, inputs, &result, 1);
  return result;
}

/* Adds an input with these axes: a letter is the name of an extent, a digit its number. */
static tenon_edge_t input(tenon_builder_t *b, const char *name, uint32_t dtype, const char *axes) {
  static const char *const letters[] = {"a", "b", "c"};
  tenon_axis_t list[TENON_RANK_MAX];
  tenon_edge_t edge = -1;
  const int32_t ndim = (int32_t)strlen(axes);
  for (int32_t d = 0; d < ndim; d++) {
    const bool is_number = isdigit((unsigned char)axes[d]);
    list[d] = is_number ? (tenon_axis_t){axes[d] - '0', NULL}
                        : (tenon_axis_t){-1, letters[axes[d] - 'a']};
  }
  CHECK_STATUS(tenon_builder_input(b, name, tenon_dtype(dtype), ndim, list, &edge), TENON_OK);
  return edge;
}

static bool is_same(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  const size_t size = (size_t)tenon_count(b) * b->dtype.bits / 8;
  return a->ndim == b->ndim && tenon_count(a) == tenon_count(b) &&
         memcmp(a->data, b->data, size) == 0;
}

/* A graph of this test. */
typedef struct graph_t {
  void (*build)(tenon_builder_t *b);
  const char *inputs[2][4]; /* for two runs, whose shapes differ */
  int32_t launches;         /* of regions in a run */
  const char *label;        /* of its first region, in the plan */
} graph_t;

static tenon_executable_t *compile(const graph_t *g, tenon_device_t device, uint32_t flags) {
  tenon_builder_t *b = graph_begin();
  g->build(b);
  return graph_compile_with(b, (tenon_compile_t){.device = device, .flags = flags});
}

static void check_launches(tenon_executable_t *e, int32_t expected) {
  uint64_t launches = 0;
  for (size_t i = 0; i < e->device_regions.count; i++)
    launches += e->device_regions.at[i]->launches;
  CHECK(launches == (uint64_t)expected);
}

/* Compares the runs with regions and the plain runs, bit by bit. */
static void check_on(const graph_t *g, const char *name) {
  const tenon_device_t device = device_of(name, 0);
  tenon_executable_t *fused = compile(g, device, 0);
  tenon_executable_t *plain = compile(g, device, TENON_COMPILE_PLAIN);
  int32_t runs = 0;
  for (int i = 0; i < 8; i++) {
    tenon_tensor_t *found[16] = {NULL};
    tenon_tensor_t *expected[16] = {NULL};
    const char *const *inputs = g->inputs[i % 2];
    if (!inputs[0]) continue;
    tn_grid_group_set(groups[i / 2]);
    CHECK_STATUS(graph_run(fused, inputs, found), TENON_OK);
    CHECK_STATUS(graph_run(plain, inputs, expected), TENON_OK);
    runs++;
    for (int o = 0; o < 16 && found[o] && expected[o]; o++)
      CHECK(is_same(found[o], expected[o]));
    for (int o = 0; o < 16; o++) {
      tenon_tensor_release(found[o]);
      tenon_tensor_release(expected[o]);
    }
  }
  tn_grid_group_set(0);
  check_launches(fused, g->launches * runs);
  check_launches(plain, 0);
  CHECK(count_in_plan(fused, g->label) == 1);
  CHECK(count_in_plan(plain, "region of") == 0);
  tenon_executable_release(fused);
  tenon_executable_release(plain);
}

static void check_everywhere(const graph_t *g) {
  start();
  for (int d = 0; d < 3; d++)
    if (is_there(names[d])) check_on(g, names[d]);
}

/* Graphs */

/* On sim, core::add and core::mul have kernels of their own, which are no members. */
static void build_library(tenon_builder_t *b) {
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t y = one(b, "core::neg", NULL, x);
  y = one(b, "fused::tilt", "times=4", y);
  y = two(b, "core::max", y, graph_constant(b, "low", "f32[] -3"));
  y = one(b, "fused::wave", "factor=3", y);
  y = one(b, "fused::wave", "factor=5", y);
  y = two(b, "source::farther", y, x);
  graph_output(b, "y", one(b, "core::exp", NULL, y));
}

TEST("built-in operators and those of two files with the same names") {
  check_everywhere(&(graph_t){build_library,
                              {{"f32[7, 11] ~3"}, {"f32[130, 5] ~4"}},
                              1,
                              "region of 7: core::neg fused::tilt core::max fused::wave "
                              "source::farther core::exp\n"});
}

static void build_broadcast(tenon_builder_t *b) {
  tenon_edge_t x = input(b, "x", TENON_F32, "abc");
  tenon_edge_t row = input(b, "row", TENON_F32, "c");
  tenon_edge_t column = input(b, "column", TENON_F32, "b1");
  tenon_edge_t all = input(b, "all", TENON_F32, "");
  tenon_edge_t y = two(b, "core::sub", x, row);
  tenon_edge_t z = two(b, "core::div", y, column);
  graph_output(b, "y", y);
  y = two(b, "core::min", z, all);
  y = two(b, "core::sub", y, two(b, "core::max", x, row));
  graph_output(b, "z", one(b, "core::sigmoid", NULL, y));
  graph_output(b, "tail", one(b, "core::reduce_max", NULL, z));
}

TEST("operands that are broadcast, and several results that others read") {
  check_everywhere(
      &(graph_t){build_broadcast,
                 {{"f32[3, 4, 5] ~1", "f32[5] ~2", "f32[4, 1] 1 2 3 4", "f32[] 0.25"},
                  {"f32[2, 70, 9] ~1", "f32[9] ~3", "f32[70, 1] ~7", "f32[] -0.25"}},
                 1,
                 "region of 6: core::sub core::div core::min core::max core::sigmoid\n"});
}

static void build_strided(tenon_builder_t *b) {
  tenon_edge_t x = input(b, "x", TENON_F32, "aa");
  tenon_edge_t turned = one(b, "core::transpose", "perm=1,0", x);
  tenon_edge_t y = two(b, "core::sub", x, turned);
  y = one(b, "core::tanh", NULL, y);
  graph_output(b, "y", two(b, "core::div", y, turned));
}

TEST("operands that are views") {
  check_everywhere(&(graph_t){build_strided,
                              {{"f32[5, 5] ~1"}, {"f32[33, 33] ~2"}},
                              1,
                              "region of 3: core::sub core::tanh core::div\n"});
}

/* The rows of x backwards, and each other column. */
static void build_backwards(tenon_builder_t *b) {
  tenon_edge_t x = input(b, "x", TENON_F32, "46");
  const tenon_edge_t rows[16] = {x, graph_constant(b, "from", "i64[1] -1"),
                                 graph_constant(b, "to", "i64[1] -9223372036854775807"),
                                 graph_constant(b, "axis", "i64[1] 0"),
                                 graph_constant(b, "step", "i64[1] -1")};
  tenon_edge_t turned;
  graph_node(b, NULL, "core::slice", NULL, rows, &turned, 1);
  graph_output(b, "y", one(b, "core::neg", NULL, two(b, "core::sub", x, turned)));
}

TEST("an operand with negative strides") {
  start();
  for (int d = 0; d < 3; d++) {
    if (!is_there(names[d])) continue;
    const graph_t g = {.build = build_backwards};
    tenon_executable_t *e = compile(&g, device_of(names[d], 0), 0);
    CHECK_GRAPH(e, TEXTS("f32[4, 6] 1 2 3 4 5 6  10 20 30 40 50 60  0 1 0 1 0 1  7 7 7 7 7 7"),
                TEXTS("f32[4, 6] 6 5 4 3 2 1  -10 -19 -30 -39 -50 -59  10 19 30 39 50 59  "
                      "-6 -5 -4 -3 -2 -1"));
    check_launches(e, 1);
    tenon_executable_release(e);
  }
}

/* The second region reads a value that is made from one of the first. */
static void build_later(tenon_builder_t *b) {
  tenon_edge_t y = one(b, "core::neg", NULL, input(b, "x", TENON_F32, "ab"));
  y = one(b, "core::exp", NULL, y);
  const tenon_edge_t reduced[16] = {y, graph_constant(b, "axes", "i64[1] 1"), -1};
  tenon_edge_t most;
  graph_node(b, NULL, "core::reduce_max", NULL, reduced, &most, 1);
  graph_output(b, "y", one(b, "core::neg", NULL, two(b, "core::sub", y, most)));
}

TEST("a value that is made later ends a region, and begins another one") {
  check_everywhere(&(graph_t){
      build_later, {{"f32[5, 6] ~1"}, {"f32[1, 7] ~2"}}, 2, "region of 2: core::neg core::exp\n"});
}

static void build_casts(tenon_builder_t *b) {
  tenon_edge_t x = input(b, "x", TENON_F16, "a");
  tenon_edge_t i = input(b, "i", TENON_I64, "a");
  tenon_edge_t y = one(b, "core::sqrt", NULL, one(b, "core::cast", "to=f32", x));
  tenon_edge_t k = one(b, "core::neg", NULL, one(b, "core::cast", "to=i32", i));
  tenon_edge_t less = two(b, "core::less", y, one(b, "core::cast", "to=f32", k));
  graph_output(b, "less", less);
  y = three(b, "core::where", less, y, graph_constant(b, "two", "f32[] 2"));
  y = three(b, "core::clip", y, graph_constant(b, "c", "f32[] -0.5"), -1);
  graph_output(b, "y", one(b, "core::cast", "to=bf16", y));
  graph_output(b, "k", k);
}

TEST("casts of f16, bf16 and integers, comparisons and choices") {
  check_everywhere(&(graph_t){
      build_casts,
      {{"f16[6] 1 2.5 nan -1 inf 65504", "i64[6] 1 -2 -3 4 5 -70000"},
       {"f16[3] 0.125 0.3125 6.103515625e-05", "i64[3] -1 0 4294967297"}},
      1,
      "region of 9: core::cast core::sqrt core::neg core::less core::where core::clip\n"});
}

static void build_split(tenon_builder_t *b) {
  tenon_edge_t results[2];
  tenon_edge_t inputs[16] = {one(b, "core::neg", NULL, graph_input(b, "x", TENON_F32, 1)), -1};
  graph_node(b, NULL, "fused::split", NULL, inputs, results, 2);
  graph_output(b, "y", two(b, "core::sub", results[0], results[1]));
  graph_output(b, "part", results[1]);
}

TEST("a kernel with two results and an index of its own") {
  check_everywhere(&(graph_t){build_split,
                              {{"f32[4] 1.5 -2.25 0 7"}, {"f32[1] 3.75"}},
                              1,
                              "region of 3: core::neg fused::split core::sub\n"});
}

static void build_wide(tenon_builder_t *b) {
  tenon_edge_t inputs[16];
  tenon_edge_t a = input(b, "a", TENON_I32, "ab");
  inputs[0] = one(b, "core::neg", NULL, a);
  inputs[1] = input(b, "b", TENON_I64, "ab");
  inputs[2] = input(b, "c", TENON_U8, "b");
  inputs[3] = two(b, "core::bitwise_xor", a, inputs[0]);
  inputs[4] = graph_constant(b, "e", "i32[1, 1] 3");
  tenon_edge_t y;
  graph_node(b, NULL, "source::all_eight", "times=-5000000000; negative=True; by=1.5", inputs, &y,
             1);
  graph_output(b, "y", two(b, "core::mul", y, inputs[1]));
}

TEST("attributes by value, operands of five dtypes and more than four of them") {
  const tenon_op_t *mul = op_of("core::mul");
  CHECK(mul != NULL);
  check_everywhere(&(graph_t){build_wide,
                              {{"i32[2, 3] 1 2 3 4 5 6", "i64[2, 3] 7 8 9 1 2 3", "u8[3] 1 0 255"},
                               {"i32[1, 1] 9", "i64[1, 1] 8", "u8[1] 7"}},
                              1,
                              "region of 4: core::neg core::bitwise_xor source::all_eight "
                              "core::mul\n"});
}

/* Expected numbers */

TEST("numbers worked out here, on extents that come to 0 and to many groups") {
  start();
  for (int d = 0; d < 3; d++) {
    if (!is_there(names[d])) continue;
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
    tenon_edge_t y = one(b, "fused::tilt", "times=2", one(b, "core::neg", NULL, x));
    graph_output(b, "y", one(b, "fused::wave", "factor=5", y));
    tenon_executable_t *e = graph_compile_on(b, device_of(names[d], 0));
    CHECK_GRAPH(e, TEXTS("f32[0]"), TEXTS("f32[0]"));
    /* -x * 3 + 2 * 3, then 7 or -7 and half of the magnitude, times 5 */
    CHECK_GRAPH(e, TEXTS("f32[3] 0 4 -2"), TEXTS("f32[3] 50 -20 65"));
    tenon_tensor_t *in[1], *out[1] = {NULL};
    const int64_t shape[1] = {100003};
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, in), TENON_OK);
    for (int64_t i = 0; i < shape[0]; i++)
      ((float *)in[0]->data)[i] = (float)(i % 64);
    CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_OK);
    for (int64_t i = 0; i < shape[0]; i++) {
      const float t = (float)(-3 * (i % 64) + 6);
      CHECK(((float *)out[0]->data)[i] == 5 * ((t < 0 ? -7 : 7) + fabsf(t) / 2));
    }
    tenon_tensor_release(in[0]);
    tenon_tensor_release(out[0]);
    check_launches(e, 2);
    tenon_executable_release(e);
  }
}

/* Ends of regions */

static void build_ends(tenon_builder_t *b) {
  tenon_edge_t y = one(b, "core::neg", NULL, graph_input(b, "x", TENON_F32, 1));
  y = one(b, "core::exp", NULL, y);
  graph_output(b, "y", one(b, "fused::twice", "times=2", y));
}

TEST("the plan says why a region ends") {
  start();
  for (int d = 0; d < 3; d++) {
    if (!is_there(names[d])) continue;
    const graph_t g = {.build = build_ends};
    tenon_executable_t *e = compile(&g, device_of(names[d], 0), 0);
    CHECK(count_in_plan(e, "region of 2: core::neg core::exp\n") == 1);
    CHECK(count_in_plan(e, "(fused::twice) reads a value of it, but launches more than one "
                           "kernel\n") == 1);
    tenon_executable_release(e);
  }
}

TEST("an operator with shapes of its own is no member, although it says that it is pointwise") {
  start();
  for (int d = 0; d < 3; d++) {
    if (!is_there(names[d])) continue;
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = one(b, "core::neg", NULL, input(b, "x", TENON_F32, "aa"));
    tenon_edge_t y = two(b, "fused::by_rows", x, input(b, "s", TENON_F32, "a"));
    graph_output(b, "y", one(b, "core::neg", NULL, y));
    tenon_executable_t *e = graph_compile_on(b, device_of(names[d], 0));
    CHECK_GRAPH(e, TEXTS("f32[2, 2] 1 2 3 4", "f32[2] 10 100"), TEXTS("f32[2, 2] 10 20 300 400"));
    CHECK(count_in_plan(e, "region of") == 0);
    tenon_executable_release(e);
  }
}

TEST("a region whose kernel does not compile runs node by node, and the plan says why") {
  start();
  for (int d = 0; d < 3; d++) {
    if (!is_there(names[d])) continue;
    tenon_builder_t *b = graph_begin();
    tenon_edge_t y = one(b, "core::neg", NULL, graph_input(b, "x", TENON_F32, 1));
    graph_output(b, "y", one(b, "fused::stubborn", NULL, y));
    tenon_executable_t *e = graph_compile_on(b, device_of(names[d], 0));
    for (int round = 0; round < 2; round++)
      CHECK_GRAPH(e, TEXTS("f32[2] 3 -4"), TEXTS("f32[2] -2 5"));
    CHECK(count_in_plan(e, "region of 2: core::neg fused::stubborn\n") == 1);
    CHECK(count_in_plan(e, "runs node by node: ") == 1);
    CHECK(count_in_plan(e, "refuses to be a part") > 0);
    CHECK(count_in_plan(e, "fused_stubborn.c") > 0);
    check_launches(e, 0);
    tenon_executable_release(e);
  }
}

/* Captured graphs */

TEST("a region is part of a captured graph") {
  start();
  for (int d = 0; d < 3; d++) {
    if (!is_there(names[d]) || strcmp(names[d], "opencl") == 0) continue; /* it captures nothing */
    const graph_t g = {.build = build_broadcast};
    tenon_executable_t *e = compile(&g, device_of(names[d], 0), TENON_COMPILE_RECORD);
    tenon_executable_t *plain = compile(&g, device_of(names[d], 0), TENON_COMPILE_PLAIN);
    for (int round = 0; round < 4; round++) {
      static const char *const all[] = {"f32[] 1", "f32[] 2", "f32[] 3", "f32[] 4"};
      const char *const in[] = {"f32[3, 4, 5] ~1", "f32[5] ~2", "f32[4, 1] 1 2 3 4", all[round]};
      tenon_tensor_t *found[3] = {NULL};
      tenon_tensor_t *expected[3] = {NULL};
      CHECK_STATUS(graph_run(e, in, found), TENON_OK);
      CHECK_STATUS(graph_run(plain, in, expected), TENON_OK);
      for (int o = 0; o < 3; o++) {
        CHECK(found[o] && expected[o] && is_same(found[o], expected[o]));
        tenon_tensor_release(found[o]);
        tenon_tensor_release(expected[o]);
      }
    }
    char *text = NULL;
    CHECK_STATUS(tenon_executable_dump(e, "placement", &text), TENON_OK);
    CHECK(text && strstr(text, "captured graphs: 1") != NULL);
    tenon_text_release(text);
    check_launches(e, 2); /* each run but the first two replays */
    tenon_executable_release(e);
    tenon_executable_release(plain);
  }
}

/* The program of a region in the cache */

TEST("a second executable with the same region finds its kernel") {
  start();
  for (int d = 0; d < 3; d++) {
    if (!is_there(names[d])) continue;
    for (int round = 0; round < 2; round++) {
      const graph_t g = {.build = build_ends};
      tenon_executable_t *e = compile(&g, device_of(names[d], 0), 0);
      CHECK_GRAPH(e, TEXTS("f32[1] 0"), TEXTS("f32[1] 9"));
      CHECK_GRAPH(e, TEXTS("f32[2] 0 0"), TEXTS("f32[2] 9 9"));
      const uint64_t compiled = tn_program_counts.compiled + tn_program_counts.read;
      CHECK_GRAPH(e, TEXTS("f32[3] 0 0 0"), TEXTS("f32[3] 9 9 9"));
      CHECK(tn_program_counts.compiled + tn_program_counts.read == compiled);
      CHECK(count_in_plan(e, "compiled for 1 layouts, launched 3 times") == 1);
      tenon_executable_release(e);
    }
  }
}

/* Allocations that fail */

/* Compiles the graph for sim. A run is not part of it: work that fails there is the stream's. */
static tenon_status_t try_compile(void *context) {
  tenon_executable_t *e = NULL;
  const tenon_compile_t options = {.size = sizeof options, .device = device_of("sim", 0)};
  const tenon_status_t status = tenon_executable_create(context, &options, &e);
  if (status == TENON_OK) tenon_executable_release(e);
  return status;
}

TEST("each allocation fails in turn while regions are found") {
  start();
  if (!is_there("sim")) SKIP("there is no device sim");
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  build_library(b);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  fail_each("a region on a device", try_compile, graph, 1);
  tenon_graph_release(graph);
}

/* CUDA C++ */

static void write_cuda(const tn_device_region_t *region, const char *path) {
  const tn_device_layout_t *l = region->layouts;
  tn_text_t text = {0};
  tn_text_t inner = {0};
  if (!CHECK(l != NULL)) return;
  tn_fused_text(TENON_SOURCE_CUDA, &region->fused, &l->layout, &inner);
  tenon_code_t code = l->code;
  code.text = inner.data;
  code.end = inner.data + inner.size;
  tn_program_text(TENON_SOURCE_CUDA, &code, 0, "", &text);
  FILE *file = fopen(path, "w");
  CHECK(file && fwrite(text.data, 1, text.size, file) == text.size);
  if (file) CHECK(fclose(file) == 0);
  tn_text_clear(&text);
  tn_text_clear(&inner);
}

TEST("the texts of fused kernels compile as CUDA C++") {
  static const graph_t graphs[] = {
      {build_library, {{"f32[2, 3] ~3"}}, 1, ""},
      {build_broadcast, {{"f32[3, 4, 5] ~1", "f32[5] ~2", "f32[4, 1] 1 2 3 4", "f32[] 1"}}, 1, ""},
      {build_casts, {{"f16[1] 1", "i64[1] 2"}}, 1, ""},
      {build_split, {{"f32[4] 1.5 -2.25 0 7"}}, 1, ""}};
  start();
  if (system("nvcc --version >/dev/null 2>&1") != 0) SKIP("nvcc is not installed");
  if (!is_there("sim")) SKIP("there is no device sim");
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
    char path[100];
    char command[600];
    tenon_tensor_t *out[16] = {NULL};
    tenon_executable_t *e = compile(&graphs[i], device_of("sim", 0), 0);
    CHECK_STATUS(graph_run(e, graphs[i].inputs[0], out), TENON_OK);
    snprintf(path, sizeof path, "%s/%zu.cu", folder, i);
    snprintf(command, sizeof command,
             "nvcc --ptx -arch=sm_80 -std=c++17 -diag-suppress=177,550 -o %s.ptx %s && "
             "grep -q 'entry tenon_k_tenon_fused' %s.ptx",
             path, path, path);
    if (CHECK(e->device_regions.count == 1)) write_cuda(e->device_regions.at[0], path);
    CHECK(system(command) == 0);
    for (int o = 0; o < 16; o++)
      tenon_tensor_release(out[o]);
    tenon_executable_release(e);
  }
}

TEST("nothing is left behind") {
  char command[100];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  CHECK(system(command) == 0);
  tenon_shutdown();
}
