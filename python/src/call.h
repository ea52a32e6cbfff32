/* Calls of operators from Python. */
#ifndef TENON_PYTHON_CALL_H
#define TENON_PYTHON_CALL_H

#include "operator.h"

/* The attributes of a call, and the objects that they were made from: one for each parameter, or
 * NULL. */
typedef struct call_attrs_t {
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  bool is_kept; /* the objects are immutable, so the attributes are kept for the next call */
  PyObject *objects[];
} call_attrs_t;

/* Raises that the library of an operator was unloaded; returns NULL. */
PyObject *operator_ended(const operator_t *self);
PyObject *operator_vectorcall(PyObject *object, PyObject *const *args, size_t flags,
                              PyObject *names);
/* The slow form, for callers that have a tuple and a dictionary. */
PyObject *operator_call(PyObject *object, PyObject *tuple, PyObject *named);
/* Finds the object for each argument of a call, borrowed; NULL means that it is not given. `given`
 * has room for OPERATOR_MOST objects, `own` for OWN_COUNT. *open must be NULL before; the caller
 * releases it, also after a failure. */
bool operator_arrange(operator_t *self, PyObject *tuple, PyObject *named, PyObject **given,
                      PyObject **own, PyObject **open);
/* Returns the attributes of a call, to be given back by operator_attrs_end. Returns NULL with
 * *out_default set if no attribute is given, and NULL with an exception after a failure. */
call_attrs_t *operator_attrs(operator_t *self, shard_t *shard, PyObject *const *given,
                             bool *out_default);
void operator_attrs_end(const operator_t *self, shard_t *shard, call_attrs_t *attrs);
void call_attrs_release(call_attrs_t *attrs, uint32_t count);

#endif
