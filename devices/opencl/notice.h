/* Notices that an event has finished, for callbacks of streams and for waits for events of another
 * context. Each notice is delivered once: by the driver, or by the thread that finds the event
 * failed, because PoCL 3.1 does not report failures. */
#ifndef TENON_OPENCL_NOTICE_H
#define TENON_OPENCL_NOTICE_H

#include "device.h"

typedef struct ocl_notice_t {
  _Atomic uint32_t
      holds; /* references of the device's list, of stream entries and of waiters; and DRIVER */
  atomic_bool told;
  const ocl_device_t *device; /* the device of the event */
  cl_event event;
  void (*function)(void *argument, cl_int status);
  void *argument;
  struct ocl_notice_t *next;
  struct ocl_notice_t **back; /* of the device or of orphans */
  bool driver_came;
  bool is_orphan;
} ocl_notice_t;

cl_int ocl_event_status(cl_event event); /* > 0: not yet, 0: done, < 0: failed */

/* Registers the notice. If out_notice is not NULL, the caller gets a reference. Returns the error
 * of OpenCL. */
cl_int ocl_notice_create(const ocl_device_t *device, cl_event event,
                         void (*function)(void *argument, cl_int status), void *argument,
                         ocl_notice_t **out_notice);
void ocl_notice_drop(ocl_notice_t *notice); /* of NULL: nothing */
/* Delivers the notice if its event has finished or failed, and then returns true. */
bool ocl_notice_try(ocl_notice_t *notice);
bool ocl_notice_wait(ocl_notice_t *notice); /* waits for the event, then does the same */
void ocl_notice_settle(void);               /* delivers all notices whose event has failed */
/* Waits until the notices of all events of the device are delivered and finished. */
void ocl_notice_finish(const ocl_device_t *device);

#endif
