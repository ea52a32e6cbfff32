/* The structure of tenon.Operator, and the functions that call one. A library is not unloaded while
 * a call of one of its operators is between operator_hold and operator_leave. */
#ifndef TENON_PYTHON_OPERATOR_H
#define TENON_PYTHON_OPERATOR_H

#include "core.h"

enum { OPERATOR_MOST = 64 }; /* the largest number of arguments, and of results */
extern PyTypeObject *operator_type;

/* The arguments that every operator has. */
enum {
  OWN_OUT, /* the tensors for the results */
  OWN_ADD, /* whether the results are added to these tensors */
  OWN_COUNT,
};

typedef struct parameter_t {
  PyObject *name; /* interned */
  tenon_argument_t of;
} parameter_t;

/* The attributes of a call, and the objects that they were made from: one for each parameter, or
 * NULL. */
typedef struct call_attrs_t {
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  bool is_kept; /* the objects are immutable, so the attributes are kept for the next call */
  PyObject *objects[];
} call_attrs_t;
/* State that an operator keeps for a group of threads. There are several of them, so that threads
 * rarely share one. */
typedef struct shard_t {
  /* a call_attrs_t: the attributes of the last call; NULL: none, or a call is using them */
  void *attrs;
  size_t calls; /* calls that use the operator; its library is not unloaded meanwhile */
} shard_t;
enum { SHARDS = 8 };

typedef struct operator_t {
  PyObject_HEAD PyObject *(*call)(PyObject *, PyObject *const *, size_t, PyObject *);
  const tenon_op_t *op;  /* to be used only between operator_hold and operator_leave */
  _Atomic bool is_ended; /* the library was unloaded */
  struct operator_t *next;
  struct operator_t *before; /* neighbours in the list of all operator objects */
  /* indexed by OWN_...: "out" and "add", or "out_" and "add_" if the operator has such an
   * argument */
  PyObject *own_names[OWN_COUNT];
  char *name; /* a copy, since the object outlives the library */
  uint32_t count;
  uint32_t positional;
  uint32_t inputs;
  uint32_t outputs;
  /* the index of the parameter that takes arguments with other names; `count` if there is none */
  uint32_t open;
  bool is_brief;
  bool keeps;
  bool has_lists;
  bool has_attrs;
  parameter_t *parameters; /* in the order of the schema */
  shard_t shards[SHARDS];
} operator_t;

/* These two functions surround each use of `op`. operator_hold returns NULL without an exception if
 * the library was unloaded. */
static inline shard_t *operator_hold(operator_t *self) {
  /* Stacks of threads lie 8 MB apart. */
  shard_t *shard = &self->shards[((uintptr_t)__builtin_frame_address(0) >> 23) % SHARDS];
  shared_add(&shard->calls, 1);
  if (!self->is_ended) return shard;
  shared_add(&shard->calls, (size_t)-1);
  return NULL;
}
static inline void operator_leave(shard_t *shard) {
  if (shard) shared_add(&shard->calls, (size_t)-1);
}
/* raises that the library was unloaded; returns NULL */
PyObject *operator_ended(const operator_t *self);

PyObject *operator_vectorcall(PyObject *object, PyObject *const *args, size_t flags,
                              PyObject *names);
/* The slow form, for callers that have a tuple and a dictionary. */
PyObject *operator_call(PyObject *object, PyObject *tuple, PyObject *named);
/* infer(tensors, attributes, symbols[, wanted]), for adapters. `tensors` has one item for each
 * tensor argument: (dtype, extents), None, or a list of (dtype, extents). An extent is a number >=
 * 0, or -1 - k for symbol k; a dim attribute that is a symbol is given as (-1 - k,).
 *
 * Returns the results in the same form, with numbers or trees as extents, and a list of what is
 * known about the symbols. */
PyObject *operator_infer(PyObject *object, PyObject *arguments);
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
