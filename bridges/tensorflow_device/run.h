/* Values of formulas, and one call of an operator of TensorFlow while a plan computes it. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_RUN_H
#define BRIDGES_TENSORFLOW_DEVICE_RUN_H

#include "plan.h"
#include "plugin.h"

enum { FRAME_HELD_MOST = 160, FRAME_TENSORS_MOST = 96 };

typedef enum value_kind_t {
  VALUE_NONE,
  VALUE_TENSOR, /* on the device */
  VALUE_LIST,   /* of tensors on the device */
  VALUE_INTS,   /* on the host */
  VALUE_NUMBER,
  VALUE_REAL,
  VALUE_TEXT,
  VALUE_DTYPE,
} value_kind_t;

struct value_t {
  value_kind_t kind;
  int32_t count; /* LIST, INTS */
  int64_t number;
  double real;
  char text[PLAN_NAME_SIZE];
  tenon_dtype_t dtype;
  int64_t ints[PLAN_LIST_MOST];
  tenon_tensor_t *tensor;   /* held by the frame */
  tenon_tensor_t **tensors; /* held by the frame */
};

/* A kernel of TensorFlow: a plan with the attributes of one node. */
typedef struct kernel_t {
  const plan_t *plan;
  tenon_dtype_t dtype; /* of numbers that stand for tensors */
  value_t attributes[PLAN_ATTRIBUTES_MOST];
} kernel_t;

struct frame_t {
  const kernel_t *kernel;
  tf_context_t *context;
  device_t *device;
  bool is_update; /* the operator has no outputs: results become values of variables */
  bool is_done[PLAN_NODES_MOST];
  value_t values[PLAN_NODES_MOST];
  int32_t held_count;
  tenon_tensor_t *held[FRAME_HELD_MOST];
  tenon_tensor_t *lists[FRAME_TENSORS_MOST]; /* the items of lists */
  int32_t list_count;
  /* Tensors of TensorFlow: inputs, and memory that Tenon asked for. */
  int32_t tensor_count;
  tf_tensor_t *tensors[FRAME_TENSORS_MOST];
  char why[256]; /* why TensorFlow gave no memory */
};

/* Keeps a tensor until the frame ends. Takes it over, also after an error. */
tenon_status_t frame_hold(frame_t *frame, tenon_tensor_t *tensor, value_t *out);
/* Allocates a tensor on the device in TensorFlow's memory. */
tenon_status_t frame_allocate(frame_t *frame, tenon_dtype_t dtype, const int64_t *shape,
                              int32_t ndim, value_t *out);
/* Calls an operator of Tenon by name, for functions of formulas. */
tenon_status_t frame_call(frame_t *frame, const char *op, const tenon_value_t *values,
                          uint32_t count, value_t *out);
/* Creates a tensor on the host that holds integers. */
tenon_status_t frame_host_ints(frame_t *frame, const value_t *ints, tenon_tensor_t **out);
/* Computes a kernel. Failures are reported to TensorFlow. */
void run_kernel(const kernel_t *kernel, tf_context_t *context);

/* ---- dtypes ---------------------------------------------------------------------------------- */

bool dtype_from_tf(int tf_dtype, tenon_dtype_t *out_dtype);
int dtype_to_tf(tenon_dtype_t dtype); /* 0: TensorFlow has none */

#endif
