/* Declarations that the files of the extension share. The extension uses only the limited API of
 * Python 3.9 and tenon.h, so one build serves every later Python with the interpreter lock.
 * Free-threaded Pythons have no limited API and each need a build of their own (lock.h). Functions
 * report failure by NULL, -1 or false with a Python exception set. The caller holds the interpreter
 * lock (or, in free-threaded Pythons, is an attached thread). */
#ifndef TENON_PYTHON_CORE_H
#define TENON_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <tenon/tenon.h>

#include "lock.h"

/* Returns the object with one more reference. */
static inline PyObject *new_reference(PyObject *object) {
  Py_INCREF(object);
  return object;
}

/* The tp_new of types whose objects only the extension creates: it raises a TypeError. */
PyObject *refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *named);

/* errors (error.c) */

extern PyObject *error_class; /* tenon.Error, the base class of all exceptions */
bool errors_add(PyObject *module);
/* Raises the exception of a status with the thread's error message; returns NULL. */
PyObject *raise_status(tenon_status_t status);
PyObject *raise_text(tenon_status_t status, const char *text);
/* Raises tenon.InvalidError with a formatted message; returns NULL. */
PyObject *raise_invalid(const char *format, ...);

/* calls without the interpreter lock (unlocked.c) */

typedef struct unlocked_t {
  PyThreadState *state;
  tenon_poll_t poll;
  const tenon_poll_t *before;
  int64_t next; /* when to check for signals next, in milliseconds */
  bool is_watched;
  bool is_raised;
} unlocked_t;
bool unlocked_start(void);
/* unlocked_begin releases the interpreter lock before a call, and unlocked_end takes it again. */
void unlocked_begin(unlocked_t *unlocked);
/* Returns false with the exception set if a signal handler raised, whatever the status of the
 * call. */
bool unlocked_end(unlocked_t *unlocked);

/* arguments and results of calls (argument.c) */

typedef enum family_t {
  FAMILY_UNKNOWN,
  FAMILY_TENON,    /* tenon.Tensor */
  FAMILY_NUMPY,    /* numpy.ndarray, read in place */
  FAMILY_SCIPY,    /* a sparse matrix of scipy.sparse */
  FAMILY_EXCHANGE, /* a type with the C exchange table of DLPack, such as torch.Tensor */
  FAMILY_DLPACK,   /* a type with __dlpack__ */
} family_t;
/* Where the first tensor of a call that is not a tenon.Tensor comes from. Results become
 * objects of the same kind. */
typedef struct origin_t {
  family_t family;
  PyObject *object;               /* borrowed */
  const struct exchange_t *table; /* for FAMILY_EXCHANGE */
} origin_t;
typedef struct argument_t { /* a tensor argument; it lives no longer than the call */
  tenon_tensor_t *tensor;   /* &view, or a counted tensor */
  PyObject *object;         /* borrowed */
  bool is_reference;        /* `tensor` must be released */
  tenon_tensor_t view;
  int64_t strides[TENON_RANK_MAX];
} argument_t;
enum {
  ARGUMENT_KEPT = 1,    /* the call may keep the tensor, so it must not be on the stack */
  ARGUMENT_WRITTEN = 2, /* the call writes to the memory */
};
/* Sets argument->tensor from an object. A Python number becomes a tensor without axes that has the
 * dtype of `like`. Messages name `op` and `name`. */
bool argument_set(argument_t *argument, PyObject *object, int flags, const tenon_tensor_t *like,
                  const char *op, const char *name, origin_t *origin);
static inline void argument_release(argument_t *argument) {
  if (argument->is_reference) tenon_tensor_release(argument->tensor);
}
/* Converts the argument to another dtype with core::cast. The argument then holds a reference to
 * the copy. */
bool argument_cast(argument_t *argument, tenon_dtype_t dtype);
/* Returns the object for a result, of the same kind as `origin`; takes the reference over. */
PyObject *result_of(tenon_tensor_t *tensor, const origin_t *origin);

/* NumPy (numpy.c) */

/* numpy.ndarray; NULL as long as the program has not been seen to import NumPy */
extern PyTypeObject *_Atomic numpy_type;
bool numpy_is_array(PyObject *object);
bool numpy_view(PyObject *array, bool writes, const char *op, const char *name,
                argument_t *argument);
/* Returns a NumPy array over the same memory; strings are copied to an array of str. Returns a
 * tenon.Tensor if NumPy has no such dtype or if the tensor is on a device. Takes the reference
 * over. */
PyObject *numpy_of(tenon_tensor_t *tensor);

/* DLPack (dlpack.c) */

const struct exchange_t *exchange_of(PyTypeObject *type); /* NULL: the type has none */
bool exchange_view(const struct exchange_t *table, PyObject *object, const char *op,
                   const char *name, argument_t *argument);
PyObject *exchange_result(const struct exchange_t *table,
                          tenon_tensor_t *tensor); /* takes the reference over */
