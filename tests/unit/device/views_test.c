/* Every operator that has a case in ONNX's suite, on a device whose memory is handles. Its inputs
 * are views inside larger memory: transposed, backwards, and with elements before and behind. The
 * CPU gets the same views. A share of the cases runs; with VIEWS_STEP=1 all run. */
#include <glob.h>
#include <sys/stat.h>

#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "drivers/grid.h"
#include "graph/graph.h"
#include "operators.h"
#include "there.h"

#include "layouts.h"

#define CASES TEST_DATA "/../../.venv/lib/python3*/site-packages/onnx/backend/test/data/node/test_"
enum {
  PORTS = 16,
  OPS_MOST = 512,
};
/* The difference of f32 that `tenon check` allows between two right results. */
#define ROUNDING (128 * 0x1p-23)

static const tenon_op_t *seen[OPS_MOST]; /* the operators of the cases that ran */
static int seen_count, case_count;

static void see(const tenon_graph_t *graph) {
  for (size_t n = 0; n < graph->node_count; n++) {
    int i = 0;
    while (i < seen_count && seen[i] != graph->nodes[n].op)
      i++;
    if (i == seen_count && i < OPS_MOST) seen[seen_count++] = graph->nodes[n].op;
  }
}

static bool is_random(const tenon_graph_t *graph) {
  for (size_t n = 0; n < graph->node_count; n++)
    if (graph->nodes[n].op->traits & TENON_RANDOM) return true;
  return false;
}

/* Does a matrix product get tensors that another node made? The choice of its kernel, and so the
 * order of its additions, depends on strides. A device's intermediate tensors may have other
 * strides than the CPU's, which keep those of the inputs. Equal bits are promised only for a call
 * with equal strides. */
static bool multiplies_results(const tenon_graph_t *graph) {
  static const char *const products[] = {"core::matmul", "core::gemm", "core::conv",
                                         "core::conv_transpose", "core::einsum"};
  for (size_t n = 0; n < graph->node_count && graph->node_count > 1; n++)
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
      if (strcmp(graph->nodes[n].op->name, products[i]) == 0) return true;
  return false;
}

/* Views are made of tensors whose elements are whole bytes; lists and strings stay as they are. */
static bool can_lie(const tenon_tensor_t *t) {
  return t && !tensor_has(t, TENON_LIST) && !tensor_has(t, TENON_STRING) && t->dtype.bits % 8 == 0;
}

/* tolerance: for f32; 0: the bits must be equal */
static bool is_same(const tenon_tensor_t *a, const tenon_tensor_t *b, double tolerance) {
  if (a && tensor_is_float(a) && a->dtype.bits < 32) tolerance *= 100;
  if (!a || !b || tensor_has(a, TENON_STRING) || tensor_has(a, TENON_LIST) || tolerance > 0)
    return tensor_equal(a, b, tolerance);
  if (tenon_dtype_id(a->dtype) != tenon_dtype_id(b->dtype) || a->ndim != b->ndim) return false;
  for (int32_t d = 0; d < a->ndim; d++)
    if (a->shape[d] != b->shape[d]) return false;
  return memcmp(a->data, b->data, ((size_t)tenon_count(a) * a->dtype.bits + 7) / 8) == 0;
}

static void differ(const tenon_tensor_t *found, const tenon_tensor_t *expected, const char *what) {
  char a[600], b[600], text[1300];
  tensor_print(found, a, sizeof a);
  tensor_print(expected, b, sizeof b);
  snprintf(text, sizeof text, "%s instead of %s", a, b);
  check_report(0, __FILE__, __LINE__, what, text);
}

