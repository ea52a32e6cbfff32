/* Runs of a model on a device where one call fails, each call in turn: allocations, copies,
 * launches, streams, events, and work that fails later. The error is clear, nothing leaks, and the
 * next run gives the same bits. FAILURES_MODEL names a model's file that replaces the small model
 * of this test: `make device-failures`. */
#include "check.h"
#include "core/tensor.h"
#include "sanitizer.h"
#include "tensors.h"

#include "drivers/grid.h"
#include "operators.h"
#include "there.h"

#include "refusing.h"

enum {
  PORTS = 8,
  SPREAD = 50,
  LAYERS = 2,
};
enum {
  WORK = FAULT_KINDS,
  KINDS,
  /* Besides requests, work can fail later. */
};

typedef struct model_t {
  tenon_graph_t *graph;
  int32_t input_count;
  int32_t output_count;
  tenon_tensor_t *inputs[PORTS];
  tenon_tensor_t *expected[PORTS];
} model_t;

/* models */

static tenon_edge_t three(tenon_builder_t *b, const char *name, const char *attrs, tenon_edge_t x,
                          tenon_edge_t y, tenon_edge_t z) {
  tenon_edge_t inputs[16] = {x, y, z, -1, -1, -1, -1, -1};
  tenon_edge_t out;
  graph_node(b, NULL, name, attrs, inputs, &out, 1);
  return out;
}

static tenon_edge_t weight(tenon_builder_t *b, const char *shape) {
  static int seed;
  char text[80], name[20];
  snprintf(text, sizeof text, "f32[%s] ~%d", shape, ++seed);
  snprintf(name, sizeof name, "w%d", seed);
  return graph_constant(b, name, text);
}

static tenon_edge_t dense(tenon_builder_t *b, tenon_edge_t x, const char *matrix, const char *bias,
                          const char *attrs) {
  return three(b, "core::matmul", attrs, x, weight(b, matrix), weight(b, bias));
}

static tenon_edge_t heads(tenon_builder_t *b, tenon_edge_t x, tenon_edge_t shape,
                          const char *perm) {
  tenon_edge_t y = three(b, "core::reshape", NULL, dense(b, x, "64, 64", "64", NULL), shape, -1);
  return graph_step(b, "core::transpose", perm, y);
}

static tenon_edge_t layer(tenon_builder_t *b, tenon_edge_t x, tenon_edge_t split,
                          tenon_edge_t joined, tenon_edge_t scale) {
  tenon_edge_t q = heads(b, x, split, "perm=[1, 0, 2]");
  tenon_edge_t k = heads(b, x, split, "perm=[1, 2, 0]");
  tenon_edge_t v = heads(b, x, split, "perm=[1, 0, 2]");
  tenon_edge_t scores =
      three(b, "core::mul", NULL, three(b, "core::matmul", NULL, q, k, -1), scale, -1);
  tenon_edge_t mixed =
      three(b, "core::matmul", NULL, graph_step(b, "core::softmax", NULL, scores), v, -1);
  mixed = three(b, "core::reshape", NULL, graph_step(b, "core::transpose", "perm=[1, 0, 2]", mixed),
                joined, -1);
  x = three(b, "core::add", NULL, x, dense(b, mixed, "64, 64", "64", NULL), -1);
  x = three(b, "core::layer_norm", NULL, x, weight(b, "64"), weight(b, "64"));
  tenon_edge_t wide = graph_step(b, "core::gelu", NULL, dense(b, x, "64, 128", "128", NULL));
  x = three(b, "core::add", NULL, x, dense(b, wide, "128, 64", "64", NULL), -1);
  return three(b, "core::layer_norm", NULL, x, weight(b, "64"), weight(b, "64"));
}

