/* tenon.Operator: its structure, and the list of all operator objects. A library is not unloaded
 * while a call of one of its operators is between operator_hold and operator_leave. */
#ifndef TENON_PYTHON_OPERATOR_H
#define TENON_PYTHON_OPERATOR_H

#include "core.h"
#include "lock.h"

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
bool operators_add(PyObject *module);
PyObject *operator_new(const tenon_op_t *op);
/* Ends all operator objects of a library that is about to be unloaded: their calls fail from now
 * on. Returns false if a call is in progress. operators_settle then says whether the library was
 * unloaded or the operators work again. */
bool operators_end(const tenon_op_t *const *ops, int32_t count);
void operators_settle(const tenon_op_t *const *ops, int32_t count, bool is_unloaded);

#endif
