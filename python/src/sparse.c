/* tenon.csr and tenon.row_sparse, which create sparse tensors from their parts. */
#include "sparse.h"

#include "argument.h"
#include "shape.h"
#include "tensor.h"

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
  tenon_tensor_t *tensor = sparse_from_parts(TENON_DETAIL_CSR, parts, ndim, shape, checks, "csr");
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
      sparse_from_parts(TENON_DETAIL_ROW_SPARSE, parts, ndim, shape, checks, "row_sparse");
  return tensor ? tensor_new(tensor) : NULL;
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
