/* Gradients through graphs: runs of executables that record a history. */
#define TENON_STATIC
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "operators_library.h"
#include "tape.h"

__attribute__((constructor)) static void add_library(void) {
  if (tenon_library_add(tenon_library_autograd(), NULL, NULL, NULL) != TENON_OK)
    puts(tenon_error());
}

static tenon_edge_t two(tenon_builder_t *b, const char *node, const char *name, tenon_edge_t a,
                        tenon_edge_t c) {
  tenon_edge_t result;
  graph_node(b, node, name, NULL, (tenon_edge_t[]){a, c, -1, -1}, &result, 1);
  return result;
}

/* The outputs: x^2 + x^4 by an operator that writes to its input, 3 x^2 by one with a state, x
 * itself, a constant, and x by an operator without a gradient. */
static tenon_builder_t *powers(void) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F64, 1);
  tenon_edge_t square = two(b, "first", "core::mul", x, x);
  graph_output(
      b, "sum",
      two(b, "last", "core::add", graph_step(b, "autograd::square_", NULL, square), square));
  graph_output(b, "thrice", graph_step(b, "autograd::times", "by=3.0", square));
  graph_output(b, "same", x);
  graph_output(b, "constant", graph_constant(b, "c", "f64[2] 5 6"));
  graph_output(b, "opaque", two(b, "dark", "autograd::opaque", x, -1));
  graph_output(b, "written", graph_step(b, "autograd::square_", NULL, x));
  return b;
}

enum {
  SUM,
  THRICE,
  SAME,
  CONSTANT,
  OPAQUE,
  WRITTEN,
  OUTPUTS,
};

static void run_all(tenon_executable_t *e, tenon_tensor_t *x, tenon_tensor_t **outputs) {
  static const char *const expected[] = {"f64[2] 2 20", "f64[2] 3 12", "f64[2] 1 2",
                                         "f64[2] 5 6",  "f64[2] 1 2",  "f64[2] 1 4"};
  memset(outputs, 0, OUTPUTS * sizeof *outputs);
  CHECK_STATUS(tenon_executable_run(e, &x, outputs, NULL), TENON_OK);
  for (int o = 0; o < OUTPUTS; o++)
    CHECK_TENSOR(outputs[o], expected[o]);
}

static void release_all(tenon_tensor_t **outputs) {
  for (int o = 0; o < OUTPUTS; o++)
    tenon_tensor_release(outputs[o]);
}

TEST("gradients flow through a graph, also where its operators write to inputs or have a state") {
  tenon_executable_t *e = graph_compile(powers(), TENON_COMPILE_GRADIENTS);
  for (int i = 0; i < 2; i++) {
    tenon_tensor_t *x = leaf("f64[2] 1 2");
    tenon_tensor_t *outputs[OUTPUTS];
    tenon_tensor_t *grad = NULL;
    run_all(e, x, outputs);
    CHECK(tenon_tensor_requires_grad(outputs[SUM]) &&
          !tenon_tensor_requires_grad(outputs[CONSTANT]));
    tenon_tensor_t *ones = tensor_of("f64[2] 1 1");
    tenon_tensor_t *starts[] = {outputs[SUM], outputs[SAME], outputs[WRITTEN]};
    CHECK_STATUS(tenon_gradients(starts, (tenon_tensor_t *[]){ones, ones, ones}, 3, &x, 1,
                                 TENON_GRAD_KEEP, &grad),
                 TENON_OK);
    CHECK_TENSOR(grad, "f64[2] 9 41"); /* 2 x + 4 x^3, 1, 2 x */
    tenon_tensor_release(grad);
    CHECK_STATUS(tenon_gradients(&outputs[THRICE], &ones, 1, &x, 1, 0, &grad), TENON_OK);
    CHECK_TENSOR(grad, i ? "f64[2] 4006 8012"
                         /* 6 x, and 2000 x for each call of the operator */
                         : "f64[2] 2006 4012");
    tenon_tensor_release(grad);
    tenon_tensor_release(ones);
    CHECK_TENSOR(x, "f64[2] 1 2");
    release_all(outputs);
    tenon_tensor_release(x);
  }
  tenon_executable_release(e);
}

TEST("backward names the node of a graph whose operator has no gradient") {
  tenon_executable_t *e = graph_compile(powers(), TENON_COMPILE_GRADIENTS);
  tenon_tensor_t *x = leaf("f64[2] 1 2");
  tenon_tensor_t *outputs[OUTPUTS];
  tenon_tensor_t *ones = tensor_of("f64[2] 1 1");
  tenon_tensor_t *grad = NULL;
  run_all(e, x, outputs);
  CHECK_STATUS(tenon_gradients(&outputs[OPAQUE], &ones, 1, &x, 1, 0, &grad), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "node 'dark': autograd::opaque has no gradient");
  RELEASE(ones, x);
  release_all(outputs);
  tenon_tensor_t *y = leaf("f64[2] 1 2");
  tenon_tensor_t *out = apply("autograd::opaque", y, NULL);
  CHECK_STATUS(backward(out, 0), TENON_INVALID);
  out = then(out, "core::reduce_sum", NULL);
  CHECK_STATUS(backward(out, 0),
               /* Outside of graphs there is no node to name. */
               TENON_UNIMPLEMENTED);
  CHECK(strncmp(tenon_error(), "autograd::opaque has no gradient", 32) == 0);
  RELEASE(out, y);
  tenon_executable_release(e);
}

TEST(
    "no history is recorded without TENON_COMPILE_GRADIENTS, nor if no input requires a gradient") {
  for (uint32_t flags = 0; flags <= TENON_COMPILE_GRADIENTS; flags += TENON_COMPILE_GRADIENTS) {
    tenon_executable_t *e = graph_compile(powers(), flags);
    tenon_tensor_t *x = flags ? tensor_of("f64[2] 1 2") : leaf("f64[2] 1 2");
    tenon_tensor_t *outputs[OUTPUTS];
    run_all(e, x, outputs);
    for (int o = 0; o < OUTPUTS; o++)
      CHECK(!tenon_tensor_requires_grad(outputs[o]));
    CHECK(outputs[SAME] != x && outputs[SAME]->data != x->data);
    release_all(outputs);
    tenon_tensor_release(x);
    tenon_executable_release(e);
  }
}

TEST("TENON_COMPILE_GRADIENTS is refused for a device other than the CPU") {
  tenon_device_t device;
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  tenon_builder_t *b = powers();
  CHECK_STATUS(tenon_device_find("null", 0, &device), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  const tenon_compile_t options = {
      .size = sizeof options, .flags = TENON_COMPILE_GRADIENTS, .device = device};
  CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "TENON_COMPILE_GRADIENTS is implemented for the CPU only");
  tenon_builder_release(b);
  tenon_graph_release(graph);
}
