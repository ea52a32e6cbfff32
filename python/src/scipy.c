/* Matrices of scipy.sparse, used through their attributes; SciPy is never imported. */
#include "scipy.h"

#include "error.h"
#include "numpy.h"
#include "shape.h"
#include "tensor.h"

bool scipy_is(PyObject *object) {
  return PyObject_HasAttrString(object, "tocsr") && PyObject_HasAttrString(object, "format") &&
         PyObject_HasAttrString(object, "shape");
}

static bool is_true(PyObject *object, const char *name) {
  PyObject *value = PyObject_GetAttrString(object, name);
  bool yes = value && PyObject_IsTrue(value) == 1;
  Py_XDECREF(value);
  PyErr_Clear();
  return yes;
}

/* Returns the matrix with ascending indices without duplicates: the matrix itself, or a copy. */
static PyObject *canonical_matrix(PyObject *matrix) {
  if (is_true(matrix, "has_canonical_format")) {
    Py_INCREF(matrix);
    return matrix;
  }
  PyObject *copy = PyObject_CallMethod(matrix, "copy", NULL);
  PyObject *done = copy ? PyObject_CallMethod(copy, "sum_duplicates", NULL) : NULL;
  if (!done) Py_CLEAR(copy);
  Py_XDECREF(done);
  return copy;
}

bool scipy_parts(PyObject *object, const char *op, const char *name, PyObject *parts[SCIPY_COUNT]) {
  static const char *const names[SCIPY_COUNT] = {"data", "indices", "indptr", "shape"};
  PyObject *format = PyObject_GetAttrString(object, "format");
  bool is_csr =
      format && PyUnicode_Check(format) && PyUnicode_CompareWithASCIIString(format, "csr") == 0;
  if (format && !is_csr)
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a scipy.sparse matrix in csr format, found format %R: "
                 "convert it with x.tocsr()",
                 op, name, format);
  Py_XDECREF(format);
  PyObject *matrix = is_csr ? canonical_matrix(object) : NULL;
  bool good = matrix != NULL;
  for (int i = 0; i < SCIPY_COUNT && good; i++) {
    parts[i] = PyObject_GetAttrString(matrix, names[i]);
    good = parts[i] != NULL;
  }
  Py_XDECREF(matrix);
  return good;
}

PyObject *scipy_of(tenon_tensor_t *tensor, PyObject *like) {
  const tenon_detail_t *d = tensor->detail;
  if (d->kind != TENON_DETAIL_CSR) return tensor_new(tensor);
  const tenon_tensor_t *of[] = {d->values, d->indices, d->indptr};
  PyObject *parts[3] = {NULL};
  PyObject *shape = tuple_of(tensor->shape, tensor->ndim);
  PyObject *matrix = NULL;
  bool good = shape != NULL;
  for (int i = 0; i < 3 && good; i++) {
    tenon_tensor_retain((tenon_tensor_t *)(uintptr_t)of[i]);
    good = (parts[i] = numpy_of((tenon_tensor_t *)(uintptr_t)of[i])) != NULL;
  }
  if (good)
    matrix = PyObject_CallFunction((PyObject *)Py_TYPE(like), "((OOO)O)", parts[0], parts[1],
                                   parts[2], shape);
  for (int i = 0; i < 3; i++)
    Py_XDECREF(parts[i]);
  Py_XDECREF(shape);
  if (matrix || !PyErr_ExceptionMatches(PyExc_Exception)) {
    tenon_tensor_release(tensor);
    return matrix;
  }
  PyErr_Clear(); /* SciPy does not support the dtype. */
  return tensor_new(tensor);
}
