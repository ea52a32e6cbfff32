/* Checks the operator as a node of a compiled graph: with inputs of the graph, and with constant
 * inputs, which prepare sees and which lie in read-only memory. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "call.h"
#include "core/dtype.h"
#include "run.h"

static const char *lacks_node(const subject_t *subject) {
  const tenon_op_t *op = subject->op;
  if (!(op->traits & TENON_PURE) || op->traits & TENON_RANDOM)
    return "equal calls do not return equal results";
  if (!op->input_count) return "the operator has no inputs";
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS || op->schema.inputs[i].is_written)
      return "it takes lists, or writes to an input";
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return "it returns lists";
  return NULL;
}

typedef struct node_t { /* a graph of one node */
  example_t *example;
  tenon_builder_t *builder;
  tenon_executable_t *executable;
  tenon_tensor_t *given[EXAMPLE_ARGUMENTS]; /* inputs of the graph, in order */
  int32_t given_count;
} node_t;

/* Makes a read-only copy, which is freed when the child ends. */
static tenon_tensor_t *copy_read_only(const tenon_tensor_t *t) {
  tenon_tensor_t *frozen = NULL;
  uint64_t bytes;
  if (tn_dtype_is(t->dtype, TENON_STRING) || t->detail ||
      !tn_dtype_bytes(t->dtype, tenon_count(t), &bytes))
    return NULL;
  void *data = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return NULL;
  memcpy(data, t->data, bytes);
  mprotect(data, bytes + 4096, PROT_READ);
  tenon_tensor_borrow(data, t->dtype, t->ndim, t->shape, NULL, NULL, NULL, &frozen);
  return frozen;
}

static tenon_status_t add_operand(node_t *n, uint32_t i, bool is_constant, tenon_edge_t *out_edge) {
  tenon_tensor_t *t = n->example->inputs[i];
  tenon_tensor_t *frozen = is_constant ? copy_read_only(t) : NULL;
  const char *name = n->example->op->schema.inputs[i].name;
  tenon_axis_t axes[TENON_RANK_MAX];
  tenon_status_t status;
  if (frozen) {
    status = tenon_builder_constant(n->builder, name, frozen, out_edge);
    tenon_tensor_release(frozen);
    return status;
  }
  for (int32_t d = 0; d < t->ndim; d++)
    axes[d] = (tenon_axis_t){t->shape[d], NULL};
  n->given[n->given_count++] = t;
  return tenon_builder_input(n->builder, name, t->dtype, t->ndim, axes, out_edge);
}

/* Bit i of `constant`: input i is a constant. */
static tenon_status_t build_graph(node_t *n, uint64_t constant, tenon_graph_t **out_graph) {
  const tenon_op_t *op = n->example->op;
  tenon_operand_t operands[EXAMPLE_ARGUMENTS];
  tenon_edge_t edges[EXAMPLE_ARGUMENTS], results[EXAMPLE_ARGUMENTS];
  tenon_status_t status = tenon_builder_create(&n->builder);
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++) {
    operands[i] = (tenon_operand_t){n->example->inputs[i] != NULL, &edges[i]};
    if (n->example->inputs[i]) status = add_operand(n, i, constant >> i & 1, &edges[i]);
  }
  if (status == TENON_OK)
    status = tenon_builder_node(n->builder, "node", op, n->example->attrs, operands, results,
                                (int32_t)op->output_count);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    status = tenon_builder_output(n->builder, op->schema.outputs[o].name, results[o]);
  if (status == TENON_OK) status = tenon_builder_finish(n->builder, out_graph);
  return status;
}

static void check_node(example_t *example, const ran_t *expected, uint64_t constant,
                       const char *how) {
  node_t n = {.example = example};
  tenon_graph_t *graph = NULL;
  ran_t ran = {.status = TENON_OK};
  call_doing(example, constant ? "alias.inplace" : "graph.values", how);
  tenon_compile_t compile = {.size = sizeof compile};
  ran.status = build_graph(&n, constant, &graph);
  if (ran.status == TENON_OK) ran.status = tenon_executable_create(graph, &compile, &n.executable);
  if (ran.status == TENON_OK)
    ran.status = tenon_executable_run(n.executable, n.given, ran.outputs, NULL);
  const char *differs =
      ran.status == TENON_OK ? ran_differs(example, expected, &ran, 4) : tenon_error();
  if (differs && ran.status != TENON_UNIMPLEMENTED)
    finding(example, "graph.values", "a node of a graph returns what a call returns",
            "check prepare, and what infer declares for it", "%s: %s", how, differs);
  ran_free(&ran);
  tenon_executable_release(n.executable);
  tenon_graph_release(graph);
  tenon_builder_release(n.builder);
}

/* Inputs whose values infer needs; in a graph they must be constants. */
static uint64_t known_inputs(const tenon_op_t *op) {
  uint64_t known = 0;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->where && op->where[i] & TN_INPUT_KNOWN) known |= (uint64_t)1 << i;
  return known;
}

static void run_graphs(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; !has_findings() && (t = examples_next(&all));) {
    ran_t expected;
    run_plainly(t, &expected);
    if (expected.status == TENON_OK) {
      check_node(t, &expected, known_inputs(subject->op), "as a node of a graph");
      if (subject->op->input_count > 1 && !has_findings())
        check_node(t, &expected, ~(uint64_t)1,
                   "as a node whose inputs are constants except the first");
    }
    ran_free(&expected);
  }
}

const check_t checks_graphs[] = {{"graph.values",
                                  "A node of a compiled graph, with and without constant inputs, "
                                  "returns what a call returns, and does not modify constants.",
                                  "alias.inplace", lacks_node, run_graphs},
                                 {NULL, NULL, NULL, NULL, NULL}};
