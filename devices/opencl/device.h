/* One ordinal: a device of a driver, with a context of its own, so that a failure in one context
 * does not affect the others. */
#ifndef TENON_OPENCL_DEVICE_H
#define TENON_OPENCL_DEVICE_H

#include "api.h"
#include "error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ocl_stream_t;

typedef struct ocl_device_t {
  cl_platform_id platform;
  cl_device_id id;
  cl_context context;
  cl_command_queue service;     /* an empty queue for mapping pinned memory, which blocks */
  struct ocl_stream_t *first;   /* the stream NULL */
  pthread_mutex_t lock;         /* guards `streams` */
  struct ocl_stream_t *streams; /* unfinished streams, including destroyed ones */
  uint32_t walkers;             /* threads that walk the list; no stream is removed meanwhile */
  _Atomic uint64_t
      freed; /* grows with each freed memory object, whose handle another object may get */
  uint64_t memory;
  uint64_t largest;
  uint64_t local_most;
  uint32_t units;
  uint32_t group_most;
  bool unified;
  bool rounds_division;
  uint32_t computes[16];
  uint32_t atomics[8];
  char name[200];
  char driver[300];
  char target[1600];
  bool wide_atomics;
} ocl_device_t;

/* A number or a text about a device; 0 or "" if the driver does not provide it. */
uint64_t ocl_device_number(cl_device_id id, cl_uint what);
void ocl_device_text(cl_device_id id, cl_uint what, char *out, size_t size);

/* Tells whether this is the process that opened the driver. Drivers do not work in child processes
 * of it. */
bool ocl_device_here(void);

static inline ocl_device_t *ocl_device(tenon_on_t on) { return (ocl_device_t *)on->state; }

#endif
