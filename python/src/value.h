/* tenon.graph.Value: a value of a graph that is being built; and the functions that keep all
 * threads but one out of its builder. */
#ifndef TENON_PYTHON_VALUE_H
#define TENON_PYTHON_VALUE_H

#include "core.h"

typedef struct builder_t {
  PyObject_HEAD tenon_builder_t *builder; /* NULL after the graph was finished */
  _Atomic bool is_used;                   /* a thread is using the builder */
} builder_t;
typedef struct value_t {
  PyObject_HEAD builder_t *builder;
  tenon_edge_t edge;
} value_t;

/* Every use of a builder, and of memory that it lends, stands between these two functions.
 * builder_enter returns false with an exception that names `what` if the builder has finished or is
 * in use. */
bool builder_enter(builder_t *self, const char *what);
static inline void builder_leave(builder_t *self) { self->is_used = false; }
PyObject *value_new(builder_t *builder, tenon_edge_t edge);
/* Enters the value's builder and reads what is known of the value. The result is valid until
 * builder_leave. Returns false with an exception if this fails; the builder is then not entered. */
bool value_port(PyObject *object, tenon_port_t *out_port);
bool value_check(PyObject *object); /* whether the object is a tenon.graph.Value */
bool values_add(PyObject *module);

#endif
