/* Captured runs and their replay: the bits stay the same, and the host only makes copies and
 * replays. Also graphs that cannot be captured, with the reason, failures, and captured graphs for
 * several shapes and threads. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "there.h"

static tenon_edge_t node(tenon_builder_t *b, const char *name, tenon_edge_t x, tenon_edge_t y) {
  tenon_edge_t inputs[16] = {x, y, -1, -1};
  tenon_edge_t result;
  graph_node(b, NULL, name, NULL, inputs, &result, 1);
  return result;
}

/* y = relu((x + w) * x) @ w + x, z = x + x. */
static tenon_builder_t *graph(void) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t w;
  tenon_tensor_t *weights = tensor_of("f32[3, 3] 1 2 3 4 5 6 7 8 -9");
  CHECK_STATUS(tenon_builder_constant(b, "w", weights, &w), TENON_OK);
  tenon_tensor_release(weights);
  tenon_edge_t sum = node(b, "core::add", x, w);
  tenon_edge_t product = node(b, "core::mul", sum, x);
  tenon_edge_t y = node(b, "core::matmul", node(b, "core::relu", product, -1), w);
  graph_output(b, "y", node(b, "core::add", y, x));
  graph_output(b, "z", node(b, "core::add", x, x));
  return b;
}

static tenon_executable_t *compile_on(tenon_builder_t *b, tenon_device_t device, bool record) {
  uint32_t flags = TENON_COMPILE_PLAIN | (record ? TENON_COMPILE_RECORD : 0);
  return graph_compile_with(b, (tenon_compile_t){.flags = flags, .device = device});
}

static tenon_tensor_t *numbers(uint64_t seed, int64_t rows) {
  int64_t shape[2] = {rows, 3};
  uint64_t state = seed * 2 + 1;
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &t), TENON_OK);
  for (int64_t i = 0; t && i < 3 * rows; i++)
    ((float *)t->data)[i] = (float)(int32_t)draw(&state) / 3e8f;
  return t;
}

static bool is_same(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  return a && b && tenon_count(a) == tenon_count(b) &&
         memcmp(a->data, b->data, (size_t)tenon_count(a) * sizeof(float)) == 0;
}

/* Runs both executables and compares the bits. */
static void check_run(tenon_executable_t *recorded, tenon_executable_t *plain, uint64_t seed,
                      int64_t rows) {
  tenon_tensor_t *x = numbers(seed, rows);
  tenon_tensor_t *found[2] = {NULL};
  tenon_tensor_t *expected[2] = {NULL};
  CHECK_STATUS(tenon_executable_run(recorded, &x, found, NULL), TENON_OK);
  CHECK_STATUS(tenon_executable_run(plain, &x, expected, NULL), TENON_OK);
  CHECK(is_same(found[0], expected[0]) && is_same(found[1], expected[1]));
  for (int i = 0; i < 2; i++) {
    tenon_tensor_release(found[i]);
    tenon_tensor_release(expected[i]);
  }
  tenon_tensor_release(x);
}

static void check_placement(tenon_executable_t *e, const char *part) {
  char *text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, "placement", &text), TENON_OK);
  CHECK_TEXT(text, part);
  tenon_text_release(text);
}

TEST("replays at three shapes give the bits of node-by-node runs, with and without addresses and "
     "delays") {
  static const char *const settings[] = {"delay=0", "delay=100"};
  for (int i = 0; i < 2; i++) {
    tenon_device_t device = sim_open(0, settings[i]);
    uint64_t races = sim->races(&ordinal_of(device)->context, NULL, 0);
    tenon_executable_t *recorded = compile_on(graph(), device, true);
    tenon_executable_t *plain = compile_on(graph(), device, false);
    for (uint64_t seed = 0; seed < 12; seed++)
      check_run(recorded, plain, seed, seed % 3 ? 3 : 1);
    check_placement(recorded, "captured graphs: 2, replayed 12 times");
    CHECK(sim->races(&ordinal_of(device)->context, NULL, 0) == races);
    tenon_executable_release(recorded);
    tenon_executable_release(plain);
  }
}

TEST("a replay is one piece of work besides its copies, and its memory is neither freed nor "
     "reused") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_executable_t *recorded = compile_on(graph(), device, true);
  tenon_executable_t *plain = compile_on(graph(), device, false);
  check_run(recorded, plain, 1, 3);
  uint64_t before = 0;
  uint64_t after = 0;
  uint64_t segments = stats_of(device).segments;
  for (tenon_stream_t *s = ordinal_of(device)->streams; s; s = s->next)
    before += s->ticket;
  tenon_tensor_t *x = numbers(2, 3);
  tenon_tensor_t *found[2] = {NULL};
  CHECK_STATUS(tenon_executable_run(recorded, &x, found, NULL), TENON_OK);
  for (tenon_stream_t *s = ordinal_of(device)->streams; s; s = s->next)
    after += s->ticket;
  CHECK(after - before == 4); /* x, the replay, y and z */
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(found[i]);
  tenon_tensor_release(x);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  /* The segments of node-by-node runs were released. */
  CHECK(stats_of(device).segments == segments - 1);
  tenon_tensor_t *more[16];
  for (int i = 0; i < 16; i++)
    more[i] = tensor_there(device, "f32[3, 3] 9 9 9 9 9 9 9 9 9");
  check_run(recorded, plain, 3, 3);
  for (int i = 0; i < 16; i++)
    tenon_tensor_release(more[i]);
  tenon_executable_release(recorded);
  tenon_executable_release(plain);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  CHECK(stats_of(device).live == 0 && stats_of(device).segments == 0);
}

