/* tenon/api/devices.h: devices, their streams and their memory; tensors on devices.  Part of
 * tenon/tenon.h. */
#ifndef TENON_API_DEVICES_H
#define TENON_API_DEVICES_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices --------------------------------------------------------------------------------- */

/* A plug-in (tenon/device.h) serves a device.  Built-in plug-ins are known by their name ("sim",
 * "opencl", ...), others once their library is loaded.
 *
 * Work of a call on a device is enqueued in the stream that its thread uses there, and runs in
 * order. If another stream used the same tensors, the host makes one stream wait for the other.
 * The host waits for data that it reads itself: copies to the CPU, known values, single
 * elements. */

/* Finds a device, opens it if a plug-in serves it, and registers the name of the backend.
 *
 * Arguments: `backend`: "npu"; `ordinal`: 0 to 255. */
TENON_API tenon_status_t tenon_device_find(const char *backend, int32_t ordinal,
                                           tenon_device_t *out_device);

/* Returns the number of ordinals of a backend.  Its plug-in discovers them now. */
TENON_API tenon_status_t tenon_device_count(const char *backend, int32_t *out_count);

/* Reports on all plug-ins: what they found, the properties and the memory of each ordinal, and why
 * others do not work.
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_devices(char **out_text);

/* What is known about a device.  Zero and "" mean "unknown".
 * Ownership: the strings are valid as long as the plug-in. */
typedef struct tenon_device_info_t {
  uint32_t size;       /* Set by the caller. */
  uint32_t features;   /* TENON_DEVICE_... of tenon/device.h: addresses, times, ... */
  const char *backend; /* "npu" */
  const char *name;    /* The hardware: "NVIDIA H200". */
  const char *driver;  /* The driver with its version. */
  const char *target;  /* What compiled code depends on. */
  uint64_t memory;     /* Total bytes. */
  /* Bytes that are free, as the plug-in reports them, or as follows from what the host holds. */
  uint64_t memory_free;
  int32_t ordinal;
  uint32_t units;       /* Number of processors. */
  uint32_t has_streams; /* 1: work is asynchronous. */
  uint32_t has_events;
} tenon_device_info_t;

/* Describes a device of a plug-in, and opens it if it was not used before. */
TENON_API tenon_status_t tenon_device_info(tenon_device_t device, tenon_device_info_t *info);

/* Waits for all streams of a device.
 *
 * Errors: the first failure in any stream, with the operator's name. */
TENON_API tenon_status_t tenon_device_synchronize(tenon_device_t device);

/* Sets the device of calls of this thread that have no tensor arguments and no device attribute; at
 * first the CPU.
 *
 * Threads: thread-local. */
TENON_API tenon_status_t tenon_device_default_set(tenon_device_t device);

/* Returns the name of the index-th backend, in the order in which the names were first used: "cpu",
 * "meta", ...; NULL if `index` is out of range. */
TENON_API const char *tenon_backend_name(int32_t index);

/* Checks that a backend without a plug-in provides what every device must: kernels of
 * core::allocate and core::copy.  A backend with a plug-in always passes.
 *
 * Errors: the message lists what is missing. */
TENON_API tenon_status_t tenon_backend_check(const char *backend);

/* ---- streams --------------------------------------------------------------------------------- */

/* A reference to a stream of a device.  After the last reference is released, enqueued work still
 * completes. */
typedef struct tenon_stream_t tenon_stream_t;
TENON_API tenon_status_t tenon_stream_create(tenon_device_t device, tenon_stream_t **out_stream);

/* Imports a stream of another owner by its native handle (a cl_command_queue, a CUstream).
 *
 * The handle may be reused for another stream after the last reference is released: it is then
 * imported anew.  Memory that was ordered by the released stream remains usable.  Calls on a
 * released stream fail.
 *
 * Ownership: the stream must live until the last reference is released; this release waits for its
 * work. */
TENON_API tenon_status_t tenon_stream_import(tenon_device_t device, void *native,
                                             tenon_stream_t **out_stream);
TENON_API void tenon_stream_retain(tenon_stream_t *stream);
TENON_API void tenon_stream_release(tenon_stream_t *stream);

/* Selects the stream for calls of this thread on a device.
 *
 * Arguments: `stream`: NULL: the device's default stream; `out_before`: receives the previous
 * stream; may be NULL.
 * Ownership: `stream` must outlive its use.
 * Threads: thread-local. */
TENON_API tenon_status_t tenon_stream_use(tenon_device_t device, tenon_stream_t *stream,
                                          tenon_stream_t **out_before);

