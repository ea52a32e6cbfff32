/* Claims: groups of a graph's nodes that a device runs as one.  The device is sim with another table in front, which can claim
 * what it should not, and counts. */
#include <dirent.h>
#include <unistd.h>

#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

#include "device/group.h"
#include "failing.h"

TENON_C const tenon_descriptor_t *tenon_library_sim(void);

/* ---- a device that can be told what to do ---------------------------------------------------------------------------- */

static tenon_device_table_t table, original;
static struct { uint32_t nodes[8], count; /* of a group; count 0 and is_wrong: an empty group */ } wrong[2];
static int is_wrong, wrong_count, is_own, refuses_load, made, loaded, freed, runs;
static tenon_status_t claim_status;

static tenon_status_t claim(tenon_on_t on, const tenon_graph_view_t *view, const char *settings, tenon_claims_t *out) {
  if (claim_status) return tenon_fail(on, claim_status, "the claimer has no time");
  if (!is_wrong) return original.claim(on, view, settings, out);
  for (int i = 0; i < wrong_count; i++) TENON_TRY(out->take(out, wrong[i].count, wrong[i].nodes, "a wrong claim"));
  return TENON_OK;
}

/* Of its own: a group gives twice its only input, of any shape, and nothing below 0. */
static tenon_status_t twice_run(void *argument, void *const *addresses, char *message) {
  const float *x = addresses[0];
  float *y = addresses[1];
  (void)message;
  for (int64_t i = 0; i < *(int64_t *)argument; i++) y[i] = x[i] < 0 ? 0 : 2 * x[i];
  return TENON_OK;
}

static tenon_status_t compile(tenon_on_t on, const tenon_graph_view_t *view, const char *settings, void **out) {
  made++;
  if (!is_own) return original.group_compile(on, view, settings, out);
  CHECK(view->node_count == 2 && view->input_count == 1 && view->output_count == 1);
  return *out = &table, TENON_OK;
}

static tenon_status_t group_run(tenon_on_t on, void *stream, const tenon_group_run_t *run) {
  runs++;
  if (run->group != &table) return original.group_run(on, stream, run);
  const tenon_tensor_t *x = run->inputs[0], *y = run->outputs[0];
  int64_t count = tenon_count(x);
  CHECK(count == tenon_count(y));
  sim_range_t ranges[2] = {{{x->data, x->byte_offset}, (uint64_t)count * 4, 0, 0},
                           {{y->data, y->byte_offset}, (uint64_t)count * 4, 1, 0}};
  return count ? sim->enqueue(on, stream, run->ticket, "twice", twice_run, &count, sizeof count, 2, ranges) : TENON_OK;
}

static tenon_status_t save(tenon_on_t on, void *group, tenon_sink_t *out) {
  if (group == &table) return tenon_fail(on, TENON_UNIMPLEMENTED, "not saved");
  return original.group_save(on, group, out);
}

static tenon_status_t load(tenon_on_t on, const void *bytes, uint64_t size, void **out) {
  loaded++;
  return refuses_load ? tenon_fail(on, TENON_INVALID, "of another age") : original.group_load(on, bytes, size, out);
}

static void group_free(tenon_on_t on, void *group) {
  freed++;
  if (group != &table) original.group_free(on, group);
}

static char folder[] = "/tmp/tenon-claims-XXXXXX";

