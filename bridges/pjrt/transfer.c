/* Copies between the host and devices, and between devices. They are complete when they return. */
#include <stdint.h>
#include <string.h>

#include "plugin.h"

tenon_status_t device_wait(const device_t *device) {
  tenon_stream_t *stream = NULL;
  if (device->device.type == 1) return TENON_OK;
  const tenon_status_t status = tenon_stream_of(device->device, &stream);
  return status == TENON_OK ? tenon_stream_synchronize(stream) : status;
}

/* ---- to a device ----------------------------------------------------------------------------- */

/* Writes the strides of an array on the host, in elements. Arrays whose strides are not whole
 * elements are refused. */
static tenon_status_t read_strides(const pjrt_from_host_t *call, int64_t element,
                                   int64_t *out_strides) {
  int64_t dense = 1;
  if (call->stride_count != 0 && call->stride_count != call->rank)
    return tenon_error_set(TENON_INVALID,
                           "an array needs as many strides as it has dimensions, or none");
  for (size_t i = call->rank; i-- > 0;) {
    const bool is_stated = call->stride_count > 0;
    const int64_t stride = is_stated ? call->byte_strides[i] : dense * element;
    if (stride % element != 0)
      return tenon_error_set(TENON_UNIMPLEMENTED,
                             "the strides of an array on the host are not whole elements: copy the "
                             "array first");
    out_strides[i] = stride / element;
    dense *= call->dims[i];
  }
  return TENON_OK;
}

static tenon_status_t copy_array(const pjrt_from_host_t *call, const device_t *device,
                                 tenon_tensor_t **out_tensor) {
  int64_t shape[TENON_RANK_MAX] = {0};
  int64_t strides[TENON_RANK_MAX] = {0};
  tenon_tensor_t view;
  tenon_dtype_t dtype;
  tenon_status_t status = dtype_of(call->type, &dtype);
  if (status == TENON_OK && call->rank > TENON_RANK_MAX)
    status = tenon_error_set(TENON_UNIMPLEMENTED, "arrays of this rank are not supported by Tenon");
  if (status != TENON_OK) return status;
  memcpy(shape, call->dims, call->rank * sizeof *shape);
  const int64_t size = array_bytes(dtype, (int32_t)call->rank, shape);
  if (size < 0) return tenon_error_set(TENON_INVALID, "the dimensions of an array are not valid");
  if (size == 0)
    return tenon_tensor_create_on(device->device, dtype, (int32_t)call->rank, shape, out_tensor);
  status = check_layout(call->layout, (int32_t)call->rank);
  if (status == TENON_OK) status = read_strides(call, dtype.bits / 8, strides);
  if (status == TENON_OK)
    status = tenon_tensor_view(&view, (void *)(uintptr_t)call->data, dtype, (int32_t)call->rank,
                               shape, strides, NULL);
  if (status != TENON_OK) return status;
  status = tenon_tensor_copy_to(&view, device->device, out_tensor);
  const tenon_status_t waited =
      device_wait(device); /* also after a failure: it may be on its way */
  if (status == TENON_OK && waited != TENON_OK) {
    tenon_tensor_release(*out_tensor);
    status = waited;
  }
  return status;
}

pjrt_error_t *buffer_from_host(void *arguments) {
  pjrt_from_host_t *call = arguments;
  device_t *device = call->memory ? call->memory : call->device;
  tenon_tensor_t *tensor = NULL;
  buffer_t *buffer = NULL;
  if (!device) return fail_call(TENON_INVALID, "a buffer needs a device or a memory");
  tenon_status_t status = copy_array(call, device, &tensor);
  if (status == TENON_OK) status = buffer_create(device, tensor, &buffer);
  if (status != TENON_OK) return error_of(status);
  call->buffer = buffer;
  call->event = buffer; /* as of buffer_ready */
  return NULL;
}

/* ---- to the host ----------------------------------------------------------------------------- */

