/* What builders and values are. */
#ifndef TENON_PYTHON_BUILDER_H
#define TENON_PYTHON_BUILDER_H

#include "operator.h"

typedef struct builder_t {
  PyObject_HEAD tenon_builder_t *builder; /* NULL: it has finished */
} builder_t;
typedef struct value_t {
  PyObject_HEAD builder_t *builder;
  tenon_edge_t edge;
} value_t;

extern PyTypeObject *builder_type;
bool builder_is_open(const builder_t *self,
                     const char *what); /* false, with an exception about `what`: it has finished */
PyObject *value_new(builder_t *builder, tenon_edge_t edge);
bool value_port(PyObject *object, tenon_port_t *out_port); /* what is known of a value */
/* A constant of an object that is a tensor, or of a number of `like`'s dtype. */
bool constant_add(builder_t *self, const char *name, PyObject *object, bool copies, const tenon_tensor_t *like,
                  const char *op, const char *argument_name, tenon_edge_t *out_edge);
/* builder_node(operator, arguments, named, name, builder), a function (node.c): what calling an operator with values does. */
PyObject *builder_node(PyObject *module, PyObject *arguments);

#endif
