/* Compiles programs: the bridge to StableHLO reads them as graphs, and Tenon compiles the graphs
 * for the device that the options state. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "plugin.h"

/* ---- the device ------------------------------------------------------------------------------ */

static tenon_status_t choose_device(client_t *client, const pjrt_compile_t *call,
                                    device_t **out_device) {
  options_t options;
  char text[160];
  const tenon_status_t status = options_read(call->options, call->options_size, &options);
  if (status != TENON_OK) return status;
  if (options.replicas > 1 || options.partitions > 1) {
    snprintf(text, sizeof text,
             "a program for %" PRId64 " replicas of %" PRId64 " partitions is not supported: "
             "expected a program for one device",
             options.replicas, options.partitions);
    return tenon_error_set(TENON_UNIMPLEMENTED, text);
  }
  if (options.device < 0) options.device = 0;
  if (options.device < client->device_count) {
    *out_device = &client->devices[options.device];
    return TENON_OK;
  }
  snprintf(text, sizeof text, "%s has no device %" PRId64 ": expected 0 to %d", client->platform,
           options.device, (int)client->device_count - 1);
  return tenon_error_set(TENON_INVALID, text);
}

/* ---- what is known of the values ------------------------------------------------------------- */

static tenon_status_t describe_output(const tenon_graph_t *graph, int32_t index,
                                      output_t *out_output) {
  tenon_port_t port = {.size = sizeof port};
  char text[200];
  const tenon_status_t status = tenon_graph_output(graph, index, &port);
  if (status != TENON_OK) return status;
  out_output->type = element_type_of(port.dtype);
  out_output->dtype = port.dtype;
  out_output->ndim = port.ndim;
  bool is_known = out_output->type > 0 && port.ndim >= 0;
  for (int32_t i = 0; i < port.ndim; i++) {
    out_output->dims[i] = port.axes[i].extent;
    is_known &= port.axes[i].extent >= 0;
  }
  if (is_known && array_bytes(port.dtype, port.ndim, out_output->dims) >= 0) return TENON_OK;
  snprintf(text, sizeof text,
           "output %d of the program has the type %.20s and %d dimensions, which are not all known "
           "when it is compiled: PJRT needs an element type and fixed dimensions",
           (int)index, tenon_dtype_name(port.dtype), (int)port.ndim);
  return tenon_error_set(TENON_UNIMPLEMENTED, text);
}

static void count_input(executable_t *made, const tenon_graph_t *graph, int32_t index) {
  int64_t dims[TENON_RANK_MAX] = {0};
  tenon_port_t port = {.size = sizeof port};
  if (tenon_graph_input(graph, index, &port) != TENON_OK || port.ndim < 0) return;
  for (int32_t i = 0; i < port.ndim; i++)
    dims[i] = port.axes[i].extent;
  const int64_t size = array_bytes(port.dtype, port.ndim, dims);
  if (size > 0) made->input_size += size;
}

/* Allocates `count` elements, at least one. */
static void *take(int64_t count, size_t size, tenon_status_t *status) {
  void *memory = calloc(count > 0 ? (size_t)count : 1, size);
  if (!memory && *status == TENON_OK)
    *status = tenon_error_set(TENON_MEMORY, "out of memory: a compiled program");
  return memory;
}

static tenon_status_t take_tables(executable_t *made) {
  tenon_status_t status = TENON_OK;
  const int64_t outputs = made->output_count;
  const int64_t values = outputs > made->input_count ? outputs : made->input_count;
  made->outputs = take(outputs, sizeof *made->outputs, &status);
  made->types = take(outputs, sizeof *made->types, &status);
  made->ranks = take(outputs, sizeof *made->ranks, &status);
  made->dims = take(outputs * TENON_RANK_MAX, sizeof *made->dims, &status);
  made->kinds = take(values, sizeof *made->kinds, &status);
  made->kind_sizes = take(values, sizeof *made->kind_sizes, &status);
  for (int64_t i = 0; i < values && status == TENON_OK; i++) {
    made->kinds[i] = "device";
    made->kind_sizes[i] = strlen("device");
  }
  return status;
}

