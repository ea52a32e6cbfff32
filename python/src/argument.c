/* Objects as tensors of a call, and tensors as objects.  Invariant: memory is never copied; what is
 * on the stack is borrowed from an object that lives for the call. */
#include "core.h"

#include <string.h>

static bool refuse(PyObject *object, const char *op, const char *name) {
  if (value_check(object))
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a tensor, found a value of a graph: tenon.graph.ops "
                 "has what takes these",
                 op, name);
  else
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a tensor (of tenon, NumPy, PyTorch, or anything with "
                 "__dlpack__), found %R",
                 op, name, Py_TYPE(object));
  return false;
}

bool argument_cast(argument_t *argument, tenon_dtype_t dtype) {
  static const tenon_op_t *_Atomic known;
  const tenon_op_t *op = known;
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values;
  const tenon_value_t value = {.kind = TENON_KIND_DTYPE, .as.dtype = dtype};
  tenon_tensor_t *made = NULL;
  tenon_tensor_t *inputs[] = {argument->tensor};
  tenon_status_t status = op ? TENON_OK : tenon_op_find("core::cast", &op);
  if (status == TENON_OK) status = tenon_attrs_create(known = op, &attrs);
  if (status == TENON_OK) status = tenon_attrs_set(attrs, "to", &value);
  if (status == TENON_OK) status = tenon_attrs_values(attrs, &values);
  if (status == TENON_OK) status = tenon_op_call(op, values, inputs, &made, 0);
  tenon_attrs_release(attrs);
  tenon_tensor_release(argument->tensor);
  argument->tensor = made;
  argument->is_reference = made != NULL;
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

/* A number of Python's, without axes: of the dtype of `like`, except that a float among integers
 * stays one. */
static bool number_set(argument_t *argument, PyObject *object, const tenon_tensor_t *like) {
  bool is_float = PyFloat_Check(object);
  tenon_dtype_t dtype = tenon_dtype(is_float               ? TENON_F64
                                    : PyBool_Check(object) ? TENON_BOOL
                                                           : TENON_I64);
  tenon_dtype_t wanted = is_float ? tenon_dtype(TENON_F32) : dtype;
  if (like && !(is_float && like->dtype.code < 2)) wanted = like->dtype;
  double number = is_float ? PyFloat_AsDouble(object) : 0;
  long long integer = is_float ? 0 : PyLong_AsLongLong(object);
  if (PyErr_Occurred()) return false;
  tenon_status_t status = tenon_tensor_create(dtype, 0, NULL, &argument->tensor);
  if (status != TENON_OK) {
    raise_status(status);
    return false;
  }
  argument->is_reference = true;
  if (is_float)
    *(double *)argument->tensor->data = number;
  else if (PyBool_Check(object))
    *(uint8_t *)argument->tensor->data = integer != 0;
  else
    *(int64_t *)argument->tensor->data = integer;
  return tenon_dtype_id(dtype) == tenon_dtype_id(wanted) || argument_cast(argument, wanted);
}

static bool own(argument_t *argument, PyObject *object) {
  tenon_tensor_t *tensor = tensor_over(&argument->view, object);
  if (!tensor) return false;
  argument->tensor = tensor;
  return argument->is_reference = true;
}

static inline void note(origin_t *origin, family_t family, PyObject *object,
                        const struct exchange_t *table) {
  if (origin->family <= FAMILY_TENON) *origin = (origin_t){family, object, table};
}

static bool array_set(argument_t *argument, PyObject *object, int flags, const char *op,
                      const char *name, origin_t *origin) {
  note(origin, FAMILY_NUMPY, object, NULL);
  return numpy_view(object, flags & ARGUMENT_WRITTEN, op, name, argument) &&
         (!(flags & ARGUMENT_KEPT) || argument->is_reference || own(argument, object));
}

/* By __array__: scalars of NumPy's, columns of tables. */
static bool made_array_set(argument_t *argument, PyObject *object, int flags, const char *op,
                           const char *name, origin_t *origin) {
  PyObject *array = flags & ARGUMENT_WRITTEN
                        ? NULL
                        : PyObject_CallMethod(object, "__array__", NULL); /* may be a copy */
  if (!array && PyErr_Occurred()) return false;
  bool good = array && numpy_is_array(array);
  if (!good)
    refuse(object, op, name);
  else
    good = array_set(argument, array, flags | ARGUMENT_KEPT, op, name, origin);
  argument->object = object;
  if (origin->object == array) origin->object = object;
  Py_XDECREF(array); /* the tensor holds it */
  return good;
}

bool argument_set(argument_t *argument, PyObject *object, int flags, const tenon_tensor_t *like,
                  const char *op, const char *name, origin_t *origin) {
  const struct exchange_t *table;
  PyTypeObject *type = Py_TYPE(object);
  argument->object = object;
  argument->is_reference = false;
  if (type == tensor_type) {
    note(origin, FAMILY_TENON, object, NULL);
    return (argument->tensor = tensor_get(object)) != NULL;
  }
  if (type == numpy_type) return array_set(argument, object, flags, op, name, origin);
  if ((table = exchange_of(type))) {
    note(origin, FAMILY_EXCHANGE, object, table);
    return exchange_view(table, object, op, name, argument) &&
           (!(flags & ARGUMENT_KEPT) || argument->is_reference || own(argument, object));
  }
  if (PyFloat_CheckExact(object) || PyLong_CheckExact(object))
    return number_set(argument, object, like);
  if (numpy_is_array(object)) return array_set(argument, object, flags, op, name, origin);
  if (!PyObject_HasAttrString(object, "__dlpack__")) {
    if (scipy_is(object)) {
      note(origin, FAMILY_SCIPY, object, NULL);
      return flags & ARGUMENT_WRITTEN ? refuse(object, op, name)
                                      : scipy_set(argument, object, op, name);
    }
    if (PyObject_HasAttrString(object, "__array__"))
      return made_array_set(argument, object, flags, op, name, origin);
    bool is_number = PyFloat_Check(object) ||
                     PyLong_Check(object); /* of a class of its own: numpy.float64 was an array */
    return is_number ? number_set(argument, object, like) : refuse(object, op, name);
  }
  note(origin, FAMILY_DLPACK, object, NULL);
  return dlpack_import(object, &argument->tensor) && (argument->is_reference = true);
}

/* By from_dlpack of the library that the first tensor is of, if it says which. */
static PyObject *array_of(tenon_tensor_t *tensor, PyObject *like) {
  PyObject *own = tensor_new(tensor);
  PyObject *space = own ? PyObject_CallMethod(like, "__array_namespace__", NULL) : NULL;
  PyObject *array = space ? PyObject_CallMethod(space, "from_dlpack", "O", own) : NULL;
  Py_XDECREF(space);
  if (array) {
    Py_DECREF(own);
    return array;
  }
  if (own) PyErr_Clear(); /* there is none: tenon's own */
  return own;
}

PyObject *result_of(tenon_tensor_t *tensor, const origin_t *origin) {
  if (sparse_layout(tensor))
    return origin->family == FAMILY_SCIPY ? scipy_of(tensor, origin->object) : tensor_new(tensor);
  switch (origin->family) {
  case FAMILY_SCIPY:
  case FAMILY_NUMPY:
    return numpy_of(tensor);
  case FAMILY_EXCHANGE:
    return tenon_dtype_id(tensor->dtype) == TENON_STRING ? tensor_new(tensor)
                                                         : exchange_result(origin->table, tensor);
  case FAMILY_DLPACK:
    return array_of(tensor, origin->object);
  default:
    return tensor_new(tensor);
  }
}
