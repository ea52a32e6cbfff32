/* Who wants to be told when an event is done: callbacks of streams, and waits for events of another context.  Each is told
 * once, by the driver, or by who finds that the event has failed: PoCL 3.1 does not tell of failures. */
#ifndef TENON_OPENCL_NOTICE_H
#define TENON_OPENCL_NOTICE_H

#include "device.h"

typedef struct ocl_notice_t {
  _Atomic uint32_t holds; /* of the device's list, of entries of streams, of who waits; and DRIVER */
  atomic_bool told;
  cl_event event;
  void (*function)(struct ocl_notice_t *notice, cl_int status);
  void (*callback)(void *argument, tenon_status_t status); /* for a callback, with its argument */
  void *argument;                                          /* else the event of the user (cl_event) that is set */
  struct ocl_notice_t *next, **back;                       /* of the device or of orphans */
  bool driver_came, is_orphan;
} ocl_notice_t;

cl_int ocl_event_status(cl_event event); /* > 0: not yet, 0: done, < 0: failed */

/* Registers it; takes a hold for the caller where out_notice is not NULL.  Gives OpenCL's error. */
cl_int ocl_notice_create(ocl_device_t *device, cl_event event, void (*function)(ocl_notice_t *, cl_int),
                         void (*callback)(void *, tenon_status_t), void *argument, ocl_notice_t **out_notice);
void ocl_notice_drop(ocl_notice_t *notice); /* of NULL: nothing */
bool ocl_notice_try(ocl_notice_t *notice);  /* tells, if its event is done or has failed: then true */
bool ocl_notice_wait(ocl_notice_t *notice); /* waits for its event, then the same */
/* Tells all whose event has failed; with `wait` waits for the driver to tell the others, whose events are done. */
void ocl_notice_settle(ocl_device_t *device, bool wait);

#endif
