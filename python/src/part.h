/* Functions of Python's as parts of operators: kernels (define.c), inference of shapes (meta.c),
 * gradients (gradient.c). */
#ifndef TENON_PYTHON_PART_H
#define TENON_PYTHON_PART_H

#include "core.h"

enum { /* of an operator that Python defines: its context is a list of them */
       PART_KERNEL = 0,
       PART_META = 1,       /* None: not given */
       PART_META_CLASS = 2, /* what PART_META gets for a tensor: made of a dtype and a shape */
       PART_COUNT = 3,
};

/* Around whatever is done with Python's objects, on any thread. */
typedef struct part_lock_t {
  PyGILState_STATE state;
  bool is_pythons; /* Python made the call: what a function raises is raised there */
} part_lock_t;
part_lock_t part_begin(void);
void part_end(part_lock_t *lock);

typedef struct part_arguments_t {
  PyObject *positional;
  PyObject *named;
} part_arguments_t;
/* In the schema's order: tensors, of which input(call, i) makes an object, and attributes by place,
 * those that are keyword-only by name.  false: an exception is set, and nothing is left. */
bool part_arguments(const tenon_op_t *op, const tenon_value_t *attrs,
                    PyObject *(*input)(const void *call, int32_t i), const void *call,
                    part_arguments_t *given);
void part_drop(part_arguments_t *given);
PyObject *part_call(PyObject *function, part_arguments_t *given); /* and drops them */
/* A copy as NumPy's array, where the program has NumPy; a list of them; None for NULL. */
PyObject *part_copy(const tenon_tensor_t *tensor);
/* The exception as a message of the host's: "OP: its WHAT in Python raised: ..."; it stays for
 * part_end. */
tenon_status_t part_failed(const tenon_host_t *host, const void *call, const char *op,
                           const char *what);
void part_release(void *object); /* a context's destroy */

PyObject *registration_new(tenon_registration_t *registration);
tenon_status_t meta_infer(tenon_infer_t *infer);
bool metas_add(PyObject *module);
bool gradients_add(PyObject *module);

#endif
