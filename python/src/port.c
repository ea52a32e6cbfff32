/* What is known of the inputs, outputs and values of a graph, as Python objects. */
#include "port.h"

#include "dtype.h"

static PyObject *extent_of(const tenon_axis_t *axis) {
  if (axis->extent >= 0) return PyLong_FromLongLong(axis->extent);
  if (axis->name) return PyUnicode_FromString(axis->name);
  Py_RETURN_NONE;
}

PyObject *port_extents(const tenon_port_t *port) {
  if (port->ndim < 0) Py_RETURN_NONE;
  PyObject *list = PyList_New(0);
  for (int32_t d = 0; list && d < port->ndim; d++) {
    PyObject *extent = extent_of(&port->axes[d]);
    if (!extent || PyList_Append(list, extent) != 0) Py_CLEAR(list);
    Py_XDECREF(extent);
  }
  return list;
}

PyObject *port_dtype(const tenon_port_t *port) {
  return port->dtype.bits ? dtype_text(port->dtype) : new_reference(Py_None);
}
