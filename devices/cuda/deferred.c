#include "deferred.h"

#include <stdlib.h>

#include "stream.h"

typedef struct cu_deferred_t {
  struct cu_deferred_t *next;
  cu_end_fn end;
  void *thing;
} cu_deferred_t;

static void end_all(cu_device_t *device) { /* under cu_lock */
  bool pushed = false;
  if (!device->deferred) return;
  /* If the context is lost, its objects are leaked. */
  cu_result_t error = cu_enter(device, &pushed);
  for (cu_deferred_t *entry = device->deferred, *next; entry; entry = next) {
    next = entry->next;
    if (!error) entry->end(entry->thing);
    free(entry);
  }
  device->deferred = NULL;
  cu_leave(pushed);
}

/* Tells whether no ordinal has work, because work of other ordinals may use this one's memory. */
static bool are_idle(void) {
  bool idle = true;
  for (int i = 0; i < CU_ORDINALS_MOST && idle; i++)
    if (cu_devices[i]) idle = cu_streams_idle(cu_devices[i]);
  return idle;
}

void cu_defer_free(cu_device_t *device, cu_end_fn end, void *thing) {
  cu_deferred_t *entry = (cu_deferred_t *)malloc(sizeof *entry);
  if (!entry) { /* without memory for the list, wait */
    bool pushed;
    if (cu_enter(device, &pushed)) return;
    for (int i = 0; i < CU_ORDINALS_MOST; i++)
      if (cu_devices[i]) cu_streams_finish(cu_devices[i]);
    end(thing);
    cu_leave(pushed);
    return;
  }
  pthread_mutex_lock(&cu_lock);
  *entry = (cu_deferred_t){device->deferred, end, thing};
  device->deferred = entry;
  if (are_idle()) end_all(device);
  pthread_mutex_unlock(&cu_lock);
}

void cu_deferred_free_idle(cu_device_t *device) {
  pthread_mutex_lock(&cu_lock);
  if (device->deferred && are_idle()) end_all(device);
  pthread_mutex_unlock(&cu_lock);
}

void cu_deferred_free_all(cu_device_t *device) {
  pthread_mutex_lock(&cu_lock);
  end_all(device);
  pthread_mutex_unlock(&cu_lock);
}
