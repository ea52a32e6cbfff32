/* tenon/api/external.h: memory, allocators and streams of other frameworks on devices; DLPack
 * (docs/exchange.md).  Part of tenon/tenon.h. */
#ifndef TENON_API_EXTERNAL_H
#define TENON_API_EXTERNAL_H

#include <tenon/api/devices.h>
#include <tenon/api/export.h>
#include <tenon/api/tensors.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

/* Flags of external memory. */
enum {
  /* Calls that would write to the memory fail.  Outputs that are passed to tenon_op_run,
   * tenon_bound_run or tenon_executable_run are not checked. */
  TENON_EXTERNAL_READ_ONLY = 1
};

/* Memory of another owner, such as a framework. */
typedef struct tenon_external_t {
  uint32_t size;
  uint32_t flags; /* TENON_EXTERNAL_... */
  tenon_device_t device;
  void *data;           /* An address; a native object (a cl_mem) if the memory has no addresses. */
  uint64_t byte_offset; /* Bytes from `data` to the first element. */
  tenon_dtype_t dtype;
  int32_t ndim;
  const int64_t *shape;   /* Copied. */
  const int64_t *strides; /* In elements; NULL: dense.  Copied. */
  tenon_stream_t *stream; /* The owner's stream, from tenon_stream_import; may be NULL. */
  /* The host calls release(context) once, on any thread, without holding locks.  NULL: never. */
  tenon_free_fn release;
  void *context;
} tenon_external_t;

/* Creates a tensor over memory of another owner, without a copy.
 *
 * With `stream`, work on the tensor in other streams follows the work that is in `stream` now,
 * including writes by the owner.  The host does not know what the owner enqueues later; call
 * tenon_stream_wait to order it.  Without `stream`, the memory must be ready, or ready when the
 * stream that this thread uses reaches the work.
 *
 * The host calls `release` after the last reference is gone.  With `stream`, it first makes
 * `stream` follow all work on the memory, so that the owner may reuse the memory for what it
 * enqueues there, or at once if it frees memory in stream order.  If the stream cannot follow,
 * because it ended, failed, or its device has no events, the host waits first.  Without `stream`,
 * the host calls `release` when it observes that all work on the memory is done: at the next
 * allocation, synchronisation or tenon_memory_trim of the device.  When the device stops, the host
 * waits.
 *
 * Errors: the caller still owns the memory.  The device has no plug-in that accepts it; the stream
 * belongs to another device; the plug-in says that the memory is not its own, belongs to another
 * context, or is too small; the first element is not aligned; shape and strides address memory
 * before the start or beyond its end; the device does not store the dtype. */
TENON_API tenon_status_t tenon_tensor_import(const tenon_external_t *external,
                                             tenon_tensor_t **out_tensor);

/* Returns the context of imported memory.
 *
 * Returns: the `context` that was passed to tenon_tensor_import together with `release`, also for a
 * view of such a tensor; NULL if the tensor has other memory.
 * Ownership: valid as long as the tensor. */
TENON_API void *tenon_tensor_context(const tenon_tensor_t *tensor, tenon_free_fn release);

/* ---- allocators ------------------------------------------------------------------------------ */

/* An allocator of another owner, for the tensors that calls create on devices with a plug-in:
 * results, temporaries, copies. */
typedef struct tenon_allocator_t {
  /* Creates a dense tensor on the device with tenon_tensor_import, or leaves *out_tensor NULL so
   * that the host creates it.  The host does not call it for tensors without elements.
   * Errors: *out_why says why; the string is valid until the thread's next call.
   * Threads: any thread that works for the thread that set the allocator, without holding locks. */
  tenon_status_t (*create)(void *state, tenon_device_t device, tenon_dtype_t dtype, int32_t ndim,
                           const int64_t *shape, tenon_tensor_t **out_tensor, const char **out_why);
  void *state;
} tenon_allocator_t;

/* Sets the allocator for calls of this thread.
 *
 * A call fails if a tensor from the allocator does not fit, is read-only, or is not aligned to 64
 * bytes.
 *
 * Arguments: NULL: the host's own allocator.
 * Returns: the previous allocator.
 * Ownership: `allocator` must outlive its use.
 * Threads: thread-local. */
TENON_API const tenon_allocator_t *tenon_allocator_use(const tenon_allocator_t *allocator);

/* ---- DLPack on devices ----------------------------------------------------------------------- */

/* Flags of export. */
enum {
  TENON_DLPACK_UNORDERED = 1, /* Does not order any streams (stream=-1). */
  TENON_DLPACK_COPY = 2       /* Exports a copy (copy=True). */
};

/* Options of import and export.
 * Source: `__dlpack__(stream=..., copy=...)` of the array API standard. */
typedef struct tenon_dlpack_t {
  uint32_t size;
  uint32_t flags; /* TENON_DLPACK_... */
  /* Import: the expected device.  Type 0: the device of the tensor.  Devices of type 12 that come
   * from others must be stated here. */
  tenon_device_t device;
  /* The consumer's stream, from tenon_stream_import: of the number for CUDA (None is 1), of the
   * native stream for others.  May be NULL. */
  tenon_stream_t *stream;
} tenon_dlpack_t;

/* Imports a DLPack tensor on a device.
 *
 * The producer has made `stream` follow its work.  A read-only tensor stays read-only.  The device
 * must be open (tenon_device_find).
 *
 * Arguments: `options`: NULL: defaults.
 * Ownership: the host calls the deleter as tenon_tensor_import calls `release`. */
TENON_API tenon_status_t tenon_tensor_from_dlpack_on(struct DLManagedTensorVersioned *managed,
                                                     const tenon_dlpack_t *options,
                                                     tenon_tensor_t **out_tensor);
TENON_API tenon_status_t tenon_tensor_from_dlpack_legacy_on(struct DLManagedTensor *managed,
                                                            const tenon_dlpack_t *options,
                                                            tenon_tensor_t **out_tensor);

/* Exports a tensor on a device as a DLPack structure.
 *
 * With a stream, the consumer's stream follows all work on the memory so far, and the host does not
 * wait.  The host holds the stream until the consumer calls the deleter; it then reuses the memory
 * after the work that is in the stream at that time.  Without a stream, the host waits for the
 * work, and the consumer's work must be done when it calls the deleter.
 *
 * device.type and device.id are those of DLPack: 2 for CUDA, 4 for OpenCL, 12 with a number of this
 * process for others.  `data` is an address and byte_offset is 0; or `data` is a native object and
 * byte_offset the offset in it.  A read-only tensor is marked read-only.
 *
 * Errors: the stream belongs to another device; the tensor is a list, has strings, is quantised, or
 * is a view on the stack; legacy form: the tensor is read-only, which the legacy form cannot
 * express. */
TENON_API tenon_status_t tenon_tensor_to_dlpack_on(tenon_tensor_t *tensor,
                                                   const tenon_dlpack_t *options,
                                                   struct DLManagedTensorVersioned **out_managed);
TENON_API tenon_status_t tenon_tensor_to_dlpack_legacy_on(tenon_tensor_t *tensor,
                                                          const tenon_dlpack_t *options,
                                                          struct DLManagedTensor **out_managed);

#ifdef __cplusplus
}
#endif
#endif
