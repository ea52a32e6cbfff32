/* Devices as Python objects. */
#ifndef TENON_PYTHON_DEVICE_H
#define TENON_PYTHON_DEVICE_H

#include "core.h"

PyObject *device_text(tenon_device_t device);
/* Accepts "cpu", "sim", "opencl:1" and the like. */
bool device_from(PyObject *object, tenon_device_t *out_device);

#endif
