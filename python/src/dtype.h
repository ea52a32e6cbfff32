/* dtypes as Python objects. */
#ifndef TENON_PYTHON_DTYPE_H
#define TENON_PYTHON_DTYPE_H

#include "core.h"

PyObject *dtype_text(tenon_dtype_t dtype);
/* Accepts strings, NumPy dtypes and scalar types, and PyTorch dtypes; all are identified by their
 * name. */
bool dtype_from(PyObject *object, tenon_dtype_t *out_dtype);

#endif
