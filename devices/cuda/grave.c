#include "grave.h"

#include <stdlib.h>

#include "stream.h"

typedef struct cu_grave_t {
  struct cu_grave_t *next;
  cu_end_fn end;
  void *thing;
} cu_grave_t;

static void end_all(cu_device_t *device) { /* under the lock */
  bool pushed = false;
  if (!device->graves) return;
  cu_result_t error = cu_enter(device, &pushed); /* a lost context keeps what it has */
  for (cu_grave_t *grave = device->graves, *next; grave; grave = next) {
    next = grave->next;
    if (!error) grave->end(grave->thing);
    free(grave);
  }
  device->graves = NULL;
  cu_leave(pushed);
}

/* Work of other ordinals may read what is of this one. */
static bool are_idle(void) {
  bool idle = true;
  for (int i = 0; i < CU_ORDINALS_MOST && idle; i++)
    if (cu_devices[i]) idle = cu_streams_idle(cu_devices[i]);
  return idle;
}

void cu_bury(cu_device_t *device, cu_end_fn end, void *thing) {
  cu_grave_t *grave = (cu_grave_t *)malloc(sizeof *grave);
  if (!grave) { /* of two evils: waits */
    bool pushed;
    if (cu_enter(device, &pushed)) return;
    for (int i = 0; i < CU_ORDINALS_MOST; i++)
      if (cu_devices[i]) cu_streams_finish(cu_devices[i]);
    end(thing);
    cu_leave(pushed);
    return;
  }
  pthread_mutex_lock(&cu_lock);
  *grave = (cu_grave_t){device->graves, end, thing};
  device->graves = grave;
  if (are_idle()) end_all(device);
  pthread_mutex_unlock(&cu_lock);
}

void cu_graves_sweep(cu_device_t *device) {
  pthread_mutex_lock(&cu_lock);
  if (device->graves && are_idle()) end_all(device);
  pthread_mutex_unlock(&cu_lock);
}

void cu_graves_end_all(cu_device_t *device) {
  pthread_mutex_lock(&cu_lock);
  end_all(device);
  pthread_mutex_unlock(&cu_lock);
}
