/* tenon.graph.Graph: a model that was read or built. */
#ifndef TENON_PYTHON_GRAPH_H
#define TENON_PYTHON_GRAPH_H

#include "core.h"

typedef struct graph_t {
  PyObject_HEAD tenon_graph_t *graph;
} graph_t;

extern PyTypeObject *graph_type; /* set by graph_methods.c */
static inline tenon_graph_t *graph_of(PyObject *object) { return ((graph_t *)object)->graph; }
PyObject *graph_new(tenon_graph_t *graph); /* takes the reference over */
/* borrowed; NULL without an exception if the object is not a Graph */
const tenon_graph_t *graph_get(PyObject *object);

#endif
