/* One ordinal: a GPU with its primary context, which CUDA's runtime and other libraries of the
 * process use too. Invariant: a call of the driver that needs a context is made between cu_enter
 * and cu_leave; afterwards the thread has the context that it had before. */
#ifndef TENON_CUDA_DEVICE_H
#define TENON_CUDA_DEVICE_H

#include "api.h"
#include "error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cu_stream_t;
struct cu_grave_t;

enum { CU_ORDINALS_MOST = 64 }; /* bits of a cu_stream_t's `waits` */

typedef struct cu_device_t {
  int32_t ordinal; /* as the driver counts */
  cu_id_t id;
  cu_context_t context;
  cu_native_stream_t service;  /* nothing of tensors is ever enqueued here */
  cu_native_event_t base;      /* what times are counted from; */
  int64_t base_time;           /* and its own, in nanoseconds: both under `clock` */
  pthread_mutex_t clock;       /* */
  struct cu_stream_t *first;   /* the stream NULL */
  struct cu_stream_t *streams; /* all that are not done, the destroyed ones too; under cu_lock */
  struct cu_grave_t
      *graves; /* what was let go while streams had work, see grave.c; under cu_lock */
  struct cu_blas_t *_Atomic blas; /* of blas.c; made once */
  struct cu_dnn_t *_Atomic dnn;   /* of dnn.c; likewise */
  int arch;
  int version; /* 90 of sm_90; of the driver, 12080 */
  uint64_t memory;
  uint32_t units;
  uint32_t group_most;
  uint32_t local_most;
  uint32_t local_plain; /* local_plain: bytes that need no attribute */
  bool has_pools;
  char name[200];
  char driver[100];
  char target[100];
} cu_device_t;

extern cu_device_t *_Atomic cu_devices[CU_ORDINALS_MOST]; /* those that were started */
extern pthread_mutex_t
    cu_lock; /* of all ordinals' lists: what one lets go another may still read */
extern _Atomic cu_result_t cu_failures[CU_ORDINALS_MOST]; /* of their work, for good */

/* Are we still in the process that opened the driver?  It does not work in children of it. */
bool cu_device_here(void);

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
/* One call of the driver in the device's context. */
#define CU_IN(device, error, call)                                                                 \
  do {                                                                                             \
    bool pushed_;                                                                                  \
    if (!((error) = cu_enter((device), &pushed_))) {                                               \
      (error) = (call);                                                                            \
      cu_leave(pushed_);                                                                           \
    }                                                                                              \
  } while (0)

#endif
