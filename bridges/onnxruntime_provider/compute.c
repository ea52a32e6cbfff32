/* Runs compiled groups. Inputs and outputs on the host are used where they are, except for strings
 * and for outputs whose shapes only the run finds. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "common/ort_element.h"
#include "model_parts.h"
#include "provider.h"

/* ---- preparation ----------------------------------------------------------------------------- */

/* Finds an input's axis with the name. */
static tenon_status_t find_axis(const program_t *program, const char *name, extent_t *out) {
  for (int32_t i = 0; i < program->input_count; i++) {
    tenon_port_t port = {.size = sizeof port};
    const tenon_status_t status = tenon_graph_input(program->graph, i, &port);
    if (status != TENON_OK) return status;
    for (int32_t axis = 0; axis < port.ndim; axis++) {
      if (!port.axes[axis].name || strcmp(port.axes[axis].name, name) != 0) continue;
      *out = (extent_t){.extent = -1, .input = i, .axis = axis};
      return TENON_OK;
    }
  }
  return TENON_NOT_FOUND;
}

/* Finds out whether the shape follows from those of the inputs. */
static tenon_status_t prepare_output(const program_t *program, int32_t index, output_t *output) {
  tenon_port_t port = {.size = sizeof port};
  tenon_port_t value = {.size = sizeof value};
  tenon_status_t status = tenon_graph_output(program->graph, index, &port);
  if (status == TENON_OK) status = tenon_graph_value(program->graph, port.edge, &value);
  if (status != TENON_OK) return status;
  output->ndim = -1;
  output->dtype = value.dtype;
  if (value.ndim < 0 || !value.dtype.bits || tenon_dtype_id(value.dtype) == TENON_STRING)
    return TENON_OK;
  output->extents = calloc((size_t)value.ndim + 1, sizeof *output->extents);
  if (!output->extents) return tn_no_memory("a group", 0);
  for (int32_t d = 0; d < value.ndim; d++) {
    const tenon_axis_t *axis = &value.axes[d];
    output->extents[d] = (extent_t){.extent = axis->extent, .input = -1};
    if (axis->extent >= 0) continue;
    if (!axis->name || find_axis(program, axis->name, &output->extents[d]) != TENON_OK)
      return TENON_OK;
  }
  output->ndim = value.ndim;
  return TENON_OK;
}

tenon_status_t program_prepare(program_t *program) {
  program->input_count = tenon_graph_input_count(program->graph);
  program->output_count = tenon_graph_output_count(program->graph);
  program->ranks = calloc((size_t)program->input_count + 1, sizeof *program->ranks);
  program->outputs = calloc((size_t)program->output_count + 1, sizeof *program->outputs);
  if (!program->ranks || !program->outputs) return tn_no_memory("a group", 0);
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < program->input_count && status == TENON_OK; i++) {
    tenon_port_t port = {.size = sizeof port};
    status = tenon_graph_input(program->graph, i, &port);
    program->ranks[i] = port.ndim;
    program->room += port.ndim >= 0 ? (size_t)port.ndim : MODEL_RANK_MOST;
  }
  for (int32_t i = 0; i < program->output_count && status == TENON_OK; i++) {
    status = prepare_output(program, i, &program->outputs[i]);
    if (program->outputs[i].ndim > 0) program->room += 2 * (size_t)program->outputs[i].ndim;
  }
  return status;
}

/* ---- one run --------------------------------------------------------------------------------- */

typedef struct run_t {
  const program_t *program;
  OrtKernelContext *context;
  int64_t *room; /* for shapes and strides */
  tenon_tensor_t *views;
  tenon_tensor_t **tensors; /* inputs, then outputs */
  bool *is_made;            /* the tensor is to be released */
  bool *is_given;           /* the run writes to the output's own memory */
  void *block;
  bool is_shared; /* the work writes to memory of the host that is not Tenon's */
} run_t;

