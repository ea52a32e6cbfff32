/* What is known of the inputs, outputs and values of a graph, as Python objects. */
#ifndef TENON_PYTHON_PORT_H
#define TENON_PYTHON_PORT_H

#include "core.h"

/* Returns a list of numbers, names and None; None if the rank is unknown. */
PyObject *port_extents(const tenon_port_t *port);
PyObject *port_dtype(const tenon_port_t *port); /* None if the dtype is unknown */

#endif