static tenon_graph_t *small_model(void) {
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_edge_t ids = graph_input(b, "ids", TENON_I64, 1);
  tenon_edge_t table = weight(b, "10000, 64");
  tenon_edge_t split = graph_constant(b, "split", "i64[3] 0 4 16");
  tenon_edge_t joined = graph_constant(b, "joined", "i64[2] 0 64");
  tenon_edge_t scale = graph_constant(b, "scale", "f32[] 0.25");
  tenon_edge_t x = three(b, "core::gather", NULL, table, ids, -1);
  for (int i = 0; i < LAYERS; i++)
    x = layer(b, x, split, joined, scale);
  graph_output(b, "y", x);
  graph_output(b, "sum", three(b, "core::reduce_sum", NULL, x, -1, -1));
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

/* Integers are the tokens 1, 2, ...; an input whose name says mask is all ones; open axes are
 * 16. */
static tenon_tensor_t *input_of(const tenon_graph_t *graph, int32_t i) {
  int64_t shape[TENON_RANK_MAX];
  tenon_port_t port = {.size = sizeof port};
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_graph_input(graph, i, &port), TENON_OK);
  for (int32_t d = 0; d < port.ndim; d++)
    shape[d] = port.axes[d].extent < 0 ? 16 : port.axes[d].extent;
  CHECK_STATUS(tenon_tensor_create(port.dtype, port.ndim, shape, &t), TENON_OK);
  for (int64_t k = 0; t && k < tenon_count(t); k++) {
    if (tensor_has(t, TENON_I64))
      ((int64_t *)t->data)[k] = strstr(port.name, "mask") ? 1 : k + 1;
    else
      tensor_set_random(t, k, 7);
  }
  return t;
}

static tenon_status_t compile_on(const model_t *m, tenon_device_t device,
                                 tenon_executable_t **out) {
  tenon_compile_t options = {.size = sizeof options, .device = device};
  return tenon_executable_create(m->graph, &options, out);
}

static model_t model_of(tenon_graph_t *graph) {
  model_t m = {.graph = graph,
               .input_count = tenon_graph_input_count(graph),
               .output_count = tenon_graph_output_count(graph)};
  for (int32_t i = 0; i < m.input_count; i++)
    m.inputs[i] = input_of(graph, i);
  return m;
}

static bool are_bits(tenon_tensor_t *const *found, const model_t *m) {
  for (int32_t o = 0; o < m->output_count; o++) {
    const tenon_tensor_t *a = found[o];
    const tenon_tensor_t *b = m->expected[o];
    if (!a || !b || tenon_count(a) != tenon_count(b) ||
        tenon_dtype_id(a->dtype) != tenon_dtype_id(b->dtype) ||
        memcmp(a->data, b->data, (size_t)tenon_count(a) * a->dtype.bits / 8))
      return false;
  }
  return true;
}