/* Lends the stream that calls of this thread use on a device. */
TENON_API tenon_status_t tenon_stream_of(tenon_device_t device, tenon_stream_t **out_stream);

/* Waits for the work of a stream.
 *
 * Errors: the failure of its work, with the operator's name.  The failure is permanent. */
TENON_API tenon_status_t tenon_stream_synchronize(tenon_stream_t *stream);

/* Tests whether the work of a stream is done.
 *
 * Returns: TENON_OK if it is; TENON_UNAVAILABLE if it is not done yet; otherwise its failure. */
TENON_API tenon_status_t tenon_stream_query(tenon_stream_t *stream);

/* Makes all later work of `stream` follow the work that is in `of` now.  The streams may belong to
 * any devices. */
TENON_API tenon_status_t tenon_stream_wait(tenon_stream_t *stream, tenon_stream_t *of);

/* ---- events ---------------------------------------------------------------------------------- */

/* A position in the work of a stream.  An event stands for the work that was in the stream when the
 * event was recorded, and not for work that is enqueued later.  On a device with streams but
 * without events (tenon/device.h), a wait or a query may include later work.
 *
 * Threads: several threads may record one event, query it and wait for it at the same time; a wait
 * is for one of the recordings.  No other function may run when the event is released.
 * Errors: of all functions that take an event: TENON_PRECONDITION if its device has stopped, or is
 * lost after a fork.  Then the event can only be released. */
typedef struct tenon_event_t tenon_event_t;

/* Flags of tenon_event_create. */
enum {
  TENON_EVENT_TIMED = 1 /* tenon_event_elapsed can measure its time. */
};

/* Creates an event for streams of a device.
 *
 * Errors: unknown flags; TENON_UNIMPLEMENTED if events of the device have no times and `flags` has
 * TENON_EVENT_TIMED. */
TENON_API tenon_status_t tenon_event_create(tenon_device_t device, uint32_t flags,
                                            tenon_event_t **out_event);

/* Releases an event; NULL is accepted.  Streams that wait for the event continue to wait. */
TENON_API void tenon_event_release(tenon_event_t *event);

/* Makes the event stand for the work that is in `stream` now, also for work of an imported stream's
 * owner.
 *
 * The event may be recorded again, in the same stream or another one.  Streams that wait for it
 * already still wait for the previous position.
 *
 * Errors: a stream of another device; the failure of the stream; a stream that is being captured.
 * The event keeps its previous position then.
 * Ownership: the event holds a reference to the stream until it is recorded elsewhere or released,
 * except to an imported stream, which may be released meanwhile. */
TENON_API tenon_status_t tenon_event_record(tenon_event_t *event, tenon_stream_t *stream);

/* Tests whether the work that the event stands for is done.
 *
 * Returns: TENON_OK if it is, or if the event was never recorded; TENON_UNAVAILABLE if it is not
 * done yet; otherwise the failure of this work, with the operator's name. */
TENON_API tenon_status_t tenon_event_query(tenon_event_t *event);

/* Waits for the work that the event stands for; not at all if the event was never recorded.
 *
 * Errors: the failure of this work, with the operator's name. */
TENON_API tenon_status_t tenon_event_synchronize(tenon_event_t *event);

/* Makes all later work of `stream`, which may belong to any device, follow the work that the event
 * stands for now.  An event that was never recorded has none.
 *
 * The host waits if the event's device has no events, or if `stream` belongs to another plug-in.
 *
 * Errors: the failure of either stream as far as it is known; a stream that is being captured,
 * unless nothing has to be waited for. */
TENON_API tenon_status_t tenon_stream_wait_event(tenon_stream_t *stream, tenon_event_t *event);

/* Measures the time from one event to another, which is negative if `end` happened first.  On a
 * device without streams, whose work is always done, it is the host's time between the recordings.
 *
 * Errors: events of different devices; an event without TENON_EVENT_TIMED; an event that was never
 * recorded; the failure of its work; TENON_UNAVAILABLE if an event is not done yet. */
TENON_API tenon_status_t tenon_event_elapsed(tenon_event_t *begin, tenon_event_t *end,
                                             int64_t *out_nanoseconds);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Statistics of the memory of a device.  The host caches memory: a new tensor reuses the memory of
 * released ones. */
