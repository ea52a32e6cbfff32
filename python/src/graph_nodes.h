/* Methods of Graph that return its nodes, values and ports, with numbers for values. */
#ifndef TENON_PYTHON_GRAPH_NODES_H
#define TENON_PYTHON_GRAPH_NODES_H

#include "core.h"

/* Returns (name, operator, inputs, outputs, attributes) of each node. */
PyObject *graph_nodes(PyObject *self, PyObject *unused);
/* Returns (name, type, is_constant) of each value. */
PyObject *graph_values(PyObject *self, PyObject *unused);
/* Returns the numbers of the inputs and of the outputs. */
PyObject *graph_ports(PyObject *self, PyObject *unused);

#endif