static void drop(tenon_tensor_t **tensors) {
  for (int i = 0; i < PORTS; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

/* one failing call */

static const char *name_of(int kind) { return kind == WORK ? "work" : fault_name(kind); }

static void arm(tenon_device_t device, bool is_sim, int kind, uint64_t n) {
  char setting[64];
  snprintf(setting, sizeof setting, kind == WORK ? "fault=%llu" : "fail=launch:%llu",
           (unsigned long long)(n ? n : 1000000000));
  if (kind != WORK) refuse(kind, n);
  if (!n) fault_end();
  if (kind == WORK || (kind == FAULT_LAUNCH && is_sim))
    /* The setting also applies to sim's own operators. */
    sim_set(device, setting);
}

typedef struct trial_t {
  tenon_stream_t *streams[2];
  tenon_executable_t *executable;
  tenon_tensor_t *outputs[PORTS];
  tenon_tensor_t *there;
  tenon_tensor_t *twice;
  tenon_tensor_t *back;
} trial_t;

/* Uses two streams, runs an executable on one of them, and copies what the other stream wrote to
 * the device and back. */
static tenon_status_t attempt(const model_t *m, tenon_device_t device, trial_t *t) {
  TENON_TRY(tenon_stream_create(device, &t->streams[0]));
  TENON_TRY(tenon_stream_create(device, &t->streams[1]));
  TENON_TRY(tenon_stream_use(device, t->streams[0], NULL));
  TENON_TRY(compile_on(m, device, &t->executable));
  TENON_TRY(tenon_executable_run(t->executable, m->inputs, t->outputs, NULL));
  TENON_TRY(tenon_tensor_copy_to(m->inputs[0], device, &t->there));
  TENON_TRY(tenon_stream_use(device, t->streams[1], NULL));
  TENON_TRY(tenon_tensor_copy_to(t->there, device, &t->twice));
  TENON_TRY(tenon_stream_use(device, t->streams[0], NULL));
  TENON_TRY(tenon_tensor_copy_to(t->twice, (tenon_device_t){1, 0}, &t->back));
  size_t size = (size_t)tenon_count(t->back) * t->back->dtype.bits / 8;
  return CHECK(!memcmp(t->back->data, m->inputs[0]->data, size)) ? TENON_OK : TENON_INTERNAL;
}

static void end(tenon_device_t device, trial_t *t) {
  (void)tenon_stream_use(device, NULL, NULL);
  tenon_tensor_release(t->there);
  tenon_tensor_release(t->twice);
  tenon_tensor_release(t->back);
  drop(t->outputs);
  tenon_executable_release(t->executable);
  tenon_stream_release(t->streams[0]);
  tenon_stream_release(t->streams[1]);
  memset(t, 0, sizeof *t);
}

static void check_error(int kind, tenon_status_t status, const char *what) {
  const char *part = kind == FAULT_PIECE || kind == FAULT_ALLOCATE ? " tensors hold "
                     : kind == WORK                                ? " failed on sim:0 (work "
                     : kind == FAULT_LAUNCH                        ? "launch"
                                                                   : "is refused";
  if (!strstr(tenon_error(), part)) check_report(0, __FILE__, __LINE__, what, tenon_error());
  if (kind == FAULT_PIECE || kind == FAULT_ALLOCATE) CHECK(status == TENON_MEMORY);
}

/* Returns false if the call was not reached and everything succeeded. */
static bool try_point(const model_t *m, tenon_device_t device, bool is_sim, int kind, uint64_t n) {
  trial_t t = {.executable = NULL};
  char what[100];
  snprintf(what, sizeof what, "%s %llu", name_of(kind), (unsigned long long)n);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  tenon_memory_stats_t before = stats_of(device);
  arm(device, is_sim, kind, n);
  tenon_status_t status = attempt(m, device, &t);
  if (status != TENON_OK) check_error(kind, status, what);
  arm(device, is_sim, kind, 0);
  bool failed = status != TENON_OK;
  bool has_run = t.outputs[0] != NULL;
  for (int32_t o = 0; o < m->output_count; o++)
    CHECK((t.outputs[o] != NULL) == has_run);
  if (has_run) check_report(are_bits(t.outputs, m), __FILE__, __LINE__, what, "other bits");
  if (failed && t.executable) { /* The executable works again on a stream that did not fail. */
    tenon_stream_t *fresh = NULL;
    CHECK_STATUS(tenon_stream_create(device, &fresh), TENON_OK);
    CHECK_STATUS(tenon_stream_use(device, fresh, NULL), TENON_OK);
    drop(t.outputs);
    check_report(tenon_executable_run(t.executable, m->inputs, t.outputs, NULL) == TENON_OK,
                 __FILE__, __LINE__, what, tenon_error());
    check_report(are_bits(t.outputs, m), __FILE__, __LINE__, what, "other bits in the next run");
    (void)tenon_stream_use(device, NULL, NULL);
    tenon_stream_release(fresh);
  }
  end(device, &t);
  if (failed && !has_run) { /* Everything else works again, too. */
    CHECK_STATUS(attempt(m, device, &t), TENON_OK);
    check_report(are_bits(t.outputs, m), __FILE__, __LINE__, what,
                 "other bits in the next attempt");
    end(device, &t);
  }
  (void)tenon_device_synchronize(device); /* This fails if a stream failed. */
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  tenon_memory_stats_t after = stats_of(device);
  char lost[200];
  snprintf(lost, sizeof lost, "%lld tensors, %lld bytes, %lld bytes of the device",
           (long long)(after.live - before.live), (long long)(after.live_bytes - before.live_bytes),
           (long long)(after.reserved - before.reserved));
  check_report(after.live == before.live && after.live_bytes == before.live_bytes &&
                   after.reserved == before.reserved,
               __FILE__, __LINE__, what, lost);
  return failed;
}

/* all failing calls */

/* Returns how many calls of that kind one attempt makes. */
static uint64_t count_of(const model_t *m, tenon_device_t device, int kind) {
  trial_t t = {.executable = NULL};
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  uint64_t before = stats_of(device).allocations;
  refuse(kind, 0);
  CHECK_STATUS(attempt(m, device, &t), TENON_OK);
  uint64_t count =
      kind == FAULT_PIECE ? stats_of(device).allocations - before : (uint64_t)fault_count(kind);
  fault_end();
  end(device, &t);
  return count;
}

/* Takes streams until one is new, since released streams would be reused. */
static int hold_idle(tenon_device_t device, tenon_stream_t **out_held, int most) {
  int count = 0;
  refuse(FAULT_STREAM, 0);
  while (count < most && !fault_count(FAULT_STREAM) &&
         CHECK_STATUS(tenon_stream_create(device, &out_held[count]), TENON_OK))
    count++;
  fault_end();
  return count;
}

static tenon_device_t open_device(const char *name) {
  return strcmp(name, "sim") == 0 ? sim_open(0, "check=fail") : device_of(name, 0);
}

static void run_kind(const model_t *m, const char *name, int kind) {
  enum { MOST = 64 };
  bool is_sim = strcmp(name, "sim") == 0;
  bool failed = true;
  tenon_device_t device = open_device(name);
  tenon_stream_t *held[MOST];
  bool makes_streams = kind == FAULT_STREAM || kind == FAULT_EVENT; /* events belong to streams */
  uint64_t points = 0;
  uint64_t most = UINT64_MAX;
  uint64_t calls = 0;
  uint64_t n = 1;
  refusing_begin(device);
  if (!is_sim && !makes_streams) {
    calls = count_of(m, device, kind);
    most = calls < SPREAD ? calls : SPREAD;
  }
  for (; failed && points < most && check_failures < 20;
       n = calls ? 1 + points * calls / most : n + 1) {
    int count = makes_streams ? hold_idle(device, held, MOST) : 0;
    failed = try_point(m, device, is_sim, kind, n);
    points += failed;
    while (count)
      tenon_stream_release(held[--count]);
    if (getenv("FAILURES_MODEL")) {
      printf("\r%s: %s %llu ", name, name_of(kind), (unsigned long long)n);
      fflush(stdout);
    }
  }
  refusing_end(device);
  check_report(points > 0, __FILE__, __LINE__, name_of(kind), "nothing failed");
  if (getenv("TENON_SHOW"))
    printf("\r%s: %s: %llu points\n", name, name_of(kind), (unsigned long long)points);
}

static void run_all(const char *name) {
  const char *path = getenv("FAILURES_MODEL");
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  tenon_executable_t *here = NULL;
  tenon_tensor_t *reference[PORTS] = {NULL};
  if (path)
    CHECK_STATUS(tenon_graph_load(path, NULL, &graph), TENON_OK);
  else
    graph = small_model();
  if (!graph) return;
  model_t m = model_of(graph);
  CHECK_STATUS(compile_on(&m, (tenon_device_t){1, 0}, &here), TENON_OK);
  CHECK_STATUS(tenon_executable_run(here, m.inputs, reference, NULL), TENON_OK);
  tenon_device_t device = open_device(name);
  CHECK_STATUS(compile_on(&m, device, &e), TENON_OK);
  CHECK_STATUS(tenon_executable_run(e, m.inputs, m.expected, NULL), TENON_OK);
  tenon_executable_release(e);
  tenon_executable_release(here);
  for (int32_t o = 0; o < m.output_count; o++)
    check_report(tensor_equal(m.expected[o], reference[o], 1e-3), __FILE__, __LINE__, name,
                 "not what the CPU gives");
  for (int kind = FAULT_PIECE; kind < KINDS; kind++)
    if (kind != WORK || strcmp(name, "sim") == 0) run_kind(&m, name, kind);
  drop(m.inputs);
  drop(m.expected);
  drop(reference);
  tenon_graph_release(graph);
}

TEST("on sim a model's run survives the failure of every n-th call and piece of work, and the next "
     "run gives the same bits") {
  tn_grid_group_set(1); /* sim is slow at switching from item to item */
  run_all("sim");
  tn_grid_group_set(0);
}

TEST("on opencl a model's run survives failures at fifty points of each kind") {
  int32_t count;
  if (tenon_device_count("opencl", &count) != TENON_OK) SKIP("there is no driver of OpenCL");
  run_all("opencl");
}

TEST("nothing is left behind") { tenon_shutdown(); }