static tenon_device_t start(void) {
  static tenon_item_t items[64];
  static tenon_descriptor_t library;
  static int is_there;
  is_wrong = wrong_count = is_own = refuses_load = made = loaded = freed = runs = 0, claim_status = TENON_OK;
  if (!is_there) {
    uint32_t count = 0;
    library = *tenon_library_sim();
    for (const tenon_item_t *item = library.items; item->tag != TENON_TAG_END; item++) {
      items[count] = *item;
      if (item->tag == TENON_TAG_DEVICE) {
        table = original = *(const tenon_device_table_t *)item->text, items[count].text = &table;
        table.claim = claim, table.group_compile = compile, table.group_run = group_run, table.group_save = save;
        table.group_load = load, table.group_free = group_free;
      }
      count++;
    }
    library.items = items, is_there = 1;
    setenv("TENON_CACHE", mkdtemp(folder), 1);
  }
  tenon_device_t device = {0, 0};
  if (tenon_device_find("null", 0, &device) != TENON_OK) return device; /* the runtime is there */
  if (tenon_library_add(&library, NULL, NULL, NULL) == TENON_OK) {
    tenon_registration_t *all;
    CHECK_STATUS(tenon_fallback_add("sim", tenon_fallback_cpu, NULL, NULL, 0, &all), TENON_OK);
  }
  return sim_open(0, "claim=1,check=fail,fault=0");
}

static void empty_cache(void) {
  DIR *list = opendir(folder);
  char path[600];
  for (struct dirent *entry; list && (entry = readdir(list));) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    (void)unlink(path);
  }
  if (list) closedir(list);
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------- */

static tenon_edge_t two(tenon_builder_t *b, const char *node, const char *op, tenon_edge_t x, tenon_edge_t y) {
  tenon_edge_t inputs[4] = {x, y, -1, -1}, out;
  graph_node(b, node, op, NULL, inputs, &out, 1);
  return out;
}

/* y = relu(x w + b), z = y y; x is [2, 3]. */
static tenon_builder_t *layers(const char *bias) {
  tenon_builder_t *b = graph_begin();
  tenon_axis_t axes[2] = {{2, NULL}, {3, NULL}};
  tenon_edge_t x;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  tenon_edge_t w = graph_constant(b, "w", "f32[3, 2] 1 2 3 4 5 6");
  tenon_edge_t product = two(b, "product", "core::matmul", x, w);
  tenon_edge_t sum = two(b, "sum", "core::add", product, graph_constant(b, "b", bias));
  tenon_edge_t y = two(b, "positive", "core::relu", sum, -1);
  graph_output(b, "y", y);
  graph_output(b, "z", two(b, "square", "core::mul", y, y));
  return b;
}
static const char *const given[] = {"f32[2, 3] 1 2 3 4 5 6", NULL};
static const char *const wanted[] = {"f32[2, 2] 0 8 19 44", "f32[2, 2] 0 64 361 1936", NULL};

static tenon_executable_t *compiled(tenon_builder_t *b, tenon_device_t device, const char *claims) {
  return graph_compile_with(b, (tenon_compile_t){.device = device, .claims = claims});
}

static void check_dump(tenon_executable_t *e, const char *what, const char *part) {
  char *text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, what, &text), TENON_OK);
  CHECK_TEXT(text, part);
  tenon_text_release(text);
}

/* ---- groups that are good --------------------------------------------------------------------------------------------- */

TEST("a claimed group runs as one piece of work and gives what its nodes give") {
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), start(), NULL);
  check_dump(e, "claims",
             "claims of sim:0: 1 group with 4 of 4 nodes\n  group 1 (core::matmul 'product', core::add "
             "'sum', core::relu 'positive', core::mul 'square'): 4 nodes: 4 operators of f32 in one");
  check_dump(e, "graph", "core::matmul(x, w, None)  # product, group 1\n");
  for (int i = 1; i <= 3; i++) {
    CHECK_GRAPH(e, given, wanted);
    CHECK(runs == i && made == 1);
  }
  CHECK(stats_of(device_of("sim", 0)).live == 0); /* its weights are the group's, not copied beside it */
  tenon_executable_release(e);
  CHECK(freed == 1);
}

TEST("with handles, too, a group is given memory and offset") {
  tenon_shutdown();
  setenv("TENON_SIM", "handles=1", 1);
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), start(), NULL);
  CHECK_GRAPH(e, given, wanted);
  CHECK(runs == 1);
  tenon_executable_release(e);
  tenon_shutdown();
  unsetenv("TENON_SIM");
}

