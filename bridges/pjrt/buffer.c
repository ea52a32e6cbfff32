/* Buffers: tensors in the memory of a device. */
#include <stdlib.h>

#include "plugin.h"

tenon_status_t buffer_create(device_t *device, tenon_tensor_t *tensor, buffer_t **out_buffer) {
  buffer_t *buffer = calloc(1, sizeof *buffer);
  if (!buffer) {
    tenon_tensor_release(tensor);
    return tenon_error_set(TENON_MEMORY, "out of memory: a buffer");
  }
  buffer->device = device;
  buffer->tensor = tensor;
  buffer->type = element_type_of(tensor->dtype);
  buffer->ndim = tensor->ndim;
  for (int32_t i = 0; i < tensor->ndim; i++) {
    buffer->dims[i] = tensor->shape[i];
    buffer->minor_to_major[i] = tensor->ndim - 1 - i;
  }
  buffer->size = (size_t)array_bytes(tensor->dtype, tensor->ndim, tensor->shape);
  pthread_mutex_init(&buffer->lock, NULL);
  *out_buffer = buffer;
  return TENON_OK;
}

tenon_status_t buffer_use(buffer_t *buffer, tenon_tensor_t **out_tensor) {
  pthread_mutex_lock(&buffer->lock);
  tenon_tensor_t *tensor = buffer->tensor;
  if (tensor) tenon_tensor_retain(tensor);
  pthread_mutex_unlock(&buffer->lock);
  *out_tensor = tensor;
  if (tensor) return TENON_OK;
  return tenon_error_set(TENON_PRECONDITION, "the buffer has been deleted or donated");
}

void buffer_drop(buffer_t *buffer) {
  pthread_mutex_lock(&buffer->lock);
  tenon_tensor_t *tensor = buffer->tensor;
  buffer->tensor = NULL;
  pthread_mutex_unlock(&buffer->lock);
  tenon_tensor_release(tensor);
}

void buffer_end(buffer_t *buffer) {
  if (!buffer) return;
  tenon_tensor_release(buffer->tensor);
  tenon_tensor_release(buffer->held);
  pthread_mutex_destroy(&buffer->lock);
  free(buffer);
}

pjrt_error_t *buffer_destroy(void *arguments) {
  const pjrt_object_t *call = arguments;
  buffer_end(call->object);
  return NULL;
}

pjrt_error_t *buffer_delete(void *arguments) {
  const pjrt_object_t *call = arguments;
  buffer_drop(call->object);
  return NULL;
}

pjrt_error_t *buffer_is_deleted(void *arguments) {
  pjrt_flag_t *call = arguments;
  buffer_t *buffer = call->object;
  pthread_mutex_lock(&buffer->lock);
  call->flag = buffer->tensor == NULL;
  pthread_mutex_unlock(&buffer->lock);
  return NULL;
}

/* ---- properties ------------------------------------------------------------------------------ */

pjrt_error_t *buffer_type(void *arguments) {
  pjrt_number_t *call = arguments;
  const buffer_t *buffer = call->object;
  call->number = buffer->type;
  return NULL;
}

pjrt_error_t *buffer_dims(void *arguments) {
  pjrt_list_t *call = arguments;
  const buffer_t *buffer = call->object;
  call->items = buffer->dims;
  call->count = (size_t)buffer->ndim;
  return NULL;
}

pjrt_error_t *buffer_layout(void *arguments) {
  pjrt_buffer_layout_t *call = arguments;
  const buffer_t *buffer = call->buffer;
  call->layout.size = sizeof call->layout;
  call->layout.extension = NULL;
  call->layout.type = PJRT_LAYOUT_TILED;
  call->layout.as.tiled.size = sizeof call->layout.as.tiled;
  call->layout.as.tiled.extension = NULL;
  call->layout.as.tiled.minor_to_major = buffer->minor_to_major;
  call->layout.as.tiled.rank = (size_t)buffer->ndim;
  call->layout.as.tiled.tiles = NULL;
  call->layout.as.tiled.tile_ranks = NULL;
  call->layout.as.tiled.tile_count = 0;
  return NULL;
}

pjrt_error_t *buffer_size(void *arguments) {
  pjrt_count_t *call = arguments;
  const buffer_t *buffer = call->object;
  call->count = buffer->size;
  return NULL;
}

pjrt_error_t *buffer_device(void *arguments) {
  pjrt_result_t *call = arguments;
  const buffer_t *buffer = call->object;
  call->result = buffer->device;
  return NULL;
}

pjrt_error_t *buffer_memory(void *arguments) { return buffer_device(arguments); }

pjrt_error_t *buffer_is_on_cpu(void *arguments) {
  pjrt_flag_t *call = arguments;
  const buffer_t *buffer = call->object;
  call->flag = buffer->device->device.type == 1;
  return NULL;
}

/* The buffer stands for the event: it is ready, and nothing looks into an event. */
pjrt_error_t *buffer_ready(void *arguments) {
  pjrt_result_t *call = arguments;
  call->result = call->object;
  return NULL;
}

/* ---- use outside of PJRT --------------------------------------------------------------------- */

pjrt_error_t *buffer_pointer(void *arguments) {
  pjrt_result_t *call = arguments;
  tenon_tensor_t *tensor = NULL;
  const tenon_status_t status = buffer_use(call->object, &tensor);
  if (status != TENON_OK) return error_of(status);
  call->result = (char *)tensor->data + tensor->byte_offset;
  tenon_tensor_release(tensor);
  return NULL;
}

pjrt_error_t *buffer_hold(void *arguments) {
  const pjrt_object_t *call = arguments;
  buffer_t *buffer = call->object;
  tenon_tensor_t *tensor = NULL;
  const tenon_status_t status = buffer_use(buffer, &tensor);
  if (status != TENON_OK) return error_of(status);
  pthread_mutex_lock(&buffer->lock);
  tenon_tensor_t *extra = buffer->held ? tensor : NULL;
  if (!buffer->held) buffer->held = tensor;
  buffer->hold_count++;
  pthread_mutex_unlock(&buffer->lock);
  tenon_tensor_release(extra);
  return NULL;
}

pjrt_error_t *buffer_let_go(void *arguments) {
  const pjrt_object_t *call = arguments;
  buffer_t *buffer = call->object;
  tenon_tensor_t *held = NULL;
  pthread_mutex_lock(&buffer->lock);
  const bool is_held = buffer->hold_count > 0;
  if (is_held && --buffer->hold_count == 0) {
    held = buffer->held;
    buffer->held = NULL;
  }
  pthread_mutex_unlock(&buffer->lock);
  tenon_tensor_release(held);
  if (is_held) return NULL;
  return fail_call(TENON_PRECONDITION,
                   "PJRT_Buffer_DecreaseExternalReferenceCount: the count of the buffer is 0");
}
