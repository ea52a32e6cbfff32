/* Calls on devices: the Tenon device and stream of a frame whose buffers are in a device's memory,
 * and which calls XLA may capture in a command buffer (a CUDA graph). */
#ifndef BRIDGES_JAX_DEVICE_H
#define BRIDGES_JAX_DEVICE_H

#include "call.h"

/* A custom call's target: what the handler of one of XLA's platforms is for. */
typedef struct target_t {
  const char *backend; /* Tenon's backend; NULL: the buffers are in host memory */
  bool is_captured;    /* XLA may capture the calls in a command buffer */
} target_t;

/* Where a call runs. */
typedef struct call_device_t {
  tenon_device_t device;
  tenon_stream_t *stream; /* around XLA's; borrowed */
  tenon_stream_t *stream_before;
  const tenon_allocator_t *allocator_before;
  bool is_captured;
} call_device_t;

/* Makes calls of this thread on the frame's device use the frame's stream until call_leave_device.
 * Opens the device, and registers the fallback to the CPU for it, when it is first needed.
 *
 * Errors: XLA reports no stream or no device; the device does not work. Nothing has changed. */
tenon_status_t call_enter_device(call_device_t *device, const target_t *target,
                                 const xla_frame_t *frame);
void call_leave_device(const call_device_t *device);

/* Creates a tensor over memory of the device, which XLA owns.
 * Arguments: `strides`: NULL: dense. */
tenon_status_t call_import(const call_device_t *device, void *data, tenon_dtype_t dtype,
                           int32_t ndim, const int64_t *shape, const int64_t *strides,
                           tenon_tensor_t **out_tensor);

/* Runs a call on the buffers of a frame. `device`: where they are; NULL: in host memory. */
tenon_status_t call_run(const call_t *call, const xla_frame_t *frame, const call_device_t *device);

/* Returns whether a backend serves calls of an operator, whose operands have these dtypes, by a
 * kernel with the word `capturable`: without memory of its own, the host or a fallback. A backend
 * that is not open yet may have more kernels than are known. */
bool call_has_captured_kernel(const tenon_op_t *op, const char *backend,
                              const tenon_dtype_t *dtypes, size_t count);

/* Checks that XLA may capture a call: it only enqueues work in its stream, the same each time.
 * Errors: UNIMPLEMENTED: the call needs the target that is not captured. */
tenon_status_t call_check_capture(const call_t *call, const target_t *target,
                                  const xla_frame_t *frame);

/* Handles a frame of a target; returns NULL or an error of XLA. */
xla_error_t *call_handle(const target_t *target, xla_frame_t *frame);

#endif
