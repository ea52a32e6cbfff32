/* The properties and methods of tenon.Tensor. */
#ifndef TENON_PYTHON_TENSOR_METHODS_H
#define TENON_PYTHON_TENSOR_METHODS_H

#include "core.h"

bool tensors_add(PyObject *module);

#endif
