/* What the files of the extension share.  Only the limited API of Python 3.9 and tenon.h: one build
 * serves every later Python with the interpreter lock; free-threaded ones, which have no limited
 * API, are built for one by one (lock.h).  Functions give NULL, -1 or false with a Python exception
 * set, and are called with the lock held, or by a thread that is attached. */
#ifndef TENON_PYTHON_CORE_H
#define TENON_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <tenon/tenon.h>

#include "lock.h"

/* A slot for types whose objects only the extension makes: it raises. */
PyObject *refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *named);

/* errors (error.c) */

extern PyObject *error_class; /* tenon.Error, the base of all */
bool errors_add(PyObject *module);
/* Raises the exception of a status, with the thread's message; gives NULL. */
PyObject *raise_status(tenon_status_t status);
PyObject *raise_text(tenon_status_t status, const char *text);
/* The exceptions that hold a message of ours. */
PyObject *raise_invalid(const char *format, ...);

/* calls without the interpreter lock (unlocked.c) */

typedef struct unlocked_t {
  PyThreadState *state;
  tenon_poll_t poll;
  const tenon_poll_t *before;
  int64_t next; /* when signals are looked for */
  bool is_watched;
  bool is_raised;
} unlocked_t;
bool unlocked_start(void);
/* Around a call: the lock is given up, and taken again. */
void unlocked_begin(unlocked_t *unlocked);
/* False: a signal's handler has raised, whatever the call's status; the exception is set. */
bool unlocked_end(unlocked_t *unlocked);

/* arguments and results of calls (argument.c) */

typedef enum family_t {
  FAMILY_UNKNOWN,
  FAMILY_TENON,    /* tenon.Tensor */
  FAMILY_NUMPY,    /* numpy.ndarray, read in place */
  FAMILY_SCIPY,    /* a sparse matrix of scipy.sparse */
  FAMILY_EXCHANGE, /* a type with DLPack's C exchange table: torch.Tensor */
  FAMILY_DLPACK,   /* a type with __dlpack__ */
} family_t;
typedef struct
    /* of a call: that of its first tensor that is not tenon's, which results take after */
    origin_t {
  family_t family;
  PyObject *object;               /* borrowed */
  const struct exchange_t *table; /* of FAMILY_EXCHANGE */
} origin_t;
typedef struct argument_t { /* a tensor argument of one call; lives no longer than that */
  tenon_tensor_t *tensor;   /* &view, or a reference */
  PyObject *object;         /* borrowed */
  bool is_reference;        /* to be released */
  tenon_tensor_t view;
  int64_t strides[TENON_RANK_MAX];
} argument_t;
enum {
  ARGUMENT_KEPT = 1,
  ARGUMENT_WRITTEN = 2,
}; /* it may be kept, so it is not on the stack; its memory is written to */
/* Sets argument->tensor; numbers of Python's become tensors without axes, of `like`'s dtype.  op,
 * name: for messages. */
bool argument_set(argument_t *argument, PyObject *object, int flags, const tenon_tensor_t *like,
                  const char *op, const char *name, origin_t *origin);
static inline void argument_release(argument_t *argument) {
  if (argument->is_reference) tenon_tensor_release(argument->tensor);
}
/* As another dtype, by core::cast; the reference that it holds becomes one to the copy. */
bool argument_cast(argument_t *argument, tenon_dtype_t dtype);
/* A result as an object of that origin; takes the reference over. */
PyObject *result_of(tenon_tensor_t *tensor, const origin_t *origin);

/* NumPy (numpy.c) */

extern PyTypeObject
    *_Atomic numpy_type; /* numpy.ndarray; NULL: the program was not seen to have imported NumPy */
bool numpy_is_array(PyObject *object);
bool numpy_view(PyObject *array, bool writes, const char *op, const char *name,
                argument_t *argument);
/* Over the same memory; of texts an array of str, which are copied.  Takes the reference over.  No
 * type of NumPy's has the dtype, or the tensor is on a device: gives a tenon.Tensor. */
PyObject *numpy_of(tenon_tensor_t *tensor);

/* DLPack (dlpack.c) */

const struct exchange_t *exchange_of(PyTypeObject *type); /* NULL: it has none */
bool exchange_view(const struct exchange_t *table, PyObject *object, const char *op,
                   const char *name, argument_t *argument);
PyObject *exchange_result(const struct exchange_t *table,
                          tenon_tensor_t *tensor); /* takes the reference over */