typedef struct tenon_memory_stats_t {
  uint32_t size;       /* Set by the caller. */
  uint32_t segments;   /* Allocations of the device that the host holds. */
  uint64_t live;       /* Allocations of tensors. */
  uint64_t live_bytes; /* Bytes that these tensors requested. */
  uint64_t live_bytes_peak;
  uint64_t reserved; /* Bytes of the device that the host holds. */
  uint64_t reserved_peak;
  uint64_t allocations; /* By tensors. */
  uint64_t frees;       /* By tensors. */
  uint64_t device_allocations;
  uint64_t flushes; /* How often the host returned all cached memory because memory ran out. */
  uint64_t failures;
  uint64_t pinned; /* Bytes of pinned host memory that the host holds. */
  uint64_t pinned_allocations;
} tenon_memory_stats_t;
TENON_API tenon_status_t tenon_memory_stats(tenon_device_t device, tenon_memory_stats_t *stats);

/* Returns cached memory that is not in use to the device. */
TENON_API tenon_status_t tenon_memory_trim(tenon_device_t device);

/* Limits the memory that the host holds of a device.
 *
 * Arguments: `bytes`: 0: no limit. */
TENON_API tenon_status_t tenon_memory_limit_set(tenon_device_t device, uint64_t bytes);

/* ---- tensors on devices ---------------------------------------------------------------------- */

/* Creates a dense tensor in the memory of a device, with undefined contents, by the plug-in's
 * `allocate`, or by the backend's kernel of core::allocate. */
TENON_API tenon_status_t tenon_tensor_create_on(tenon_device_t device, tenon_dtype_t dtype,
                                                int32_t ndim, const int64_t *shape,
                                                tenon_tensor_t **out_tensor);

/* Creates a dense copy on a device, or on the CPU, of a tensor on any device, by the plug-ins'
 * `copy`, or by the backends' kernels of core::copy. */
TENON_API tenon_status_t tenon_tensor_copy_to(const tenon_tensor_t *tensor, tenon_device_t device,
                                              tenon_tensor_t **out_tensor);

/* Creates a tensor over memory of a device: as tenon_tensor_borrow, and for a device with a plug-in
 * as tenon_tensor_import without a stream. */
TENON_API tenon_status_t tenon_tensor_borrow_on(tenon_device_t device, void *data,
                                                tenon_dtype_t dtype, int32_t ndim,
                                                const int64_t *shape, const int64_t *strides,
                                                tenon_free_fn release, void *context,
                                                tenon_tensor_t **out_tensor);

/* Creates a dense host tensor in pinned memory, which copies of the device access directly; in
 * ordinary memory if the device has no pinned memory.  Its contents are undefined.
 *
 * Ownership: the host caches pinned memory as it caches the device's, and reuses it when it has
 * observed that all copies are done. */
TENON_API tenon_status_t tenon_tensor_create_pinned(tenon_device_t device, tenon_dtype_t dtype,
                                                    int32_t ndim, const int64_t *shape,
                                                    tenon_tensor_t **out_tensor);

/* Copies elements between tensors of the same dtype and shape, without waiting.
 *
 * The copy is enqueued in the stream that this thread uses on the device of `to`, or on the device
 * of `from` if `to` is a host tensor.  A copy between two host tensors is done at once.  Copies in
 * different streams from and to one pinned tensor are ordered like work on devices; copies from and
 * to other host memory are not.  The function may wait if either tensor is not dense, or if a
 * device has no plug-in.  Between two plug-ins, copies go through the host in parts of 4 MiB, and
 * the function waits until each part has been read from the source.
 *
 * Errors: different dtypes or shapes; `to` is read-only; out of memory.  Later failures are those
 * of the stream.
 * Ownership: until the stream has passed the copy (tenon_stream_synchronize, or a query that says
 * so), the program must not write to host memory of `from`, and neither read nor write host memory
 * of `to`.  The host keeps memory that the tensors own, or that has a release function, and
 * releases it when it observes that the stream has passed the copy.  The caller keeps views on the
 * stack and memory without a release function. */
TENON_API tenon_status_t tenon_tensor_copy_async(const tenon_tensor_t *from, tenon_tensor_t *to);

/* Sets all elements of a tensor on any device to one value, without waiting.
 *
 * The plug-in's `fill` does it for dense tensors whose elements have up to 8 bytes.  Otherwise the
 * element is copied: by the device if it compiles kernels, or by way of the host, and then the
 * function may wait.  The work is enqueued in the stream that this thread uses on the device.
 *
 * Arguments: `element`: one element of the tensor's dtype in host memory, which may change when the
 * function returns.
 * Errors: TENON_INVALID if the tensor is read-only, a list, has strings or elements of less than 8
 * bits, or is sparse or quantised; out of memory.  Later failures are those of the stream. */
TENON_API tenon_status_t tenon_tensor_fill(tenon_tensor_t *to, const void *element);

#ifdef __cplusplus
}
#endif
#endif
