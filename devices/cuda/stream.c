#include "stream.h"

#include <stdlib.h>

#include "error.h"

/* life */

tenon_status_t cu_stream_open(tenon_on_t on, cu_native_stream_t imported,
                              cu_stream_t **out_stream) {
  cu_device_t *device = cu_device(on);
  cu_result_t error = CUDA_SUCCESS;
  cu_stream_t *stream = (cu_stream_t *)calloc(1, sizeof *stream);
  if (!stream)
    return tenon_fail(on, TENON_MEMORY, "cuda:%d: no host memory for a stream", on->ordinal);
  stream->device = device;
  stream->native = imported;
  stream->imported = imported != NULL;
  if (!imported) CU_IN(device, error, cu.StreamCreate(&stream->native, CU_STREAM_NON_BLOCKING));
  if (error) {
    free(stream);
    return cu_fail(on, error, "cannot create a stream");
  }
  pthread_mutex_init(&stream->lock, NULL);
  pthread_mutex_lock(&cu_lock);
  stream->next = device->streams;
  device->streams = stream;
  pthread_mutex_unlock(&cu_lock);
  *out_stream = stream;
  return TENON_OK;
}

/* Call this in the context. */
static void end(cu_stream_t *stream) {
  if (stream->before) cu.EventDestroy(stream->before);
  if (!stream->imported) cu.StreamDestroy(stream->native);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

/* Returns whether the owner of an imported stream is capturing it. The driver must then not be
 * asked what the stream has done, which would end the capture. Call this in the context. */
static bool is_captured_by_owner(const cu_stream_t *stream) {
  cu_enum_t status = CU_STREAM_CAPTURE_STATUS_NONE;
  return stream->imported && !stream->left && !cu.StreamIsCapturing(stream->native, &status) &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Returns the driver's status of the stream's work. If the stream is being captured, this is the
 * status of the work before the capture; if its owner captures it, the work is not done, and cannot
 * be waited for. Call this in the context. */
static cu_result_t state_of(cu_stream_t *stream, bool wait) {
  pthread_mutex_lock(&stream->lock);
  bool by_event = stream->capturing || stream->left;
  cu_native_event_t event = stream->before;
  pthread_mutex_unlock(&stream->lock);
  if (by_event && !event) return CUDA_SUCCESS;
  if (by_event) return wait ? cu.EventSynchronize(event) : cu.EventQuery(event);
  if (is_captured_by_owner(stream))
    return wait ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_NOT_READY;
  return wait ? cu.StreamSynchronize(stream->native) : cu.StreamQuery(stream->native);
}

/* Call this under cu_lock. Closes the destroyed streams whose work is finished. */
bool cu_streams_idle(cu_device_t *device) {
  bool idle = true;
  bool pushed;
  if (cu_enter(device, &pushed)) return false;
  for (cu_stream_t **at = &device->streams, *stream; (stream = *at);) {
    bool pending = state_of(stream, false) == CUDA_ERROR_NOT_READY;
    idle = idle && !pending;
    if (!stream->destroyed || pending) {
      at = &stream->next;
    } else {
      *at = stream->next;
      end(stream);
    }
  }
  cu_leave(pushed);
  return idle;
}

/* Waits for one unfinished stream at a time, by an event and without the lock, until all are
 * finished. */
void cu_streams_finish(cu_device_t *device) {
  bool pushed;
  bool found = true;
  cu_result_t error = CUDA_SUCCESS;
  if (cu_enter(device, &pushed)) return;
  while (found && !error) { /* on an error the context is lost, and nothing runs any more */
    cu_native_event_t event = NULL;
    cu_native_event_t own = NULL;
    found = false;
    pthread_mutex_lock(&cu_lock);
    for (cu_stream_t *stream = device->streams; stream && !found; stream = stream->next) {
      if (state_of(stream, false) != CUDA_ERROR_NOT_READY || is_captured_by_owner(stream)) continue;
      found = true;
      if (stream->capturing || stream->left)
        event = stream->before;
      else if (!(error = cu.EventCreate(&own, CU_EVENT_DEFAULT)))
        error = cu.EventRecord(event = own, stream->native);
    }
    pthread_mutex_unlock(&cu_lock);
    if (event && !error) error = cu.EventSynchronize(event);
    if (own) cu.EventDestroy(own);
  }
  cu_leave(pushed);
}

void cu_streams_close(cu_device_t *device) {
  bool pushed;
  if (cu_enter(device, &pushed)) return;
  pthread_mutex_lock(&cu_lock);
  for (cu_stream_t *stream = device->streams, *next; stream; stream = next) {
    next = stream->next;
    end(stream);
  }
  device->streams = device->first = NULL;
  pthread_mutex_unlock(&cu_lock);
  cu_leave(pushed);
}

tenon_status_t cu_stream_create(tenon_on_t on, void **out_stream) {
  cu_stream_t *stream;
  TENON_TRY(cu_stream_open(on, NULL, &stream));
  *out_stream = stream;
  return TENON_OK;
}

/* From here on the owner may destroy the native stream. An event stands for its work. */
static void leave(cu_stream_t *stream) {
  bool pushed;
  if (cu_enter(stream->device, &pushed)) return;
  pthread_mutex_lock(&stream->lock);
  if (!stream->before && cu.EventCreate(&stream->before, CU_EVENT_DEFAULT)) stream->before = NULL;
  if (stream->before && !stream->capturing && !is_captured_by_owner(stream))
    cu.EventRecord(stream->before, stream->native);
  stream->left = true;
  pthread_mutex_unlock(&stream->lock);
  cu_leave(pushed);
}

void cu_stream_destroy(tenon_on_t on, void *handle) {
  cu_stream_t *stream = (cu_stream_t *)handle;
  cu_device_t *device = cu_device(on);
  if (!stream) return;
  pthread_mutex_lock(&cu_lock);
  stream->destroyed = true;
  if (stream->imported) leave(stream);
  (void)cu_streams_idle(device);
  pthread_mutex_unlock(&cu_lock);
}

tenon_status_t cu_stream_import(tenon_on_t on, void *native, void **out_stream) {
  cu_device_t *device = cu_device(on);
  cu_native_stream_t imported = native ? (cu_native_stream_t)native : CU_LEGACY;
  cu_context_t context = NULL;
  cu_result_t error;
  if (imported == CU_PER_THREAD)
    return tenon_fail(on, TENON_INVALID,
                      "cuda:%d: the stream of each thread (2, CU_STREAM_PER_THREAD) is another one "
                      "on each, and work comes from several: give a stream that was created",
                      on->ordinal);
  if (imported != CU_LEGACY) { /* which belongs to whatever context is current */
    CU_IN(device, error, cu.StreamGetCtx(imported, &context));
    if (error) return cu_fail(on, error, "cannot import the stream %p", native);
    if (context != device->context)
      return tenon_fail(on, TENON_INVALID,
                        "cuda:%d: the imported stream is of another context; create it in the "
                        "GPU's primary one, as "
                        "CUDA's runtime does, native \"CUcontext\"",
                        on->ordinal);
  }
  cu_stream_t *stream;
  TENON_TRY(cu_stream_open(on, imported, &stream));
  *out_stream = stream;
  return TENON_OK;
}

/* failures */

int32_t cu_lost_among(uint64_t waits) {
  for (int32_t i = 0; waits; i++, waits >>= 1) {
    cu_device_t *device = waits & 1 ? cu_devices[i] : NULL;
    if (device && cu_device_failure(device)) return 1 + i;
  }
  return 0;
}

/* Checks the failures of the stream's own GPU, and of a GPU that it waited for. */
static tenon_status_t failure_of(tenon_on_t on, cu_stream_t *stream) {
  cu_device_t *own = stream->device;
  cu_result_t failure = cu_failures[own->ordinal];
  if (failure) return cu_fail_lost(on, own, failure);
  int32_t by = atomic_load(&stream->failed_by);
  cu_device_t *lost = by ? cu_devices[by - 1] : NULL;
  return lost ? cu_fail_lost(on, lost, cu_failures[by - 1]) : TENON_OK;
}

/* Checks the ordinals that the stream has waited for. */
static void look_at_waits(cu_stream_t *stream) {
  uint64_t waits = atomic_load(&stream->waits);
  int32_t none = 0;
  int32_t by = waits ? cu_lost_among(waits) : 0;
  if (by) atomic_compare_exchange_strong(&stream->failed_by, &none, by);
}

tenon_status_t cu_stream_check(tenon_on_t on, cu_stream_t *stream) {
  if (__builtin_expect(atomic_load_explicit(&stream->waits, memory_order_relaxed) != 0, 0))
    look_at_waits(stream);
  return failure_of(on, stream);
}

tenon_status_t cu_stream_check_direct(tenon_on_t on, cu_stream_t *stream, const char *what) {
  if (stream->capturing)
    return tenon_fail(on, TENON_PRECONDITION,
                      "cuda:%d: the stream is being captured, and %s cannot be: copies, fills, "
                      "launches and replays can",
                      on->ordinal, what);
  return cu_stream_check(on, stream);
}

/* waiting */

static tenon_status_t ask(tenon_on_t on, cu_stream_t *stream, bool wait, tenon_fault_t *fault) {
  cu_result_t error;
  uint64_t waits = atomic_load(&stream->waits);
  if (fault) fault->ticket = 0; /* CUDA does not say which work failed */
  CU_IN(stream->device, error, state_of(stream, wait));
  look_at_waits(stream);
  if (error && error != CUDA_ERROR_NOT_READY) {
    if (!cu_device_failure(stream->device))
      return cu_fail(on, error, "cannot ask what a stream has done");
  }
  tenon_status_t status = failure_of(on, stream);
  if (status != TENON_OK) return status;
  if (error) return TENON_UNAVAILABLE;
  if (waits && !stream->capturing) atomic_compare_exchange_strong(&stream->waits, &waits, 0);
  return TENON_OK;
}

tenon_status_t cu_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  return ask(on, cu_stream(on, stream), false, fault);
}

tenon_status_t cu_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  return ask(on, cu_stream(on, stream), true, fault);
}

