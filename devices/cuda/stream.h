/* A stream is a CUDA stream plus the set of other ordinals that it has waited for. Work that fails
 * loses the whole context of its GPU with all its streams. A stream of another ordinal that had
 * waited for such work fails too. CUDA does not say which work failed. */
#ifndef TENON_CUDA_STREAM_H
#define TENON_CUDA_STREAM_H

#include "ordinal.h"

typedef struct cu_stream_t {
  cu_device_t *device;
  cu_native_stream_t native;
  /* bit i: followed an event of ordinal i since it was last seen finished */
  _Atomic uint64_t waits;
  /* 1 + the ordinal whose loss made this stream fail, permanently; 0: none */
  _Atomic int32_t failed_by;
  bool imported;            /* owned by other code */
  bool destroyed;           /* no longer wanted; guarded by cu_lock */
  pthread_mutex_t lock;     /* guards the three fields below */
  _Atomic bool capturing;   /* work is captured into a graph */
  bool left;                /* imported, and returned to its owner */
  cu_native_event_t before; /* used by both: an event after the earlier work; NULL: not made yet */
  struct cu_stream_t *next; /* next stream of the device, under cu_lock */
} cu_stream_t;

static inline cu_stream_t *cu_stream(tenon_on_t on, void *stream) {
  return stream ? (cu_stream_t *)stream : cu_device(on)->first;
}
/* Creates a stream with a CUDA stream of its own, or around an imported one, and adds it to the
 * list of the device. */
tenon_status_t cu_stream_open(tenon_on_t on, cu_native_stream_t imported, cu_stream_t **out_stream);
bool cu_streams_idle(cu_device_t *device);   /* call this under cu_lock */
void cu_streams_finish(cu_device_t *device); /* waits for all streams, including destroyed ones */
/* Waits for all streams. Fails with the failure of a stream that has not been destroyed. */
tenon_status_t cu_streams_synchronize(tenon_on_t on);
void cu_streams_close(cu_device_t *device); /* frees all streams; they are finished */

/* Call this before enqueueing anything: fails with the failure of the stream. */
tenon_status_t cu_stream_check(tenon_on_t on, cu_stream_t *stream);
/* The same, for operations that cannot be captured. */
tenon_status_t cu_stream_check_direct(tenon_on_t on, cu_stream_t *stream, const char *what);
/* Returns 1 + an ordinal of the set `waits` whose work has failed; 0: none has failed. */
int32_t cu_lost_among(uint64_t waits);

tenon_status_t cu_stream_create(tenon_on_t on, void **out_stream);
void cu_stream_destroy(tenon_on_t on, void *stream);
tenon_status_t cu_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t cu_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t cu_stream_callback(tenon_on_t on, void *stream,
                                  void (*function)(void *, tenon_status_t), void *argument);
tenon_status_t cu_stream_import(tenon_on_t on, void *native, void **out_stream);

#endif
