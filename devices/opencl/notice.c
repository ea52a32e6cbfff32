#include "notice.h"

#include <stdlib.h>

cl_int ocl_event_status(cl_event event) {
  cl_int status = 0, error = ocl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
  return error ? error : status;
}

void ocl_notice_drop(ocl_notice_t *notice) {
  if (!notice || atomic_fetch_sub(&notice->holds, 1) > 1) return;
  ocl.ReleaseEvent(notice->event);
  free(notice);
}

/* The first who comes calls the function; the device may end when it is off the list. */
static void tell(ocl_notice_t *notice, cl_int status) {
  if (atomic_exchange(&notice->told, true)) return;
  ocl_device_t *device = notice->device;
  notice->function(notice, status);
  pthread_mutex_lock(&device->lock);
  if ((*notice->back = notice->next)) notice->next->back = notice->back;
  pthread_cond_broadcast(&device->noticed);
  pthread_mutex_unlock(&device->lock);
  ocl_notice_drop(notice);
}

/* Drivers differ in the status that they give here. */
static void OCL_CALL on_event(cl_event event, cl_int status, void *user) {
  (void)status;
  tell((ocl_notice_t *)user, ocl_event_status(event));
  ocl_notice_drop((ocl_notice_t *)user);
}

cl_int ocl_notice_create(ocl_device_t *device, cl_event event, void (*function)(ocl_notice_t *, cl_int),
                         void (*callback)(void *, tenon_status_t), void *argument, ocl_notice_t **out_notice) {
  ocl_notice_t *notice = (ocl_notice_t *)calloc(1, sizeof *notice);
  if (!notice) return CL_OUT_OF_HOST_MEMORY;
  atomic_store(&notice->holds, out_notice ? 3 : 2);
  notice->device = device, notice->event = event;
  notice->function = function, notice->callback = callback, notice->argument = argument;
  ocl.RetainEvent(event);
  pthread_mutex_lock(&device->lock);
  if ((notice->next = device->notices)) notice->next->back = &notice->next;
  notice->back = &device->notices, device->notices = notice;
  pthread_mutex_unlock(&device->lock);
  cl_int error = ocl.SetEventCallback(event, CL_COMPLETE, on_event, notice);
  if (error) { /* the driver will not call, nor anybody else */
    pthread_mutex_lock(&device->lock);
    bool mine = !atomic_exchange(&notice->told, true);
    if (mine && (*notice->back = notice->next)) notice->next->back = notice->back;
    pthread_mutex_unlock(&device->lock);
    if (mine) {
      atomic_store(&notice->holds, 1);
      ocl_notice_drop(notice);
      return error;
    }
    ocl_notice_drop(notice); /* told as failed in between: so it is done */
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

void ocl_notice_settle(ocl_device_t *device, bool wait) {
  pthread_mutex_lock(&device->lock);
  for (ocl_notice_t *notice = device->notices; notice;) {
    if (!notice->told && ocl_event_status(notice->event) < 0) {
      atomic_fetch_add(&notice->holds, 1);
      pthread_mutex_unlock(&device->lock);
      tell(notice, ocl_event_status(notice->event));
      ocl_notice_drop(notice);
      pthread_mutex_lock(&device->lock);
      notice = device->notices;
    } else {
      notice = notice->next;
    }
  }
  while (wait && device->notices) pthread_cond_wait(&device->noticed, &device->lock);
  pthread_mutex_unlock(&device->lock);
}
