/* TensorFlow's C interface for devices (StreamExecutor C API 0.0.1), as far as the plug-in uses it.
 *
 * Written from the interface's facts, so that nothing of TensorFlow is needed to compile the
 * plug-in. Every structure begins with its size: TensorFlow fills in its own, the plug-in replaces
 * it by the size that it knows. TensorFlow reads no field beyond its own size. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_STREAM_EXECUTOR_H
#define BRIDGES_TENSORFLOW_DEVICE_STREAM_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>

#include "tf.h"

/* The size of a structure up to its last field, without padding after it. */
#define SE_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

enum { SE_MAJOR = 0 }; /* the version that the structures below belong to */

/* The plug-in's own structures, which TensorFlow hands back. */
typedef struct stream_t *se_stream_t;
typedef struct event_t *se_event_t;
typedef struct timing_t *se_timer_t;

enum { SE_EVENT_UNKNOWN, SE_EVENT_ERROR, SE_EVENT_PENDING, SE_EVENT_COMPLETE };

typedef struct se_timer_functions_t {
  size_t size;
  void *extension;
  uint64_t (*nanoseconds)(se_timer_t timer);
} se_timer_functions_t;

typedef struct se_allocator_stats_t {
  size_t size;
  int64_t allocation_count;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  int64_t largest_allocation;
  int8_t has_limit;
  int64_t limit;
  int64_t bytes_reserved;
  int64_t peak_bytes_reserved;
  int8_t has_reservable_limit;
  int64_t reservable_limit;
  int64_t largest_free_block;
} se_allocator_stats_t;

typedef struct se_memory_t {
  size_t size;
  void *extension;
  void *address; /* NULL: allocation failed */
  uint64_t byte_size;
  uint64_t payload;
} se_memory_t;

typedef struct se_device_t {
  size_t size;
  void *extension;
  int32_t ordinal;
  void *handle;              /* the plug-in's device_t */
  const char *hardware_name; /* the strings are for printing; NULL: none */
  const char *vendor;
  const char *bus_id;
} se_device_t;

typedef struct se_create_device_t {
  size_t size;
  void *extension;
  int32_t ordinal;
  se_device_t *device; /* filled in by the plug-in */
} se_create_device_t;

typedef struct se_device_functions_t {
  size_t size;
  void *extension;
  int32_t (*numa_node)(const se_device_t *device);
  int64_t (*bandwidth)(const se_device_t *device);
  double (*gflops)(const se_device_t *device);
} se_device_functions_t;

typedef struct se_create_device_functions_t {
  size_t size;
  void *extension;
  se_device_functions_t *functions; /* filled in by the plug-in */
} se_create_device_functions_t;

typedef void (*se_callback_t)(void *argument, tf_status_t *status);

typedef struct se_executor_t {
  size_t size;
  void *extension;
  void (*allocate)(const se_device_t *device, uint64_t bytes, int64_t space, se_memory_t *out);
  void (*deallocate)(const se_device_t *device, se_memory_t *memory);
  void *(*host_allocate)(const se_device_t *device, uint64_t bytes);
  void (*host_deallocate)(const se_device_t *device, void *memory);
  void *(*unified_allocate)(const se_device_t *device, uint64_t bytes);
  void (*unified_deallocate)(const se_device_t *device, void *memory);
  uint8_t (*allocator_stats)(const se_device_t *device, se_allocator_stats_t *stats);
  uint8_t (*memory_usage)(const se_device_t *device, int64_t *out_free, int64_t *out_total);
  void (*create_stream)(const se_device_t *device, se_stream_t *out, tf_status_t *status);
  void (*destroy_stream)(const se_device_t *device, se_stream_t stream);
  void (*stream_wait)(const se_device_t *device, se_stream_t stream, se_stream_t of,
                      tf_status_t *status);
  void (*stream_status)(const se_device_t *device, se_stream_t stream, tf_status_t *status);
  void (*create_event)(const se_device_t *device, se_event_t *out, tf_status_t *status);
  void (*destroy_event)(const se_device_t *device, se_event_t event);
  int (*event_status)(const se_device_t *device, se_event_t event);
  void (*record_event)(const se_device_t *device, se_stream_t stream, se_event_t event,
                       tf_status_t *status);
  void (*stream_wait_event)(const se_device_t *device, se_stream_t stream, se_event_t event,
                            tf_status_t *status);
  void (*create_timer)(const se_device_t *device, se_timer_t *out, tf_status_t *status);
  void (*destroy_timer)(const se_device_t *device, se_timer_t timer);
  void (*start_timer)(const se_device_t *device, se_stream_t stream, se_timer_t timer,
                      tf_status_t *status);
  void (*stop_timer)(const se_device_t *device, se_stream_t stream, se_timer_t timer,
                     tf_status_t *status);
  void (*copy_out)(const se_device_t *device, se_stream_t stream, void *to, const se_memory_t *from,
                   uint64_t bytes, tf_status_t *status);
  void (*copy_in)(const se_device_t *device, se_stream_t stream, se_memory_t *to, const void *from,
                  uint64_t bytes, tf_status_t *status);
  void (*copy_within)(const se_device_t *device, se_stream_t stream, se_memory_t *to,
                      const se_memory_t *from, uint64_t bytes, tf_status_t *status);
  void (*copy_out_now)(const se_device_t *device, void *to, const se_memory_t *from, uint64_t bytes,
                       tf_status_t *status);
  void (*copy_in_now)(const se_device_t *device, se_memory_t *to, const void *from, uint64_t bytes,
                      tf_status_t *status);
  void (*copy_within_now)(const se_device_t *device, se_memory_t *to, const se_memory_t *from,
                          uint64_t bytes, tf_status_t *status);
  void (*wait_for_event)(const se_device_t *device, se_event_t event, tf_status_t *status);
  void (*wait_for_stream)(const se_device_t *device, se_stream_t stream, tf_status_t *status);
  void (*wait_for_device)(const se_device_t *device, tf_status_t *status);
  void (*fill_zero)(const se_device_t *device, se_stream_t stream, se_memory_t *to, uint64_t bytes,
                    tf_status_t *status);
  void (*fill_bytes)(const se_device_t *device, se_stream_t stream, se_memory_t *to,
                     uint8_t pattern, uint64_t bytes, tf_status_t *status);
  void (*fill_words)(const se_device_t *device, se_stream_t stream, se_memory_t *to,
                     uint32_t pattern, uint64_t bytes, tf_status_t *status);
  uint8_t (*callback)(const se_device_t *device, se_stream_t stream, se_callback_t function,
                      void *argument);
} se_executor_t;

