/* What an operator object is, and its call. */
#ifndef TENON_PYTHON_OPERATOR_H
#define TENON_PYTHON_OPERATOR_H

#include "core.h"

enum { OPERATOR_MOST = 64 }; /* arguments, and results */
extern PyTypeObject *operator_type;

enum {
  OWN_OUT,
  OWN_ADD,
  OWN_COUNT
}; /* arguments that every operator has: for results, and whether they are added to them */

typedef struct parameter_t {
  PyObject *name; /* interned */
  tenon_argument_t of;
} parameter_t;

typedef struct
    attrs_t { /* attributes of a call, and the objects that they were made of: one for each parameter, or NULL */
  Py_ssize_t references;
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  PyObject *objects[];
} call_attrs_t;

typedef struct operator_t {
  PyObject_HEAD PyObject *(*call)(PyObject *, PyObject *const *, size_t, PyObject *);
  const tenon_op_t *op;                              /* NULL: its library was unloaded */
  struct operator_t *next, *before;                  /* all that live */
  PyObject *own_names[OWN_COUNT];                    /* of OWN_...: "out", or "out_" beside an argument out; "add" */
  char *name;                                        /* its own: it outlives the library */
  uint32_t count, positional, inputs, outputs, open; /* open: the place of what takes other names, or `count` */
  bool is_brief, keeps, has_lists, has_attrs;
  parameter_t *parameters; /* in the schema's order */
  call_attrs_t *last;
} operator_t;

PyObject *operator_vectorcall(PyObject *object, PyObject *const *args, size_t flags, PyObject *names);
/* The slow form, for callers that have a tuple and a dictionary. */
PyObject *operator_call(PyObject *object, PyObject *tuple, PyObject *named);
/* infer(tensors, attributes, symbols), for adapters: tensors has (dtype, extents) for each tensor argument, or None, or a list
 * of such; an extent is a number, or -1 - k for symbol k; so is that of a dim attribute, in a tuple.  Gives the results in the
 * same form, whose extents are numbers or trees, and what symbols are known to be. */
PyObject *operator_infer(PyObject *object, PyObject *arguments);
/* Where each argument of a call is, borrowed; NULL: not given.  given: room for OPERATOR_MOST, own: for OWN_COUNT.  *open (NULL before) is the
 * caller's to release, after a failure too. */
bool operator_place(operator_t *self, PyObject *tuple, PyObject *named, PyObject **given, PyObject **own,
                    PyObject **open);
/* A reference to its attributes; NULL with *out_default: nothing is given; else an exception is set. */
call_attrs_t *operator_attrs(operator_t *self, PyObject *const *given, bool *out_default);
void call_attrs_release(call_attrs_t *attrs, uint32_t count);

#endif