TEST("nodes between two parts of a graph make two groups, and nodes stand in an order that runs") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 0), constant = graph_constant(b, "c", "f32[] 3");
  tenon_edge_t one = two(b, "one", "core::add", x, constant), outside = two(b, "outside", "core::exp", one, -1);
  tenon_edge_t middle = two(b, "middle", "core::mul", one, constant), log = two(b, "log", "core::log", outside, -1);
  tenon_edge_t three = two(b, "three", "core::add", log, middle), four = two(b, "four", "core::mul", three, one);
  graph_output(b, "y", four);
  tenon_executable_t *e = compiled(b, device, "");
  check_dump(e, "claims", "2 groups with 4 of 6 nodes");
  check_dump(e, "claims", "left: 1 of core::exp: sim has no such operator\n");
  CHECK_GRAPH(e, TEXTS("f32[] 1"), TEXTS("f32[] 64")); /* log exp 4 + 12, times 4 */
  CHECK(runs == 2);
  tenon_executable_release(e);
}

TEST("nodes of a group are not fused with those before and behind it") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_axis_t axes[2] = {{1, NULL}, {2, NULL}};
  tenon_edge_t x;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  tenon_edge_t w = graph_constant(b, "w", "f32[2, 2] 1 0 0 1"), sum = two(b, "sum", "core::add", x, x);
  tenon_edge_t product = two(b, "product", "core::matmul", sum, w), tanh = two(b, "behind", "core::tanh", product, -1);
  graph_output(b, "y", two(b, "last", "core::mul", two(b, "next", "core::add", tanh, tanh), tanh));
  tenon_executable_t *e = compiled(b, device, NULL);
  check_dump(e, "claims", "2 groups with 4 of 5 nodes");
  check_dump(e, "graph", "w, None)  # product, group 1\n");
  CHECK_GRAPH(e, TEXTS("f32[1, 2] 0 0.5"), TEXTS("f32[1, 2] 0 1.16005136")); /* 2 tanh(1)^2 */
  tenon_executable_release(e);
  is_wrong = wrong_count = 1, wrong[0].count = 2, wrong[0].nodes[0] = 1, wrong[0].nodes[1] = 2;
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  check_dump(e, "graph", "core::matmul(x, w, None)  # product\n");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
}

TEST("a group whose extents are symbols gets outputs of the shapes that its nodes infer, also empty ones") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2), sum = two(b, "sum", "core::add", x, x);
  graph_output(b, "y", two(b, "positive", "core::relu", sum, -1));
  is_wrong = is_own = wrong_count = 1, wrong[0].count = 2, wrong[0].nodes[0] = 1, wrong[0].nodes[1] = 0;
  tenon_executable_t *e = compiled(b, device, NULL);
  check_dump(e, "claims", "1 group with 2 of 2 nodes");
  CHECK_GRAPH(e, TEXTS("f32[1, 2] 1 -2"), TEXTS("f32[1, 2] 2 0"));
  CHECK_GRAPH(e, TEXTS("f32[3, 1] 1 2 3"), TEXTS("f32[3, 1] 2 4 6"));
  CHECK_GRAPH(e, TEXTS("f32[0, 4]"), TEXTS("f32[0, 4]"));
  CHECK(runs == 3);
  tenon_executable_release(e);
  CHECK(freed == 1);
}

TEST("what comes into a group is made row-major") {
  tenon_device_t device = start();
  tenon_builder_t *b = graph_begin();
  tenon_axis_t axes[2] = {{2, NULL}, {3, NULL}};
  tenon_edge_t x, out, turned;
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x), TENON_OK);
  graph_node(b, "turn", "core::transpose", "perm=1,0", (tenon_edge_t[]){x}, &turned, 1);
  out = two(b, "positive", "core::relu", two(b, "sum", "core::add", turned, turned), -1);
  graph_output(b, "y", out);
  tenon_executable_t *e = compiled(b, device, NULL);
  check_dump(e, "claims", "1 group with 2 of 3 nodes");
  CHECK_GRAPH(e, given, TEXTS("f32[3, 2] 2 8 4 10 6 12"));
  CHECK(runs == 1);
  tenon_executable_release(e);
}

