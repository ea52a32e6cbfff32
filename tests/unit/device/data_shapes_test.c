/* Shapes that depend on data which the device is still computing, and arguments that are on the
 * host. Each call runs alone and in an executable, and gives the CPU's bits. SIM_SEEDS makes the
 * test longer. */
#include "check.h"
#include "core/tensor.h"
#include "device/plugin.h"
#include "drivers/grid.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

enum {
  INPUTS = 9,
  MOST = 20,
  ARGUMENTS = 6,
};

static const char *const inputs[INPUTS] = {
    "f32[40] ~1",
    "f32[40] 0 1 0 0 1 0 1 1 0 0 0 0 1 1 1 0 0 1 0 1 1 1 1 0 0 0 1 0 1 0 0 0 0 0 0 1 0 1 1 0",
    "f32[] 0",
    "f32[1, 6, 4] 0 0 1 1 0 0.1 1 1.1 0 -0.1 1 0.9 0 10 1 11 0 10.1 1 11.1 0 100 1 101",
    "f32[] 0.5",
    "f32[1, 1, 6] 0.9 0.75 0.6 0.95 0.5 0.3",
    "@i64[] 3",
    "@f32[] 0.5",
    "@f32[] 0"};

/* Values are numbered: first the inputs, then the results of each step in turn. */
static const struct {
  const char *op;
  int in[ARGUMENTS];
  /* The number of results; -1 ends the list of inputs. */
  int results;
} steps[] = {
    {"core::mul", {0, 1, -1}, 1},                           /* 9 */
    {"core::nonzero", {9, -1}, 1},                          /* 10 */
    {"core::gather", {0, 10, -1}, 1},                       /* 11 */
    {"core::unique", {9, -1}, 4},                           /* 12 to 15 */
    {"core::greater", {9, 2, -1}, 1},                       /* 16 */
    {"core::compress", {0, 16, -1}, 1},                     /* 17 */
    {"core::add", {3, 4, -1}, 1},                           /* 18 */
    {"core::non_max_suppression", {18, 5, 6, 7, 8, -1}, 1}, /* 19 */
};
enum { STEPS = sizeof steps / sizeof *steps };

static bool is_host(int input) { return *inputs[input] == '@'; }
static tenon_tensor_t *input_of(int i) { return tensor_of(inputs[i] + is_host(i)); }

static void drop(tenon_tensor_t **values) {
  for (int i = 0; i < MOST; i++) {
    tenon_tensor_release(values[i]);
    values[i] = NULL;
  }
}

/* Makes the calls one by one; results are copied to the host after everything was enqueued. */
static bool run_calls(tenon_device_t device, tenon_tensor_t **out) {
  tenon_tensor_t *values[MOST] = {NULL};
  bool good = true;
  int at = INPUTS;
  for (int i = 0; i < INPUTS; i++) {
    tenon_tensor_t *host = input_of(i);
    if (is_host(i) || device.type == 1)
      values[i] = host;
    else
      CHECK_STATUS(tenon_tensor_copy_to(host, device, &values[i]), TENON_OK),
          tenon_tensor_release(host);
  }
  for (int s = 0; s < STEPS && good; at += steps[s++].results) {
    tenon_tensor_t *arguments[ARGUMENTS] = {NULL};
    for (int i = 0; steps[s].in[i] >= 0; i++)
      arguments[i] = values[steps[s].in[i]];
    good =
        CHECK_STATUS(tenon_op_call(op_of(steps[s].op), NULL, arguments, &values[at], 0), TENON_OK);
  }
  for (int i = INPUTS; i < MOST && good; i++)
    good = CHECK_STATUS(tenon_tensor_copy_to(values[i], (tenon_device_t){1, 0}, &out[i]), TENON_OK);
  drop(values);
  return good;
}

