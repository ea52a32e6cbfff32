/* Shape functions in Python (tenon.meta). */
#ifndef TENON_PYTHON_META_H
#define TENON_PYTHON_META_H

#include "core.h"

/* The shape function of an operator whose context is a list as in callback.h. */
tenon_status_t meta_infer(tenon_infer_t *infer);
bool metas_add(PyObject *module);

#endif