bool exchange_add(PyTypeObject *type);             /* gives tenon.Tensor its own exchange table */
/* Creates a tensor over the memory of an object with __dlpack__. */
bool dlpack_import(PyObject *object, tenon_tensor_t **out_tensor);
/* Returns a capsule for x.__dlpack__(stream, max_version, dl_device, copy); each of the arguments
 * may be NULL. */
PyObject *dlpack_export(tenon_tensor_t *tensor, PyObject *stream, PyObject *max_version,
                        PyObject *dl_device, PyObject *copy);

/* tensors (tensor.c) */

extern PyTypeObject *tensor_type;
bool tensors_add(PyObject *module);
PyObject *tensor_new(tenon_tensor_t *tensor); /* takes the reference over */
tenon_tensor_t *tensor_get(PyObject *object); /* borrowed */
/* Creates a tensor over the memory of an object and keeps the object alive as long as the tensor.
 * The strides of `view` may be those of an argument_t. */
tenon_tensor_t *tensor_over(const tenon_tensor_t *view, PyObject *object);
PyObject *tuple_of(const int64_t *numbers, int32_t count);
/* `shape` has room for TENON_RANK_MAX */
bool shape_from(PyObject *object, int64_t *shape, int32_t *out_ndim);
int64_t count_of(const tenon_tensor_t *tensor);
PyObject *dtype_text(tenon_dtype_t dtype);
bool dtype_from(PyObject *object, tenon_dtype_t *out_dtype);
bool device_from(PyObject *object, tenon_device_t *out_device);
PyObject *device_text(tenon_device_t device);

/* sparse tensors (sparse.c) */

bool sparse_add(PyObject *module);
/* "csr" or "row_sparse"; NULL for other tensors */
const char *sparse_layout(const tenon_tensor_t *tensor);
PyObject *sparse_part(const tenon_tensor_t *part); /* a new tenon.Tensor; None for NULL */
bool layout_from(const char *name, uint32_t *out_kind);
/* Returns whether an object is a matrix of scipy.sparse, judged by its attributes. */
bool scipy_is(PyObject *object);
bool scipy_set(argument_t *argument, PyObject *object, const char *op, const char *name);
/* Returns a sparse tensor as an object of the class of `like`, or as a tenon.Tensor if SciPy cannot
 * represent it; takes the reference over. */
PyObject *scipy_of(tenon_tensor_t *tensor, PyObject *like);

/* attributes (attribute.c) */

/* Sets one attribute of `attrs` from an object. */
bool attribute_set(tenon_attrs_t *attrs, const char *op, const tenon_argument_t *of,
                   PyObject *object);
/* the default value; None if there is none */
PyObject *attribute_object(const tenon_argument_t *of);

/* operators (operator.c) and libraries (library.c) */

bool operators_add(PyObject *module);
PyObject *operator_new(const tenon_op_t *op);
/* Ends all operator objects of a library that is about to be unloaded: their calls fail from now
 * on. Returns false if a call is in progress. operators_settle then says whether the library was
 * unloaded or the operators work again. */
bool operators_end(const tenon_op_t *const *ops, int32_t count);
void operators_settle(const tenon_op_t *const *ops, int32_t count, bool is_unloaded);
extern lock_t libraries_lock; /* no library is unloaded while a thread holds it */
bool libraries_add(PyObject *module);
bool dispatch_add(PyObject *module);    /* dispatch.c */
bool definitions_add(PyObject *module); /* define.c */
bool profiles_add(PyObject *module);    /* profile.c */
bool dumps_add(PyObject *module);       /* dump.c */
/* the profile that runs of this thread are added to; NULL: none */
tenon_profile_t *profile_current(void);

/* graphs (graph.c) and their builders (builder.c) */

bool graphs_add(PyObject *module);
PyObject *graph_new(tenon_graph_t *graph); /* takes the reference over */
const tenon_graph_t *
graph_get(PyObject *object); /* borrowed; NULL without an exception if the object is not a Graph */
PyObject *port_extents(
    const tenon_port_t *port); /* a list of numbers, names and None; None if the rank is unknown */
PyObject *port_dtype(const tenon_port_t *port); /* None if the dtype is unknown */
bool builders_add(PyObject *module);
bool value_check(PyObject *object); /* whether the object is a tenon.graph.Value */
/* Methods of Graph (parts.c), where values are represented by numbers. graph_nodes returns (name,
 * operator, inputs, outputs, attributes) of each node, graph_values (name, type, is_constant) of
 * each value, and graph_ports the numbers of the inputs and of the outputs. */
PyObject *graph_nodes(PyObject *self, PyObject *unused);
PyObject *graph_values(PyObject *self, PyObject *unused);
PyObject *graph_ports(PyObject *self, PyObject *unused);
/* passes and partitioners (transform.c) */
PyObject *graph_apply(PyObject *self, PyObject *arguments);
PyObject *graph_passes(PyObject *module, PyObject *unused);

#endif
