/* A stream is a command queue that works in order, with what is enqueued there and perhaps not
 * done: an event and a ticket of each, oldest first, so that a failure has a name.  Every enqueue
 * stands between ocl_stream_begin and ocl_stream_end. */
#ifndef TENON_OPENCL_STREAM_H
#define TENON_OPENCL_STREAM_H

#include "device.h"
#include "notice.h"

typedef struct ocl_entry_t {
  cl_event event;
  uint64_t ticket;
  struct ocl_stream_t *origin; /* a wait: the stream of the event that it waits for; held */
  ocl_notice_t *notice;        /* a wait for another context's event: what ends it; held */
} ocl_entry_t;

typedef struct ocl_stream_t {
  _Atomic uint32_t holds; /* of its device's list, of events, of entries and failures of others */
  ocl_device_t *device;
  cl_command_queue queue;
  bool imported;
  bool timed;           /* another's queue; its events have times */
  pthread_mutex_t lock; /* of all below but `next` */
  ocl_entry_t *entries; /* a ring: */
  uint32_t first;
  uint32_t count;
  uint32_t capacity;           /* a power of two */
  uint32_t unflushed;          /* enqueued since the driver was told to begin */
  uint64_t ticket;             /* of the newest */
  cl_int failure;              /* < 0: for good */
  uint64_t fault;              /* ticket of what failed; 0: not known */
  struct ocl_stream_t *origin; /* not NULL: the failure came from there; held */
  atomic_bool destroyed;
  struct ocl_callback_t *callbacks; /* not called yet, in order; of callback.c */
  bool calling;
  struct ocl_stream_t *next; /* of the device, under its lock */
} ocl_stream_t;

static inline ocl_stream_t *ocl_stream(tenon_on_t on, void *stream) {
  return stream ? (ocl_stream_t *)stream : ocl_device(on)->first;
}
void ocl_stream_hold(ocl_stream_t *stream);
void ocl_stream_drop(ocl_stream_t *stream); /* of NULL: nothing */
/* A stream with a queue of its own, or with that of another. */
tenon_status_t ocl_stream_open(tenon_on_t on, cl_command_queue imported, ocl_stream_t **out_stream);
/* Waits for all streams of the device and frees those that were destroyed. */
void ocl_stream_finish_all(ocl_device_t *device);
void ocl_stream_close_all(ocl_device_t *device); /* the same, and frees all of them */

/* Locks the stream and looks what is done.  Failed: it is not locked, and the failure is that of
 * the stream. */
tenon_status_t ocl_stream_begin(tenon_on_t on, ocl_stream_t *stream);
/* Unlocks.  `event` is what was enqueued, unless there was an error, which it gives back. */
cl_int ocl_stream_end(ocl_stream_t *stream, cl_int error, cl_event event, uint64_t ticket);
/* Between the two: keeps what was enqueued; makes the stream fail; gives an event that ends when
 * the work so far does, or now; makes the driver begin. */
void ocl_stream_push(ocl_stream_t *stream, ocl_entry_t entry);
void ocl_stream_break(ocl_stream_t *stream, cl_int failure, uint64_t fault, ocl_stream_t *origin);
cl_int ocl_stream_mark(ocl_stream_t *stream, cl_event *out_event); /* the stream's: retain it */
void ocl_stream_flush(ocl_stream_t *stream);
/* Not between them.  Waits for another context's events, up to the entry `until`, are ended by
 * notices: makes sure that those whose event is done or failed were told.  `wait`: waits for these
 * events. */
void ocl_stream_tell(ocl_stream_t *stream, cl_event until, bool wait);
tenon_status_t ocl_failure_status(cl_int failure); /* of work: MEMORY or ABORTED */
/* The failure of the stream as one of this call; TENON_OK if it has not failed. */
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