TEST("a group comes after what other streams do to its inputs, and a missing wait is found") {
  tenon_device_t device = start();
  tenon_stream_t *own, *other, *before;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK_STATUS(tenon_stream_create(device, &own), TENON_OK);
  CHECK_STATUS(tenon_stream_create(device, &other), TENON_OK);
  for (uint64_t skip = 0; skip < 2; skip++) {
    tenon_tensor_t *outputs[2] = {NULL}, *x, *y = NULL;
    CHECK_STATUS(tenon_stream_use(device, other, &before), TENON_OK);
    x = tensor_there(device, "f32[2, 3] 0.5 1 1.5 2 2.5 3");
    CHECK_STATUS(tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &y, 0), TENON_OK);
    CHECK_STATUS(tenon_stream_use(device, own, NULL), TENON_OK);
    tn_waits_skip(skip);
    tenon_status_t status = tenon_executable_run(e, (tenon_tensor_t *[]){y}, outputs, NULL);
    tn_waits_skip(0);
    CHECK(skip ? status == TENON_PRECONDITION : status == TENON_OK);
    if (skip) CHECK_TEXT(tenon_error(), "sim: race: group ");
    if (status == TENON_OK) CHECK_TENSOR(outputs[0], wanted[0]);
    CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
    tenon_tensor_release(outputs[0]), tenon_tensor_release(outputs[1]);
    tenon_tensor_release(x), tenon_tensor_release(y);
  }
  tenon_executable_release(e);
  tenon_stream_release(own), tenon_stream_release(other);
}

/* ---- settings ----------------------------------------------------------------------------------------------------------- */

TEST("claims can be switched off, and settings go to the device, which says what it does not know") {
  tenon_device_t device = start();
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, "off");
  check_dump(e, "claims", "claims of sim:0: switched off\n");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  e = compiled(layers("f32[2] -30 -20"), device, "groups=0");
  check_dump(e, "claims", "0 groups with 0 of 4 nodes\n  left: 1 of core::matmul: it is in no group of the largest");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  CHECK(runs == 0 && made == 0);
  tenon_builder_t *b = layers("f32[2] -30 -20");
  tenon_graph_t *graph = NULL;
  tenon_compile_t options = {.size = sizeof options, .device = device, .claims = "layers=2"};
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "claims of device sim: sim: the setting 'layers=2' is not understood; there is groups=N");
  options.size = offsetof(tenon_compile_t, claims); /* a caller that knows nothing of it */
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_OK);
  check_dump(e, "claims", "1 group with 4 of 4 nodes");
  tenon_executable_release(e), tenon_graph_release(graph), tenon_builder_release(b);
}

TEST("a device that fails to claim claims nothing, and the report has its reason") {
  tenon_device_t device = start();
  claim_status = TENON_UNAVAILABLE;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  check_dump(e, "claims", "claims of sim:0: nothing is claimed: the claimer has no time\n");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  e = compiled(layers("f32[2] -30 -20"), device_of("null", 0), NULL);
  check_dump(e, "claims", "claims of null:0: none: its plug-in claims nothing\n");
  tenon_executable_release(e);
}

/* ---- groups that are handed back ------------------------------------------------------------------------------------------ */

TEST("a group that fails to compile is handed back, and its nodes are as if nobody had claimed them") {
  tenon_device_t device = start();
  char *without = NULL, *with = NULL;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, "off");
  CHECK_STATUS(tenon_executable_dump(e, "graph", &without), TENON_OK);
  CHECK_TEXT(without, "activation='relu'"); /* fused: as nobody had claimed them */
  tenon_executable_release(e);
  empty_cache();
  sim_set(device, "fail=group_compile:1");
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK_STATUS(tenon_executable_dump(e, "graph", &with), TENON_OK);
  CHECK(without && with && strcmp(without, with) == 0);
  check_dump(
      e, "claims",
      "0 groups with 0 of 4 nodes\n  handed back: core::matmul 'product', core::add 'sum', core::relu 'positive', "
      "core::mul 'square': sim: this call of group_compile fails because a setting says so");
  check_dump(e, "claims", "    was claimed as: 4 operators of f32");
  CHECK_GRAPH(e, given, wanted);
  CHECK(runs == 0 && made == 1);
  tenon_executable_release(e), tenon_text_release(with), tenon_text_release(without);
}

