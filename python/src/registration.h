/* tenon._core.Registration: an operator, kernel or gradient that Python code has registered. */
#ifndef TENON_PYTHON_REGISTRATION_H
#define TENON_PYTHON_REGISTRATION_H

#include "core.h"

PyObject *registration_new(tenon_registration_t *registration);
bool registrations_add(PyObject *module);

#endif
