/* Nodes of a graph that is being built. */
#ifndef TENON_PYTHON_NODE_H
#define TENON_PYTHON_NODE_H

#include "core.h"

bool nodes_add(PyObject *module);

#endif