/* A graph of all kinds of nodes, the numbers of which are places in their order. */
enum { ADD, OUTSIDE, MUL, DRAW, NEXT, SHAPE, AS_SHAPE, FIND, WORDS };
static tenon_executable_t *kinds(tenon_device_t device) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1), t = graph_input(b, "t", TENON_STRING, 1), out;
  tenon_edge_t add = two(b, "add", "core::add", x, x), outside = two(b, "outside", "core::exp", add, -1);
  graph_output(b, "y", two(b, "mul", "core::mul", add, outside));
  graph_node(b, "draw", "core::dropout", "ratio=0.5; training=True", (tenon_edge_t[]){add}, &out, 1);
  graph_output(b, "drawn", two(b, "next", "core::mul", out, out));
  graph_output(b, "s", two(b, "shape", "core::shape", x, -1));
  tenon_edge_t extents;
  CHECK_STATUS(tenon_builder_input(b, "n", tenon_dtype(TENON_I64), 1, (tenon_axis_t[]){{2, NULL}}, &extents), TENON_OK);
  graph_output(b, "r", two(b, "as_shape", "core::reshape", add, extents));
  graph_output(b, "f", two(b, "find", "core::nonzero", x, -1));
  graph_output(b, "u", two(b, "words", "core::string_concat", t, t));
  tenon_executable_t *e = compiled(b, device, NULL);
  return e;
}

static void check_refused(tenon_device_t device, const char *why) {
  is_wrong = 1;
  tenon_executable_t *e = kinds(device);
  check_dump(e, "claims", why);
  tenon_tensor_t *outputs[8] = {NULL};
  CHECK_STATUS(graph_run(e, TEXTS("f32[2] 1 -1", "string[1] a", "i64[2] 2 1"), outputs), TENON_OK);
  if (outputs[0]) CHECK_TENSOR(outputs[0], "f32[2] 14.7781122 -0.27067057"); /* 2 exp 2, -2 exp -2 */
  for (int i = 0; i < 8; i++) tenon_tensor_release(outputs[i]);
  tenon_executable_release(e);
}

static void claims_of(int group, uint32_t count, const uint32_t *nodes) {
  wrong_count = group + 1, wrong[group].count = count;
  for (uint32_t i = 0; i < count; i++) wrong[group].nodes[i] = nodes[i];
}
#define CLAIM(group, ...)                                                                                              \
  claims_of((group), sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (const uint32_t[]){__VA_ARGS__})

TEST("claims that cannot be groups are handed back, each with its reason, and the graph runs") {
  tenon_device_t device = start();
  is_own = 0;
  claims_of(0, 0, NULL);
  check_refused(device, "handed back: : it has no nodes");
  CLAIM(0, ADD, 99);
  check_refused(device, "handed back: core::add 'add' and 1 more: node 99: the graph has 9 nodes");
  CLAIM(0, MUL, MUL);
  check_refused(device, "node 'mul' is in it twice");
  CLAIM(0, ADD, MUL);
  check_refused(device,
                "handed back: core::add 'add', core::mul 'mul': a path leaves it, by node 'outside' (core::exp), "
                "and comes back to node 'mul' (core::mul): neither could run first");
  CLAIM(0, DRAW, NEXT);
  check_refused(device, "node 'draw' (core::dropout): it draws random numbers");
  CLAIM(0, SHAPE);
  check_refused(device, "node 'shape' (core::shape): its result out is a value of the host");
  CLAIM(0, AS_SHAPE);
  check_refused(device,
                "node 'as_shape' (core::reshape): its input shape is a value of the host, and 'n' is no constant");
  CLAIM(0, FIND);
  check_refused(device, "node 'find' (core::nonzero): the shape of its result is known only after it has run");
  CLAIM(0, WORDS);
  check_refused(device, "node 'words' (core::string_concat): value 't' has texts, which are on the host");
  CHECK(made == 0);
}