tenon_status_t cu_streams_synchronize(tenon_on_t on) {
  cu_device_t *device = cu_device(on);
  tenon_status_t status = TENON_OK;
  cu_streams_finish(device);
  (void)cu_device_failure(device);
  pthread_mutex_lock(&cu_lock);
  for (cu_stream_t *stream = device->streams; stream && status == TENON_OK; stream = stream->next) {
    if (stream->destroyed) continue;
    status = cu_stream_check(on, stream);
  }
  pthread_mutex_unlock(&cu_lock);
  return status;
}

/* callbacks */

typedef struct cu_callback_t {
  void (*function)(void *argument, tenon_status_t status);
  void *argument;
  uint64_t waits; /* of its stream */
} cu_callback_t;

/* Runs on a thread of the driver, where calling the driver is not allowed. */
static void call_back(cu_native_stream_t native, cu_result_t error, void *user) {
  (void)native;
  cu_callback_t callback = *(cu_callback_t *)user;
  free(user);
  for (int32_t i = 0; callback.waits && !error; i++, callback.waits >>= 1)
    if (callback.waits & 1) error = cu_failures[i];
  callback.function(callback.argument, error ? cu_failure_status(error) : TENON_OK);
}

/* Uses cuStreamAddCallback, because a function of cuLaunchHostFunc is not called if earlier work
 * has failed. */
tenon_status_t cu_stream_callback(tenon_on_t on, void *handle,
                                  void (*function)(void *, tenon_status_t), void *argument) {
  cu_stream_t *stream = cu_stream(on, handle);
  cu_result_t error;
  TENON_TRY(cu_stream_check_direct(on, stream, "a callback"));
  cu_callback_t *callback = (cu_callback_t *)malloc(sizeof *callback);
  if (!callback)
    return tenon_fail(on, TENON_MEMORY, "cuda:%d: no host memory for a callback", on->ordinal);
  *callback = (cu_callback_t){function, argument, atomic_load(&stream->waits)};
  CU_IN(stream->device, error, cu.StreamAddCallback(stream->native, call_back, callback, 0));
  if (!error) return TENON_OK;
  free(callback);
  return cu_fail(on, error, "cannot call a function when the stream comes to it");
}
