/* The devices of TensorFlow that stand for devices of Tenon, and what the units of the plug-in
 * share.
 *
 * A platform of TensorFlow stands for a backend of Tenon, and its devices for the ordinals. Each
 * allocation of TensorFlow is a Tenon tensor, so that Tenon knows which stream uses which memory.
 *
 * Threads: TensorFlow calls from any thread. Platforms and devices do not change once they are
 * made; memory and streams have locks. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_PLUGIN_H
#define BRIDGES_TENSORFLOW_DEVICE_PLUGIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <tenon/tenon.h>

#include "stream_executor.h"
#include "tf.h"

enum {
  PLUGIN_NAME_SIZE = 48,
  PLUGIN_DEVICES_MOST = 16,
  PLUGIN_STREAMS_MOST = 64,
  PLUGIN_ROWS_MOST = 256,
  PLUGIN_OWN_MOST = 4096,
};

typedef struct platform_t platform_t;
typedef struct device_t device_t;

/* A stream of TensorFlow. The stream of Tenon is replaced after a failure, because a stream of
 * Tenon that failed accepts no work. */
typedef struct stream_t {
  device_t *device;
  pthread_mutex_t lock;
  tenon_stream_t *stream;
} stream_t;

typedef struct event_t {
  tenon_event_t *event;
} event_t;

struct device_t {
  platform_t *platform;
  tenon_device_t device;
  tenon_device_info_t info;
  pthread_mutex_t lock;
  stream_t *streams[PLUGIN_STREAMS_MOST];
  int32_t stream_count;
  struct span_t *first_span; /* of the profiler (profiler.c) */
};

struct platform_t {
  char backend[PLUGIN_NAME_SIZE];
  char type[PLUGIN_NAME_SIZE]; /* the device type of TensorFlow: "SIM" */
  int32_t device_count;
  atomic_ullong runs[PLUGIN_ROWS_MOST]; /* of kernels, by row of the table */
  /* Of kernels of Tenon's own operators, by the number that the bridge gives an operator. */
  atomic_ullong own_runs[PLUGIN_OWN_MOST];
  _Atomic(const char *) own_names[PLUGIN_OWN_MOST]; /* NULL: it has not run */
  device_t devices[PLUGIN_DEVICES_MOST];
};

/* ---- errors ---------------------------------------------------------------------------------- */

/* Sets the status of TensorFlow to a status with this thread's message. */
void set_status(tf_status_t *out, tenon_status_t status);

/* ---- devices --------------------------------------------------------------------------------- */

static inline device_t *device_of(const se_device_t *device) { return device->handle; }
/* Fills in the functions for memory, streams, events and copies. */
void fill_executor(se_executor_t *executor);
void fill_memory_functions(se_executor_t *executor);
void fill_copy_functions(se_executor_t *executor);
void fill_stream_functions(se_executor_t *executor);
uint64_t timing_nanoseconds(se_timer_t timing);
/* Registers the kernels of a platform. */
tenon_status_t register_kernels(platform_t *platform);
/* Writes a line for each operator that has run: type, operator, number. Returns the size. */
size_t write_counts(const platform_t *platform, char *out, size_t capacity);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Creates a view of memory that TensorFlow allocated on a device.
 *
 * Errors: TENON_INVALID: the memory does not belong to a device of the plug-in.
 * Ownership: the view keeps the memory also after TensorFlow has freed it. */
tenon_status_t memory_view(const void *address, tenon_dtype_t dtype, int32_t ndim,
                           const int64_t *shape, tenon_tensor_t **out_view);
/* Does the tensor begin where the allocation at this address begins? */
bool memory_is_whole(const void *address, const tenon_tensor_t *tensor);

/* ---- streams --------------------------------------------------------------------------------- */

/* Makes this thread use a stream; returns the stream before, for leave_stream. */
tenon_status_t enter_stream(stream_t *stream, tenon_stream_t **out_before);
void leave_stream(const stream_t *stream, tenon_stream_t *before);
/* Replaces all streams of the device that failed.
 *
 * Returns: the first failure, with its message; TENON_OK if there is none. */
tenon_status_t renew_streams(device_t *device);

#endif
