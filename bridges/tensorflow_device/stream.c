/* Streams, events and timers of TensorFlow as those of Tenon.
 *
 * TensorFlow ends the process if an event says that work failed. An event therefore says "done"
 * after a failure, too; the copy to the host that follows, or the next kernel, reports it. */
#include <stdio.h>
#include <stdlib.h>

#include "plugin.h"

/* ---- streams --------------------------------------------------------------------------------- */

tenon_status_t enter_stream(stream_t *stream, tenon_stream_t **out_before) {
  pthread_mutex_lock(&stream->lock);
  const tenon_status_t status =
      tenon_stream_use(stream->device->device, stream->stream, out_before);
  pthread_mutex_unlock(&stream->lock);
  return status;
}

void leave_stream(const stream_t *stream, tenon_stream_t *before) {
  (void)tenon_stream_use(stream->device->device, before, NULL);
}

/* Retains the stream of Tenon, which another thread may replace. */
static tenon_stream_t *take_stream(stream_t *stream) {
  pthread_mutex_lock(&stream->lock);
  tenon_stream_t *taken = stream->stream;
  tenon_stream_retain(taken);
  pthread_mutex_unlock(&stream->lock);
  return taken;
}

static tenon_status_t renew_stream(stream_t *stream) {
  tenon_stream_t *made = NULL;
  const tenon_status_t failure = tenon_stream_query(stream->stream);
  if (failure == TENON_OK || failure == TENON_UNAVAILABLE) return TENON_OK;
  if (tenon_stream_create(stream->device->device, &made) != TENON_OK) return failure;
  tenon_stream_release(stream->stream);
  stream->stream = made;
  (void)tenon_stream_query(made);
  return failure;
}

tenon_status_t renew_streams(device_t *device) {
  char text[600];
  tenon_status_t first = TENON_OK;
  pthread_mutex_lock(&device->lock);
  for (int32_t i = 0; i < device->stream_count; i++) {
    stream_t *stream = device->streams[i];
    pthread_mutex_lock(&stream->lock);
    const tenon_status_t failure = renew_stream(stream);
    pthread_mutex_unlock(&stream->lock);
    if (failure != TENON_OK && first == TENON_OK) {
      first = failure;
      snprintf(text, sizeof text, "%s", tenon_error());
    }
  }
  pthread_mutex_unlock(&device->lock);
  return first == TENON_OK ? first : tenon_error_set(first, text);
}

static tenon_status_t add_stream(device_t *device, stream_t *stream) {
  pthread_mutex_lock(&device->lock);
  const bool has_room = device->stream_count < PLUGIN_STREAMS_MOST;
  if (has_room) device->streams[device->stream_count++] = stream;
  pthread_mutex_unlock(&device->lock);
  return has_room ? TENON_OK
                  : tenon_error_set(TENON_MEMORY, "a device of Tenon has at most 64 streams of "
                                                  "TensorFlow: destroy streams first");
}

static void remove_stream(device_t *device, const stream_t *stream) {
  pthread_mutex_lock(&device->lock);
  for (int32_t i = 0; i < device->stream_count; i++)
    if (device->streams[i] == stream) {
      device->streams[i] = device->streams[--device->stream_count];
      break;
    }
  pthread_mutex_unlock(&device->lock);
}

static void create_stream(const se_device_t *se, se_stream_t *out, tf_status_t *out_status) {
  device_t *device = device_of(se);
  stream_t *stream = calloc(1, sizeof *stream);
  tenon_status_t status =
      stream ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory: a stream");
  if (status == TENON_OK) {
    stream->device = device;
    pthread_mutex_init(&stream->lock, NULL);
    status = tenon_stream_create(device->device, &stream->stream);
  }
  if (status == TENON_OK) status = add_stream(device, stream);
  if (status != TENON_OK && stream) {
    tenon_stream_release(stream->stream);
    free(stream);
  }
  *out = status == TENON_OK ? stream : NULL;
  set_status(out_status, status);
}

static void destroy_stream(const se_device_t *se, se_stream_t stream) {
  if (!stream) return;
  remove_stream(device_of(se), stream);
  tenon_stream_release(stream->stream);
  pthread_mutex_destroy(&stream->lock);
  free(stream);
}

static void stream_wait(const se_device_t *se, se_stream_t stream, se_stream_t of,
                        tf_status_t *out_status) {
  (void)se;
  tenon_stream_t *later = take_stream(stream);
  tenon_stream_t *earlier = take_stream(of);
  const tenon_status_t status = tenon_stream_wait(later, earlier);
  tenon_stream_release(later);
  tenon_stream_release(earlier);
  (void)status; /* A failure of either stream is reported by the work that comes next. */
  set_status(out_status, TENON_OK);
}

static void stream_status(const se_device_t *se, se_stream_t stream, tf_status_t *out_status) {
  (void)se;
  (void)stream;
  set_status(out_status, TENON_OK);
}

static void wait_for_stream(const se_device_t *se, se_stream_t stream, tf_status_t *out_status) {
  tenon_stream_t *taken = take_stream(stream);
  (void)tenon_stream_synchronize(taken);
  tenon_stream_release(taken);
  set_status(out_status, renew_streams(device_of(se)));
}