typedef struct se_create_executor_t {
  size_t size;
  void *extension;
  se_executor_t *executor; /* filled in by the plug-in */
} se_create_executor_t;

typedef struct se_platform_t {
  size_t size;
  void *extension;
  const char *name; /* capital letters and '_', as `type` */
  const char *type; /* the device type of tf.config.list_physical_devices() */
  uint8_t has_unified_memory;
  uint8_t has_suballocator; /* 1: TensorFlow divides large allocations itself */
  uint8_t grows;            /* 1: TensorFlow does not take all memory at the start */
} se_platform_t;

typedef struct se_platform_functions_t {
  size_t size;
  void *extension;
  void (*device_count)(const se_platform_t *platform, int *out_count, tf_status_t *status);
  void (*create_device)(const se_platform_t *platform, se_create_device_t *call,
                        tf_status_t *status);
  void (*destroy_device)(const se_platform_t *platform, se_device_t *device);
  void (*create_device_functions)(const se_platform_t *platform, se_create_device_functions_t *call,
                                  tf_status_t *status);
  void (*destroy_device_functions)(const se_platform_t *platform, se_device_functions_t *functions);
  void (*create_executor)(const se_platform_t *platform, se_create_executor_t *call,
                          tf_status_t *status);
  void (*destroy_executor)(const se_platform_t *platform, se_executor_t *executor);
  void (*create_timer_functions)(const se_platform_t *platform, se_timer_functions_t *functions,
                                 tf_status_t *status);
  void (*destroy_timer_functions)(const se_platform_t *platform, se_timer_functions_t *functions);
} se_platform_functions_t;

typedef struct se_registration_t {
  size_t size;
  void *extension;
  int32_t major;
  int32_t minor;
  int32_t patch;
  se_platform_t *platform;            /* filled in by the plug-in */
  se_platform_functions_t *functions; /* filled in by the plug-in */
  void (*destroy_platform)(se_platform_t *platform);
  void (*destroy_functions)(se_platform_functions_t *functions);
} se_registration_t;

/* ---- layouts --------------------------------------------------------------------------------- */

#define SE_AT(type, field, offset)                                                                 \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " lies elsewhere")
SE_AT(se_allocator_stats_t, limit, 48);
SE_AT(se_allocator_stats_t, largest_free_block, 88);
SE_AT(se_memory_t, payload, 32);
SE_AT(se_device_t, handle, 24);
SE_AT(se_device_t, bus_id, 48);
SE_AT(se_executor_t, create_stream, 80);
SE_AT(se_executor_t, copy_out, 184);
SE_AT(se_executor_t, callback, 280);
SE_AT(se_platform_t, grows, 34);
SE_AT(se_platform_functions_t, destroy_timer_functions, 80);
SE_AT(se_registration_t, platform, 32);

#endif
