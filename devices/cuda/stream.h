/* A stream is one of CUDA's, and what it has waited for on other ordinals. Work that fails loses
 * the whole context of its GPU, with all its streams; a stream of another ordinal that had waited
 * for it fails too.  Which work it was CUDA does not say. */
#ifndef TENON_CUDA_STREAM_H
#define TENON_CUDA_STREAM_H

#include "device.h"

typedef struct cu_stream_t {
  cu_device_t *device;
  cu_native_stream_t native;
  _Atomic uint64_t
      waits; /* bit i: followed an event of ordinal i since it was last seen to be done */
  _Atomic int32_t failed_by; /* 1 + the ordinal that lost its work, for good */
  bool imported;
  bool destroyed;           /* another's; not wanted any more, under cu_lock */
  pthread_mutex_t lock;     /* of the three below */
  _Atomic bool recording;   /* what is enqueued goes to a recording */
  bool left;                /* imported, and its owner's alone again */
  cu_native_event_t before; /* of either: stands for the work before; NULL: not made yet */
  struct cu_stream_t *next; /* of the device, under cu_lock */
} cu_stream_t;

static inline cu_stream_t *cu_stream(tenon_on_t on, void *stream) {
  return stream ? (cu_stream_t *)stream : cu_device(on)->first;
}
/* A stream of its own, or around that of another; in the device's list. */
tenon_status_t cu_stream_open(tenon_on_t on, cu_native_stream_t imported, cu_stream_t **out_stream);
bool cu_streams_idle(cu_device_t *device);   /* under cu_lock */
void cu_streams_finish(cu_device_t *device); /* waits for all, those that were destroyed too */
void cu_streams_close(cu_device_t *device);  /* frees all of them, when they are done */

/* Before something is enqueued: the failure of the stream. */
tenon_status_t cu_stream_check(tenon_on_t on, cu_stream_t *stream);
/* The same, for what cannot be recorded. */
tenon_status_t cu_stream_check_direct(tenon_on_t on, cu_stream_t *stream, const char *what);
/* Does one of the ordinals of these bits, to which `on` does not belong, have a failure?  1 + that
 * ordinal; 0: none has. */
int32_t cu_lost_among(uint64_t waits);

tenon_status_t cu_stream_create(tenon_on_t on, void **out_stream);
void cu_stream_destroy(tenon_on_t on, void *stream);
tenon_status_t cu_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t cu_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t cu_stream_callback(tenon_on_t on, void *stream,
                                  void (*function)(void *, tenon_status_t), void *argument);
tenon_status_t cu_stream_import(tenon_on_t on, void *native, void **out_stream);
tenon_status_t cu_synchronize(tenon_on_t on);

tenon_status_t cu_record_begin(tenon_on_t on, void *stream);
tenon_status_t cu_record_end(tenon_on_t on, void *stream, void **out_recording);
tenon_status_t cu_replay(tenon_on_t on, void *stream, void *recording, uint64_t ticket);
void cu_recording_free(tenon_on_t on, void *recording);

#endif
