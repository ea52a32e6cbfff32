/* Operators and kernels that are Python functions. */
#ifndef TENON_PYTHON_DEFINE_H
#define TENON_PYTHON_DEFINE_H

#include "core.h"

bool definitions_add(PyObject *module);

#endif
