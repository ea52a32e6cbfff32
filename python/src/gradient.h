/* Gradients in Python (tenon.gradient). */
#ifndef TENON_PYTHON_GRADIENT_H
#define TENON_PYTHON_GRADIENT_H

#include "core.h"

bool gradients_add(PyObject *module);

#endif