static tenon_status_t begin_run(run_t *run) {
  const program_t *program = run->program;
  const size_t count = (size_t)program->input_count + (size_t)program->output_count;
  const size_t views = count * sizeof *run->views;
  const size_t room = program->room * sizeof *run->room;
  char *block =
      calloc(1, views + room + count * (sizeof *run->tensors + 2 * sizeof *run->is_made) + 1);
  if (!block) return tn_no_memory("a run", views + room);
  run->block = block;
  run->views = (tenon_tensor_t *)block;
  run->room = (int64_t *)(block + views);
  run->tensors = (tenon_tensor_t **)(block + views + room);
  run->is_made = (bool *)(run->tensors + count);
  run->is_given = run->is_made + count;
  return TENON_OK;
}

static void end_run(run_t *run) {
  const int32_t count = run->program->input_count + run->program->output_count;
  for (int32_t i = 0; run->block && i < count; i++)
    if (run->is_made[i]) tenon_tensor_release(run->tensors[i]);
  free(run->block);
}

static tenon_status_t view_value(run_t *run, int32_t index, const OrtValue *value, int64_t *shape,
                                 int32_t ndim, tenon_dtype_t dtype) {
  void *data = NULL;
  tenon_status_t status = API(GetTensorMutableData, (OrtValue *)(uintptr_t)value, &data);
  if (status != TENON_OK) return status;
  if (run->program->provider->factory->memory) {
    status = device_view(data, dtype, ndim, shape, &run->tensors[index]);
    run->is_made[index] = run->tensors[index] != NULL;
    if (status != TENON_OK || run->tensors[index]) return status;
  }
  tenon_tensor_t *view = &run->views[index];
  status = tenon_tensor_view(view, data, dtype, ndim, shape, NULL, run->room);
  run->room += ndim;
  run->tensors[index] = view;
  return status;
}

/* Copies an input on the host that work of a device reads later. */
static tenon_status_t stage_input(run_t *run, int32_t index) {
  const factory_t *factory = run->program->provider->factory;
  if (!factory->memory || run->is_made[index]) return TENON_OK;
  const tenon_status_t status = device_stage(factory, run->tensors[index], &run->tensors[index]);
  run->is_made[index] = status == TENON_OK;
  return status;
}

static tenon_status_t set_ep_input(run_t *run, int32_t index) {
  const OrtValue *value = NULL;
  const int64_t *shape = NULL;
  size_t rank = 0;
  int element = 0;
  tenon_dtype_t dtype;
  tenon_status_t status = API(KernelContext_GetInput, run->context, (size_t)index, &value);
  if (status == TENON_OK && !value)
    return tn_fail(TENON_INVALID, "input %d of the group is absent", index);
  if (status == TENON_OK)
    status = API(GetTensorElementTypeAndShapeDataReference, value, &element, &shape, &rank);
  if (status != TENON_OK) return status;
  const int32_t expected = run->program->ranks[index]; /* -1: any */
  if (rank > MODEL_RANK_MOST || (expected >= 0 && (int32_t)rank != expected))
    return tn_fail(TENON_INVALID, "input %d of the group has %zu dimensions; the model says %d",
                   index, rank, expected);
  if (!element_dtype((ort_element_t)element, &dtype))
    return tn_fail(TENON_UNIMPLEMENTED, "input %d of the group has the element type %d", index,
                   element);
  if (element == ORT_ELEMENT_STRING) {
    status = strings_read(value, (int32_t)rank, shape, &run->tensors[index]);
    run->is_made[index] = status == TENON_OK;
    return status;
  }
  status = view_value(run, index, value, (int64_t *)(uintptr_t)shape, (int32_t)rank, dtype);
  return status == TENON_OK ? stage_input(run, index) : status;
}

/* Lets the run write where ONNX Runtime wants the output, if its shape is known. */
static tenon_status_t set_ep_output(run_t *run, int32_t index) {
  const output_t *output = &run->program->outputs[index];
  OrtValue *value = NULL;
  if (output->ndim < 0) return TENON_OK;
  int64_t *shape = run->room;
  run->room += output->ndim;
  for (int32_t d = 0; d < output->ndim; d++) {
    const extent_t *extent = &output->extents[d];
    shape[d] =
        extent->extent >= 0 ? extent->extent : run->tensors[extent->input]->shape[extent->axis];
  }
  const tenon_status_t status = API(KernelContext_GetOutput, run->context, (size_t)index, shape,
                                    (size_t)output->ndim, &value);
  if (status != TENON_OK || !value) return status;
  run->is_given[index] = true;
  const int32_t at = run->program->input_count + index;
  const tenon_status_t viewed = view_value(run, at, value, shape, output->ndim, output->dtype);
  run->is_shared |= !run->is_made[at];
  return viewed;
}

