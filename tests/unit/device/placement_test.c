/* Graphs over several devices: pins, the cost model, copies made only where values cross and only
 * once, and order between ordinals with random delays (SIM_SEEDS makes that part longer: `make
 * sim-seeds`). */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "graph/cost_model.h"
#include "there.h"

static tenon_edge_t two(tenon_builder_t *b, const char *node, const char *name, tenon_edge_t x,
                        tenon_edge_t y) {
  tenon_edge_t inputs[16] = {x, y, -1, -1};
  tenon_edge_t result;
  graph_node(b, node, name, NULL, inputs, &result, 1);
  return result;
}

static tenon_edge_t one(tenon_builder_t *b, const char *node, const char *name, tenon_edge_t x) {
  tenon_edge_t inputs[16] = {x, -1, -1, -1};
  tenon_edge_t result;
  graph_node(b, node, name, NULL, inputs, &result, 1);
  return result;
}

/* Two branches that meet twice; each of these operators gives the same bits on every device. */
static tenon_builder_t *branches(void) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t left = two(b, "left_0", "core::mul", x, x);
  tenon_edge_t right = two(b, "right_0", "core::add", x, x);
  for (int i = 1; i < 4; i++) {
    char name[32];
    snprintf(name, sizeof name, "left_%d", i);
    left = i % 2 ? two(b, name, "core::add", left, x) : one(b, name, "core::relu", left);
    snprintf(name, sizeof name, "right_%d", i);
    right = i % 2 ? two(b, name, "core::mul", right, x) : one(b, name, "core::neg", right);
  }
  tenon_edge_t met = two(b, "left_meet", "core::mul", left, right);
  tenon_edge_t on = two(b, "right_on", "core::add", right, met);
  tenon_edge_t again = two(b, "left_end", "core::sub", on, left);
  graph_output(b, "y", again);
  graph_output(b, "z", two(b, "right_end", "core::mul", on, met));
  return b;
}

static tenon_tensor_t *numbers(uint64_t seed, int64_t count) {
  tenon_tensor_t *t = NULL;
  uint64_t state = seed * 2 + 1;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &t), TENON_OK);
  for (int64_t i = 0; t && i < count; i++)
    ((float *)t->data)[i] = (float)(int32_t)draw(&state) / 3e8f;
  return t;
}

#define check_count(found, expected) check_count_at((found), (expected), __LINE__)
static void check_count_at(uint64_t found, uint64_t expected, int line) {
  char text[80];
  snprintf(text, sizeof text, "%llu times, expected %llu", (unsigned long long)found,
           (unsigned long long)expected);
  check_report(found == expected, __FILE__, line, text, NULL);
}

static void check_same(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  CHECK(a && b && a->shape[0] == b->shape[0] &&
        memcmp(a->data, b->data, (size_t)a->shape[0] * sizeof(float)) == 0);
}

static tenon_executable_t *pinned(tenon_device_t left, tenon_device_t right) {
  tenon_pin_t pins[] = {{"left_*", left}, {"right_*", right}};
  return graph_compile_with(
      branches(), (tenon_compile_t){.flags = TENON_COMPILE_PLAIN, .pins = pins, .pin_count = 2});
}

