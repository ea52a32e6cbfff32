/* One ordinal: a GPU with its primary context, which the CUDA runtime and other libraries in the
 * process share.
 *
 * Invariant: each driver call that needs a context is made between cu_enter and cu_leave;
 * afterwards the thread has the context that it had before. */
#ifndef TENON_CUDA_ORDINAL_H
#define TENON_CUDA_ORDINAL_H

#include "api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cu_stream_t;
struct cu_deferred_t;

enum { CU_ORDINALS_MOST = 64 }; /* bits of a cu_stream_t's `waits` */

typedef struct cu_device_t {
  int32_t ordinal; /* the driver's number of the GPU */
  cu_id_t id;
  cu_context_t context;
  cu_native_stream_t service; /* work on tensors is never enqueued here */
  cu_native_event_t base;     /* the origin of event times; guarded by `clock` */
  int64_t base_time;          /* the time of `base` in nanoseconds; guarded by `clock` */
  pthread_mutex_t clock;
  struct cu_stream_t *first; /* the stream NULL */
  /* unfinished streams, including destroyed ones; guarded by cu_lock */
  struct cu_stream_t *streams;
  struct cu_deferred_t *deferred; /* the deferred frees; guarded by cu_lock */
  struct cu_blas_t *_Atomic blas; /* made once, by blas.c */
  struct cu_dnn_t *_Atomic dnn;   /* made once, by dnn.c */
  int arch;                       /* 90 for sm_90 */
  int version;                    /* of the driver, 12080 for CUDA 12.8 */
  uint64_t memory;
  uint32_t units;
  uint32_t group_most;
  uint32_t local_most;
  uint32_t local_plain; /* bytes of group memory that need no attribute */
  bool has_pools;
  char name[200];
  char driver[100];
  char target[100];
} cu_device_t;

extern cu_device_t *_Atomic cu_devices[CU_ORDINALS_MOST]; /* the ordinals that are started */
/* Guards the lists of all ordinals: one ordinal may still read memory that another one frees. */
extern pthread_mutex_t cu_lock;
/* permanent failures of the ordinals' work */
extern _Atomic cu_result_t cu_failures[CU_ORDINALS_MOST];

static inline cu_device_t *cu_device(tenon_on_t on) { return (cu_device_t *)on->state; }

static inline cu_result_t cu_enter(const cu_device_t *device, bool *out_pushed) {
  cu_context_t now = NULL;
  cu_result_t error = cu.CtxGetCurrent(&now);
  *out_pushed = false;
  if (error || now == device->context) return error;
  error = cu.CtxPushCurrent(device->context);
  *out_pushed = !error;
  return error;
}
static inline void cu_leave(bool pushed) {
  cu_context_t ours;
  if (pushed) cu.CtxPopCurrent(&ours);
}
/* Makes one driver call in the context of the device. */
#define CU_IN(device, error, call)                                                                 \
  do {                                                                                             \
    bool pushed_;                                                                                  \
    if (!((error) = cu_enter((device), &pushed_))) {                                               \
      (error) = (call);                                                                            \
      cu_leave(pushed_);                                                                           \
    }                                                                                              \
  } while (0)

#endif
