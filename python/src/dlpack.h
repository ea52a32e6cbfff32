/* DLPack: tensors shared with other array libraries. */
#ifndef TENON_PYTHON_DLPACK_H
#define TENON_PYTHON_DLPACK_H

#include "argument.h"

const struct exchange_t *exchange_of(PyTypeObject *type); /* NULL: the type has none */
/* Asks a tensor of PyTorch for what its table of functions does not tell.  The tensor may require a
 * gradient, which is refused outside of torch.no_grad(). It may be stored negated or conjugated:
 * *object becomes a new reference to a tensor without this bit, unless the call writes to it. */
bool exchange_check(PyObject **object, bool is_written, const char *op, const char *name);
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

#endif
