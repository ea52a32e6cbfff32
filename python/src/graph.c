/* tenon.graph.Graph objects: their creation, and the graph that an object refers to. The methods
 * are in graph_methods.c. */
#include "graph.h"

PyTypeObject *graph_type;

PyObject *graph_new(tenon_graph_t *graph) {
  graph_t *self = PyObject_New(graph_t, graph_type);
  if (!self) {
    tenon_graph_release(graph);
    return NULL;
  }
  self->graph = graph;
  return (PyObject *)self;
}

const tenon_graph_t *graph_get(PyObject *object) {
  return Py_TYPE(object) == graph_type ? graph_of(object) : NULL;
}
