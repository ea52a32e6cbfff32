#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

enum {
  CAPACITY = 64,
  UNFLUSHED_MOST = 16,
};

/* life */

void ocl_stream_hold(ocl_stream_t *stream) {
  if (stream) atomic_fetch_add(&stream->holds, 1);
}

static void waits_drop(ocl_entry_t *entry) {
  ocl_stream_drop(entry->origin);
  ocl_notice_drop(entry->notice);
  entry->origin = NULL;
  entry->notice = NULL;
}

static void entries_drop(ocl_stream_t *stream, uint32_t count) { /* drops the oldest entries */
  for (; count; count--) {
    ocl_entry_t *entry = &stream->entries[stream->first];
    ocl.ReleaseEvent(entry->event);
    waits_drop(entry);
    stream->first = (stream->first + 1) & (stream->capacity - 1);
    stream->count--;
  }
}

static ocl_entry_t *entry_of(ocl_stream_t *stream, uint32_t i) {
  return &stream->entries[(stream->first + i) & (stream->capacity - 1)];
}

void ocl_stream_drop(ocl_stream_t *stream) {
  while (stream && atomic_fetch_sub(&stream->holds, 1) == 1) {
    ocl_stream_t *origin = stream->origin;
    entries_drop(stream, stream->count);
    pthread_mutex_destroy(&stream->lock);
    free(stream->entries);
    free(stream);
    stream = origin;
  }
}

/* Looks which entries are finished. Work after failed work fails in the driver too, so the status
 * of the newest entry is enough. */
static void settle(ocl_stream_t *stream) {
  if (!stream->count || stream->failure) return;
  cl_int status = ocl_event_status(entry_of(stream, stream->count - 1)->event);
  if (status > 0) return;
  if (status == 0) {
    entries_drop(stream, stream->count);
    return;
  }
  ocl_entry_t *entry = NULL;
  for (uint32_t i = 0; i < stream->count; i++) {
    entry = entry_of(stream, i);
    if ((status = ocl_event_status(entry->event)) < 0) break;
  }
  ocl_stream_break(stream, status, entry->ticket, entry->origin);
}

/* Call this under the lock of the device: removes the destroyed and finished streams from its list.
 * A failed stream stays in the list until the device is stopped, because PoCL 3.1 still uses its
 * events after it has reported their failure. */
static void sweep(ocl_device_t *device, bool stopping) {
  for (ocl_stream_t **at = &device->streams, *stream; !device->walkers && (stream = *at);) {
    pthread_mutex_lock(&stream->lock);
    settle(stream);
    bool done = stopping || (stream->destroyed && !stream->failure && !stream->count);
    pthread_mutex_unlock(&stream->lock);
    if (!done) {
      at = &stream->next;
      continue;
    }
    *at = stream->next;
    ocl.ReleaseCommandQueue(stream->queue);
    ocl_stream_drop(stream);
  }
}

tenon_status_t ocl_stream_open(tenon_on_t on, cl_command_queue imported,
                               ocl_stream_t **out_stream) {
  ocl_device_t *device = ocl_device(on);
  cl_int error = CL_SUCCESS;
  cl_bitfield properties = CL_QUEUE_PROFILING_ENABLE;
  ocl_stream_t *stream = (ocl_stream_t *)calloc(1, sizeof *stream);
  if (stream) stream->entries = (ocl_entry_t *)malloc(CAPACITY * sizeof *stream->entries);
  if (!stream || !stream->entries) {
    free(stream);
    return tenon_fail(on, TENON_MEMORY, "opencl:%d: no host memory for a stream", on->ordinal);
  }
  if (imported) {
    error = ocl.RetainCommandQueue(stream->queue = imported);
    ocl.GetCommandQueueInfo(imported, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
  } else {
    stream->queue = ocl.CreateCommandQueue(device->context, device->id, properties, &error);
  }
  if (error) {
    free(stream->entries);
    free(stream);
    return ocl_fail(on, error, "cannot %s", imported ? "keep the queue" : "create a queue");
  }
  pthread_mutex_init(&stream->lock, NULL);
  atomic_store(&stream->holds, 1);
  stream->device = device;
  stream->capacity = CAPACITY;
  stream->imported = imported != NULL;
  stream->timed = properties & CL_QUEUE_PROFILING_ENABLE;
  pthread_mutex_lock(&device->lock);
  sweep(device, false);
  stream->next = device->streams;
  device->streams = stream;
  pthread_mutex_unlock(&device->lock);
  *out_stream = stream;
  return TENON_OK;
}

tenon_status_t ocl_stream_create(tenon_on_t on, void **out_stream) {
  ocl_stream_t *stream;
  TENON_TRY(ocl_stream_open(on, NULL, &stream));
  *out_stream = stream;
  return TENON_OK;
}

void ocl_stream_destroy(tenon_on_t on, void *handle) {
  ocl_stream_t *stream = (ocl_stream_t *)handle;
  if (!stream) return;
  pthread_mutex_lock(&stream->lock);
  stream->destroyed = true;
  ocl_stream_flush(stream);
  pthread_mutex_unlock(&stream->lock);
  pthread_mutex_lock(&ocl_device(on)->lock);
  sweep(ocl_device(on), false);
  pthread_mutex_unlock(&ocl_device(on)->lock);
}

tenon_status_t ocl_stream_import(tenon_on_t on, void *native, void **out_stream) {
  cl_context context = NULL;
  cl_device_id id = NULL;
  cl_bitfield properties = 0;
  cl_command_queue queue = (cl_command_queue)native;
  cl_int error =
      native ? ocl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL)
             : CL_INVALID_COMMAND_QUEUE;
  if (!error) error = ocl.GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
  if (!error)
    error =
        ocl.GetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
  if (error) return ocl_fail(on, error, "cannot import the queue %p", native);
  if (context != ocl_device(on)->context || id != ocl_device(on)->id)
    return tenon_fail(on, TENON_INVALID,
                      "opencl:%d: the imported queue is of another context or device; create it in "
                      "this one's, native \"cl_context\" and \"cl_device_id\"",
                      on->ordinal);
  if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return tenon_fail(
        on, TENON_INVALID,
        "opencl:%d: the imported queue works out of order; a stream is a queue without "
        "CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE",
        on->ordinal);
  ocl_stream_t *stream;
  TENON_TRY(ocl_stream_open(on, queue, &stream));
  *out_stream = stream;
  return TENON_OK;
}