static void wait_for_device(const se_device_t *se, tf_status_t *out_status) {
  (void)tenon_device_synchronize(device_of(se)->device);
  set_status(out_status, renew_streams(device_of(se)));
}

/* The function is called when the host has waited. */
static uint8_t call_back(const se_device_t *se, se_stream_t stream, se_callback_t function,
                         void *argument) {
  tf_status_t *status = tf.TF_NewStatus();
  wait_for_stream(se, stream, status);
  function(argument, status);
  tf.TF_DeleteStatus(status);
  return 1;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void create_event(const se_device_t *se, se_event_t *out, tf_status_t *out_status) {
  event_t *event = calloc(1, sizeof *event);
  tenon_status_t status =
      event ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory: an event");
  if (status == TENON_OK) status = tenon_event_create(device_of(se)->device, 0, &event->event);
  if (status != TENON_OK) {
    free(event);
    event = NULL;
  }
  *out = event;
  set_status(out_status, status);
}

static void destroy_event(const se_device_t *se, se_event_t event) {
  (void)se;
  if (!event) return;
  tenon_event_release(event->event);
  free(event);
}

static int event_status(const se_device_t *se, se_event_t event) {
  (void)se;
  return tenon_event_query(event->event) == TENON_UNAVAILABLE ? SE_EVENT_PENDING
                                                              : SE_EVENT_COMPLETE;
}

static void record_event(const se_device_t *se, se_stream_t stream, se_event_t event,
                         tf_status_t *out_status) {
  (void)se;
  tenon_stream_t *taken = take_stream(stream);
  (void)tenon_event_record(event->event, taken);
  tenon_stream_release(taken);
  set_status(out_status, TENON_OK);
}

static void stream_wait_event(const se_device_t *se, se_stream_t stream, se_event_t event,
                              tf_status_t *out_status) {
  (void)se;
  tenon_stream_t *taken = take_stream(stream);
  (void)tenon_stream_wait_event(taken, event->event);
  tenon_stream_release(taken);
  set_status(out_status, TENON_OK);
}

static void wait_for_event(const se_device_t *se, se_event_t event, tf_status_t *out_status) {
  (void)tenon_event_synchronize(event->event);
  set_status(out_status, renew_streams(device_of(se)));
}

/* ---- timers ---------------------------------------------------------------------------------- */

typedef struct timing_t {
  tenon_event_t *begin;
  tenon_event_t *end;
} timing_t;

static void destroy_timer(const se_device_t *se, se_timer_t timing) {
  (void)se;
  if (!timing) return;
  tenon_event_release(timing->begin);
  tenon_event_release(timing->end);
  free(timing);
}

static void create_timer(const se_device_t *se, se_timer_t *out, tf_status_t *out_status) {
  const tenon_device_t device = device_of(se)->device;
  timing_t *timing = calloc(1, sizeof *timing);
  tenon_status_t status =
      timing ? TENON_OK : tenon_error_set(TENON_MEMORY, "out of memory: a timer");
  if (status == TENON_OK) status = tenon_event_create(device, TENON_EVENT_TIMED, &timing->begin);
  if (status == TENON_OK) status = tenon_event_create(device, TENON_EVENT_TIMED, &timing->end);
  if (status != TENON_OK) {
    destroy_timer(se, timing);
    timing = NULL;
  }
  *out = timing;
  set_status(out_status, status);
}

static void start_timer(const se_device_t *se, se_stream_t stream, se_timer_t timing,
                        tf_status_t *out_status) {
  event_t event = {timing->begin};
  record_event(se, stream, &event, out_status);
}

static void stop_timer(const se_device_t *se, se_stream_t stream, se_timer_t timing,
                       tf_status_t *out_status) {
  event_t event = {timing->end};
  record_event(se, stream, &event, out_status);
}

uint64_t timing_nanoseconds(se_timer_t timing) {
  int64_t nanoseconds = 0;
  if (tenon_event_synchronize(timing->end) != TENON_OK) return 0;
  if (tenon_event_elapsed(timing->begin, timing->end, &nanoseconds) != TENON_OK) return 0;
  return nanoseconds > 0 ? (uint64_t)nanoseconds : 0;
}

void fill_stream_functions(se_executor_t *executor) {
  executor->create_stream = create_stream;
  executor->destroy_stream = destroy_stream;
  executor->stream_wait = stream_wait;
  executor->stream_status = stream_status;
  executor->wait_for_stream = wait_for_stream;
  executor->wait_for_device = wait_for_device;
  executor->callback = call_back;
  executor->create_event = create_event;
  executor->destroy_event = destroy_event;
  executor->event_status = event_status;
  executor->record_event = record_event;
  executor->stream_wait_event = stream_wait_event;
  executor->wait_for_event = wait_for_event;
  executor->create_timer = create_timer;
  executor->destroy_timer = destroy_timer;
  executor->start_timer = start_timer;
  executor->stop_timer = stop_timer;
}
