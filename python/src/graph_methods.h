/* The properties and methods of tenon.graph.Graph. */
#ifndef TENON_PYTHON_GRAPH_METHODS_H
#define TENON_PYTHON_GRAPH_METHODS_H

#include "core.h"

bool graphs_add(PyObject *module);

#endif
