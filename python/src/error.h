/* The exceptions of the extension, and functions that raise them. */
#ifndef TENON_PYTHON_ERROR_H
#define TENON_PYTHON_ERROR_H

#include "core.h"

extern PyObject *error_class; /* tenon.Error, the base class of all exceptions */
bool errors_add(PyObject *module);
/* Raises the exception of a status with the thread's error message; returns NULL. */
PyObject *raise_status(tenon_status_t status);
PyObject *raise_text(tenon_status_t status, const char *text);
/* Raises tenon.InvalidError with a formatted message; returns NULL. */
PyObject *raise_invalid(const char *format, ...);
/* The tp_new of types whose objects only the extension creates: it raises a TypeError. */
PyObject *refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *named);

#endif
