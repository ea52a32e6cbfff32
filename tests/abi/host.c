/* A program that runs libraries: host LIB... It calls the operator `value` of each with the tensor
 * [1, 2, 3] of f64, and prints one line, "LIB: NAME 1.0.0 (1.0): 2 4 6" or "LIB: MESSAGE". It also
 * queries what else the library declares. It is compiled with the headers of its own version, and
 * linked with the libtenon under test. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static void print(const tenon_tensor_t *t) {
  for (int64_t i = 0; i < tenon_count(t); i++)
    printf(" %g", ((const double *)t->data)[i]);
}

static double x[3] = {1, 2, 3};
static int64_t shape[1] = {3};
static int64_t strides[1] = {1};

static tenon_tensor_t input(void) {
  tenon_tensor_t in = {0};
  in.data = x;
  in.device.type = 1;
  in.ndim = 1;
  in.dtype = tenon_dtype(TENON_F64);
  in.shape = shape;
  in.strides = strides;
  return in;
}

static int call(const tenon_op_t *op) {
  tenon_tensor_t in = input();
  tenon_tensor_t *inputs[1] = {&in};
  tenon_tensor_t *outputs[1] = {NULL};
  if (tenon_op_call(op, NULL, inputs, outputs, 0) != TENON_OK) {
    printf(" %s", tenon_error());
    return 1;
  }
  print(outputs[0]);
  tenon_tensor_release(outputs[0]);
  return 0;
}

/* The same call on a device, with copies to the device and back. */
static tenon_status_t call_on(const char *device, const tenon_op_t *op) {
  tenon_tensor_t in = input();
  tenon_tensor_t *there = NULL;
  tenon_tensor_t *result = NULL;
  tenon_tensor_t *back = NULL;
  const tenon_device_t cpu = {1, 0};
  tenon_device_t where;
  TENON_TRY(tenon_device_find(device, 0, &where));
  TENON_TRY(tenon_tensor_copy_to(&in, where, &there));
  TENON_TRY(tenon_op_call(op, NULL, &there, &result, 0));
  TENON_TRY(tenon_tensor_copy_to(result, cpu, &back));
  printf(", on %s", device);
  print(back);
  tenon_tensor_release(there);
  tenon_tensor_release(result);
  tenon_tensor_release(back);
  return TENON_OK;
}

/* The same call in a graph, to which a pass is applied. */
static tenon_status_t call_in_graph(const char *pass, const tenon_op_t *op) {
  tenon_builder_t *builder = NULL;
  tenon_graph_t *graph = NULL;
  tenon_graph_t *made = NULL;
  tenon_executable_t *executable = NULL;
  tenon_tensor_t in = input();
  tenon_tensor_t *inputs[1] = {&in};
  tenon_tensor_t *outputs[1] = {NULL};
  tenon_axis_t axis = {3, NULL};
  tenon_edge_t edges[2];
  tenon_operand_t operand = {1, edges};
  TENON_TRY(tenon_builder_create(&builder));
  TENON_TRY(tenon_builder_input(builder, "x", tenon_dtype(TENON_F64), 1, &axis, &edges[0]));
  TENON_TRY(tenon_builder_node(builder, "node", op, NULL, &operand, &edges[1], 1));
  TENON_TRY(tenon_builder_output(builder, "y", edges[1]));
  TENON_TRY(tenon_builder_finish(builder, &graph));
  TENON_TRY(tenon_graph_apply(graph, pass, NULL, 0, &made));
  TENON_TRY(tenon_executable_create(made, NULL, &executable));
  TENON_TRY(tenon_executable_run(executable, inputs, outputs, NULL));
  printf(", after %s", pass);
  print(outputs[0]);
  tenon_tensor_release(outputs[0]);
  tenon_executable_release(executable);
  tenon_graph_release(graph);
  tenon_graph_release(made);
  tenon_builder_release(builder);
  return TENON_OK;
}

/* The results of the first operator of the library `wide` on its device, and after its pass and its
 * partitioner. */
static int call_wide(const tenon_op_t *op) {
  tenon_status_t status = call_on("box", op);
  if (status == TENON_OK) status = call_in_graph("wide::same", op);
  if (status == TENON_OK) status = call_in_graph("wide::cutter", op);
  return status == TENON_OK ? 0 : (printf(" %s", tenon_error()), 1);
}

static int run(const char *path) {
  tenon_library_t *library = NULL;
  const char *slash = strrchr(path, '/');
  int failed = 0;
  printf("%s:", slash ? slash + 1 : path);
  if (tenon_library_load(path, TENON_LOAD_UNLOADABLE, &library) != TENON_OK) {
    printf(" %s\n", tenon_error());
    return 0;
  }
  printf(" %s %s", tenon_library_name(library), tenon_library_version(library));
  for (int32_t i = 0; i < tenon_library_op_count(library); i++) {
    tenon_op_info_t info = {0};
    info.size = sizeof info;
    tenon_op_info(tenon_library_op(library, i), &info);
    const char *name = strstr(info.name, "::") + 2;
    /* `whole` of the library `wide` is for graphs only. */
    if (strcmp(name, "whole") == 0) continue;
    printf(" %s", name);
    failed |= call(tenon_library_op(library, i));
    if (strcmp(tenon_library_name(library), "wide") == 0)
      failed |= call_wide(tenon_library_op(library, i));
  }
  printf("\n");
  tenon_library_release(library);
  return failed;
}

int main(int argc, char **argv) {
  int failed = 0;
  printf("host %u.%u\n", TENON_ABI >> 16, TENON_ABI & 0xffffu);
  for (int i = 1; i < argc; i++)
    failed |= run(argv[i]);
  tenon_shutdown();
  return failed;
}
