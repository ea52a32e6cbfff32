/* Attributes of operators as Python objects. */
#ifndef TENON_PYTHON_ATTRIBUTE_H
#define TENON_PYTHON_ATTRIBUTE_H

#include "core.h"

/* Sets one attribute of `attrs` from an object. */
bool attribute_set(tenon_attrs_t *attrs, const char *op, const tenon_argument_t *of,
                   PyObject *object);
/* the default value; None if there is none */
PyObject *attribute_object(const tenon_argument_t *of);

#endif
