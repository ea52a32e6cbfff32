/* Failure dumps. */
#ifndef TENON_PYTHON_DUMP_H
#define TENON_PYTHON_DUMP_H

#include "core.h"

bool dumps_add(PyObject *module);

#endif
