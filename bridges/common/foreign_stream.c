/* Finds and imports streams of frameworks; see foreign_stream.h. Invariant: an entry is complete
 * before it is reachable, and is never changed or removed. */
#include "common/foreign_stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifdef FOREIGN_STREAM_HOST /* a library that calls libtenon through the table `host` */
#include FOREIGN_STREAM_HOST
#define tenon_stream_import host.tenon_stream_import
#define tenon_error_set host.tenon_error_set
#endif

typedef struct foreign_stream_t {
  struct foreign_stream_t *next;
  tenon_device_t device;
  void *native;
  tenon_stream_t *stream;
} foreign_stream_t;

static _Atomic(foreign_stream_t *) streams; /* the newest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static tenon_stream_t *find_known(tenon_device_t device, const void *native) {
  const foreign_stream_t *s = atomic_load_explicit(&streams, memory_order_acquire);
  while (s && !(s->native == native && s->device.type == device.type && s->device.id == device.id))
    s = s->next;
  return s ? s->stream : NULL;
}

static tenon_status_t import_stream(tenon_device_t device, void *native,
                                    tenon_stream_t **out_stream) {
  foreign_stream_t *made = calloc(1, sizeof *made);
  if (!made) return tenon_error_set(TENON_MEMORY, "out of memory: a stream");
  *made = (foreign_stream_t){.device = device, .native = native};
  const tenon_status_t status = tenon_stream_import(device, native, &made->stream);
  if (status != TENON_OK) {
    free(made);
    return status;
  }
  made->next = atomic_load_explicit(&streams, memory_order_relaxed);
  atomic_store_explicit(&streams, made, memory_order_release);
  *out_stream = made->stream;
  return TENON_OK;
}

tenon_status_t foreign_stream_find(tenon_device_t device, void *native,
                                   tenon_stream_t **out_stream) {
  *out_stream = find_known(device, native);
  if (*out_stream) return TENON_OK;
  pthread_mutex_lock(&lock);
  *out_stream = find_known(device, native);
  const tenon_status_t status = *out_stream ? TENON_OK : import_stream(device, native, out_stream);
  pthread_mutex_unlock(&lock);
  return status;
}
