/* Runs compiled programs. A run is complete when the function returns. */
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

/* What one run holds. The function that makes it releases everything that is left in it. */
typedef struct run_t {
  executable_t *executable;
  tenon_executable_t *compiled;
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs;
  buffer_t **buffers; /* of the outputs */
} run_t;

static tenon_status_t take_program(run_t *run) {
  executable_t *executable = run->executable;
  pthread_mutex_lock(&executable->lock);
  run->compiled = executable->compiled;
  if (run->compiled) tenon_executable_retain(run->compiled);
  pthread_mutex_unlock(&executable->lock);
  if (run->compiled) return TENON_OK;
  return tenon_error_set(TENON_PRECONDITION, "the executable has been deleted");
}

static tenon_status_t take_memory(run_t *run) {
  const executable_t *executable = run->executable;
  run->inputs = calloc((size_t)executable->input_count + 1, sizeof *run->inputs);
  run->outputs = calloc((size_t)executable->output_count + 1, sizeof *run->outputs);
  run->buffers = calloc((size_t)executable->output_count + 1, sizeof *run->buffers);
  if (run->inputs && run->outputs && run->buffers) return TENON_OK;
  return tenon_error_set(TENON_MEMORY, "out of memory: a run");
}

static tenon_status_t take_inputs(run_t *run, void *const *arguments) {
  for (int32_t i = 0; i < run->executable->input_count; i++) {
    buffer_t *buffer = arguments[i];
    if (!buffer || buffer->device != run->executable->device)
      return tenon_error_set(TENON_INVALID,
                             "an argument is missing, or on another device than the program: move "
                             "it there with jax.device_put");
    const tenon_status_t status = buffer_use(buffer, &run->inputs[i]);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

static tenon_status_t create_outputs(run_t *run) {
  const executable_t *executable = run->executable;
  for (int32_t i = 0; i < executable->output_count; i++) {
    const output_t *output = &executable->outputs[i];
    const tenon_status_t status = tenon_tensor_create_on(
        executable->device->device, output->dtype, output->ndim, output->dims, &run->outputs[i]);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

static tenon_status_t wrap_outputs(run_t *run) {
  for (int32_t i = 0; i < run->executable->output_count; i++) {
    tenon_tensor_t *tensor = run->outputs[i];
    run->outputs[i] = NULL;
    const tenon_status_t status = buffer_create(run->executable->device, tensor, &run->buffers[i]);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

static tenon_status_t run_program(run_t *run, void *const *arguments) {
  const device_t *device = run->executable->device;
  tenon_status_t status = take_program(run);
  if (status == TENON_OK) status = take_memory(run);
  if (status == TENON_OK) status = take_inputs(run, arguments);
  if (status == TENON_OK) status = create_outputs(run);
  if (status != TENON_OK) return status;
  status = tenon_executable_run(run->compiled, run->inputs, run->outputs, NULL);
  const tenon_status_t waited = device_wait(device); /* also after a failure in the middle */
  if (status == TENON_OK) status = waited;
  return status == TENON_OK ? wrap_outputs(run) : status;
}

static void release_run(run_t *run) {
  for (int32_t i = 0; run->inputs && i < run->executable->input_count; i++)
    tenon_tensor_release(run->inputs[i]);
  for (int32_t i = 0; run->outputs && i < run->executable->output_count; i++)
    tenon_tensor_release(run->outputs[i]);
  for (int32_t i = 0; run->buffers && i < run->executable->output_count; i++)
    buffer_end(run->buffers[i]);
  free(run->inputs);
  free(run->outputs);
  free(run->buffers);
  tenon_executable_release(run->compiled);
}

/* ---- donation -------------------------------------------------------------------------------- */

static bool is_kept(const pjrt_execute_options_t *options, int32_t index) {
  const size_t expected = offsetof(pjrt_execute_options_t, kept_count) + sizeof options->kept_count;
  if (!options || options->size < expected) return false;
  for (size_t i = 0; i < options->kept_count; i++)
    if (options->kept[i] == index) return true;
  return false;
}

/* Deletes the arguments that the caller gives up. */
static void drop_donated(const pjrt_execute_t *call, const executable_t *executable) {
  for (int32_t i = 0; executable->donated && i < executable->input_count; i++)
    if (executable->donated[i] && !is_kept(call->options, i)) buffer_drop(call->arguments[0][i]);
}

/* ---- the call -------------------------------------------------------------------------------- */

static pjrt_error_t *check_call(const pjrt_execute_t *call, const executable_t *executable) {
  if (call->device_count != 1)
    return fail_call(TENON_UNIMPLEMENTED, "%s: a run on %zu devices is not supported: expected 1",
                     executable->name, call->device_count);
  if (call->device && call->device != executable->device)
    return fail_call(TENON_UNIMPLEMENTED,
                     "%s was compiled for %s: a run on another device is not supported",
                     executable->name, executable->device->text);
  if (call->argument_count != (size_t)executable->input_count)
    return fail_call(TENON_INVALID, "%s takes %d arguments, found %zu", executable->name,
                     (int)executable->input_count, call->argument_count);
  return NULL;
}

pjrt_error_t *executable_execute(void *arguments) {
  pjrt_execute_t *call = arguments;
  executable_t *executable = call->executable;
  run_t run = {.executable = executable};
  pjrt_error_t *error = check_call(call, executable);
  if (error) return error;
  const tenon_status_t status = run_program(&run, call->arguments[0]);
  if (status == TENON_OK) {
    for (int32_t i = 0; i < executable->output_count; i++) {
      call->outputs[0][i] = run.buffers[i];
      run.buffers[i] = NULL;
    }
    if (call->events) call->events[0] = executable; /* as of buffer_ready */
    drop_donated(call, executable);
  } else {
    error = fail_call(status, "%s: %s", executable->name, tenon_error());
  }
  release_run(&run);
  return error;
}
