#include "event.h"

#include <stdlib.h>

typedef struct ocl_recorded_t {
  cl_event event;       /* NULL: never recorded */
  ocl_stream_t *stream; /* the stream in which it was recorded */
  uint64_t ticket;      /* of the newest work in that stream */
} ocl_recorded_t;

typedef struct ocl_event_t {
  pthread_mutex_t lock;
  ocl_recorded_t now;
} ocl_event_t;

/* Returns what the event refers to now, with references, because another thread may record the
 * event again. Pass it to give_back(). */
static ocl_recorded_t recorded_of(ocl_event_t *event) {
  pthread_mutex_lock(&event->lock);
  ocl_recorded_t now = event->now;
  if (now.event) {
    ocl.RetainEvent(now.event);
    ocl_stream_hold(now.stream);
  }
  pthread_mutex_unlock(&event->lock);
  return now;
}

static void give_back(ocl_recorded_t now) {
  if (now.event) {
    ocl.ReleaseEvent(now.event);
    ocl_stream_drop(now.stream);
  }
}

tenon_status_t ocl_event_create(tenon_on_t on, void **out_event) {
  ocl_event_t *event = (ocl_event_t *)calloc(1, sizeof *event);
  if (!event)
    return tenon_fail(on, TENON_MEMORY, "opencl:%d: no host memory for an event", on->ordinal);
  pthread_mutex_init(&event->lock, NULL);
  *out_event = event;
  return TENON_OK;
}

void ocl_event_destroy(tenon_on_t on, void *handle) {
  (void)on;
  ocl_event_t *event = (ocl_event_t *)handle;
  if (!event) return;
  give_back(event->now);
  pthread_mutex_destroy(&event->lock);
  free(event);
}

tenon_status_t ocl_event_record(tenon_on_t on, void *handle, void *stream_handle) {
  ocl_event_t *event = (ocl_event_t *)handle;
  ocl_stream_t *stream = ocl_stream(on, stream_handle);
  ocl_recorded_t now = {NULL, stream, 0};
  TENON_TRY(ocl_stream_begin(on, stream));
  cl_int error = ocl_stream_mark(stream, &now.event);
  if (!error) {
    ocl.RetainEvent(now.event);
    ocl_stream_hold(stream);
    ocl_stream_flush(stream); /* otherwise a waiter in another queue could wait forever */
    now.ticket = stream->ticket;
  }
  pthread_mutex_unlock(&stream->lock);
  if (error) return ocl_fail(on, error, "cannot record an event");
  pthread_mutex_lock(&event->lock);
  ocl_recorded_t before = event->now;
  event->now = now;
  pthread_mutex_unlock(&event->lock);
  give_back(before);
  return TENON_OK;
}

/* The failure of a driver's event: the failure of its stream, if the stream still knows it. */
static tenon_status_t failure_of(tenon_on_t on, ocl_recorded_t now, cl_int status) {
  tenon_status_t failed = ocl_stream_failure(on, now.stream, NULL);
  return failed ? failed
                : tenon_fail(on, TENON_ABORTED,
                             "opencl:%d: the work before an event failed with status %d",
                             on->ordinal, status);
}

/* Translates CL_EVENT_COMMAND_EXECUTION_STATUS: a positive number means "not done yet", a negative
 * one is an error. */
static tenon_status_t execution_status(tenon_on_t on, ocl_recorded_t now, cl_int status) {
  if (status > 0) return TENON_UNAVAILABLE;
  if (status < 0) return failure_of(on, now, status);
  return TENON_OK;
}

tenon_status_t ocl_event_query(tenon_on_t on, void *event) {
  ocl_recorded_t now = recorded_of((ocl_event_t *)event);
  if (!now.event) return TENON_OK;
  ocl_stream_tell(now.stream, now.event, false);
  cl_int status = ocl_event_status(now.event);
  tenon_status_t found = execution_status(on, now, status);
  give_back(now);
  return found;
}

tenon_status_t ocl_event_synchronize(tenon_on_t on, void *event) {
  ocl_recorded_t now = recorded_of((ocl_event_t *)event);
  if (!now.event) return TENON_OK;
  ocl_stream_tell(now.stream, now.event, true);
  cl_int error = ocl.WaitForEvents(1, &now.event);
  cl_int status = ocl_event_status(now.event);
  tenon_status_t found = TENON_OK;
  if (status < 0)
    found = failure_of(on, now, status);
  else if (error)
    found = ocl_fail(on, error, "cannot wait for an event");
  give_back(now);
  return found;
}

