/* tenon._core.Registration: an operator, kernel or gradient that Python code has registered,
 * and that its method undo removes. */
#include "registration.h"

#include <stdatomic.h>

#include "error.h"

typedef struct registration_t {
  PyObject_HEAD tenon_registration_t *_Atomic registration; /* NULL after undo */
} registration_t;
static PyTypeObject *registration_type;

PyObject *registration_new(tenon_registration_t *registration) {
  registration_t *self = PyObject_New(registration_t, registration_type);
  if (!self) return NULL; /* The registration stays in effect. */
  self->registration = registration;
  return (PyObject *)self;
}

/* The registration stays in effect. */
static void registration_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *registration_undo(PyObject *object, PyObject *unused) {
  tenon_registration_t *registration =
      atomic_exchange(&((registration_t *)object)->registration, NULL);
  (void)unused;
  Py_BEGIN_ALLOW_THREADS if (registration) tenon_registration_release(registration);
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"undo", registration_undo, METH_NOARGS,
                                 "undo()\n--\n\nRemoves the operator, kernel or gradient again."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)registration_delete},
                              {Py_tp_new, (void *)refuse_new},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"tenon._core.Registration", sizeof(registration_t), 0,
                           Py_TPFLAGS_DEFAULT, slots};

bool registrations_add(PyObject *module) {
  registration_type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!registration_type) return false;
  Py_INCREF(registration_type);
  return PyModule_AddObject(module, "Registration", (PyObject *)registration_type) == 0;
}
