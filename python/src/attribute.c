/* Converts Python objects to attributes of an operator, and default values of attributes to Python
 * objects. */
#include "attribute.h"

#include <stdlib.h>
#include <string.h>

#include "argument.h"
#include "device.h"
#include "dtype.h"
#include "error.h"
#include "graph.h"

/* How messages call the kinds of attributes. */
static const char *kind_text(uint32_t kind) {
  static const char *const names[] = {[TENON_KIND_BOOL] = "a bool",
                                      [TENON_KIND_INT] = "an int",
                                      [TENON_KIND_DIM] = "an int",
                                      [TENON_KIND_FLOAT] = "a number",
                                      [TENON_KIND_STR] = "a str",
                                      [TENON_KIND_CHOICE] = "a str",
                                      [TENON_KIND_DTYPE] = "a dtype",
                                      [TENON_KIND_DEVICE] = "a device",
                                      [TENON_KIND_TENSOR] = "a tensor",
                                      [TENON_KIND_GRAPH] = "a graph",
                                      [TENON_KIND_INTS] = "a list of int",
                                      [TENON_KIND_DIMS] = "a list of int",
                                      [TENON_KIND_FLOATS] = "a list of numbers",
                                      [TENON_KIND_STRS] = "a list of str",
                                      [TENON_KIND_TENSORS] = "a list of tensors"};
  return kind < sizeof names / sizeof *names && names[kind] ? names[kind] : "another kind of value";
}

static bool refuse_attribute(const char *op, const tenon_argument_t *of, PyObject *object) {
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
    PyErr_Clear();
    PyErr_Format(PyExc_OverflowError, "%s: argument %s: %R does not fit 64 bits", op, of->name,
                 object);
  }
  if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError))
    PyErr_Format(PyExc_TypeError, "%s: argument %s: expected %s, found %R", op, of->name,
                 kind_text(of->kind), object);
  return false;
}

static bool integer_from(PyObject *object, int64_t *out) {
  PyObject *number = PyLong_Check(object) ? new_reference(object) : PyNumber_Index(object);
  if (!number) return false;
  *out = PyLong_AsLongLong(number);
  Py_DECREF(number);
  return !(*out == -1 && PyErr_Occurred());
}

/* Sets an attribute that is a list of numbers or strings. `room` holds 8 bytes or one
 * tenon_string_t for each item; `kept` keeps the bytes objects alive that the strings point
 * into. */
static bool list_set(tenon_attrs_t *attrs, const char *op, const tenon_argument_t *of,
                     PyObject *object) {
  /* Python lists hold only numbers, never symbolic extents. */
  tenon_value_t value = {.kind = of->kind == TENON_KIND_DIMS ? TENON_KIND_INTS : of->kind};
  if (PyUnicode_Check(object) || !PySequence_Check(object)) return refuse_attribute(op, of, object);
  Py_ssize_t count = PySequence_Size(object);
  void *room = count < 0 ? NULL : calloc((size_t)count + 1, sizeof(tenon_string_t));
  PyObject *kept = room ? PyList_New(0) : NULL;
  bool good = kept != NULL;
  if (!room && count >= 0) PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count && good; i++) {
    PyObject *item = PySequence_GetItem(object, i);
    PyObject *bytes = NULL;
    if (!(good = item != NULL)) break;
    if (of->kind == TENON_KIND_FLOATS) {
      ((double *)room)[i] = PyFloat_AsDouble(item);
      good = !PyErr_Occurred();
    } else if (of->kind == TENON_KIND_STRS) {
      good = PyUnicode_Check(item) && (bytes = PyUnicode_AsUTF8String(item)) &&
             PyList_Append(kept, bytes) == 0;
      if (good)
        ((tenon_string_t *)room)[i] =
            (tenon_string_t){PyBytes_AsString(bytes), (uint64_t)PyBytes_Size(bytes)};
      Py_XDECREF(bytes);
    } else {
      good = integer_from(item, &((int64_t *)room)[i]);
    }
    Py_DECREF(item);
  }
  if (good) {
    /* All list members of the union are pointers and share one address, so `ints` stands for each
     * of them. */
    value.count = (uint32_t)count;
    value.as.ints = (const int64_t *)room;
    tenon_status_t status = tenon_attrs_set(attrs, of->name, &value);
    if (!(good = status == TENON_OK)) raise_status(status);
  } else
    refuse_attribute(op, of, object);
  Py_XDECREF(kept);
  free(room);
  return good;
}