TEST("two branches on two ordinals give the CPU's bits with random delays, without a race") {
  tenon_device_t left = sim_open(0, "delay=300");
  tenon_device_t right = sim_open(1, "delay=300");
  tenon_executable_t *host = graph_compile(branches(), TENON_COMPILE_PLAIN);
  uint64_t races = sim->races(&ordinal_of(left)->context, NULL, 0);
  uint64_t implied = sim->implied_waits(&ordinal_of(left)->context, NULL, 0);
  const char *seeds = getenv("SIM_SEEDS");
  for (int peers = 0; peers < 2; peers++) {
    sim_set(left, peers ? "peers=1" : "peers=0");
    tenon_executable_t *there = pinned(left, right);
    for (int seed = 1; there && seed <= (seeds ? atoi(seeds) : 50); seed++) {
      char settings[64];
      snprintf(settings, sizeof settings, "seed=%d", seed);
      sim_set(left, settings);
      tenon_tensor_t *x = numbers((uint64_t)seed, 300 + seed);
      tenon_tensor_t *expected[2] = {NULL};
      tenon_tensor_t *found[2] = {NULL};
      CHECK_STATUS(tenon_executable_run(host, &x, expected, NULL), TENON_OK);
      CHECK_STATUS(tenon_executable_run(there, &x, found, NULL), TENON_OK);
      for (int i = 0; i < 2; i++)
        check_same(expected[i], found[i]);
      for (int i = 0; i < 2; i++) {
        tenon_tensor_release(expected[i]);
        tenon_tensor_release(found[i]);
      }
      tenon_tensor_release(x);
    }
    tenon_executable_release(there);
  }
  check_count(sim->races(&ordinal_of(left)->context, NULL, 0), races);
  check_count(sim->implied_waits(&ordinal_of(left)->context, NULL, 0), implied);
  sim_set(left, "delay=0");
  tenon_executable_release(host);
}

TEST("a value is copied to a device once for all nodes there, and an input is uploaded to each "
     "device once") {
  tenon_device_t left = sim_open(0, "peers=1");
  tenon_device_t right = sim_open(1, "peers=1");
  tenon_executable_t *there = pinned(left, right);
  tenon_tensor_t *x = numbers(7, 100);
  tenon_tensor_t *found[2] = {NULL};
  uint64_t in[2] = {copies_made(left, TENON_COPY_IN), copies_made(right, TENON_COPY_IN)};
  uint64_t out[2] = {copies_made(left, TENON_COPY_OUT), copies_made(right, TENON_COPY_OUT)};
  uint64_t peer[2] = {copies_made(left, TENON_COPY_PEER), copies_made(right, TENON_COPY_PEER)};
  CHECK_STATUS(tenon_executable_run(there, &x, found, NULL), TENON_OK);
  check_count(copies_made(left, TENON_COPY_IN) - in[0], 1);
  check_count(copies_made(right, TENON_COPY_IN) - in[1], 1);
  check_count(copies_made(left, TENON_COPY_OUT) - out[0], 1); /* y */
  check_count(copies_made(right, TENON_COPY_OUT) - out[1], 1);
  check_count(copies_made(left, TENON_COPY_PEER) - peer[0],
              /* right_3 and right_on, which one node needs */
              2);
  /* left_meet, which two nodes need */
  check_count(copies_made(right, TENON_COPY_PEER) - peer[1], 1);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(found[i]);
  tenon_tensor_release(x);
  tenon_executable_release(there);
}

TEST("a pin is refused by name if it matches nothing, or if its node became part of another") {
  tenon_device_t device = sim_open(0, "delay=0");
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t w = graph_input(b, "w", TENON_F32, 2);
  graph_output(b, "y", one(b, "activation", "core::relu", two(b, "product", "core::matmul", x, w)));
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  tenon_pin_t pin = {"nothing*", device};
  tenon_compile_t options = {
      .size = sizeof options, .device = device, .pins = &pin, .pin_count = 1};
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "pin 'nothing*': no node and no operator of the graph has this name");
  pin.node = "activation";
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_NOT_FOUND);
  CHECK_TEXT(
      tenon_error(),
      "pin 'activation': the nodes with this name were merged into others when the graph was "
      "rewritten");
  pin.node = "";
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_INVALID);
  tenon_pin_t to_cpu = {"nothing*", {1, 0}}; /* All nodes are on the CPU anyway. */
  tenon_compile_t on_cpu = {.size = sizeof on_cpu, .pins = &to_cpu, .pin_count = 1};
  CHECK_STATUS(tenon_executable_create(graph, &on_cpu, &e), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "pin 'nothing*': no node and no operator");
  pin = (tenon_pin_t){"core::matmul", {12, 200 << 8}};
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "pin 'core::matmul': device (type 12, id 51200) does not belong to a backend");
  pin.device = device;
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_OK);
  tenon_executable_release(e);
  tenon_graph_release(graph);
}