/* what is enqueued */

tenon_status_t ocl_stream_begin(tenon_on_t on, ocl_stream_t *stream) {
  pthread_mutex_lock(&stream->lock);
  settle(stream);
  if (!stream->failure) return TENON_OK;
  pthread_mutex_unlock(&stream->lock);
  return ocl_stream_failure(on, stream, NULL);
}

cl_int ocl_stream_end(ocl_stream_t *stream, cl_int error, cl_event event, uint64_t ticket) {
  if (!error) {
    ocl_stream_push(stream, (ocl_entry_t){event, ticket, NULL, NULL});
    if (++stream->unflushed >= UNFLUSHED_MOST) ocl_stream_flush(stream);
  }
  pthread_mutex_unlock(&stream->lock);
  return error;
}

static void make_room(ocl_stream_t *stream) {
  while (stream->count && ocl_event_status(entry_of(stream, 0)->event) == 0)
    entries_drop(stream, 1);
  if (stream->count <= stream->capacity / 2) return;
  ocl_entry_t *entries = (ocl_entry_t *)malloc(2 * stream->capacity * sizeof *entries);
  if (entries) {
    for (uint32_t i = 0; i < stream->count; i++)
      entries[i] = *entry_of(stream, i);
    free(stream->entries);
    stream->entries = entries;
    stream->first = 0;
    stream->capacity *= 2;
  } else if (stream->count == stream->capacity) {
    entries_drop(stream, 1); /* if this work fails, its ticket is unknown */
  }
}

void ocl_stream_push(ocl_stream_t *stream, ocl_entry_t entry) {
  if (stream->count == stream->capacity) make_room(stream);
  stream->count++;
  *entry_of(stream, stream->count - 1) = entry;
  stream->ticket = entry.ticket;
}

void ocl_stream_break(ocl_stream_t *stream, cl_int failure, uint64_t fault, ocl_stream_t *origin) {
  if (stream->failure) return;
  stream->failure = failure;
  stream->fault = fault;
  ocl_stream_hold(stream->origin = origin);
  /* The events are kept; see sweep(). */
  for (uint32_t i = 0; i < stream->count; i++)
    waits_drop(entry_of(stream, i));
}

cl_int ocl_stream_mark(ocl_stream_t *stream, cl_event *out_event) {
  if (!stream->count || stream->imported) { /* an imported queue may hold work of its owner */
    cl_event marker;
    cl_int error = ocl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &marker);
    if (error) return error;
    ocl_stream_push(stream, (ocl_entry_t){marker, stream->ticket, NULL, NULL});
    stream->unflushed++;
  }
  *out_event = entry_of(stream, stream->count - 1)->event;
  return CL_SUCCESS;
}

void ocl_stream_flush(ocl_stream_t *stream) {
  if (stream->unflushed || stream->imported) ocl.Flush(stream->queue);
  stream->unflushed = 0;
}

/* failures */

tenon_status_t ocl_failure_status(cl_int failure) {
  return ocl_error_status(failure) == TENON_MEMORY
             ? TENON_MEMORY
             : TENON_ABORTED; /* UNAVAILABLE would mean "not finished yet" */
}

