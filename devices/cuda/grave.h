/* What was let go while streams have work: CUDA may wait when it frees memory or unloads code, and
 * work may use it yet.  It is ended when all streams of all ordinals are seen to be done. */
#ifndef TENON_CUDA_GRAVE_H
#define TENON_CUDA_GRAVE_H

#include "device.h"

typedef void (*cu_end_fn)(void *thing); /* in the device's context */

void cu_bury(cu_device_t *device, cu_end_fn end, void *thing);
void cu_graves_sweep(cu_device_t *device);   /* ends what can be ended without a wait */
void cu_graves_end_all(cu_device_t *device); /* when all streams are done */

#endif
