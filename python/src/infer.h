/* Shape inference for adapters. */
#ifndef TENON_PYTHON_INFER_H
#define TENON_PYTHON_INFER_H

#include "core.h"

/* infer(tensors, attributes, symbols[, wanted]), for adapters. `tensors` has one item for each
 * tensor argument: (dtype, extents), None, or a list of (dtype, extents). An extent is a number >=
 * 0, or -1 - k for symbol k; a dim attribute that is a symbol is given as (-1 - k,).
 *
 * Returns the results in the same form, with numbers or trees as extents, and a list of what is
 * known about the symbols. */
PyObject *operator_infer(PyObject *object, PyObject *arguments);

#endif
