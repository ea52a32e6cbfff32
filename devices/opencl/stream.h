/* A stream is an in-order command queue with a list of its enqueued work that may be unfinished.
 * The list has an event and a ticket for each piece of work, oldest first, so that a failure can be
 * attributed. Every enqueue stands between ocl_stream_begin and ocl_stream_end. */
#ifndef TENON_OPENCL_STREAM_H
#define TENON_OPENCL_STREAM_H

#include "device.h"
#include "notice.h"

typedef struct ocl_entry_t {
  cl_event event;
  uint64_t ticket;
  struct ocl_stream_t *origin; /* for a wait: the stream of the event; holds a reference */
  /* for a wait for an event of another context: the notice that ends it; holds a reference */
  ocl_notice_t *notice;
} ocl_entry_t;

typedef struct ocl_stream_t {
  /* references of the device's list, of events, and of entries and failures of other streams */
  _Atomic uint32_t holds;
  ocl_device_t *device;
  cl_command_queue queue;
  bool imported;
  bool timed;           /* imported: owned by other code; timed: its events have times */
  pthread_mutex_t lock; /* guards all fields below except `next` */
  ocl_entry_t *entries; /* a ring buffer */
  uint32_t first;
  uint32_t count;
  uint32_t capacity;           /* a power of two */
  uint32_t unflushed;          /* work enqueued since the last flush */
  uint64_t ticket;             /* of the newest work */
  cl_int failure;              /* < 0: permanent */
  uint64_t fault;              /* ticket of the work that failed; 0: unknown */
  struct ocl_stream_t *origin; /* not NULL: the stream where the failure began; holds a reference */
  atomic_bool destroyed;
  struct ocl_callback_t *callbacks; /* not called yet, in order; used by callback.c */
  bool calling;
  struct ocl_stream_t *next; /* next stream of the device, under the lock of the device */
} ocl_stream_t;

static inline ocl_stream_t *ocl_stream(tenon_on_t on, void *stream) {
  return stream ? (ocl_stream_t *)stream : ocl_device(on)->first;
}
void ocl_stream_hold(ocl_stream_t *stream);
void ocl_stream_drop(ocl_stream_t *stream); /* NULL: does nothing */
/* Creates a stream with a queue of its own, or around an imported queue. */
tenon_status_t ocl_stream_open(tenon_on_t on, cl_command_queue imported, ocl_stream_t **out_stream);
/* Waits for all streams of the device and frees those that were destroyed. */
void ocl_stream_finish_all(ocl_device_t *device);
void ocl_stream_close_all(ocl_device_t *device); /* the same, and frees all of them */

/* Locks the stream and updates its list of unfinished work. On failure the stream is not locked,
 * and the failure is that of the stream. */
tenon_status_t ocl_stream_begin(tenon_on_t on, ocl_stream_t *stream);
/* Unlocks the stream. `event` belongs to what was enqueued, unless `error` is set. Returns
 * `error`. */
cl_int ocl_stream_end(ocl_stream_t *stream, cl_int error, cl_event event, uint64_t ticket);
/* Functions for use between begin and end. ocl_stream_push adds enqueued work to the list,
 * ocl_stream_break makes the stream fail, ocl_stream_mark returns an event that finishes with the
 * work so far (or has finished, if there is none), and ocl_stream_flush makes the driver start the
 * work. */
void ocl_stream_push(ocl_stream_t *stream, ocl_entry_t entry);
void ocl_stream_break(ocl_stream_t *stream, cl_int failure, uint64_t fault, ocl_stream_t *origin);
/* the event belongs to the stream: retain it */
cl_int ocl_stream_mark(ocl_stream_t *stream, cl_event *out_event);
void ocl_stream_flush(ocl_stream_t *stream);
/* Call this outside begin and end. Waits for events of another context, up to the entry `until`,
 * are ended by notices; this delivers the notices whose event has finished or failed. `wait`: waits
 * for these events first. */
void ocl_stream_tell(ocl_stream_t *stream, cl_event until, bool wait);
tenon_status_t ocl_failure_status(cl_int failure); /* of failed work: MEMORY or ABORTED */
/* Reports the failure of the stream as a failure of this call; TENON_OK if the stream has not
 * failed. */
tenon_status_t ocl_stream_failure(tenon_on_t on, ocl_stream_t *stream, tenon_fault_t *fault);

tenon_status_t ocl_stream_create(tenon_on_t on, void **out_stream);
void ocl_stream_destroy(tenon_on_t on, void *stream);
tenon_status_t ocl_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t ocl_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t ocl_stream_callback(tenon_on_t on, void *stream,
                                   void (*function)(void *, tenon_status_t), void *argument);
tenon_status_t ocl_stream_import(tenon_on_t on, void *native, void **out_stream);
tenon_status_t ocl_synchronize(tenon_on_t on);

#endif
