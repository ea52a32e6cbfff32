/* Texts that libtenon returns, as Python strings. */
#ifndef TENON_PYTHON_TEXT_H
#define TENON_PYTHON_TEXT_H

#include "core.h"

/* Returns the str for a text that a function of libtenon returned together with `status`, and
 * releases the text. If the function failed, raises the exception of the status and returns
 * NULL. */
PyObject *text_take(tenon_status_t status, char *text);

#endif
