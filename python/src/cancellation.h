/* tenon.Cancellation: ends calls and runs early, from another thread or after a time. */
#ifndef TENON_PYTHON_CANCELLATION_H
#define TENON_PYTHON_CANCELLATION_H

#include "core.h"

bool cancellations_add(PyObject *module);
/* The cancellation that this thread entered last; NULL: none. */
const struct cancellation_t *cancellation_entered(void);
/* TENON_OK, or the status with which calls under this cancellation end, with a message. Any thread
 * may ask, without the interpreter lock. */
tenon_status_t cancellation_ask(const struct cancellation_t *entered, int64_t now);
int64_t clock_milliseconds(void); /* from an arbitrary start; never steps back */

#endif
