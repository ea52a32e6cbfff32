/* Functions that are called when a stream reaches them, one after another. */
#include "stream.h"

#include <stdlib.h>

typedef struct ocl_callback_t {
  ocl_stream_t *stream; /* holds a reference */
  void (*function)(void *argument, tenon_status_t status);
  void *argument;
  bool ready;
  tenon_status_t status;
  struct ocl_callback_t *next;
} ocl_callback_t;

/* Guards the lists of all streams. It is released while a function or the driver is called, because
 * either may call back at once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Drivers report the events of one queue in any order and on several threads. The thread that finds
 * the first callback of the list ready calls every callback that is ready. */
static void call_ready(ocl_stream_t *stream) {
  pthread_mutex_lock(&lock);
  while (!stream->calling && stream->callbacks && stream->callbacks->ready) {
    ocl_callback_t *callback = stream->callbacks;
    stream->callbacks = callback->next;
    stream->calling = true;
    pthread_mutex_unlock(&lock);
    callback->function(callback->argument, callback->status);
    pthread_mutex_lock(&lock);
    stream->calling = false;
    ocl_stream_drop(callback->stream);
    free(callback);
  }
  pthread_mutex_unlock(&lock);
}

static void on_notice(void *argument, cl_int status) {
  ocl_callback_t *callback = (ocl_callback_t *)argument;
  ocl_stream_t *stream = callback->stream;
  ocl_stream_hold(stream);
  pthread_mutex_lock(&lock);
  callback->status = status < 0 ? ocl_failure_status(status) : TENON_OK;
  callback->ready = true;
  pthread_mutex_unlock(&lock);
  call_ready(stream);
  ocl_stream_drop(stream);
}

static void append(ocl_callback_t *callback) {
  ocl_callback_t **end = &callback->stream->callbacks;
  pthread_mutex_lock(&lock);
  while (*end)
    end = &(*end)->next;
  *end = callback;
  pthread_mutex_unlock(&lock);
}

static void take_out(ocl_callback_t *callback) {
  ocl_callback_t **at = &callback->stream->callbacks;
  pthread_mutex_lock(&lock);
  while (*at != callback)
    at = &(*at)->next;
  *at = callback->next;
  pthread_mutex_unlock(&lock);
  call_ready(callback->stream);
  ocl_stream_drop(callback->stream);
  free(callback);
}

tenon_status_t ocl_stream_callback(tenon_on_t on, void *handle,
                                   void (*function)(void *, tenon_status_t), void *argument) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  cl_event event;
  ocl_callback_t *callback = (ocl_callback_t *)calloc(1, sizeof *callback);
  if (!callback)
    return tenon_fail(on, TENON_MEMORY, "opencl:%d: no host memory for a callback", on->ordinal);
  callback->stream = stream;
  callback->function = function;
  callback->argument = argument;
  tenon_status_t began = ocl_stream_begin(on, stream);
  if (began != TENON_OK) {
    free(callback);
    return began;
  }
  ocl_stream_hold(stream);
  cl_int error = ocl_stream_mark(stream, &event);
  append(callback); /* in the order of the stream */
  if (!error) {
    ocl.RetainEvent(event);
    ocl_stream_flush(stream);
  }
  pthread_mutex_unlock(&stream->lock); /* the driver may call the function at once */
  if (!error) {
    error = ocl_notice_create(ocl_device(on), event, on_notice, callback, NULL);
    ocl.ReleaseEvent(event);
  }
  if (!error) return TENON_OK;
  take_out(callback);
  return ocl_fail(on, error, "cannot call a function when the stream comes to it");
}
