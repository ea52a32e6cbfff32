/* Shapes and strides as Python objects. */
#ifndef TENON_PYTHON_SHAPE_H
#define TENON_PYTHON_SHAPE_H

#include "core.h"

PyObject *tuple_of(const int64_t *numbers, int32_t count);
/* Reads a number, or a sequence of numbers. `shape` has room for TENON_RANK_MAX. */
bool shape_from(PyObject *object, int64_t *shape, int32_t *out_ndim);

#endif
