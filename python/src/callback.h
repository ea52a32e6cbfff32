/* Python functions that Tenon calls: kernels (define.c), shape functions (meta.c) and gradients
 * (gradient.c). */
#ifndef TENON_PYTHON_CALLBACK_H
#define TENON_PYTHON_CALLBACK_H

#include "core.h"

/* The context of an operator that is defined in Python is a list with these items. */
enum {
  CALLBACK_KERNEL = 0,
  CALLBACK_META = 1, /* None: no function was given */
  /* the class of the objects that CALLBACK_META receives for tensors, made from a dtype and a
   * shape */
  CALLBACK_META_CLASS = 2,
  CALLBACK_COUNT = 3,
};

/* These two functions surround every use of Python objects, on any thread. */
typedef struct callback_lock_t {
  PyGILState_STATE state;
  /* The call comes from this package, which raises the function's exceptions. Other callers, such
   * as JAX, must not find an exception that is set. */
  bool is_pythons;
} callback_lock_t;
callback_lock_t callback_begin(void);
void callback_end(callback_lock_t *lock);

typedef struct callback_arguments_t {
  PyObject *positional;
  PyObject *named;
} callback_arguments_t;
/* Collects the arguments of a Python function in the order of the schema: input(call, i) makes the
 * object of a tensor; keyword-only arguments go to `named`. Returns false with an exception set;
 * nothing is left to release then. */
bool callback_arguments(const tenon_op_t *op, const tenon_value_t *attrs,
                        PyObject *(*input)(const void *call, int32_t i), const void *call,
                        callback_arguments_t *given);
void callback_drop(callback_arguments_t *given);
PyObject *callback_call(PyObject *function,
                        callback_arguments_t *given); /* also releases the arguments */
/* Returns a copy as a NumPy array, if the program has imported NumPy; a list of copies for a list;
 * None for NULL. */
PyObject *callback_copy(const tenon_tensor_t *tensor);
/* Reports the current exception through the host as "OP: its WHAT in Python raised: ...". The
 * exception stays set for callback_end. */
tenon_status_t callback_failed(const tenon_host_t *host, const void *call, const char *op,
                               const char *what);
void callback_release(void *object); /* the `destroy` function of a context */

#endif
