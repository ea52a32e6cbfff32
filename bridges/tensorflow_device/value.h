/* Values of formulas, and dtypes. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_VALUE_H
#define BRIDGES_TENSORFLOW_DEVICE_VALUE_H

#include "plan.h"

typedef enum value_kind_t {
  VALUE_NONE,
  VALUE_TENSOR, /* on the device */
  VALUE_LIST,   /* of tensors on the device */
  VALUE_INTS,   /* on the host */
  VALUE_HOST,   /* a tensor on the host: integers that are more than a list of ints has */
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
  char text[PLAN_TEXT_SIZE];
  tenon_dtype_t dtype;
  int64_t ints[PLAN_LIST_MOST];
  tenon_tensor_t *tensor;   /* held by the frame */
  tenon_tensor_t **tensors; /* held by the frame */
};

bool dtype_from_tf(int tf_dtype, tenon_dtype_t *out_dtype);
int dtype_to_tf(tenon_dtype_t dtype); /* 0: TensorFlow has none */

#endif
