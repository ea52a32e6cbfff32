/* The structures of tenon.graph.Builder and tenon.graph.Value, and the functions that builder.c and
 * node.c share. */
#ifndef TENON_PYTHON_BUILDER_H
#define TENON_PYTHON_BUILDER_H

#include "operator.h"

typedef struct builder_t {
  PyObject_HEAD tenon_builder_t *builder; /* NULL after the graph was finished */
  _Atomic bool is_used;                   /* a thread is using the builder */
} builder_t;
typedef struct value_t {
  PyObject_HEAD builder_t *builder;
  tenon_edge_t edge;
} value_t;

extern PyTypeObject *builder_type;
/* Every use of a builder, and of memory that it lends, stands between these two functions.
 * builder_enter returns false with an exception that names `what` if the builder has finished or is
 * in use. */
bool builder_enter(builder_t *self, const char *what);
static inline void builder_leave(builder_t *self) { self->is_used = false; }
PyObject *value_new(builder_t *builder, tenon_edge_t edge);
/* Enters the value's builder and reads what is known of the value. The result is valid until
 * builder_leave. Returns false with an exception if this fails; the builder is then not entered. */
bool value_port(PyObject *object, tenon_port_t *out_port);
/* Adds a constant made from a tensor object, or from a number with the dtype of `like`. */
bool constant_add(builder_t *self, const char *name, PyObject *object, bool copies,
                  const tenon_tensor_t *like, const char *op, const char *argument_name,
                  tenon_edge_t *out_edge);
/* The Python function builder_node(operator, arguments, named, name, builder), defined in node.c.
 * It adds the node when an operator is called with values. */
PyObject *builder_node(PyObject *module, PyObject *arguments);

#endif
