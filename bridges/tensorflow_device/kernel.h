/* Registration of kernels with TensorFlow. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_KERNEL_H
#define BRIDGES_TENSORFLOW_DEVICE_KERNEL_H

#include "plan.h"
#include "plugin.h"

enum { KERNEL_CONSTRAINTS_MOST = 3, KERNEL_HOSTS_MOST = 12 };

typedef struct kernel_functions_t {
  tf_create_fn create;
  tf_compute_fn compute;
  tf_delete_fn destroy;
} kernel_functions_t;

typedef struct kernel_constraint_t {
  const char *attribute;
  int dtype; /* of TensorFlow */
} kernel_constraint_t;

typedef struct kernel_place_t {
  const char *op;
  int32_t constraint_count;
  kernel_constraint_t constraints[KERNEL_CONSTRAINTS_MOST];
  int32_t host_count;
  const char *hosts[KERNEL_HOSTS_MOST]; /* arguments in host memory */
} kernel_place_t;

/* Registers a kernel (builder.c). */
tenon_status_t register_builder(const platform_t *platform, const kernel_functions_t *functions,
                                const kernel_place_t *place);

/* Has the device a kernel of this operator for this dtype? */
bool has_kernel(const platform_t *platform, const tenon_op_t *op, const char *dtype);

/* Registers kernels for the operators of Tenon that TensorFlow has, now or later (own.c). */
tenon_status_t register_own(const platform_t *platform);

#endif