static tenon_status_t copy_output(const run_t *run, int32_t index, tenon_tensor_t *tensor) {
  OrtValue *value = NULL;
  void *data = NULL;
  tenon_status_t status = API(KernelContext_GetOutput, run->context, (size_t)index, tensor->shape,
                              (size_t)tensor->ndim, &value);
  if (status != TENON_OK || !value) return status;
  if (tenon_dtype_id(tensor->dtype) == TENON_STRING) return strings_write(tensor, value);
  const size_t bits = (size_t)tenon_count(tensor) * tensor->dtype.bits * tensor->dtype.lanes;
  status = API(GetTensorMutableData, value, &data);
  tenon_tensor_t *target = NULL;
  if (status == TENON_OK && bits && run->program->provider->factory->memory)
    status = device_view(data, tensor->dtype, tensor->ndim, tensor->shape, &target);
  if (target) {
    status = tenon_tensor_copy_async(tensor, target);
    tenon_tensor_release(target);
    return status;
  }
  if (status == TENON_OK && bits)
    memcpy(data, (const char *)tensor->data + tensor->byte_offset, (bits + 7) / 8);
  return status;
}

/* Outputs that the run has created are dense and on the host. */
static tenon_status_t take_outputs(run_t *run) {
  const program_t *program = run->program;
  tenon_tensor_t **outputs = run->tensors + program->input_count;
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < program->output_count; i++) {
    if (run->is_given[i]) continue;
    run->is_made[program->input_count + i] = true;
    if (status == TENON_OK) status = copy_output(run, i, outputs[i]);
  }
  return status;
}

static tenon_status_t run_executable(run_t *run) {
  const program_t *program = run->program;
  threads_t threads;
  threads_enter(&threads, run->context, program->provider->options.threads);
  tenon_status_t status = tenon_executable_run(program->executable, run->tensors,
                                               run->tensors + program->input_count, NULL);
  threads_leave(&threads);
  return status == TENON_OK ? take_outputs(run) : status;
}

/* Runs on a device, in the stream that ONNX Runtime hands over. */
static tenon_status_t run_in_stream(run_t *run) {
  void *handle = NULL;
  stream_use_t use;
  tenon_status_t status = API(KernelContext_GetGPUComputeStream, run->context, &handle);
  if (status != TENON_OK) return status;
  status = stream_begin(run->program->provider->factory, handle, &use);
  if (status == TENON_OK) status = run_executable(run);
  return stream_end(&use, status, run->is_shared);
}

static tenon_status_t run_program(const program_t *program, OrtKernelContext *context) {
  run_t run = {.program = program, .context = context};
  tenon_status_t status = begin_run(&run);
  for (int32_t i = 0; i < program->input_count && status == TENON_OK; i++)
    status = set_ep_input(&run, i);
  for (int32_t i = 0; i < program->output_count && status == TENON_OK; i++)
    status = set_ep_output(&run, i);
  if (status == TENON_OK)
    status = program->provider->factory->memory ? run_in_stream(&run) : run_executable(&run);
  end_run(&run);
  return status;
}

/* ---- what ONNX Runtime calls ----------------------------------------------------------------- */

static OrtStatus *create_state(OrtNodeComputeInfo *info, OrtNodeComputeContext *context,
                               void **out_state) {
  (void)context;
  *out_state = info;
  return NULL;
}

static OrtStatus *compute(OrtNodeComputeInfo *info, void *state, OrtKernelContext *context) {
  const program_t *program = (const program_t *)info;
  (void)state;
  return api_status(run_program(program, context), program->name);
}

static void release_state(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state;
}

void program_serve(program_t *program) {
  program->info = (OrtNodeComputeInfo){.version = EP_VERSION,
                                       .CreateState = create_state,
                                       .Compute = compute,
                                       .ReleaseState = release_state};
}
