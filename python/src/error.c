/* Exceptions: one class for each status that callers distinguish. Each class derives from
 * tenon.Error and from the built-in exception with the same meaning. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PyObject *error_class;

typedef struct class_t {
  tenon_status_t status;
  const char *name;
  const char *doc;
  PyObject **also; /* the built-in class */
  PyObject *class;
} class_t;

static class_t classes[] = {
    {TENON_INVALID, "InvalidError", "An argument is wrong: its dtype, shape, device or value.",
     &PyExc_ValueError, NULL},
    {TENON_NOT_FOUND, "NotFoundError", "The operator, library, device or file does not exist.",
     &PyExc_LookupError, NULL},
    {TENON_EXISTS, "ExistsError", "An object of this name exists already.", &PyExc_ValueError,
     NULL},
    {TENON_DENIED, "DeniedError", "The policy for loading libraries forbids it.",
     &PyExc_PermissionError, NULL},
    {TENON_MEMORY, "OutOfMemoryError", "There is not enough memory on the host or on a device.",
     &PyExc_MemoryError, NULL},
    {TENON_RANGE, "RangeError", "A number or an index is out of range.", &PyExc_ValueError, NULL},
    {TENON_UNIMPLEMENTED, "UnimplementedError", "No kernel or feature supports the request.",
     &PyExc_NotImplementedError, NULL},
    {TENON_DEADLINE, "DeadlineError", "The time limit has passed.", &PyExc_TimeoutError, NULL},
    {TENON_CANCELLED, "CancelledError", "The work was cancelled.", NULL, NULL}};
enum { CLASSES = sizeof classes / sizeof *classes };

static bool add_class(PyObject *module, class_t *c) {
  char name[64];
  PyObject *bases = c->also ? PyTuple_Pack(2, error_class, *c->also) : PyTuple_Pack(1, error_class);
  snprintf(name, sizeof name, "tenon.%s", c->name);
  if (bases) c->class = PyErr_NewExceptionWithDoc(name, c->doc, bases, NULL);
  Py_XDECREF(bases);
  if (!c->class) return false;
  Py_INCREF(c->class);
  return PyModule_AddObject(module, c->name, c->class) == 0;
}

bool errors_add(PyObject *module) {
  error_class =
      PyErr_NewExceptionWithDoc("tenon.Error",
                                "An error reported by the runtime, a library or a kernel. The "
                                "message says what was expected and what was found.",
                                PyExc_RuntimeError, NULL);
  if (!error_class) return false;
  Py_INCREF(error_class);
  if (PyModule_AddObject(module, "Error", error_class) != 0) return false;
  for (size_t i = 0; i < CLASSES; i++)
    if (!add_class(module, &classes[i])) return false;
  return true;
}

PyObject *raise_status(tenon_status_t status) { return raise_text(status, tenon_error()); }

PyObject *raise_text(tenon_status_t status, const char *text) {
  PyObject *class = error_class;
  /* An operator written in Python has already raised the exception. */
  if (PyErr_Occurred()) return NULL;
  for (size_t i = 0; i < CLASSES; i++)
    if (classes[i].status == status) class = classes[i].class;
  /* A message may quote a damaged file. */
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  if (message) PyErr_SetObject(class, message);
  Py_XDECREF(message);
  return NULL;
}

PyObject *refuse_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  (void)arguments;
  (void)named;
  return PyErr_Format(PyExc_TypeError, "%R cannot be created by calling it: see help(tenon)", type);
}

PyObject *raise_invalid(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(classes[0].class, format, arguments);
  va_end(arguments);
  return NULL;
}