/* Returns the report that says where each node of the branches was placed. */
static char *placed(const tenon_device_t *devices, uint32_t count, const tenon_pin_t *pin) {
  char *text = NULL;
  tenon_executable_t *e =
      graph_compile_with(branches(), (tenon_compile_t){.flags = TENON_COMPILE_PLAIN,
                                                       .devices = devices,
                                                       .device_count = count,
                                                       .pins = pin,
                                                       .pin_count = pin != NULL});
  CHECK_STATUS(tenon_executable_dump(e, "placement", &text), TENON_OK);
  tenon_executable_release(e);
  return text;
}

TEST("the cost model leaves a slow device out, except for nodes that are pinned to it") {
  tenon_device_t slow = sim_open(0, "delay=30000");
  tenon_device_t cpu = {1, 0};
  tn_cost_model_clear();
  char *text = placed((tenon_device_t[]){slow, cpu}, 2, NULL);
  CHECK_TEXT(text, "sim:0: 0 nodes, cpu: 12 nodes");
  CHECK_TEXT(text, "placement: all on one device where it has kernels\nestimated: all on sim:0 ");
  tenon_text_release(text);
  text = placed((tenon_device_t[]){slow, cpu}, 2, &(tenon_pin_t){"core::neg", slow});
  CHECK_TEXT(text, "sim:0: 1 nodes, cpu: 11 nodes");
  CHECK_TEXT(text, "pinned by 'core::neg'");
  tenon_text_release(text);
  sim_set(slow, "delay=0");
  tn_cost_model_clear();
}

TEST("without a device, or on the CPU, only the nodes that are pinned to a device run there") {
  tenon_device_t there = sim_open(0, "delay=0");
  tenon_device_t cpu = {1, 0};
  char *text = placed(NULL, 0, &(tenon_pin_t){"core::neg", there});
  CHECK_TEXT(text, "sim:0: 1 nodes, cpu: 11 nodes");
  tenon_text_release(text);
  text = placed(&cpu, 1, &(tenon_pin_t){"core::neg", there});
  CHECK_TEXT(text, "cpu: 11 nodes, sim:0: 1 nodes");
  tenon_text_release(text);
}

TEST("a view needs no kernel, so it neither falls back nor is bound to the CPU") {
  tenon_device_t devices[] = {sim_open(0, "delay=0"), {1, 0}};
  tenon_registration_t *fallback = NULL;
  CHECK_STATUS(tenon_fallback_add("sim", tenon_fallback_cpu, NULL, NULL, 0, &fallback), TENON_OK);
  for (uint32_t count = 1; count <= 2; count++) {
    char *text = NULL;
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
    tenon_edge_t turned = one(b, "turned", "core::transpose", one(b, "first", "core::relu", x));
    graph_output(b, "y", one(b, "last", "core::neg", turned));
    tenon_executable_t *e =
        graph_compile_with(b, (tenon_compile_t){.flags = TENON_COMPILE_PLAIN,
                                                .devices = devices,
                                                .device_count = count,
                                                .pins = &(tenon_pin_t){"first", devices[0]},
                                                .pin_count = 1});
    CHECK_STATUS(tenon_executable_dump(e, "placement", &text), TENON_OK);
    if (count == 1) CHECK_TEXT(text, "turned  core::transpose  sim:0        the only device");
    CHECK(!strstr(text, "falls back") && !strstr(text, "only this device has a kernel"));
    tenon_text_release(text);
    tenon_executable_release(e);
  }
  tenon_registration_release(fallback);
}

TEST("one device alone is not measured") {
  tenon_device_t devices[] = {sim_open(0, "delay=3000"), sim_open(1, "delay=3000")};
  char *text = placed(devices, 1, NULL);
  CHECK_TEXT(text, "placement: one device\nsim:0: 12 nodes, cpu: 0 nodes");
  CHECK(strstr(text, "estimated") == NULL);
  tenon_text_release(text);
  sim_set(devices[0], "delay=0");
}

TEST("nothing is left behind") { tenon_shutdown(); }
