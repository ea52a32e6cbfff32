/* Who wants to be told when an event is done: callbacks of streams, and waits for events of another
 * context.  Each is told once, by the driver, or by who finds that the event has failed: PoCL 3.1
 * does not tell of failures. */
#ifndef TENON_OPENCL_NOTICE_H
#define TENON_OPENCL_NOTICE_H

#include "device.h"

typedef struct ocl_notice_t {
  _Atomic uint32_t
      holds; /* of the device's list, of entries of streams, of who waits; and DRIVER */
  atomic_bool told;
  const ocl_device_t *device; /* of the event */
  cl_event event;
  void (*function)(void *argument, cl_int status);
  void *argument;
  struct ocl_notice_t *next;
  struct ocl_notice_t **back; /* of the device or of orphans */
  bool driver_came;
  bool is_orphan;
} ocl_notice_t;

cl_int ocl_event_status(cl_event event); /* > 0: not yet, 0: done, < 0: failed */

/* Registers it; takes a hold for the caller where out_notice is not NULL.  Gives OpenCL's error. */
cl_int ocl_notice_create(const ocl_device_t *device, cl_event event,
                         void (*function)(void *argument, cl_int status), void *argument,
                         ocl_notice_t **out_notice);
void ocl_notice_drop(ocl_notice_t *notice); /* of NULL: nothing */
/* Tells, if its event is done or has failed: then true. */
bool ocl_notice_try(ocl_notice_t *notice);
bool ocl_notice_wait(ocl_notice_t *notice); /* waits for its event, then the same */
void ocl_notice_settle(void);               /* tells all whose event has failed */
/* Waits until all of the device's events are told; they are done. */
void ocl_notice_finish(const ocl_device_t *device);

#endif