TEST("of two claims of one node the first is taken, and so it is of two that would wait for each other") {
  tenon_device_t device = start();
  for (int way = 0; way < 2; way++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 0);
    tenon_edge_t a1 = two(b, "a1", "core::add", x, x), b1 = two(b, "b1", "core::mul", a1, a1);
    tenon_edge_t b2 = two(b, "b2", "core::add", x, x), a2 = two(b, "a2", "core::mul", b2, b2);
    graph_output(b, "y", two(b, "last", "core::sub", b1, a2));
    is_wrong = 1;
    CLAIM(0, 0, 3);
    if (way) CLAIM(1, 1, 2);
    else CLAIM(1, 3, 2);
    tenon_executable_t *e = compiled(b, device, NULL);
    check_dump(e, "claims",
               way ? "handed back: core::mul 'b1', core::add 'b2': a path leaves it, by node 'a2' (core::mul), "
                     "and comes back to node 'b1' (core::mul)"
                   : "handed back: core::add 'b2', core::mul 'a2': node 'a2' is in group 1 already");
    check_dump(e, "claims", "1 group with 2 of 5 nodes");
    CHECK_GRAPH(e, TEXTS("f32[] 3"), TEXTS("f32[] 0"));
    tenon_executable_release(e);
  }
}

/* ---- files ------------------------------------------------------------------------------------------------------------- */

static void damage(void) { /* the last byte of each entry, which is one of weights */
  DIR *list = opendir(folder);
  char path[600];
  for (struct dirent *entry; list && (entry = readdir(list));) {
    if (!strstr(entry->d_name, ".group")) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    FILE *file = fopen(path, "r+b");
    if (!file || fseek(file, -1, SEEK_END)) continue;
    int byte = fgetc(file);
    (void)fseek(file, -1, SEEK_END), (void)fputc(byte ^ 1, file), (void)fclose(file);
  }
  if (list) closedir(list);
}

TEST("a group is compiled once: who compiles the same graph again has it from a file") {
  tenon_device_t device = start();
  empty_cache();
  for (int i = 0; i < 3; i++) {
    tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
    CHECK(made == 1 && loaded == i);
    CHECK_GRAPH(e, given, wanted);
    tenon_executable_release(e);
  }
  CHECK(runs == 3);
  tenon_executable_release(compiled(layers("f32[2] -31 -20"), device, NULL)); /* other weights */
  CHECK(made == 2 && loaded == 2);
  tenon_executable_release(compiled(layers("f32[2] -30 -20"), device, "groups=7")); /* other settings */
  CHECK(made == 3 && loaded == 2);
}

TEST("an entry that is damaged or that the device refuses is compiled anew") {
  tenon_device_t device = start();
  empty_cache();
  tenon_executable_release(compiled(layers("f32[2] -30 -20"), device, NULL));
  damage();
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK(made == 2 && loaded == 0); /* the host has seen it */
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  refuses_load = 1;
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK(made == 3 && loaded == 1);
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
}

/* ---- failures ------------------------------------------------------------------------------------------------------------ */

TEST("work of a group that fails is blamed on the group, with its nodes") {
  tenon_device_t device = start();
  tenon_stream_t *own, *before;
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  CHECK_STATUS(tenon_stream_create(device, &own), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, own, &before), TENON_OK);
  sim_set(device, "fault=2"); /* behind the copy of x */
  check_run_refused(e, given, TENON_INTERNAL,
                    "group 1 (core::matmul 'product', core::add 'sum', core::relu 'positive', "
                    "core::mul 'square') failed on sim:0 (work ");
  tenon_executable_release(e); /* and its name */
  CHECK_STATUS(tenon_stream_synchronize(own), TENON_INTERNAL);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  tenon_stream_release(own);
}