static tenon_executable_t *executable_on(tenon_device_t device) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t edges[MOST];
  int at = INPUTS;
  for (int i = 0; i < INPUTS; i++) {
    tenon_tensor_t *t = input_of(i);
    char name[16];
    snprintf(name, sizeof name, "x%d", i);
    edges[i] = graph_input(b, name, tenon_dtype_id(t->dtype), t->ndim);
    tenon_tensor_release(t);
  }
  for (int s = 0; s < STEPS; at += steps[s++].results) {
    tenon_edge_t arguments[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    for (int i = 0; steps[s].in[i] >= 0; i++)
      arguments[i] = edges[steps[s].in[i]];
    graph_node(b, NULL, steps[s].op, NULL, arguments, &edges[at], steps[s].results);
  }
  for (int i = INPUTS; i < MOST; i++)
    graph_output(b, NULL, edges[i]);
  return graph_compile_on(b, device);
}

static bool run_graph(tenon_executable_t *e, tenon_tensor_t **out) {
  tenon_tensor_t *given[INPUTS];
  for (int i = 0; i < INPUTS; i++)
    given[i] = input_of(i);
  bool good = CHECK_STATUS(tenon_executable_run(e, given, out + INPUTS, NULL), TENON_OK);
  for (int i = 0; i < INPUTS; i++)
    tenon_tensor_release(given[i]);
  return good;
}

static void compare(tenon_tensor_t *const *found, tenon_tensor_t *const *expected,
                    const char *what) {
  for (int i = INPUTS; i < MOST; i++) {
    char a[1000], b[1000], text[2100];
    if (tensor_equal(found[i], expected[i], 0)) continue;
    tensor_print(found[i], a, sizeof a);
    tensor_print(expected[i], b, sizeof b);
    snprintf(text, sizeof text, "value %d: %s instead of %s", i, a, b);
    check_report(0, __FILE__, __LINE__, what, text);
  }
}

static void check_device(tenon_device_t device, tenon_tensor_t *const *expected, const char *what) {
  tenon_tensor_t *found[MOST] = {NULL};
  if (run_calls(device, found)) compare(found, expected, what);
  drop(found);
  tenon_executable_t *e = executable_on(device);
  for (int i = 0; i < 3 && e;
       i++) { /* The runs are planned, captured and replayed, and all give the same results. */
    if (run_graph(e, found)) compare(found, expected, what);
    drop(found);
  }
  tenon_executable_release(e);
}

static tenon_registration_t *
fall_back(const char *name) { /* Few of these operators have kernels on devices. */
  tenon_registration_t *registration = NULL;
  CHECK_STATUS(tenon_fallback_add(name, tenon_fallback_cpu, NULL, NULL, 0, &registration),
               TENON_OK);
  return registration;
}

TEST("on the CPU, results whose shape depends on data are correct") {
  tenon_tensor_t *out[MOST] = {NULL};
  CHECK(run_calls((tenon_device_t){1, 0}, out));
  CHECK_TENSOR(out[10], "i64[1, 17] 1 4 6 7 12 13 14 17 19 20 21 22 26 28 35 37 38");
  /* The expected value is that of ONNX's test case of this operator. */
  CHECK_TENSOR(out[19], "i64[3, 3] 0 0 3 0 0 0 0 0 5");
  CHECK(out[12] && out[12]->shape[0] == 18 && out[17]->shape[0] == 10);
  drop(out);
}

TEST("on sim, with random delays, such results equal those of the CPU, in calls and in an "
     "executable") {
  const char *text = getenv("SIM_SEEDS");
  int seeds = text ? atoi(text) : 20;
  tenon_tensor_t *expected[MOST] = {NULL};
  CHECK(run_calls((tenon_device_t){1, 0}, expected));
  tenon_registration_t *registration = fall_back("sim");
  tn_grid_group_set(1);
  for (int handles = 0; handles < 2; handles++) {
    tenon_device_t device = sim_open(0, "check=fail,delay=300");
    for (int seed = 1; seed <= seeds; seed++) {
      char setting[40];
      snprintf(setting, sizeof setting, "seed=%d", seed);
      sim_set(device, setting);
      check_device(device, expected, setting);
    }
    CHECK(stats_of(device).live == 0 && sim->races(&ordinal_of(device)->context, NULL, 0) == 0);
    tenon_registration_release(registration);
    tenon_shutdown();
    setenv("TENON_SIM", "handles=1", 1);
    registration = fall_back("sim");
  }
  tenon_registration_release(registration);
  unsetenv("TENON_SIM");
  tenon_shutdown();
  tn_grid_group_set(0);
  drop(expected);
}

