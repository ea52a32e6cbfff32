/* Operators of Tenon that bridges/tensorflow registers with TensorFlow: their kernels for the
 * devices of this plug-in. The bridge reads nodes and calls operators; this file lends it streams
 * and memory. */
#include <stdlib.h>

#include "frame.h"
#include "kernel.h"
#include "place.h"

static bool serves_own(const void *platform, const tenon_op_t *op, const char *dtype) {
  return has_kernel(platform, op, dtype);
}

static void count_own(platform_t *platform, uint32_t index, const char *name) {
  if (index >= PLUGIN_OWN_MOST) return;
  atomic_store_explicit(&platform->own_names[index], name, memory_order_relaxed);
  atomic_fetch_add_explicit(&platform->own_runs[index], 1, memory_order_relaxed);
}

typedef struct own_call_t {
  uint32_t index;
  const char *name;
  place_work_t work;
  void *argument;
} own_call_t;

static tenon_status_t run_work(frame_t *frame, void *argument) {
  const own_call_t *call = argument;
  count_own(frame->device->platform, call->index, call->name);
  return call->work(frame, call->argument);
}

static void run_own(tf_context_t *context, uint32_t index, const char *name, place_work_t work,
                    void *argument) {
  own_call_t call = {index, name, work, argument};
  frame_run(context, name, false, run_work, &call);
}

static tenon_status_t read_own(frame_t *frame, int input, bool is_host,
                               tenon_tensor_t **out_tensor) {
  value_t value;
  const tenon_status_t status = frame_read(frame, input, is_host, &value);
  if (status == TENON_OK) *out_tensor = value.tensor;
  return status;
}

static tenon_status_t write_own(frame_t *frame, int output, tenon_tensor_t *tensor) {
  value_t held;
  const tenon_status_t status = frame_hold(frame, tensor, &held);
  return status == TENON_OK ? frame_set_result(frame, output, tensor) : status;
}

tenon_status_t register_own(const platform_t *platform) {
  device_type_t *place = malloc(sizeof *place); /* never freed, as the platform */
  if (!place) return tenon_error_set(TENON_MEMORY, "out of memory: a device type");
  *place = (device_type_t){.type = platform->type,
                           .state = platform,
                           .serves = serves_own,
                           .run = run_own,
                           .read = read_own,
                           .write = write_own};
  const tenon_status_t status = tenon_tensorflow_place(place);
  if (status != TENON_OK) free(place);
  return status;
}