TEST("a name that goes with its executable is not looked at afterwards") {
  tenon_device_t device = start();
  tenon_stream_t *own, *before;
  CHECK_STATUS(tenon_stream_create(device, &own), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, own, &before), TENON_OK);
  is_wrong = is_own = 1;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = two(b, "positive", "core::relu", two(b, "sum", "core::add", x, x), -1);
  graph_output(b, "z", two(b, "last", "core::relu", two(b, "next", "core::add", y, y), -1));
  claims_of(0, 2, (const uint32_t[]){0, 1}), claims_of(1, 2, (const uint32_t[]){2, 3});
  tenon_executable_t *e = compiled(b, device, NULL);
  tenon_tensor_t *there = tensor_there(device, "f32[2] 1 2"), *outputs[1] = {NULL};
  sim_set(device, "fault=1,delay=100000,fail=launch:2"); /* the first fails while the second is refused */
  CHECK_STATUS(tenon_executable_run(e, &there, outputs, NULL), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "group 2 (core::add 'next', core::relu 'last'): sim: this call of launch fails");
  CHECK(runs == 2);
  tenon_executable_release(e);
  CHECK_STATUS(tenon_stream_synchronize(own), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "its operator is not known any more");
  sim_set(device, "delay=0");
  tenon_tensor_release(there);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  tenon_stream_release(own);
}

TEST("out of memory and a launch that is refused are told, and the next run works") {
  tenon_device_t device = start();
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
  sim_set(device, "fail=launch:1");
  check_run_refused(e, given, TENON_UNAVAILABLE, "group 1 (core::matmul 'product'");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
  empty_cache();
  sim_set(device, "fail=allocate:1"); /* of weights */
  e = compiled(layers("f32[2] -30 -20"), device, NULL);
  check_dump(e, "claims", "handed back: ");
  CHECK_GRAPH(e, given, wanted);
  tenon_executable_release(e);
}

typedef struct trial_t {
  tenon_graph_t *graph;
  tenon_device_t device;
} trial_t;

/* Compiles and runs; what comes out must be right, claimed or not. */
static tenon_status_t try_all(void *context) {
  const trial_t *t = context;
  tenon_compile_t options = {.size = sizeof options, .device = t->device};
  tenon_executable_t *e = NULL;
  tenon_tensor_t *x = NULL, *outputs[2] = {NULL};
  int64_t shape[2] = {2, 3};
  float numbers[6] = {1, 2, 3, 4, 5, 6}, z[4] = {0, 64, 361, 1936};
  tenon_status_t status = tenon_executable_create(t->graph, &options, &e);
  if (status == TENON_OK) status = tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &x);
  if (status == TENON_OK) memcpy(x->data, numbers, sizeof numbers), status = tenon_executable_run(e, &x, outputs, NULL);
  if (status == TENON_OK) CHECK(memcmp(outputs[1]->data, z, sizeof z) == 0);
  tenon_tensor_release(x), tenon_tensor_release(outputs[0]), tenon_tensor_release(outputs[1]);
  tenon_executable_release(e);
  return status;
}

TEST("when the n-th allocation of the host fails nothing is lost, and the next compilation and run work") {
  tenon_shutdown();
  trial_t t = {NULL, start()};
  tenon_builder_t *b = layers("f32[2] -30 -20");
  CHECK_STATUS(tenon_builder_finish(b, &t.graph), TENON_OK);
  tenon_builder_release(b);
  empty_cache();
  fail_each("compiling a group, and running it", try_all, &t, 1);
  fail_each("loading a group, and running it", try_all, &t, 1);
  CHECK(stats_of(t.device).live == 0 && tn_groups_count(ordinal_of(t.device)) == 0);
  tenon_graph_release(t.graph);
}

