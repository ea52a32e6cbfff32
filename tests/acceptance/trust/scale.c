/* Imports, compiles and runs models once each, and builds and runs one graph by the builder, so
 * that valgrind can count the work of measured_model and measured_graph.
 *
 * Usage: scale COUNT MODEL.onnx...
 * Each input is filled by a rule that scale_test.py knows. The outputs of a model are written, one
 * after the other, to MODEL.onnx.out; those of the built graph to the last MODEL.onnx.built. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static void need(tenon_status_t status, const char *what) {
  if (status == TENON_OK) return;
  fprintf(stderr, "%s: %s\n", what, tenon_error());
  exit(1);
}

/* Element k of input i: a multiple of 1/4 between -5/4 and 5/4, or k + 1 for integers. */
static tenon_tensor_t *make_input(int32_t i, const tenon_port_t *port) {
  int64_t shape[8];
  tenon_tensor_t *tensor = NULL;
  for (int32_t d = 0; d < port->ndim; d++)
    shape[d] = port->axes[d].extent < 0 ? 2 : port->axes[d].extent;
  need(tenon_tensor_create(port->dtype, port->ndim, shape, &tensor), port->name);
  for (int64_t k = 0; k < tenon_count(tensor); k++) {
    if (tenon_dtype_id(port->dtype) == TENON_F32)
      ((float *)tensor->data)[k] = (float)((i * 7 + k * 3) % 11 - 5) / 4;
    else if (tenon_dtype_id(port->dtype) == TENON_I64)
      ((int64_t *)tensor->data)[k] = k + 1;
    else
      ((uint8_t *)tensor->data)[k] = 1;
  }
  return tensor;
}

/* Compiles the graph and runs it once. The caller releases the outputs. */
static tenon_tensor_t **run_graph(const tenon_graph_t *graph) {
  int32_t input_count = tenon_graph_input_count(graph);
  tenon_executable_t *executable = NULL;
  tenon_tensor_t **inputs = calloc((size_t)input_count + 1, sizeof *inputs);
  tenon_tensor_t **outputs = calloc((size_t)tenon_graph_output_count(graph) + 1, sizeof *outputs);
  need(tenon_executable_create(graph, NULL, &executable), "compile");
  for (int32_t i = 0; i < input_count; i++) {
    tenon_port_t port = {.size = sizeof port};
    need(tenon_graph_input(graph, i, &port), "input");
    inputs[i] = make_input(i, &port);
  }
  need(tenon_executable_run(executable, inputs, outputs, NULL), "run");
  for (int32_t i = 0; i < input_count; i++)
    tenon_tensor_release(inputs[i]);
  free(inputs);
  tenon_executable_release(executable);
  return outputs;
}

__attribute__((noinline)) tenon_tensor_t **measured_model(const char *path, tenon_graph_t **graph) {
  need(tenon_graph_load(path, NULL, graph), path);
  return run_graph(*graph);
}

/* count / 2 inputs x_i, a chain v_i = max(v_(i - 1), x_i) in which every node is checked when it is
 * added, and the outputs -v_i. */
__attribute__((noinline)) tenon_tensor_t **measured_graph(int32_t count, tenon_graph_t **graph) {
  const tenon_axis_t axis = {.extent = 2};
  const tenon_op_t *max = NULL;
  const tenon_op_t *neg = NULL;
  tenon_builder_t *builder = NULL;
  tenon_edge_t x;
  tenon_edge_t last = 0;
  char name[32];
  need(tenon_op_find("core::max", &max), "core::max");
  need(tenon_op_find("core::neg", &neg), "core::neg");
  need(tenon_builder_create(&builder), "builder");
  tenon_builder_check(builder, 1);
  for (int32_t i = 0; i < count / 2; i++) {
    snprintf(name, sizeof name, "x%d", (int)i);
    need(tenon_builder_input(builder, name, tenon_dtype(TENON_F32), 1, &axis, &x), name);
    tenon_edge_t before = i ? last : x;
    tenon_edge_t out;
    const tenon_operand_t operands[] = {{.edges = &before, .count = 1}, {.edges = &x, .count = 1}};
    need(tenon_builder_node(builder, NULL, max, NULL, operands, &last, 1), "max");
    const tenon_operand_t operand = {.edges = &last, .count = 1};
    need(tenon_builder_node(builder, NULL, neg, NULL, &operand, &out, 1), "neg");
    snprintf(name, sizeof name, "y%d", (int)i);
    need(tenon_builder_output(builder, name, out), name);
  }
  need(tenon_builder_finish(builder, graph), "finish");
  tenon_builder_release(builder);
  return run_graph(*graph);
}

/* valgrind writes what it has counted when this function begins. */
__attribute__((noinline)) void save_outputs(const tenon_graph_t *graph, tenon_tensor_t **outputs,
                                            const char *model, const char *suffix) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", model, suffix);
  FILE *file = fopen(path, "wb");
  if (!file) exit(2);
  for (int32_t i = 0; i < tenon_graph_output_count(graph); i++) {
    size_t size = (size_t)tenon_count(outputs[i]) * outputs[i]->dtype.bits / 8;
    if (fwrite(outputs[i]->data, 1, size, file) != size) exit(2);
    tenon_tensor_release(outputs[i]);
  }
  if (fclose(file)) exit(2);
  free(outputs);
  tenon_graph_release(graph);
}

int main(int argc, char **argv) {
  tenon_graph_t *graph = NULL;
  if (argc < 3) return 2;
  for (int i = 2; i < argc; i++) {
    tenon_tensor_t **outputs = measured_model(argv[i], &graph);
    save_outputs(graph, outputs, argv[i], ".out");
  }
  tenon_tensor_t **outputs = measured_graph(atoi(argv[1]), &graph);
  save_outputs(graph, outputs, argv[argc - 1], ".built");
  return 0;
}
