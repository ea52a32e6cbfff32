/* Devices as Python objects: a str with the name, followed by ":NUMBER" except for the CPU. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

PyObject *device_text(tenon_device_t device) {
  const char *name = tenon_key_for_device(device);
  if (device.type == 1) return PyUnicode_FromString("cpu");
  return PyUnicode_FromFormat("%s:%d", name ? name : "unknown", (int)(device.id & 255));
}

bool device_from(PyObject *object, tenon_device_t *out_device) {
  char name[64];
  int ordinal = 0;
  PyObject *text = PyObject_Str(object);
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  Py_XDECREF(text);
  if (!bytes) return false;
  snprintf(name, sizeof name, "%s", PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  char *colon = strchr(name, ':');
  if (colon) {
    char *end;
    long number = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || number < 0 || number > 255) {
      raise_invalid("expected a device as NAME or NAME:NUMBER with a number from 0 to 255, such as "
                    "\"sim:1\"; found %R",
                    object);
      return false;
    }
    *colon = 0;
    ordinal = (int)number;
  }
  if (strcmp(name, "cpu") == 0) {
    *out_device = (tenon_device_t){1, 0};
    return true;
  }
  tenon_status_t status = tenon_device_find(name, ordinal, out_device);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}