bool exchange_add(PyTypeObject *type);             /* gives tenon.Tensor its own */
/* A new tensor over the memory of an object with __dlpack__. */
bool dlpack_import(PyObject *object, tenon_tensor_t **out_tensor);
/* A capsule, as x.__dlpack__(stream, max_version, dl_device, copy) gives it; each may be NULL. */
PyObject *dlpack_export(tenon_tensor_t *tensor, PyObject *stream, PyObject *max_version,
                        PyObject *dl_device, PyObject *copy);

/* tensors (tensor.c) */

extern PyTypeObject *tensor_type;
bool tensors_add(PyObject *module);
PyObject *tensor_new(tenon_tensor_t *tensor); /* takes the reference over */
tenon_tensor_t *tensor_get(PyObject *object); /* borrowed */
/* A tensor over an object's memory, which stays alive as long; the view's strides may be the
 * argument's. */
tenon_tensor_t *tensor_over(const tenon_tensor_t *view, PyObject *object);
PyObject *tuple_of(const int64_t *numbers, int32_t count);
bool shape_from(PyObject *object, int64_t *shape, int32_t *out_ndim); /* room for TENON_RANK_MAX */
int64_t count_of(const tenon_tensor_t *tensor);
PyObject *dtype_text(tenon_dtype_t dtype);
bool dtype_from(PyObject *object, tenon_dtype_t *out_dtype);
bool device_from(PyObject *object, tenon_device_t *out_device);
PyObject *device_text(tenon_device_t device);

/* sparse tensors (sparse.c) */

bool sparse_add(PyObject *module);
const char *
sparse_layout(const tenon_tensor_t *tensor);       /* "csr", "row_sparse"; NULL: it is not sparse */
PyObject *sparse_part(const tenon_tensor_t *part); /* a new tenon.Tensor; None: NULL */
bool layout_from(const char *name, uint32_t *out_kind);
/* A matrix of scipy.sparse, by its attributes. */
bool scipy_is(PyObject *object);
bool scipy_set(argument_t *argument, PyObject *object, const char *op, const char *name);
/* A sparse tensor as an object of the class of `like`, else a tenon.Tensor; takes the reference
 * over. */
PyObject *scipy_of(tenon_tensor_t *tensor, PyObject *like);

/* attributes (attribute.c) */

/* Sets one of `attrs` from an object. */
bool attribute_set(tenon_attrs_t *attrs, const char *op, const tenon_argument_t *of,
                   PyObject *object);
PyObject *attribute_object(const tenon_argument_t *of); /* its default; None: it has none */

/* operators (operator.c) and libraries (library.c) */

bool operators_add(PyObject *module);
PyObject *operator_new(const tenon_op_t *op);
/* Their library is being unloaded: calls of all objects that stand for one of them fail from here
 * on.  False: a call of one is on its way.  operators_settle says how it went: they have ended for
 * good, or work again. */
bool operators_end(const tenon_op_t *const *ops, int32_t count);
void operators_settle(const tenon_op_t *const *ops, int32_t count, bool is_unloaded);
extern lock_t libraries_lock; /* none is unloaded while it is held */
bool libraries_add(PyObject *module);
bool dispatch_add(PyObject *module);    /* dispatch.c */
bool definitions_add(PyObject *module); /* define.c */
bool profiles_add(PyObject *module);    /* profile.c */
bool recordings_add(PyObject *module);  /* recording.c */
tenon_profile_t *profile_current(void); /* that runs of this thread go into; NULL: none */

/* graphs (graph.c) and their builders (builder.c) */

bool graphs_add(PyObject *module);
PyObject *graph_new(tenon_graph_t *graph); /* takes the reference over */
const tenon_graph_t *
graph_get(PyObject *object); /* borrowed; NULL, without an exception: it is none */
PyObject *port_extents(
    const tenon_port_t *port); /* a list of numbers, names and None; None: no rank is known */
PyObject *port_dtype(const tenon_port_t *port); /* None: it is not known */
bool builders_add(PyObject *module);
bool value_check(PyObject *object); /* is it a tenon.graph.Value? */
/* Methods (parts.c): (name, operator, inputs, outputs, attributes) of each node, where values are
 * numbers; (name, type, is it a constant) of each value; the numbers of the values that are inputs,
 * and of those that are outputs. */
PyObject *graph_nodes(PyObject *self, PyObject *unused);
PyObject *graph_values(PyObject *self, PyObject *unused);
PyObject *graph_ports(PyObject *self, PyObject *unused);
/* transform.c */
PyObject *graph_apply(PyObject *self, PyObject *arguments);
PyObject *graph_passes(PyObject *module, PyObject *unused);

#endif