TEST("on opencl such results equal those of the CPU") {
  int32_t count;
  tenon_tensor_t *expected[MOST] = {NULL};
  if (tenon_device_count("opencl", &count) != TENON_OK) SKIP("there is no driver of OpenCL");
  CHECK(run_calls((tenon_device_t){1, 0}, expected));
  tenon_registration_t *registration = fall_back("opencl");
  for (int i = 0; i < 5; i++)
    check_device(device_of("opencl", 0), expected, "opencl");
  CHECK(stats_of(device_of("opencl", 0)).live == 0);
  tenon_registration_release(registration);
  drop(expected);
  tenon_shutdown();
}

/* arguments on the host */

typedef struct copied_t {
  uint64_t in;
  uint64_t in_bytes;
  uint64_t out;
  uint64_t out_bytes;
} copied_t;

static copied_t copied(tenon_device_t device) {
  const tn_copies_t *c = ordinal_of(device)->copies;
  return (copied_t){c[TENON_COPY_IN].count, c[TENON_COPY_IN].bytes, c[TENON_COPY_OUT].count,
                    c[TENON_COPY_OUT].bytes};
}

static const struct {
  const char *op;
  const char *attrs;
  /* Texts that begin with "@" are on the host. */
  const char *in[ARGUMENTS];
} hosted[] = {
    {"core::reshape", NULL, {"f32[4, 6] ~1", "@i64[2] 3 8"}},
    {"core::expand", NULL, {"f32[1, 6] ~1", "@i64[2] 3 6"}},
    {"core::slice",
     NULL,
     {"f32[4, 6] ~1", "@i64[2] 1 0", "@i64[2] 3 5", "@i64[2] 0 1", "@i64[2] 1 2"}},
    {"core::pad", NULL, {"f32[4, 6] ~1", "@i64[4] 1 0 2 1"}},
    {"core::tile", NULL, {"f32[4, 6] ~1", "@i64[2] 2 3"}},
    {"core::reduce_sum", NULL, {"f32[4, 6] ~1", "@i64[1] 1"}},
    {"core::squeeze", NULL, {"f32[4, 1] ~1", "@i64[1] 1"}},
    {"core::unsqueeze", NULL, {"f32[4, 6] ~1", "@i64[1] 1"}},
    {"core::trilu", NULL, {"f32[4, 4] ~1", "@i64[] 1"}},
    {"core::top_k", NULL, {"f32[4, 6] ~1", "@i64[1] 2"}},
    {"core::cum_sum", NULL, {"f32[4, 6] ~1", "@i64[] 1"}},
    {"core::resize", NULL, {"f32[1, 1, 4, 6] ~1", NULL, NULL, "@i64[4] 1 1 8 12"}},
    {"core::non_max_suppression",
     NULL,
     {"f32[1, 2, 4] 0 0 1 1 0 10 1 11", "f32[1, 1, 2] 0.9 0.8", "@i64[] 2", "@f32[] 0.5",
      "@f32[] 0"}},
    {"core::one_hot", NULL, {"i64[3] 0 2 1", "@i64[] 4", "f32[2] 0 1"}},
};

static uint64_t bytes_of(const tenon_tensor_t *t) {
  return t ? (uint64_t)tenon_count(t) * t->dtype.bits / 8 : 0;
}

