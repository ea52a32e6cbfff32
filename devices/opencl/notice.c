#include "notice.h"

#include <stdlib.h>

cl_int ocl_event_status(cl_event event) {
  cl_int status = 0;
  cl_int error =
      ocl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
  return error ? error : status;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the lists */
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static ocl_notice_t *notices; /* not delivered yet, for all devices */
static ocl_notice_t *orphans; /* delivered by another thread; the driver may still call */

enum {
  DRIVER = 1 << 16
  /* The reference of the driver is to the structure and not to the event, because the driver may
 * never release it. */
};

static void drop(ocl_notice_t *notice, uint32_t holds) {
  uint32_t left = atomic_fetch_sub(&notice->holds, holds) - holds;
  if (holds == 1 && left % DRIVER == 0) ocl.ReleaseEvent(notice->event);
  if (left == 0) free(notice);
}

void ocl_notice_drop(ocl_notice_t *notice) {
  if (notice) drop(notice, 1);
}

static void link_to(ocl_notice_t *notice, ocl_notice_t **list) {
  if ((notice->next = *list)) notice->next->back = &notice->next;
  notice->back = list;
  *list = notice;
}

static void unlink_from(ocl_notice_t *notice) {
  if ((*notice->back = notice->next)) notice->next->back = notice->back;
}

/* The first thread that comes calls the function. The device may be closed once the notice is off
 * its list. */
static void tell(ocl_notice_t *notice, cl_int status) {
  if (atomic_exchange(&notice->told, true)) return;
  notice->function(notice->argument, status);
  pthread_mutex_lock(&lock);
  unlink_from(notice);
  if ((notice->is_orphan = !notice->driver_came)) link_to(notice, &orphans);
  pthread_cond_broadcast(&told);
  pthread_mutex_unlock(&lock);
  drop(notice, 1);
}

static void driver_came(ocl_notice_t *notice) {
  pthread_mutex_lock(&lock);
  notice->driver_came = true;
  if (notice->is_orphan) unlink_from(notice);
  pthread_mutex_unlock(&lock);
  drop(notice, DRIVER);
}

static void OCL_CALL on_event(cl_event event, cl_int status, void *user) {
  (void)status; /* drivers pass different values here */
  tell((ocl_notice_t *)user, ocl_event_status(event));
  driver_came((ocl_notice_t *)user);
}

cl_int ocl_notice_create(const ocl_device_t *device, cl_event event,
                         void (*function)(void *, cl_int), void *argument,
                         ocl_notice_t **out_notice) {
  ocl_notice_t *notice = (ocl_notice_t *)calloc(1, sizeof *notice);
  if (!notice) return CL_OUT_OF_HOST_MEMORY;
  atomic_store(&notice->holds, DRIVER + (out_notice ? 2 : 1));
  notice->device = device;
  notice->event = event;
  notice->function = function;
  notice->argument = argument;
  ocl.RetainEvent(event);
  pthread_mutex_lock(&lock);
  link_to(notice, &notices);
  pthread_mutex_unlock(&lock);
  cl_int error = ocl.SetEventCallback(event, CL_COMPLETE, on_event, notice);
  if (error) { /* the driver will not call */
    pthread_mutex_lock(&lock);
    bool mine = !atomic_exchange(&notice->told, true);
    if (mine) unlink_from(notice);
    pthread_mutex_unlock(&lock);
    if (mine && out_notice) drop(notice, 1);
    if (mine) drop(notice, 1);
    driver_came(notice);
    if (mine) /* otherwise another thread has found the failed event and delivered the notice */
      return error;
  }
  if (out_notice) *out_notice = notice;
  return CL_SUCCESS;
}

bool ocl_notice_try(ocl_notice_t *notice) {
  cl_int status = ocl_event_status(notice->event);
  if (status <= 0) tell(notice, status);
  return status <= 0;
}

bool ocl_notice_wait(ocl_notice_t *notice) {
  ocl.WaitForEvents(1, &notice->event);
  return ocl_notice_try(notice);
}

void ocl_notice_settle(void) {
  pthread_mutex_lock(&lock);
  for (ocl_notice_t *notice = notices; notice;) {
    if (!notice->told && ocl_event_status(notice->event) < 0) {
      atomic_fetch_add(&notice->holds, 1);
      pthread_mutex_unlock(&lock);
      ocl_notice_try(notice);
      drop(notice, 1);
      pthread_mutex_lock(&lock);
      notice = notices;
    } else {
      notice = notice->next;
    }
  }
  pthread_mutex_unlock(&lock);
}

void ocl_notice_finish(const ocl_device_t *device) {
  ocl_notice_settle();
  pthread_mutex_lock(&lock);
  for (ocl_notice_t *notice = notices; notice;) {
    if (notice->device == device) {
      pthread_cond_wait(&told, &lock);
      notice = notices;
    } else
      notice = notice->next;
  }
  pthread_mutex_unlock(&lock);
}