static void drop(tenon_tensor_t **tensors) {
  for (int i = 0; i < PORTS; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static tenon_status_t run_on(const tenon_graph_t *graph, tenon_device_t device,
                             tenon_tensor_t *const *inputs, int layout, tenon_tensor_t **out) {
  tenon_compile_t options = {
      .size = sizeof options, .flags = TENON_COMPILE_PLAIN, .device = device};
  tenon_executable_t *e = NULL;
  tenon_tensor_t *placed[PORTS] = {NULL};
  int32_t count = tenon_graph_input_count(graph);
  for (int32_t i = 0; i < count; i++) {
    if (can_lie(inputs[i]))
      placed[i] = layout_place(inputs[i], device, layout);
    else
      tenon_tensor_retain(placed[i] = inputs[i]);
  }
  tenon_status_t status = tenon_executable_create(graph, &options, &e);
  if (status == TENON_OK) status = tenon_executable_run(e, placed, out, NULL);
  tenon_executable_release(e);
  drop(placed);
  return status;
}

/* The CPU's second run.  A product of matrices runs on the plain kernel when its extents and
 * strides come for the first time in a process, and on oneDNN from the second call on
 * (ops/dnn/matmul.c, SEEN); the two may add in different orders.  A comparison of bits must
 * therefore not have the first call on one side and a later call on the other. */
static tenon_status_t run_again_on_cpu(const tenon_graph_t *graph, tenon_tensor_t *const *inputs,
                                       int layout, tenon_tensor_t **out) {
  tenon_device_t cpu = {1, 0};
  tenon_status_t status = run_on(graph, cpu, inputs, layout, out);
  if (status != TENON_OK) return status;
  drop(out);
  return run_on(graph, cpu, inputs, layout, out);
}

static void check_case(const char *folder, tenon_device_t device, double tolerance) {
  char path[600];
  tenon_graph_t *graph = NULL;
  tenon_tensor_t *inputs[PORTS] = {NULL};
  tenon_tensor_t *dense[PORTS] = {NULL};
  tenon_tensor_t *expected[PORTS] = {NULL};
  tenon_tensor_t *found[PORTS] = {NULL};
  /* ONNX's own results, used where equal bits are not promised. */
  tenon_tensor_t *reference[PORTS] = {NULL};
  bool can = true;
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  /* The tests of import report why. */
  if (tenon_graph_load(path, NULL, &graph) != TENON_OK) return;
  int32_t count = tenon_graph_input_count(graph);
  int32_t outputs = tenon_graph_output_count(graph);
  can = count <= PORTS && outputs <= PORTS && !is_random(graph);
  for (int32_t i = 0; i < count && can; i++) {
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%d.pb", folder, (int)i);
    can = tenon_tensor_load(path, &inputs[i]) == TENON_OK && !tensor_has(inputs[i], TENON_LIST);
  }
  const char *name = strrchr(folder, '/') + 1;
  bool is_exact = tolerance == 0 && !multiplies_results(graph);
  for (int32_t o = 0; o < outputs && can && tolerance == 0 && !is_exact; o++) {
    snprintf(path, sizeof path, "%s/test_data_set_0/output_%d.pb", folder, (int)o);
    CHECK_STATUS(tenon_tensor_load(path, &reference[o]), TENON_OK);
  }
  can = can && run_on(graph, (tenon_device_t){1, 0}, inputs, DENSE, dense) ==
                   TENON_OK; /* The CPU refuses some cases, too. */
  for (int layout = TURNED; layout < LAYOUTS && can; layout++) {
    char what[300];
    snprintf(what, sizeof what, "%s %s", name, layouts[layout]);
    if (!CHECK_STATUS(run_again_on_cpu(graph, inputs, layout, expected), TENON_OK))
      fprintf(stderr, "%s\n", what);
    for (int32_t o = 0; o < outputs; o++)
      if (!is_same(expected[o], dense[o], 1e-4)) differ(expected[o], dense[o], what);
    tenon_status_t status = run_on(graph, device, inputs, layout, found);
    if (status != TENON_OK) check_report(0, __FILE__, __LINE__, what, tenon_error());
    for (int32_t o = 0; o < outputs && status == TENON_OK; o++)
      if (reference[o] && !is_same(found[o], reference[o], ROUNDING))
        differ(found[o], reference[o], what);
      else if (!reference[o] && !is_same(found[o], expected[o], tolerance))
        differ(found[o], expected[o], what);
    drop(expected);
    drop(found);
    if (layout == INSIDE) {
      see(graph);
      case_count++;
    }
  }
  drop(inputs);
  drop(dense);
  drop(reference);
  tenon_graph_release(graph);
}

static bool check_some(const char *pattern, tenon_device_t device, int step, double tolerance) {
  glob_t found = {0};
  if (glob(pattern, 0, NULL, &found) != 0) return false;
  for (size_t i = 0; i < found.gl_pathc && check_failures < 20; i += (size_t)step)
    check_case(found.gl_pathv[i], device, tolerance);
  globfree(&found);
  return true;
}

static void check_cases(tenon_device_t device, int step, double tolerance) {
  static const char *const always[] = {CASES "if*", CASES "loop*", CASES "scan*",
                                       CASES "split_variable*"};
  const char *text = getenv("VIEWS_STEP");
  seen_count = case_count = 0;
  if (!check_some(CASES "*", device, text ? atoi(text) : step, tolerance))
    SKIP("ONNX's cases are not there (make packages, .venv)");
  for (size_t i = 0; i < sizeof always / sizeof *always; i++)
    CHECK(check_some(always[i], device, 1, tolerance));
  CHECK(case_count > 10 && stats_of(device).live == 0);
  printf("%d operators in %d cases, in %d layouts\n", seen_count, case_count, LAYOUTS - 1);
}

static tenon_device_table_t table; /* the table of sim without its compile function */
static const tenon_item_t items[] = {TENON_DEVICE(&table), {TENON_TAG_END, 0, 0, NULL, NULL}};
static const tenon_descriptor_t library = {sizeof library, TENON_ABI, TENON_LAYOUT, 0,
                                           "plain_sim",    "1.0.0",   items};

static void begin(bool compiles) {
  tenon_registration_t *registration;
  tenon_shutdown();
  setenv("TENON_SIM", "handles=1", 1);
  if (!compiles) {
    memcpy(&table, ordinal_of(device_of("sim", 0))->table, sizeof table);
    table.compile = NULL;
    table.program_load = NULL;
    table.program_unload = NULL;
    table.kernel_find = NULL;
    table.launch = NULL;
    tenon_shutdown();
    CHECK_STATUS(tenon_library_add(&library, NULL, NULL, NULL), TENON_OK);
  }
  uint32_t flags =
      /* Before composites, so that everything is computed on the CPU. */
      compiles ? 0 : TENON_PREFERRED;
  CHECK_STATUS(tenon_fallback_add("sim", tenon_fallback_cpu, NULL, NULL, flags, &registration),
               TENON_OK);
}

TEST("on memory that is handles, every operator takes views, and gives the CPU's bits if the CPU "
     "computes it") {
  begin(false);
#ifdef IS_INSTRUMENTED
  check_cases(sim_open(0, "check=fail"), 40, 0);
#else
  check_cases(sim_open(0, "check=fail"), 4, 0);
#endif
}

TEST("on memory that is handles, kernels that the device compiles take views, too") {
#ifdef IS_INSTRUMENTED
  SKIP("test_device_source_ops runs these there");
#endif
  begin(true);
  tn_grid_group_set(1);
  check_cases(sim_open(0, "check=fail"), 40, 1e-4);
  tn_grid_group_set(0);
}

TEST("nothing is left behind") {
  unsetenv("TENON_SIM");
  tenon_shutdown();
}
