/* tenon.Tensor: a reference to a tensor in host or device memory. */
#ifndef TENON_PYTHON_TENSOR_H
#define TENON_PYTHON_TENSOR_H

#include "core.h"

typedef struct tensor_t {
  PyObject_HEAD tenon_tensor_t *tensor;
} tensor_t;

extern PyTypeObject *tensor_type;             /* set by tensor_methods.c */
PyObject *tensor_new(tenon_tensor_t *tensor); /* takes the reference over */
/* borrowed */
static inline tenon_tensor_t *tensor_get(PyObject *object) { return ((tensor_t *)object)->tensor; }
/* Creates a tensor over the memory of an object and keeps the object alive as long as the tensor.
 * The strides of `view` may be those of an argument_t. */
tenon_tensor_t *tensor_over(const tenon_tensor_t *view, PyObject *object);

#endif