/* Ends the wait for an event of another context. */
static void set_user_event(void *argument, cl_int status) {
  cl_event user = (cl_event)argument;
  ocl.SetUserEventStatus(user, status < 0 ? status : CL_COMPLETE);
  ocl.ReleaseEvent(user);
  if (status < 0) ocl_notice_settle(); /* reports the work that has now failed as well */
}

tenon_status_t ocl_stream_wait(tenon_on_t on, void *handle, tenon_on_t of, void *event) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  ocl_recorded_t now = recorded_of((ocl_event_t *)event);
  if (!now.event) return TENON_OK;
  cl_event what = now.event;
  cl_event user = NULL;
  cl_event barrier = NULL;
  ocl_notice_t *notice = NULL;
  cl_int error = CL_SUCCESS;
  if (of->state != on->state &&
      /* the wait list of a driver call only takes events of one context */
      ocl_event_status(now.event) > 0) {
    what = user = ocl.CreateUserEvent(ocl_device(on)->context, &error);
    if (user) ocl.RetainEvent(user); /* this reference belongs to the notice */
    if (!error) error = ocl_notice_create(ocl_device(of), now.event, set_user_event, user, &notice);
    if (error && user) ocl.ReleaseEvent(user);
  }
  tenon_status_t began = error ? TENON_OK : ocl_stream_begin(on, stream);
  if (!error && began == TENON_OK) {
    cl_int status = ocl_event_status(what);
    if (status < 0) { /* PoCL 3.1 would wait forever */
      ocl_stream_break(stream, status, now.ticket, now.stream);
    } else if (status > 0 && now.stream != stream) {
      error = ocl.EnqueueBarrierWithWaitList(stream->queue, 1, &what, &barrier);
      if (!error) {
        ocl_stream_hold(now.stream);
        ocl_stream_push(stream, (ocl_entry_t){barrier, stream->ticket, now.stream, notice});
        stream->unflushed++;
        notice = NULL;
      }
    }
    pthread_mutex_unlock(&stream->lock);
  }
  ocl_notice_drop(notice);
  if (user) ocl.ReleaseEvent(user);
  give_back(now);
  if (began != TENON_OK) return began;
  if (error) return ocl_fail(on, error, "cannot make a stream wait for an event");
  return TENON_OK;
}

tenon_status_t ocl_event_time(tenon_on_t on, void *event, int64_t *out_time) {
  ocl_recorded_t now = recorded_of((ocl_event_t *)event);
  if (!now.event)
    return tenon_fail(on, TENON_PRECONDITION,
                      "opencl:%d: an event that was not recorded has no time", on->ordinal);
  cl_int status = ocl_event_status(now.event);
  tenon_status_t found = execution_status(on, now, status);
  if (found == TENON_OK && !now.stream->timed)
    found = tenon_fail(on, TENON_PRECONDITION,
                       "opencl:%d: the event has no time: the imported queue, in which it was "
                       "recorded, has no CL_QUEUE_PROFILING_ENABLE",
                       on->ordinal);
  if (found == TENON_OK) {
    cl_ulong time = 0;
    cl_int error =
        ocl.GetEventProfilingInfo(now.event, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL);
    if (error) found = ocl_fail(on, error, "cannot ask for the time of an event");
    *out_time = (int64_t)time;
  }
  give_back(now);
  return found;
}

static void fail_user_event(void *argument, cl_int status) {
  set_user_event(argument, status < 0 ? status : CL_OUT_OF_RESOURCES);
}

tenon_status_t ocl_enqueue_failure(tenon_on_t on, void *handle, uint64_t ticket) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  cl_event before, user;
  cl_event barrier = NULL;
  cl_int error = CL_SUCCESS;
  TENON_TRY(ocl_stream_begin(on, stream));
  error = ocl_stream_mark(stream, &before);
  if (!error) user = ocl.CreateUserEvent(ocl_device(on)->context, &error);
  if (!error) {
    ocl.RetainEvent(before);
    ocl.RetainEvent(user);
    error = ocl.EnqueueBarrierWithWaitList(stream->queue, 1, &user, &barrier);
    ocl_stream_end(stream, error, barrier, ticket);
    if (!error) error = ocl_notice_create(ocl_device(on), before, fail_user_event, user, NULL);
    if (error) fail_user_event(user, error);
    ocl.ReleaseEvent(user);
    ocl.ReleaseEvent(before);
  } else {
    pthread_mutex_unlock(&stream->lock);
  }
  return error ? ocl_fail(on, error, "cannot enqueue what fails") : TENON_OK;
}
