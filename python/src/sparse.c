/* Sparse tensors: created from their parts, read from matrices of scipy.sparse and returned as
 * such. SciPy objects are used through their attributes; SciPy is never imported. Values are copied
 * only if they are not dense and row-major, indices only if they are not i64. */
#include "core.h"

#include <string.h>

const char *sparse_layout(const tenon_tensor_t *t) {
  return t->detail && t->detail->kind != TENON_DETAIL_QUANTISED ? tenon_tensor_layout(t) : NULL;
}

/* Returns a new reference as a tenon.Tensor; None if there is no such part. */
PyObject *sparse_part(const tenon_tensor_t *part) {
  if (!part) Py_RETURN_NONE;
  tenon_tensor_retain((tenon_tensor_t *)(uintptr_t)part);
  return tensor_new((tenon_tensor_t *)(uintptr_t)part);
}

bool layout_from(const char *name, uint32_t *out_kind) {
  *out_kind = 0;
  if (strcmp(name, "csr") == 0) *out_kind = TENON_DETAIL_CSR;
  if (strcmp(name, "row_sparse") == 0) *out_kind = TENON_DETAIL_ROW_SPARSE;
  if (!*out_kind) raise_invalid("layout: expected 'csr' or 'row_sparse', found '%s'", name);
  return *out_kind != 0;
}

static bool is_dense(const tenon_tensor_t *t) {
  int64_t stride = 1;
  bool is_dense = true;
  for (int32_t i = t->ndim; i-- > 0; stride *= t->shape[i])
    is_dense = is_dense && (t->shape[i] <= 1 || t->strides[i] == stride);
  return is_dense || count_of(t) == 0;
}

/* Converts a part to a dense tensor on the host, which *argument holds. */
static bool part_set(argument_t *argument, PyObject *object, bool is_index, const char *op,
                     const char *name) {
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  tenon_tensor_t *dense;
  if (!argument_set(argument, object, ARGUMENT_KEPT, NULL, op, name, &origin)) return false;
  if (!argument->is_reference) {
    tenon_tensor_retain(argument->tensor);
    argument->is_reference = true;
  }
  uint8_t code = argument->tensor->dtype.code; /* signed or unsigned integers have code 0 or 1 */
  if (is_index && code < 2 && tenon_dtype_id(argument->tensor->dtype) != TENON_I64 &&
      !argument_cast(argument, tenon_dtype(TENON_I64)))
    return false;
  if (is_dense(argument->tensor)) return true;
  tenon_status_t status = tenon_tensor_copy(argument->tensor, &dense);
  if (status != TENON_OK) {
    raise_status(status);
    return false;
  }
  tenon_tensor_release(argument->tensor);
  argument->tensor = dense;
  return true;
}

static tenon_tensor_t *make_sparse(uint32_t kind, PyObject *const parts[3], int32_t ndim,
                                   const int64_t *shape, bool checks, const char *op) {
  static const char *const names[] = {"values", "indices", "indptr"};
  argument_t held[3];
  tenon_tensor_t *tensor = NULL;
  int count = kind == TENON_DETAIL_CSR ? 3 : 2;
  int made = 0;
  memset(held, 0, sizeof held);
  while (made < count && part_set(&held[made], parts[made], made > 0, op, names[made]))
    made++;
  if (made == count) {
    const tenon_detail_t detail = {.size = sizeof detail,
                                   .kind = kind,
                                   .values = held[0].tensor,
                                   .indices = held[1].tensor,
                                   .indptr = held[2].tensor};
    tenon_status_t status = tenon_tensor_create_sparse(
        &detail, ndim, shape, checks ? 0 : TENON_SPARSE_UNCHECKED, &tensor);
    if (status != TENON_OK) raise_status(status);
  }
  for (int i = 0; i < count; i++)
    argument_release(&held[i]);
  return tensor;
}

static PyObject *create_csr(PyObject *module, PyObject *arguments, PyObject *named) {
  static char *names[] = {"values", "indices", "indptr", "shape", "check", NULL};
  PyObject *parts[3], *shape_object;
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  int checks = 1;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "OOOO|p", names, &parts[0], &parts[1],
                                   &parts[2], &shape_object, &checks) ||
      !shape_from(shape_object, shape, &ndim))
    return NULL;
  tenon_tensor_t *tensor = make_sparse(TENON_DETAIL_CSR, parts, ndim, shape, checks, "csr");
  return tensor ? tensor_new(tensor) : NULL;
}

static PyObject *create_row_sparse(PyObject *module, PyObject *arguments, PyObject *named) {
  static char *names[] = {"values", "indices", "shape", "check", NULL};
  PyObject *parts[3] = {NULL};
  PyObject *shape_object;
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  int checks = 1;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "OOO|p", names, &parts[0], &parts[1],
                                   &shape_object, &checks) ||
      !shape_from(shape_object, shape, &ndim))
    return NULL;
  tenon_tensor_t *tensor =
      make_sparse(TENON_DETAIL_ROW_SPARSE, parts, ndim, shape, checks, "row_sparse");
  return tensor ? tensor_new(tensor) : NULL;
}

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

bool scipy_set(argument_t *argument, PyObject *object, const char *op, const char *name) {
  static const char *const names[] = {"data", "indices", "indptr", "shape"};
  PyObject *parts[4] = {NULL};
  PyObject *format = PyObject_GetAttrString(object, "format");
  PyObject *matrix = NULL;
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  bool is_csr =
      format && PyUnicode_Check(format) && PyUnicode_CompareWithASCIIString(format, "csr") == 0;
  bool good = false;
  argument->tensor = NULL;
  if (format && !is_csr)
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a scipy.sparse matrix in csr format, found format %R: "
                 "convert it with x.tocsr()",
                 op, name, format);
  Py_XDECREF(format);
  if (is_csr && (matrix = canonical_matrix(object))) {
    good = true;
    for (int i = 0; i < 4 && good; i++)
      good = (parts[i] = PyObject_GetAttrString(matrix, names[i])) != NULL;
    good = good && shape_from(parts[3], shape, &ndim);
    good = good && (argument->tensor = make_sparse(TENON_DETAIL_CSR, parts, ndim, shape, true, op));
  }
  for (int i = 0; i < 4; i++)
    Py_XDECREF(parts[i]);
  Py_XDECREF(matrix);
  argument->object = object;
  return argument->is_reference = good;
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

static PyMethodDef functions[] = {
    {"csr", (PyCFunction)(void (*)(void))create_csr, METH_VARARGS | METH_KEYWORDS,
     "csr(values, indices, indptr, shape, check=True)\n--\n\nCreates a sparse matrix in csr "
     "layout. Row i stores values[indptr[i]:indptr[i + 1]] in the columns "
     "indices[indptr[i]:indptr[i + 1]], which must ascend.\n\ncheck: False skips the check of the "
     "indices."},
    {"row_sparse", (PyCFunction)(void (*)(void))create_row_sparse, METH_VARARGS | METH_KEYWORDS,
     "row_sparse(values, indices, shape, check=True)\n--\n\nCreates a tensor whose rows `indices` "
     "(along the first axis, ascending) are `values` and whose other rows are 0.\n\ncheck: False "
     "skips the check of the indices."},
    {NULL, NULL, 0, NULL}};

bool sparse_add(PyObject *module) { return PyModule_AddFunctions(module, functions) == 0; }
