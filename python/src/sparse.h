/* tenon.csr and tenon.row_sparse. */
#ifndef TENON_PYTHON_SPARSE_H
#define TENON_PYTHON_SPARSE_H

#include "core.h"

bool sparse_add(PyObject *module);

#endif