TEST("memory released while a graph is captured is not given back to the device either") {
  enum { ROWS = 200000 }; /* large enough that each value has a segment of its own */
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_executable_t *both[2];
  for (int i = 0; i < 2; i++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
    tenon_edge_t twice = node(b, "core::add", x, x);
    tenon_edge_t square =
        /* Neither this value nor its relu is held at the end. */
        node(b, "core::mul", x, x);
    graph_output(b, "y", node(b, "core::add", node(b, "core::relu", square, -1), x));
    graph_output(b, "z", twice);
    both[i] = compile_on(b, device, i == 0);
  }
  check_run(both[0], both[1], 1, ROWS);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  check_run(both[0], both[1], 2, ROWS);
  check_placement(both[0], "captured graphs: 1, replayed 2 times");
  for (int i = 0; i < 2; i++)
    tenon_executable_release(both[i]);
}

TEST("a graph that cannot be captured runs as usual, and the report says why") {
  tenon_device_t device = sim_open(0, "delay=0");
  const struct {
    const char *op;
    const char *why;
  } cases[] = {{"core::det", "copy copies to or from another memory, which cannot be captured"},
               {"core::bernoulli", "(core::bernoulli) draws new random numbers in each run"}};
  tenon_registration_t *fallback = NULL;
  CHECK_STATUS(tenon_fallback_add("sim", tenon_fallback_cpu, NULL, NULL, 0, &fallback), TENON_OK);
  for (int i = 0; i < 2; i++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
    graph_output(b, "y", node(b, cases[i].op, node(b, "core::add", x, x), -1));
    tenon_executable_t *e = compile_on(b, device, true);
    tenon_tensor_t *in = tensor_of("f32[2, 2] 0.1 0.2 0.3 0.4");
    tenon_tensor_t *out[3] = {NULL};
    for (int k = 0; k < 3; k++)
      CHECK_STATUS(tenon_executable_run(e, &in, &out[k], NULL), TENON_OK);
    CHECK(out[0] && out[2] && (i || is_same(out[0], out[2])));
    check_placement(e, "not captured: ");
    check_placement(e, cases[i].why);
    for (int k = 0; k < 3; k++)
      tenon_tensor_release(out[k]);
    tenon_tensor_release(in);
    tenon_executable_release(e);
  }
  tenon_registration_release(fallback);
}

TEST("a failed replay is blamed on the captured graph, and the next run captures it again") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_executable_t *recorded = compile_on(graph(), device, true);
  tenon_executable_t *plain = compile_on(graph(), device, false);
  check_run(recorded, plain, 1, 3);
  sim_set(device, "fault=3");
  tenon_tensor_t *x = numbers(2, 3);
  tenon_tensor_t *out[2] = {NULL};
  CHECK_STATUS(tenon_executable_run(recorded, &x, out, NULL), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "a captured graph failed on sim:0");
  CHECK(!out[0] && !out[1]);
  tenon_tensor_release(x);
  for (uint64_t seed = 0; seed < 3; seed++)
    check_run(recorded, plain, seed, 3);
  check_placement(recorded, "captured graphs: 1, replayed 4 times");
  tenon_executable_release(recorded);
  tenon_executable_release(plain);
}

TEST("if any call fails during the capture, the nodes run one by one") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_executable_t *plain = compile_on(graph(), device, false);
  static const char *const calls[] = {"launch", "copy", "allocate", "stream_create"};
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
    for (int n = 1; n < 12; n++) {
      char setting[64];
      tenon_executable_t *e = compile_on(graph(), device, true);
      tenon_tensor_t *x = numbers(5, 3);
      tenon_tensor_t *out[2] = {NULL};
      tenon_tensor_t *expected[2] = {NULL};
      CHECK_STATUS(tenon_executable_run(plain, &x, expected, NULL), TENON_OK);
      CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
      snprintf(setting, sizeof setting, "fail=%s:%d", calls[c], n);
      sim_set(device, setting);
      tenon_status_t status = tenon_executable_run(e, &x, out, NULL);
      snprintf(setting, sizeof setting, "fail=%s:0", calls[c]);
      sim_set(device, setting);
      CHECK(status == TENON_OK ? is_same(out[0], expected[0]) : !out[0] && !out[1]);
      for (int i = 0; i < 2; i++) {
        tenon_tensor_release(out[i]);
        out[i] = NULL;
      }
      CHECK_STATUS(tenon_executable_run(e, &x, out, NULL), TENON_OK);
      CHECK(is_same(out[0], expected[0]) && is_same(out[1], expected[1]));
      for (int i = 0; i < 2; i++) {
        tenon_tensor_release(out[i]);
        tenon_tensor_release(expected[i]);
      }
      tenon_tensor_release(x);
      tenon_executable_release(e);
    }
  tenon_executable_release(plain);
  CHECK(stats_of(device).live == 0);
}

typedef struct shared_t {
  tenon_executable_t *recorded;
  tenon_executable_t *plain;
} shared_t;

static void several(void *argument) {
  const shared_t *shared = argument;
  for (uint64_t seed = 0; seed < 20; seed++)
    check_run(shared->recorded, shared->plain, seed, 3);
}

TEST("threads that run at once have captured graphs of their own") {
  tenon_device_t device = sim_open(0, "delay=50");
  shared_t shared = {compile_on(graph(), device, true), compile_on(graph(), device, false)};
  tn_spawned_t threads[3];
  for (int i = 0; i < 3; i++)
    CHECK(tn_spawn(&threads[i], several, &shared));
  for (int i = 0; i < 3; i++)
    tn_join(&threads[i]);
  check_placement(shared.recorded, "replayed 60 times");
  tenon_executable_release(shared.recorded);
  tenon_executable_release(shared.plain);
  sim_set(device, "delay=0");
}

TEST("nothing is left behind") { tenon_shutdown(); }
