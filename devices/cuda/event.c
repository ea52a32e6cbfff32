#include "event.h"

#include <stdlib.h>

#include "error.h"

typedef struct cu_event_t {
  cu_native_event_t native;
  _Atomic bool recorded;
  _Atomic uint64_t waits; /* `waits` of the stream, at the time of the recording */
} cu_event_t;

tenon_status_t cu_event_create(tenon_on_t on, void **out_event) {
  cu_result_t error;
  cu_event_t *event = (cu_event_t *)calloc(1, sizeof *event);
  if (!event)
    return tenon_fail(on, TENON_MEMORY, "cuda:%d: no host memory for an event", on->ordinal);
  CU_IN(cu_device(on), error, cu.EventCreate(&event->native, CU_EVENT_DEFAULT));
  if (error) {
    free(event);
    return cu_fail(on, error, "cannot create an event");
  }
  *out_event = event;
  return TENON_OK;
}

/* CUDA keeps an event alive while streams wait for it. */
void cu_event_destroy(tenon_on_t on, void *handle) {
  cu_event_t *event = (cu_event_t *)handle;
  cu_result_t error;
  if (!event) return;
  CU_IN(cu_device(on), error, cu.EventDestroy(event->native));
  free(event);
}

tenon_status_t cu_event_record(tenon_on_t on, void *handle, void *stream_handle) {
  cu_event_t *event = (cu_event_t *)handle;
  cu_stream_t *stream = cu_stream(on, stream_handle);
  cu_result_t error;
  TENON_TRY(cu_stream_check_direct(on, stream, "an event"));
  uint64_t waits = atomic_load(&stream->waits);
  CU_IN(stream->device, error, cu.EventRecord(event->native, stream->native));
  if (error) return cu_fail(on, error, "cannot record an event");
  atomic_store(&event->waits, waits);
  atomic_store(&event->recorded, true);
  return TENON_OK;
}

/* Interprets the driver's answer. The loss of the event's GPU, or of a GPU that its stream had
 * waited for, is reported first. */
static tenon_status_t found(tenon_on_t on, cu_event_t *event, cu_result_t error) {
  cu_device_t *own = cu_device(on);
  cu_result_t failure = error ? cu_device_failure(own) : CUDA_SUCCESS;
  uint64_t waits = atomic_load(&event->waits);
  if (failure) return cu_fail_lost(on, own, failure);
  if (error == CUDA_ERROR_NOT_READY) return TENON_UNAVAILABLE;
  if (error) return cu_fail(on, error, "cannot ask about an event");
  int32_t by = waits ? cu_lost_among(waits) : 0;
  return by ? cu_fail_lost(on, cu_devices[by - 1], cu_failures[by - 1]) : TENON_OK;
}

tenon_status_t cu_event_query(tenon_on_t on, void *handle) {
  cu_event_t *event = (cu_event_t *)handle;
  cu_result_t error;
  CU_IN(cu_device(on), error, cu.EventQuery(event->native));
  return found(on, event, error);
}

tenon_status_t cu_event_synchronize(tenon_on_t on, void *handle) {
  cu_event_t *event = (cu_event_t *)handle;
  cu_result_t error;
  CU_IN(cu_device(on), error, cu.EventSynchronize(event->native));
  return found(on, event, error);
}

tenon_status_t cu_stream_wait(tenon_on_t on, void *handle, tenon_on_t of, void *event_handle) {
  cu_stream_t *stream = cu_stream(on, handle);
  cu_event_t *event = (cu_event_t *)event_handle;
  cu_device_t *own = cu_device(on);
  cu_device_t *other = cu_device(of);
  cu_result_t error;
  TENON_TRY(cu_stream_check_direct(on, stream, "a wait"));
  if (!atomic_load(&event->recorded)) return TENON_OK;
  uint64_t waits = atomic_load(&event->waits) | (uint64_t)1 << other->ordinal;
  atomic_fetch_or(&stream->waits,
                  /* the stream learns of the loss of its own GPU anyway */
                  waits & ~((uint64_t)1 << own->ordinal));
  if (other != own && cu_device_failure(other))
    return TENON_OK; /* the stream fails, which the next call on it reports */
  CU_IN(own, error, cu.StreamWaitEvent(stream->native, event->native, 0));
  return error ? cu_fail(on, error, "cannot make a stream wait for an event") : TENON_OK;
}

/* times */

enum {
  SECONDS_MOST = 4
  /* CUDA returns the difference as a float in milliseconds. Beyond this time the float is coarser
   * than the clock of CUDA, half a microsecond. */
};

/* Records a new event as the origin of times. */
static cu_result_t base_renew(cu_device_t *device) {
  cu_native_event_t event = NULL;
  float passed = 0;
  cu_result_t error = cu.EventCreate(&event, CU_EVENT_DEFAULT);
  if (!error) error = cu.EventRecord(event, device->service);
  if (!error) error = cu.EventSynchronize(event); /* no work is before it */
  if (!error && device->base) error = cu.EventElapsedTime(&passed, device->base, event);
  if (error) {
    if (event) cu.EventDestroy(event);
    return error;
  }
  if (device->base) cu.EventDestroy(device->base);
  device->base = event;
  device->base_time += (int64_t)((double)passed * 1e6);
  return CUDA_SUCCESS;
}

static cu_result_t time_of(cu_device_t *device, cu_native_event_t event, int64_t *out_time) {
  float since = 0;
  cu_result_t error = device->base ? CUDA_SUCCESS : base_renew(device);
  if (!error) error = cu.EventElapsedTime(&since, device->base, event);
  if (!error && (since > 1e3f * SECONDS_MOST || since < -1e3f * SECONDS_MOST)) {
    error = base_renew(device);
    if (!error) error = cu.EventElapsedTime(&since, device->base, event);
  }
  *out_time = device->base_time + (int64_t)((double)since * 1e6);
  return error;
}

tenon_status_t cu_event_time(tenon_on_t on, void *handle, int64_t *out_time) {
  cu_event_t *event = (cu_event_t *)handle;
  cu_device_t *device = cu_device(on);
  cu_result_t error;
  if (!atomic_load(&event->recorded))
    return tenon_fail(on, TENON_PRECONDITION, "cuda:%d: an event that was not recorded has no time",
                      on->ordinal);
  TENON_TRY(cu_event_query(on, handle));
  pthread_mutex_lock(&device->clock);
  CU_IN(device, error, time_of(device, event->native, out_time));
  pthread_mutex_unlock(&device->clock);
  if (error == CUDA_ERROR_NOT_READY) return TENON_UNAVAILABLE; /* it was recorded again just now */
  return error ? cu_fail(on, error, "cannot ask for the time of an event") : TENON_OK;
}
