/* Passes and partitioners of loaded libraries. */
#ifndef TENON_PYTHON_GRAPH_PASSES_H
#define TENON_PYTHON_GRAPH_PASSES_H

#include "core.h"

/* The method _apply(name, [(key, value), ...]) of Graph: returns the changed graph. */
PyObject *graph_apply(PyObject *self, PyObject *arguments);
/* Returns (name, doc, strategies or None, path) of each pass and partitioner. */
PyObject *graph_passes(PyObject *module, PyObject *unused);
/* Returns (library, rule, condition) of each rewriting rule. */
PyObject *graph_rewrites(PyObject *module, PyObject *unused);

#endif
