/* Enters and leaves the device of a frame; see device.h. A device and a stream that were found once
 * are known until the process ends. */
#include "device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/foreign_stream.h"

typedef struct opened_t {
  struct opened_t *next;
  const char *backend; /* of a target_t, which is constant */
  int32_t ordinal;
  tenon_device_t device;
} opened_t;

static _Atomic(opened_t *) opened; /* the newest first; entries never change */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const opened_t *find_opened(const char *backend, int32_t ordinal) {
  const opened_t *o = atomic_load_explicit(&opened, memory_order_acquire);
  while (o && !(o->ordinal == ordinal && strcmp(o->backend, backend) == 0))
    o = o->next;
  return o;
}

static _Thread_local bool is_capturing; /* the thread makes a call that XLA may capture */

/* The fallback of a backend whose calls come from XLA. */
static tenon_status_t fall_back(tenon_call_t *call) {
  if (!is_capturing) return tenon_fallback_cpu(call);
  return tenon_error_set(
      TENON_UNIMPLEMENTED,
      "a call that XLA captures cannot fall back to the CPU: its kernel declined "
      "it, although it has the word `capturable`");
}

static tenon_status_t open_backend_device(const char *backend, int32_t ordinal,
                                          const opened_t **out) {
  tenon_registration_t *fallback = NULL; /* is never released */
  opened_t *made = calloc(1, sizeof *made);
  if (!made) return tenon_error_set(TENON_MEMORY, "out of memory: a device");
  *made = (opened_t){.backend = backend, .ordinal = ordinal};
  tenon_status_t status = tenon_device_find(backend, ordinal, &made->device);
  if (status == TENON_OK) status = tenon_fallback_add(backend, fall_back, NULL, NULL, 0, &fallback);
  if (status != TENON_OK && status != TENON_EXISTS) {
    free(made);
    return status;
  }
  made->next = atomic_load_explicit(&opened, memory_order_relaxed);
  atomic_store_explicit(&opened, made, memory_order_release);
  *out = made;
  return TENON_OK;
}

static tenon_status_t find_device(const char *backend, int32_t ordinal,
                                  tenon_device_t *out_device) {
  tenon_status_t status = TENON_OK;
  const opened_t *found = find_opened(backend, ordinal);
  if (!found) {
    pthread_mutex_lock(&lock);
    found = find_opened(backend, ordinal);
    if (!found) status = open_backend_device(backend, ordinal, &found);
    pthread_mutex_unlock(&lock);
  }
  if (status == TENON_OK) *out_device = found->device;
  return status;
}

/* Frees an error that XLA returned; its text has no fixed way out. */
static bool has_failed(const xla_frame_t *frame, xla_error_t *error) {
  xla_error_destroy_t destroy = {.size = sizeof destroy, .error = error};
  if (error) frame->api->error_destroy(&destroy);
  return error != NULL;
}

static tenon_status_t read_stream(const xla_frame_t *frame, void **out_native) {
  xla_stream_get_t query = {.size = sizeof query, .context = frame->context};
  if (!frame->api->stream_get || has_failed(frame, frame->api->stream_get(&query)))
    return tenon_error_set(TENON_PRECONDITION,
                           "XLA reports no stream for the custom call: this handler is for calls "
                           "on devices; on the CPU the target is tenon_cpu");
  *out_native = query.stream;
  return TENON_OK;
}

/* Releases of XLA before JAX 0.6.0 do not report the device; it is the first one there. */
static tenon_status_t read_ordinal(const xla_frame_t *frame, int32_t *out_ordinal) {
  xla_ordinal_get_t query = {.size = offsetof(xla_ordinal_get_t, ordinal) + sizeof query.ordinal,
                             .context = frame->context};
  const xla_api_t *api = frame->api;
  *out_ordinal = 0;
  if (api->size < sizeof *api || !api->ordinal_get) return TENON_OK;
  if (has_failed(frame, api->ordinal_get(&query)) || query.ordinal < 0)
    return tenon_error_set(TENON_PRECONDITION, "XLA reports no device for the custom call");
  *out_ordinal = query.ordinal;
  return TENON_OK;
}

/* The allocator of captured calls: replays use the memory of the capture, so a call must not take
 * memory that is given to others afterwards. */
static tenon_status_t refuse_memory(void *state, tenon_device_t device, tenon_dtype_t dtype,
                                    int32_t ndim, const int64_t *shape, tenon_tensor_t **out_tensor,
                                    const char **out_why) {
  (void)state;
  (void)device;
  (void)dtype;
  (void)ndim;
  (void)shape;
  *out_tensor = NULL;
  *out_why = "a call that XLA captures takes no memory, but the kernel asks for some: remove the "
             "word `capturable` from the kernel";
  return TENON_UNIMPLEMENTED;
}

tenon_status_t call_enter_device(call_device_t *device, const target_t *target,
                                 const xla_frame_t *frame) {
  static const tenon_allocator_t none = {refuse_memory, NULL};
  void *native = NULL;
  int32_t ordinal = 0;
  device->is_captured = target->is_captured;
  device->allocator_before = NULL;
  tenon_status_t status = read_stream(frame, &native);
  if (status == TENON_OK) status = read_ordinal(frame, &ordinal);
  if (status == TENON_OK) status = find_device(target->backend, ordinal, &device->device);
  if (status == TENON_OK) status = foreign_stream_find(device->device, native, &device->stream);
  if (status == TENON_OK)
    status = tenon_stream_use(device->device, device->stream, &device->stream_before);
  if (status != TENON_OK || !device->is_captured) return status;
  device->allocator_before = tenon_allocator_use(&none);
  is_capturing = true;
  return TENON_OK;
}

void call_leave_device(const call_device_t *device) {
  if (device->is_captured) {
    is_capturing = false;
    (void)tenon_allocator_use(device->allocator_before);
  }
  (void)tenon_stream_use(device->device, device->stream_before, NULL);
}

tenon_status_t call_import(const call_device_t *device, void *data, tenon_dtype_t dtype,
                           int32_t ndim, const int64_t *shape, const int64_t *strides,
                           tenon_tensor_t **out_tensor) {
  const tenon_external_t external = {.size = sizeof external,
                                     .device = device->device,
                                     .data = data,
                                     .dtype = dtype,
                                     .ndim = ndim,
                                     .shape = shape,
                                     .strides = strides,
                                     .stream = device->stream};
  return tenon_tensor_import(&external, out_tensor);
}