TEST("host arguments are never uploaded: a call copies an argument that is on the device, or "
     "nothing") {
  tenon_registration_t *registration = fall_back("sim");
  tenon_device_t device = sim_open(0, "check=fail");
  tn_grid_group_set(1);
  for (size_t i = 0; i < sizeof hosted / sizeof *hosted; i++) {
    const tenon_op_t *op = op_of(hosted[i].op);
    tenon_tensor_t *in[16] = {NULL};
    tenon_tensor_t *out[16] = {NULL};
    uint64_t there = 0;
    uint64_t made = 0;
    if (!op) continue;
    tenon_op_info_t info = op_info(op);
    for (int k = 0; k < ARGUMENTS && k < info.input_count; k++) {
      const char *text = hosted[i].in[k];
      if (text && *text == '@')
        in[k] = tensor_of(text + 1);
      else if (text) {
        in[k] = tensor_there(device, text);
        there += bytes_of(in[k]);
      }
    }
    copied_t before = copied(device);
    if (!CHECK_STATUS(tenon_op_call(op, NULL, in, out, 0), TENON_OK))
      fprintf(stderr, "  of %s\n", hosted[i].op);
    copied_t after = copied(device);
    for (int o = 0; o < info.output_count; o++)
      made += bytes_of(out[o]);
    uint64_t up = after.in_bytes - before.in_bytes;
    uint64_t down = after.out_bytes - before.out_bytes;
    /* In that case all arguments on the device were copied to the host, and the results were copied
     * back. */
    bool fell = down > 0;
    char text[200];
    snprintf(text, sizeof text, "%llu bytes up and %llu down, of %llu arguments and %llu results",
             (unsigned long long)up, (unsigned long long)down, (unsigned long long)there,
             (unsigned long long)made);
    check_report(fell ? up == made && down == there : up == 0, __FILE__, __LINE__, hosted[i].op,
                 text);
    for (int k = 0; k < 16; k++) {
      tenon_tensor_release(in[k]);
      tenon_tensor_release(out[k]);
    }
  }
  tenon_registration_release(registration);
  tn_grid_group_set(0);
}

TEST("in an executable, inputs and constants that are host arguments stay on the host") {
  tenon_registration_t *registration = fall_back("sim");
  tenon_device_t device = sim_open(0, "check=fail");
  tn_grid_group_set(1);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t shape = graph_input(b, "shape", TENON_I64, 1);
  tenon_edge_t y, z;
  tenon_edge_t pads = graph_constant(b, "pads", "i64[4] 1 0 0 1");
  tenon_edge_t w = graph_constant(b, "w", "f32[1, 8] ~3");
  graph_node(b, NULL, "core::reshape", NULL, (tenon_edge_t[]){x, shape}, &y, 1);
  graph_node(b, NULL, "core::add", NULL, (tenon_edge_t[]){y, w}, &z, 1);
  graph_node(b, NULL, "core::pad", NULL, (tenon_edge_t[]){z, pads, -1, -1}, &y, 1);
  graph_output(b, "y", y);
  copied_t before = copied(device);
  tenon_executable_t *e = graph_compile_on(b, device);
  copied_t created = copied(device);
  CHECK(created.in - before.in == 1 && created.in_bytes - before.in_bytes == 32); /* w */
  for (int i = 0; i < 3 && e; i++) {
    tenon_tensor_t *given[2] = {tensor_of("f32[4, 6] ~1"), tensor_of("i64[2] 3 8")};
    tenon_tensor_t *out[1] = {NULL};
    before = copied(device);
    CHECK_STATUS(tenon_executable_run(e, given, out, NULL), TENON_OK);
    copied_t after = copied(device);
    CHECK(after.in - before.in == 1 && after.in_bytes - before.in_bytes == 96); /* x */
    CHECK(after.out - before.out == 1 && out[0] &&
          after.out_bytes - before.out_bytes == bytes_of(out[0]));
    tenon_tensor_release(given[0]);
    tenon_tensor_release(given[1]);
    tenon_tensor_release(out[0]);
  }
  tenon_executable_release(e);
  tenon_registration_release(registration);
  tn_grid_group_set(0);
}

TEST("nothing is left behind") { tenon_shutdown(); }
