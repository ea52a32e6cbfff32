/* Shapes and strides as Python objects. */
#include "shape.h"

#include "error.h"

PyObject *tuple_of(const int64_t *numbers, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple && i < count; i++) {
    PyObject *number = PyLong_FromLongLong(numbers[i]);
    if (!number || PyTuple_SetItem(tuple, i, number) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

bool shape_from(PyObject *object, int64_t *shape, int32_t *out_ndim) {
  if (PyLong_Check(object)) {
    shape[0] = PyLong_AsLongLong(object);
    *out_ndim = 1;
    return !(shape[0] == -1 && PyErr_Occurred());
  }
  Py_ssize_t count = PySequence_Size(object);
  if (count < 0) return false;
  if (count > TENON_RANK_MAX) {
    raise_invalid("shape: expected at most %d axes, found %zd", TENON_RANK_MAX, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *extent = PySequence_GetItem(object, i);
    if (!extent) return false;
    shape[i] = PyLong_AsLongLong(extent);
    Py_DECREF(extent);
    if (shape[i] == -1 && PyErr_Occurred()) return false;
  }
  *out_ndim = (int32_t)count;
  return true;
}
