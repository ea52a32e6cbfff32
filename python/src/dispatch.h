/* Queries of the dispatcher for tenon.dispatch. */
#ifndef TENON_PYTHON_DISPATCH_H
#define TENON_PYTHON_DISPATCH_H

#include "core.h"

bool dispatch_add(PyObject *module);

#endif
