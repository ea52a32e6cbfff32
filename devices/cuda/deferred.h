/* Deferred frees. Freeing memory or unloading code in CUDA may block, and enqueued work may still
 * use the object. An object that is freed while streams have work is therefore put into a list, and
 * freed when all streams of all ordinals are seen to be finished. */
#ifndef TENON_CUDA_DEFERRED_H
#define TENON_CUDA_DEFERRED_H

#include "ordinal.h"

typedef void (*cu_end_fn)(void *thing); /* called in the context of the device */

void cu_defer_free(cu_device_t *device, cu_end_fn end, void *thing);
void cu_deferred_free_idle(cu_device_t *device); /* frees what can be freed without waiting */
void cu_deferred_free_all(cu_device_t *device);  /* all streams are finished */

#endif
