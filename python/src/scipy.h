/* Matrices of scipy.sparse. */
#ifndef TENON_PYTHON_SCIPY_H
#define TENON_PYTHON_SCIPY_H

#include "core.h"

/* Returns whether an object is a matrix of scipy.sparse, judged by its attributes. */
bool scipy_is(PyObject *object);
/* The attributes that make up a matrix in csr format. */
enum {
  SCIPY_DATA,
  SCIPY_INDICES,
  SCIPY_INDPTR,
  SCIPY_SHAPE,
  SCIPY_COUNT,
};
/* Gets the attributes of a matrix in csr format; duplicate indices are added up first, in a copy of
 * the matrix. The caller sets `parts` to NULL before and releases them afterwards, also after a
 * failure. Messages name `op` and `name`. */
bool scipy_parts(PyObject *object, const char *op, const char *name, PyObject *parts[SCIPY_COUNT]);
/* Returns a sparse tensor as an object of the class of `like`, or as a tenon.Tensor if SciPy cannot
 * represent it; takes the reference over. */
PyObject *scipy_of(tenon_tensor_t *tensor, PyObject *like);

#endif