TEST("when the n-th call of the device fails that is told, nothing is lost, and the next run works") {
  static const char *const calls[] = {"allocate", "copy", "launch", "group_compile"};
  trial_t t = {NULL, start()};
  tenon_builder_t *b = layers("f32[2] -30 -20");
  CHECK_STATUS(tenon_builder_finish(b, &t.graph), TENON_OK);
  tenon_builder_release(b);
  for (int i = 0; i < 4; i++) {
    int failed = 0;
    for (int n = 1; n <= 8; n++) {
      char settings[60];
      empty_cache();
      snprintf(settings, sizeof settings, "fail=%s:%d", calls[i], n);
      sim_set(t.device, settings);
      tenon_status_t status = try_all(&t);
      failed += status != TENON_OK;
      if (status != TENON_OK) CHECK_TEXT(tenon_error(), calls[i]);
      snprintf(settings, sizeof settings, "fail=%s:0", calls[i]);
      sim_set(t.device, settings);
      CHECK_STATUS(try_all(&t), TENON_OK);
    }
    CHECK((failed > 0) ==
          (i == 1 || i == 2)); /* memory is asked for again, and a group that is not compiled handed back */
  }
  CHECK(stats_of(t.device).live == 0 && tn_groups_count(ordinal_of(t.device)) == 0);
  tenon_graph_release(t.graph);
}

TEST("memory of groups is given back, 50 times over") {
  tenon_shutdown(); /* and with it streams that failed */
  tenon_device_t device = start();
  tn_ordinal_t *o = ordinal_of(device);
  uint64_t before = 0, after = 0;
  for (int i = 0; i < 50; i++) {
    tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device, NULL);
    CHECK_GRAPH(e, given, wanted);
    tenon_executable_release(e);
    CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
    CHECK_STATUS(o->table->memory_free(&o->context, i ? &after : &before), TENON_OK);
  }
  CHECK(after == before);
  CHECK(freed == 50 && tn_groups_count(o) == 0);
}

static tenon_executable_t *of_parent;

static void runs_in_child(void) {
  CHECK_GRAPH(of_parent, given, wanted);
  tenon_executable_release(of_parent);
}

TEST("a child of fork runs groups of its parent, and lets them go") {
#ifdef IS_INSTRUMENTED
  SKIP("sanitizers do not follow a process with threads into a child");
#endif
  of_parent = compiled(layers("f32[2] -30 -20"), start(), NULL);
  CHECK_GRAPH(of_parent, given, wanted);
  CHECK(in_child(runs_in_child));
  CHECK_GRAPH(of_parent, given, wanted);
  CHECK(runs == 2 && freed == 0);
  tenon_executable_release(of_parent);
}

TEST("an executable that outlives its device says so, and can be released") {
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), start(), NULL);
  tn_ordinal_t *o = ordinal_of(device_of("sim", 0));
  CHECK(tn_groups_count(o) == 1);
  tenon_shutdown();
  CHECK(freed == 1);
  (void)start();
  check_run_refused(e, given, TENON_PRECONDITION, "group 1 (core::matmul 'product'");
  CHECK_TEXT(tenon_error(), "its device was stopped: compile the graph again");
  tenon_executable_release(e);
  CHECK(freed == 0);
  tenon_shutdown();
}

TEST("a library with a device is not unloaded while executables hold groups of it") {
  tenon_library_t *library;
  tenon_shutdown();
  setenv("TENON_SIM", "claim=1", 1);
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/../../devices/sim.so", TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_executable_t *e = compiled(layers("f32[2] -30 -20"), device_of("sim", 0), NULL);
  check_dump(e, "claims", "1 group with 4 of 4 nodes");
  CHECK_STATUS(tenon_library_unload(library), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "1 compiled groups of device sim");
  tenon_executable_release(e);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  unsetenv("TENON_SIM");
}

TEST("nothing is left behind") {
  tenon_shutdown();
  empty_cache();
  CHECK(rmdir(folder) == 0);
}