static tenon_status_t describe_values(executable_t *made, const tenon_graph_t *graph) {
  size_t place = 0;
  made->input_count = tenon_graph_input_count(graph);
  made->output_count = tenon_graph_output_count(graph);
  tenon_status_t status = take_tables(made);
  for (int32_t i = 0; i < made->output_count && status == TENON_OK; i++) {
    output_t *output = &made->outputs[i];
    status = describe_output(graph, i, output);
    if (status != TENON_OK) return status;
    made->types[i] = output->type;
    made->ranks[i] = (size_t)output->ndim;
    memcpy(made->dims + place, output->dims, (size_t)output->ndim * sizeof *made->dims);
    place += (size_t)output->ndim;
    made->output_size += array_bytes(output->dtype, output->ndim, output->dims);
  }
  for (int32_t i = 0; i < made->input_count && status == TENON_OK; i++)
    count_input(made, graph, i);
  return status;
}

/* ---- the program ----------------------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t size) { /* FNV-1a */
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static tenon_status_t name_program(executable_t *made, const pjrt_compile_t *call,
                                   const tenon_graph_t *graph) {
  tenon_status_t status = TENON_OK;
  const char *name = tenon_graph_name(graph);
  uint64_t hash =
      hash_bytes(UINT64_C(0xcbf29ce484222325), call->program->code, call->program->code_size);
  hash = hash_bytes(hash, call->options, call->options_size);
  snprintf(made->fingerprint, sizeof made->fingerprint, "%016" PRIx64, hash);
  snprintf(made->name, sizeof made->name, "%s", *name ? name : "main");
  made->cost = (pjrt_named_t){.size = sizeof made->cost,
                              .name = "nodes",
                              .name_size = strlen("nodes"),
                              .type = PJRT_VALUE_INT,
                              .as.number = tenon_graph_node_count(graph),
                              .value_size = 1};
  made->options = take((int64_t)call->options_size, 1, &status);
  if (status != TENON_OK) return status;
  if (call->options_size) memcpy(made->options, call->options, call->options_size);
  made->options_size = call->options_size;
  return TENON_OK;
}

static tenon_status_t compile_graph(executable_t *made, const pjrt_compile_t *call,
                                    const tenon_graph_t *graph) {
  const tenon_compile_t options = {.size = sizeof options, .device = made->device->device};
  tenon_status_t status = name_program(made, call, graph);
  if (status == TENON_OK) status = describe_values(made, graph);
  if (status != TENON_OK) return status;
  return tenon_executable_create(graph, &options, &made->compiled);
}

static tenon_status_t compile_program(executable_t *made, const pjrt_compile_t *call) {
  tenon_graph_t *graph = NULL;
  const pjrt_program_t *program = call->program;
  tenon_status_t status = choose_device(call->client, call, &made->device);
  if (status != TENON_OK) return status;
  status = hlo_program_read_donated(program->code, program->code_size, "program", &made->donated,
                                    &graph);
  if (status == TENON_OK) status = compile_graph(made, call, graph);
  tenon_graph_release(graph);
  return status;
}

static pjrt_error_t *check_program(const pjrt_program_t *program) {
  const size_t expected = offsetof(pjrt_program_t, format_size) + sizeof program->format_size;
  if (!program || program->size < expected)
    return fail_call(TENON_INVALID, "PJRT_Client_Compile: the structure of the program is missing "
                                    "or too short");
  if (program->format_size == 4 && memcmp(program->format, "mlir", 4) == 0) return NULL;
  return fail_call(TENON_UNIMPLEMENTED,
                   "a program in the format '%.*s' is not supported: expected `mlir`, StableHLO",
                   program->format_size < 40 ? (int)program->format_size : 40, program->format);
}

pjrt_error_t *client_compile(void *arguments) {
  pjrt_compile_t *call = arguments;
  pjrt_error_t *error = check_program(call->program);
  if (error) return error;
  executable_t *made = calloc(1, sizeof *made);
  if (!made) return fail_call(TENON_MEMORY, "out of memory: a compiled program");
  atomic_init(&made->references, 1);
  pthread_mutex_init(&made->lock, NULL);
  const tenon_status_t status = compile_program(made, call);
  if (status == TENON_OK) {
    call->executable = made;
    return NULL;
  }
  error = error_of(status);
  executable_release(made);
  return error;
}
