/* Kernels of the table: a plan with the attributes of one node. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_RUN_H
#define BRIDGES_TENSORFLOW_DEVICE_RUN_H

#include "frame.h"

typedef struct kernel_t {
  const plan_t *plan;
  tenon_dtype_t dtype; /* of numbers that stand for tensors */
  value_t attributes[PLAN_ATTRIBUTES_MOST];
} kernel_t;

/* Calls an operator of Tenon by name, for functions of formulas. */
tenon_status_t frame_call(frame_t *frame, const char *op, const tenon_value_t *values,
                          uint32_t count, value_t *out);
/* Computes a kernel. Failures are reported to TensorFlow. */
void run_kernel(const kernel_t *kernel, tf_context_t *context);

#endif
