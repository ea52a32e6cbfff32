/* tenon.graph.Executable: a callable compiled from a graph. */
#ifndef TENON_PYTHON_EXECUTABLE_H
#define TENON_PYTHON_EXECUTABLE_H

#include "core.h"

/* The method compile of Graph: compiles the graph and returns an Executable. */
PyObject *graph_compile(PyObject *self, PyObject *arguments, PyObject *named);
bool executables_add(PyObject *module);

#endif
