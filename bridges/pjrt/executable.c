/* What callers ask compiled programs. Running them is in execute.c. */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

void executable_release(executable_t *executable) {
  if (!executable || atomic_fetch_sub(&executable->references, 1) > 1) return;
  tenon_executable_release(executable->compiled);
  pthread_mutex_destroy(&executable->lock);
  free(executable->options);
  free(executable->donated);
  free(executable->outputs);
  free(executable->types);
  free(executable->dims);
  free(executable->ranks);
  free(executable->kinds);
  free(executable->kind_sizes);
  free(executable);
}

pjrt_error_t *executable_destroy(void *arguments) {
  const pjrt_object_t *call = arguments;
  executable_release(call->object);
  return NULL;
}

pjrt_error_t *executable_share(void *arguments) {
  pjrt_result_t *call = arguments;
  executable_t *executable = call->object;
  atomic_fetch_add(&executable->references, 1);
  call->result = executable;
  return NULL;
}

pjrt_error_t *executable_delete(void *arguments) {
  const pjrt_object_t *call = arguments;
  executable_t *executable = call->object;
  pthread_mutex_lock(&executable->lock);
  tenon_executable_t *compiled = executable->compiled;
  executable->compiled = NULL;
  pthread_mutex_unlock(&executable->lock);
  tenon_executable_release(compiled);
  return NULL;
}

pjrt_error_t *executable_is_deleted(void *arguments) {
  pjrt_flag_t *call = arguments;
  executable_t *executable = call->object;
  pthread_mutex_lock(&executable->lock);
  call->flag = executable->compiled == NULL;
  pthread_mutex_unlock(&executable->lock);
  return NULL;
}

/* ---- names and costs ------------------------------------------------------------------------- */

pjrt_error_t *executable_name(void *arguments) {
  pjrt_list_t *call = arguments;
  const executable_t *executable = call->object;
  call->items = executable->name;
  call->count = strlen(executable->name);
  return NULL;
}

pjrt_error_t *executable_fingerprint(void *arguments) {
  pjrt_list_t *call = arguments;
  const executable_t *executable = call->object;
  call->items = executable->fingerprint;
  call->count = strlen(executable->fingerprint);
  return NULL;
}

pjrt_error_t *executable_costs(void *arguments) {
  pjrt_counted_t *call = arguments;
  const executable_t *executable = call->object;
  call->items = &executable->cost;
  call->count = 1;
  return NULL;
}

pjrt_error_t *executable_memory(void *arguments) {
  pjrt_program_memory_t *call = arguments;
  const executable_t *executable = call->executable;
  call->code = 0;
  call->arguments = executable->input_size;
  call->outputs = executable->output_size;
  const size_t before = offsetof(pjrt_program_memory_t, others);
  size_t room = call->size > before ? call->size - before : 0;
  if (room > sizeof call->others) room = sizeof call->others;
  memset(call->others, 0, room);
  return NULL;
}

/* ---- values ---------------------------------------------------------------------------------- */

pjrt_error_t *executable_outputs(void *arguments) {
  pjrt_count_t *call = arguments;
  const executable_t *executable = call->object;
  call->count = (uint64_t)executable->output_count;
  return NULL;
}

pjrt_error_t *executable_output_types(void *arguments) {
  pjrt_list_t *call = arguments;
  const executable_t *executable = call->object;
  call->items = executable->types;
  call->count = (size_t)executable->output_count;
  return NULL;
}

pjrt_error_t *executable_output_dims(void *arguments) {
  pjrt_lists_t *call = arguments;
  const executable_t *executable = call->object;
  call->count = (size_t)executable->output_count;
  call->items = executable->dims;
  call->sizes = executable->ranks;
  return NULL;
}

static pjrt_error_t *give_kinds(pjrt_lists_t *call, int32_t count) {
  const executable_t *executable = call->object;
  call->count = (size_t)count;
  call->items = executable->kinds;
  call->sizes = executable->kind_sizes;
  return NULL;
}

pjrt_error_t *executable_output_kinds(void *arguments) {
  pjrt_lists_t *call = arguments;
  return give_kinds(call, ((const executable_t *)call->object)->output_count);
}

pjrt_error_t *executable_input_kinds(void *arguments) {
  pjrt_lists_t *call = arguments;
  return give_kinds(call, ((const executable_t *)call->object)->input_count);
}

/* ---- devices and options --------------------------------------------------------------------- */

pjrt_error_t *executable_devices(void *arguments) {
  pjrt_list_t *call = arguments;
  executable_t *executable = call->object;
  call->items = &executable->device;
  call->count = 1;
  return NULL;
}

pjrt_error_t *executable_logical_ids(void *arguments) {
  static const pjrt_logical_id_t first = {0, 0};
  pjrt_list_t *call = arguments;
  call->items = &first;
  call->count = 1;
  return NULL;
}

static pjrt_error_t *give_bytes(pjrt_bytes_t *call, const char *bytes, size_t size) {
  char *copy = malloc(size ? size : 1);
  if (!copy) return fail_call(TENON_MEMORY, "out of memory: %zu bytes", size);
  if (size) memcpy(copy, bytes, size);
  call->bytes = copy;
  call->byte_count = size;
  call->owner = copy;
  call->release = free;
  return NULL;
}

pjrt_error_t *executable_options(void *arguments) {
  pjrt_bytes_t *call = arguments;
  const executable_t *executable = call->object;
  return give_bytes(call, executable->options, executable->options_size);
}

/* A serialised DeviceAssignmentProto: one replica, one computation, and the number of the device.
 * Source: the numbers of fields in xla/xla_data.proto. */
pjrt_error_t *executable_assignment(void *arguments) {
  pjrt_bytes_t *call = arguments;
  const executable_t *executable = call->object;
  _Static_assert(PLUGIN_DEVICES_MOST <= 128, "the number of a device is one byte");
  const char bytes[] = {
      1 << 3, 1, 2 << 3, 1, 3 << 3 | 2, 3, 1 << 3 | 2, 1, (char)executable->device->id};
  return give_bytes(call, bytes, sizeof bytes);
}
