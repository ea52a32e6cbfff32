/* Python functions as parts of operators: kernels (define.c), shape functions (meta.c) and
 * gradients (gradient.c). */
#ifndef TENON_PYTHON_PART_H
#define TENON_PYTHON_PART_H

#include "core.h"

/* The context of an operator that is defined in Python is a list with these items. */
enum {
  PART_KERNEL = 0,
  PART_META = 1, /* None: no function was given */
  /* the class of the objects that PART_META receives for tensors, made from a dtype and a shape */
  PART_META_CLASS = 2,
  PART_COUNT = 3,
};

/* These two functions surround every use of Python objects, on any thread. */
typedef struct part_lock_t {
  PyGILState_STATE state;
  bool is_pythons; /* the call comes from Python, so exceptions of the function are raised there */
} part_lock_t;
part_lock_t part_begin(void);
void part_end(part_lock_t *lock);

typedef struct part_arguments_t {
  PyObject *positional;
  PyObject *named;
} part_arguments_t;
/* Collects the arguments of a Python function in the order of the schema: input(call, i) makes the
 * object of a tensor; keyword-only arguments go to `named`. Returns false with an exception set;
 * nothing is left to release then. */
bool part_arguments(const tenon_op_t *op, const tenon_value_t *attrs,
                    PyObject *(*input)(const void *call, int32_t i), const void *call,
                    part_arguments_t *given);
void part_drop(part_arguments_t *given);
PyObject *part_call(PyObject *function, part_arguments_t *given); /* also releases the arguments */
/* Returns a copy as a NumPy array, if the program has imported NumPy; a list of copies for a list;
 * None for NULL. */
PyObject *part_copy(const tenon_tensor_t *tensor);
/* Reports the current exception through the host as "OP: its WHAT in Python raised: ...". The
 * exception stays set for part_end. */
tenon_status_t part_failed(const tenon_host_t *host, const void *call, const char *op,
                           const char *what);
void part_release(void *object); /* the `destroy` function of a context */

PyObject *registration_new(tenon_registration_t *registration);
tenon_status_t meta_infer(tenon_infer_t *infer);
bool metas_add(PyObject *module);
bool gradients_add(PyObject *module);

#endif
