/* tenon._core.Library, and loading, building and unloading libraries. */
#ifndef TENON_PYTHON_LIBRARY_H
#define TENON_PYTHON_LIBRARY_H

#include "core.h"
#include "lock.h"

extern lock_t libraries_lock; /* no library is unloaded while a thread holds it */
bool libraries_add(PyObject *module);

#endif