static tenon_status_t copy_out(const device_t *device, tenon_tensor_t *tensor, void *data) {
  int64_t shape[TENON_RANK_MAX] = {0};
  int64_t strides[TENON_RANK_MAX] = {0};
  tenon_tensor_t view;
  memcpy(shape, tensor->shape, (size_t)tensor->ndim * sizeof *shape);
  tenon_status_t status =
      tenon_tensor_view(&view, data, tensor->dtype, tensor->ndim, shape, NULL, strides);
  if (status != TENON_OK) return status;
  status = tenon_tensor_copy_async(tensor, &view);
  const tenon_status_t waited = device_wait(device);
  return status == TENON_OK ? waited : status;
}

pjrt_error_t *buffer_to_host(void *arguments) {
  pjrt_to_host_t *call = arguments;
  buffer_t *buffer = call->buffer;
  tenon_tensor_t *tensor = NULL;
  if (!call->data) {
    call->data_size = buffer->size;
    return NULL;
  }
  if (call->data_size < buffer->size)
    return fail_call(TENON_INVALID, "a buffer of %zu bytes does not fit %zu bytes on the host",
                     buffer->size, call->data_size);
  tenon_status_t status = check_layout(call->layout, buffer->ndim);
  if (status == TENON_OK) status = buffer_use(buffer, &tensor);
  if (status == TENON_OK && buffer->size > 0) status = copy_out(buffer->device, tensor, call->data);
  tenon_tensor_release(tensor);
  call->event = buffer;
  return error_of(status);
}

static tenon_status_t copy_bytes_out(const device_t *device, tenon_tensor_t *tensor,
                                     const pjrt_raw_t *call) {
  const tenon_dtype_t byte = {.code = 1, .bits = 8, .lanes = 1}; /* u8 */
  tenon_tensor_t *part = NULL;
  tenon_status_t status =
      tenon_tensor_part(tensor, byte, (uint64_t)call->offset, 1, &call->byte_count, NULL, &part);
  if (status == TENON_OK) status = copy_out(device, part, call->data);
  tenon_tensor_release(part);
  return status;
}

pjrt_error_t *buffer_raw_to_host(void *arguments) {
  pjrt_raw_t *call = arguments;
  buffer_t *buffer = call->buffer;
  tenon_tensor_t *tensor = NULL;
  const int64_t size = (int64_t)buffer->size;
  if (call->offset < 0 || call->byte_count < 0 || call->offset > size ||
      call->byte_count > size - call->offset)
    return fail_call(TENON_RANGE, "%lld bytes from byte %lld are not in a buffer of %lld bytes",
                     (long long)call->byte_count, (long long)call->offset, (long long)size);
  tenon_status_t status = buffer_use(buffer, &tensor);
  if (status == TENON_OK && call->byte_count > 0)
    status = copy_bytes_out(buffer->device, tensor, call);
  tenon_tensor_release(tensor);
  call->event = buffer;
  return error_of(status);
}

/* ---- between devices ------------------------------------------------------------------------- */

static tenon_status_t copy_across(buffer_t *buffer, device_t *device, buffer_t **out_buffer) {
  tenon_tensor_t *tensor = NULL;
  tenon_tensor_t *copy = NULL;
  tenon_status_t status = buffer_use(buffer, &tensor);
  if (status != TENON_OK) return status;
  status = tenon_tensor_copy_to(tensor, device->device, &copy);
  tenon_status_t waited = device_wait(device);
  if (waited == TENON_OK) waited = device_wait(buffer->device);
  tenon_tensor_release(tensor);
  if (status != TENON_OK) return status;
  if (waited == TENON_OK) return buffer_create(device, copy, out_buffer);
  tenon_tensor_release(copy);
  return waited;
}

pjrt_error_t *buffer_copy_to_device(void *arguments) {
  pjrt_copy_t *call = arguments;
  buffer_t *copy = NULL;
  const tenon_status_t status = copy_across(call->object, call->target, &copy);
  call->result = copy;
  return error_of(status);
}

pjrt_error_t *buffer_copy_to_memory(void *arguments) { return buffer_copy_to_device(arguments); }
