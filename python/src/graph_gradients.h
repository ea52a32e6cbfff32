/* The method gradients(...) of Graph. */
#ifndef TENON_PYTHON_GRAPH_GRADIENTS_H
#define TENON_PYTHON_GRAPH_GRADIENTS_H

#include "core.h"

/* gradients(values=None, *, outputs=None, given=False, unused=False): returns the graph that also
 * computes gradients. */
PyObject *graph_gradients(PyObject *self, PyObject *arguments, PyObject *named);

#endif
