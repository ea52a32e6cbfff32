/* What every file of the extension includes: Python and Tenon. The extension uses only the limited
 * API of Python 3.9 and tenon.h, so one build serves every later Python with the interpreter lock.
 * Free-threaded Pythons have no limited API and each need a build of their own (lock.h). Functions
 * report failure by NULL, -1 or false with a Python exception set. The caller holds the interpreter
 * lock (or, in free-threaded Pythons, is an attached thread).
 *
 * No two files call each other, directly or through other files. module.c is at the top: when the
 * module is initialised, it calls a function such as errors_add of each file that adds types or
 * functions to the module. */
#ifndef TENON_PYTHON_CORE_H
#define TENON_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <tenon/tenon.h>

/* Returns the object with one more reference. */
static inline PyObject *new_reference(PyObject *object) {
  Py_INCREF(object);
  return object;
}

#endif
