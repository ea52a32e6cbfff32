/* NumPy arrays as tensors, and tensors as NumPy arrays. */
#ifndef TENON_PYTHON_NUMPY_H
#define TENON_PYTHON_NUMPY_H

#include "argument.h"

/* numpy.ndarray; NULL as long as the program has not been seen to import NumPy */
extern PyTypeObject *_Atomic numpy_type;
bool numpy_is_array(PyObject *object);
bool numpy_view(PyObject *array, bool writes, const char *op, const char *name,
                argument_t *argument);
/* Returns a NumPy array over the same memory; strings are copied to an array of str. Returns a
 * tenon.Tensor if NumPy has no such dtype or if the tensor is on a device. Takes the reference
 * over. */
PyObject *numpy_of(tenon_tensor_t *tensor);

#endif
