/* What builders and values are. */
#ifndef TENON_PYTHON_BUILDER_H
#define TENON_PYTHON_BUILDER_H

#include "operator.h"

typedef struct builder_t {
  PyObject_HEAD tenon_builder_t *builder; /* NULL: it has finished */
  _Atomic bool is_used;                   /* a thread is in it */
} builder_t;
typedef struct value_t {
  PyObject_HEAD builder_t *builder;
  tenon_edge_t edge;
} value_t;

extern PyTypeObject *builder_type;
/* Around each use of it, and of what it lends.  False, with an exception about `what`: it has
 * finished, or another thread is in it. */
bool builder_enter(builder_t *self, const char *what);
static inline void builder_leave(builder_t *self) { self->is_used = false; }
PyObject *value_new(builder_t *builder, tenon_edge_t edge);
/* What is known of a value, until builder_leave; false: it was left, with an exception. */
bool value_port(PyObject *object, tenon_port_t *out_port);
/* A constant of an object that is a tensor, or of a number of `like`'s dtype. */
bool constant_add(builder_t *self, const char *name, PyObject *object, bool copies,
                  const tenon_tensor_t *like, const char *op, const char *argument_name,
                  tenon_edge_t *out_edge);
/* builder_node(operator, arguments, named, name, builder), a function (node.c): what calling an
 * operator with values does. */
PyObject *builder_node(PyObject *module, PyObject *arguments);

#endif
