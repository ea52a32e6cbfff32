/* Kernels of Tenon's operators on devices of TensorFlow that another library adds, that is,
 * libtenon_tensorflow_device.so.
 *
 * The device library knows streams and memory, and this bridge knows the operators. The device
 * library calls tenon_tensorflow_place once for each device type. The bridge then registers a
 * kernel for each operator and dtype that the device serves, now and whenever operators are
 * registered later. What is not registered runs on the CPU, where TensorFlow places it. */
#ifndef BRIDGES_TENSORFLOW_PLACE_H
#define BRIDGES_TENSORFLOW_PLACE_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "tf.h"

typedef struct frame_t frame_t; /* one call, as the device library sees it */

/* Work inside of a call. Returns the status that the call reports to TensorFlow. */
typedef tenon_status_t (*place_work_t)(frame_t *frame, void *argument);

/* The device library's side. All functions are called while a kernel runs, on its thread. */
typedef struct device_type_t {
  const char *type;  /* the device type of TensorFlow, such as "SIM"; it must outlive the process */
  const void *state; /* the first argument of `serves` */
  /* Has the device a kernel of this operator for this dtype, such as "f32"? */
  bool (*serves)(const void *state, const tenon_op_t *op, const char *dtype);
  /* Runs the work in the stream of a call, with TensorFlow's memory. Failures are reported to
   * TensorFlow. `index` and `name` are the operator, for counts, profiles and messages. */
  void (*run)(tf_context_t *context, uint32_t index, const char *name, place_work_t work,
              void *argument);
  /* Returns an input. `is_host`: it is in host memory. The frame owns the tensor. */
  tenon_status_t (*read)(frame_t *frame, int input, bool is_host, tenon_tensor_t **out_tensor);
  /* Sets an output. Takes over the tensor. */
  tenon_status_t (*write)(frame_t *frame, int output, tenon_tensor_t *tensor);
} device_type_t;

/* Adds a device type. `place` must outlive the process.
 *
 * Errors: TENON_MEMORY: there are eight device types already. */
TENON_API tenon_status_t tenon_tensorflow_place(const device_type_t *place);

#endif
