/* tenon.graph.Builder: builds a graph from inputs, constants and nodes. */
#ifndef TENON_PYTHON_BUILDER_H
#define TENON_PYTHON_BUILDER_H

#include "value.h"

extern PyTypeObject *builder_type; /* of the objects builder_t */
/* Adds a constant made from a tensor object, or from a number with the dtype of `like`. */
bool constant_add(builder_t *self, const char *name, PyObject *object, bool copies,
                  const tenon_tensor_t *like, const char *op, const char *argument_name,
                  tenon_edge_t *out_edge);
bool builders_add(PyObject *module);

#endif
