/* What an operator object is, and its call. */
#ifndef TENON_PYTHON_OPERATOR_H
#define TENON_PYTHON_OPERATOR_H

#include "core.h"

enum { OPERATOR_MOST = 64 }; /* arguments, and results */
extern PyTypeObject *operator_type;

enum {
  OWN_OUT,
  OWN_ADD,
  OWN_COUNT,
}; /* arguments that every operator has: for results, and whether they are added to them */

typedef struct parameter_t {
  PyObject *name; /* interned */
  tenon_argument_t of;
} parameter_t;

/* Attributes of a call, and the objects that they were made of: one for each parameter, or NULL. */
typedef struct call_attrs_t {
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  bool is_kept; /* after the call, for the next one: the objects cannot change */
  PyObject *objects[];
} call_attrs_t;
/* What an operator has for each of a few threads, so that they seldom meet. */
typedef struct place_t {
  void *attrs;  /* call_attrs_t: of the last call; NULL: none, or a call has taken them */
  size_t calls; /* that are using the operator: its library is not unloaded meanwhile */
} place_t;
enum { PLACES = 8 };

typedef struct operator_t {
  PyObject_HEAD PyObject *(*call)(PyObject *, PyObject *const *, size_t, PyObject *);
  const tenon_op_t *op;  /* to be used between operator_hold and operator_leave only */
  _Atomic bool is_ended; /* its library was unloaded */
  struct operator_t *next;
  struct operator_t *before;      /* all that live */
  PyObject *own_names[OWN_COUNT]; /* of OWN_...: "out", or "out_" beside an argument out; "add" */
  char *name;                     /* its own: it outlives the library */
  uint32_t count;
  uint32_t positional;
  uint32_t inputs;
  uint32_t outputs;
  uint32_t open; /* open: the place of what takes other names, or `count` */
  bool is_brief;
  bool keeps;
  bool has_lists;
  bool has_attrs;
  parameter_t *parameters; /* in the schema's order */
  place_t places[PLACES];
} operator_t;

/* Around each use of its op.  NULL, without an exception: its library was unloaded. */
static inline place_t *operator_hold(operator_t *self) {
  place_t *place = &self->places[((uintptr_t)__builtin_frame_address(0) >> 23) %
                                 PLACES]; /* stacks lie 8 MB apart */
  shared_add(&place->calls, 1);
  if (!self->is_ended) return place;
  shared_add(&place->calls, (size_t)-1);
  return NULL;
}
static inline void operator_leave(place_t *place) {
  if (place) shared_add(&place->calls, (size_t)-1);
}
PyObject *operator_ended(const operator_t *self); /* says so; gives NULL */

PyObject *operator_vectorcall(PyObject *object, PyObject *const *args, size_t flags,
                              PyObject *names);
/* The slow form, for callers that have a tuple and a dictionary. */
PyObject *operator_call(PyObject *object, PyObject *tuple, PyObject *named);
/* infer(tensors, attributes, symbols), for adapters: tensors has (dtype, extents) for each tensor
 * argument, or None, or a list of such; an extent is a number, or -1 - k for symbol k; so is that
 * of a dim attribute, in a tuple.  Gives the results in the same form, whose extents are numbers or
 * trees, and what symbols are known to be. */
PyObject *operator_infer(PyObject *object, PyObject *arguments);
/* Where each argument of a call is, borrowed; NULL: not given.  given: room for OPERATOR_MOST, own:
 * for OWN_COUNT.  *open (NULL before) is the caller's to release, after a failure too. */
bool operator_place(operator_t *self, PyObject *tuple, PyObject *named, PyObject **given,
                    PyObject **own, PyObject **open);
/* Its attributes, until operator_attrs_end; NULL with *out_default: nothing is given; else an
 * exception is set. */
call_attrs_t *operator_attrs(operator_t *self, place_t *place, PyObject *const *given,
                             bool *out_default);
void operator_attrs_end(const operator_t *self, place_t *place, call_attrs_t *attrs);
void call_attrs_release(call_attrs_t *attrs, uint32_t count);

#endif