tenon_status_t ocl_stream_failure(tenon_on_t on, ocl_stream_t *stream, tenon_fault_t *fault) {
  uint64_t ticket = 0;
  cl_int failure = 0;
  /* walks to the stream where the failure began, with one lock at a time */
  for (ocl_stream_t *at = stream; at;) {
    pthread_mutex_lock(&at->lock);
    settle(at);
    if (at == stream) failure = at->failure;
    ticket = at->fault;
    ocl_stream_t *origin = at->origin;
    pthread_mutex_unlock(&at->lock);
    at = failure ? origin : NULL;
  }
  if (!failure) return TENON_OK;
  ocl_notice_settle();
  if (fault) fault->ticket = ticket;
  char which[40] = "work";
  char name[80] = "";
  if (failure < -1) snprintf(name, sizeof name, " (%s)", ocl_error_name(failure));
  if (ticket) snprintf(which, sizeof which, "call %llu", (unsigned long long)ticket);
  return tenon_fail(
      on, ocl_failure_status(failure),
      "opencl:%d: %s of this stream, or of one that it waited for, failed with status %d%s; "
      "the work after it was not done, and this stream accepts no more: use another stream",
      on->ordinal, which, failure, name);
}

/* waiting */

void ocl_stream_tell(ocl_stream_t *stream, cl_event until, bool wait) {
  for (bool told = true; told;) {
    ocl_notice_t *notice = NULL;
    pthread_mutex_lock(&stream->lock);
    for (uint32_t i = 0; i < stream->count && !notice; i++) {
      ocl_entry_t *entry = entry_of(stream, i);
      if (entry->notice && !entry->notice->told)
        atomic_fetch_add(&(notice = entry->notice)->holds, 1);
      if (entry->event == until) break;
    }
    pthread_mutex_unlock(&stream->lock);
    told = notice && (wait ? ocl_notice_wait(notice) : ocl_notice_try(notice));
    ocl_notice_drop(notice);
  }
}

static void finish(ocl_stream_t *stream) {
  ocl_stream_tell(stream, NULL, true);
  cl_int error = ocl.Finish(stream->queue);
  pthread_mutex_lock(&stream->lock);
  settle(stream);
  if (error && !stream->failure) ocl_stream_break(stream, error, 0, NULL);
  pthread_mutex_unlock(&stream->lock);
}

void ocl_stream_finish_all(ocl_device_t *device) {
  pthread_mutex_lock(&device->lock);
  device->walkers++; /* no stream leaves the list meanwhile */
  for (ocl_stream_t *stream = device->streams; stream; stream = stream->next) {
    pthread_mutex_unlock(&device->lock);
    finish(stream);
    pthread_mutex_lock(&device->lock);
  }
  device->walkers--;
  sweep(device, false);
  pthread_mutex_unlock(&device->lock);
}

void ocl_stream_close_all(ocl_device_t *device) {
  ocl_stream_finish_all(device);
  ocl_notice_finish(device);
  sweep(device, true);
}

tenon_status_t ocl_synchronize(tenon_on_t on) {
  ocl_device_t *device = ocl_device(on);
  tenon_status_t status = TENON_OK;
  ocl_stream_finish_all(device);
  pthread_mutex_lock(&device->lock);
  device->walkers++;
  for (ocl_stream_t *stream = device->streams; stream && !status; stream = stream->next) {
    pthread_mutex_unlock(&device->lock);
    if (!stream->destroyed) status = ocl_stream_failure(on, stream, NULL);
    pthread_mutex_lock(&device->lock);
  }
  device->walkers--;
  pthread_mutex_unlock(&device->lock);
  return status;
}

tenon_status_t ocl_stream_query(tenon_on_t on, void *handle, tenon_fault_t *fault) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  cl_int error = CL_SUCCESS;
  ocl_stream_tell(stream, NULL, false);
  pthread_mutex_lock(&stream->lock);
  bool was_empty = !stream->count;
  settle(stream);
  /* For an imported queue: asks about everything enqueued before a marker. The marker is kept until
   * it is seen to be finished. */
  if (stream->imported && was_empty && !stream->failure) {
    cl_event marker;
    error = ocl_stream_mark(stream, &marker);
  }
  ocl_stream_flush(stream);
  if (!error) settle(stream);
  bool pending = stream->count > 0 && !stream->failure;
  pthread_mutex_unlock(&stream->lock);
  if (error) return ocl_fail(on, error, "cannot ask what a stream has done");
  return pending ? TENON_UNAVAILABLE : ocl_stream_failure(on, stream, fault);
}

tenon_status_t ocl_stream_synchronize(tenon_on_t on, void *handle, tenon_fault_t *fault) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  finish(stream);
  return ocl_stream_failure(on, stream, fault);
}