static bool text_set(tenon_attrs_t *attrs, const char *op, const tenon_argument_t *of,
                     PyObject *object) {
  PyObject *bytes = PyUnicode_Check(object) ? PyUnicode_AsUTF8String(object) : NULL;
  if (!bytes) return refuse_attribute(op, of, object);
  tenon_value_t value = {.kind = TENON_KIND_STR,
                         .count = (uint32_t)PyBytes_Size(bytes),
                         .as.s = PyBytes_AsString(bytes)};
  tenon_status_t status = tenon_attrs_set(attrs, of->name, &value);
  Py_DECREF(bytes);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

static bool tensor_set(tenon_attrs_t *attrs, const char *op, const tenon_argument_t *of,
                       PyObject *object) {
  argument_t argument;
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  if (!argument_set(&argument, object, ARGUMENT_KEPT, NULL, op, of->name, &origin)) return false;
  tenon_value_t value = {.kind = TENON_KIND_TENSOR, .as.tensor = argument.tensor};
  tenon_status_t status = tenon_attrs_set(attrs, of->name, &value);
  argument_release(&argument);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

bool attribute_set(tenon_attrs_t *attrs, const char *op, const tenon_argument_t *of,
                   PyObject *object) {
  tenon_value_t value = {.kind = of->kind};
  bool good = false;
  if (object == Py_None) {
    if (!of->is_optional) return refuse_attribute(op, of, object);
    value.kind = TENON_KIND_NONE;
    good = true;
  } else
    switch (of->kind) {
    case TENON_KIND_BOOL:
      value.as.i = PyObject_IsTrue(object);
      good = PyBool_Check(object) || (PyLong_Check(object) && value.as.i >= 0);
      break;
    case TENON_KIND_INT:
    case TENON_KIND_DIM:
      value.kind = TENON_KIND_INT;
      good = !PyFloat_Check(object) && integer_from(object, &value.as.i);
      break;
    case TENON_KIND_FLOAT:
      if (PyBool_Check(object) && of->is_scalar) {
        value.kind = TENON_KIND_BOOL;
        value.as.i = object == Py_True;
        good = true;
      } else if (PyLong_Check(object) && of->is_scalar) {
        value.kind = TENON_KIND_INT;
        good = integer_from(object, &value.as.i);
      } else {
        value.as.f = PyFloat_AsDouble(object);
        good = !PyErr_Occurred();
      }
      break;
    case TENON_KIND_STR:
    case TENON_KIND_CHOICE:
      return text_set(attrs, op, of, object);
    case TENON_KIND_DTYPE:
      good = dtype_from(object, &value.as.dtype);
      break;
    case TENON_KIND_DEVICE:
      good = device_from(object, &value.as.device);
      break;
    case TENON_KIND_TENSOR:
      return tensor_set(attrs, op, of, object);
    case TENON_KIND_GRAPH:
      good = (value.as.graph = graph_get(object)) != NULL;
      break;
    case TENON_KIND_INTS:
    case TENON_KIND_DIMS:
    case TENON_KIND_FLOATS:
    case TENON_KIND_STRS:
      return list_set(attrs, op, of, object);
    default:
      break;
    }
  if (!good) return refuse_attribute(op, of, object);
  tenon_status_t status = tenon_attrs_set(attrs, of->name, &value);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

static PyObject *list_item(const tenon_value_t *v, uint32_t i) {
  if (v->kind == TENON_KIND_FLOATS) return PyFloat_FromDouble(v->as.floats[i]);
  if (v->kind == TENON_KIND_STRS)
    return PyUnicode_DecodeUTF8(v->as.strs[i].data, (Py_ssize_t)v->as.strs[i].size, NULL);
  return PyLong_FromLongLong(v->as.ints[i]);
}

static PyObject *list_of(const tenon_value_t *v) {
  PyObject *list = PyList_New(0);
  for (uint32_t i = 0; list && i < v->count; i++) {
    PyObject *item = list_item(v, i);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject *attribute_object(const tenon_argument_t *of) {
  const tenon_value_t *v = &of->value;
  switch (v->kind) {
  case TENON_KIND_BOOL:
    return PyBool_FromLong(v->as.i != 0);
  case TENON_KIND_INT:
  case TENON_KIND_DIM:
    return PyLong_FromLongLong(v->as.i);
  case TENON_KIND_FLOAT:
    return PyFloat_FromDouble(v->as.f);
  case TENON_KIND_STR:
    return PyUnicode_DecodeUTF8(v->as.s, (Py_ssize_t)v->count, NULL);
  case TENON_KIND_CHOICE:
    return PyUnicode_FromString(of->choices[v->as.i]);
  case TENON_KIND_DTYPE:
    return dtype_text(v->as.dtype);
  case TENON_KIND_DEVICE:
    return device_text(v->as.device);
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
  case TENON_KIND_FLOATS:
  case TENON_KIND_STRS:
    return list_of(v);
  default:
    Py_RETURN_NONE;
  }
}
