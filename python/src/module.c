/* The extension module tenon._core: its initialisation, and functions that belong to no type. */
#include "builder.h"
#include "cancellation.h"
#include "core.h"
#include "define.h"
#include "dispatch.h"
#include "dump.h"
#include "error.h"
#include "executable.h"
#include "gradient.h"
#include "graph_methods.h"
#include "library.h"
#include "meta.h"
#include "node.h"
#include "operator.h"
#include "profile.h"
#include "registration.h"
#include "sparse.h"
#include "tensor_methods.h"
#include "text.h"
#include "unlocked.h"
#include "value.h"

static PyObject *version(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyUnicode_FromString(tenon_version());
}

static PyObject *doctor(PyObject *module, PyObject *unused) {
  char *text = NULL;
  (void)module;
  (void)unused;
  tenon_status_t status = tenon_doctor(&text);
  return text_take(status, text);
}

static PyObject *threads_set(PyObject *module, PyObject *count) {
  long threads = PyLong_AsLong(count);
  (void)module;
  if (threads == -1 && PyErr_Occurred()) return NULL;
  if (threads < 0 || threads > 4096)
    return raise_invalid("threads: expected a number from 0 (the default) to 4096, found %ld",
                         threads);
  tenon_threads_set((int32_t)threads);
  Py_RETURN_NONE;
}

static PyObject *threads_get(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyLong_FromLong(tenon_threads_get());
}

static PyObject *seed(PyObject *module, PyObject *number) {
  unsigned long long value = PyLong_AsUnsignedLongLong(number);
  (void)module;
  if (value == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
  tenon_random_seed(value);
  Py_RETURN_NONE;
}

/* Types and operators are shared by the whole process, but Python would give another interpreter a
 * mere copy of the module's dictionary. */
static PyObject *check_interpreter(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) Py_RETURN_NONE;
  return PyErr_Format(PyExc_ImportError, "tenon works in the main interpreter only, but this is a "
                                         "subinterpreter: import it in the main interpreter");
}

/* The fallback stays until the process ends. */
static PyObject *fallback_to_cpu(PyObject *module, PyObject *backend) {
  tenon_registration_t *registration;
  PyObject *bytes = PyUnicode_Check(backend) ? PyUnicode_AsUTF8String(backend) : NULL;
  (void)module;
  if (!bytes)
    return PyErr_Occurred()
               ? NULL
               : PyErr_Format(PyExc_TypeError, "expected the name of a backend as a str, found %R",
                              backend);
  tenon_status_t status =
      tenon_fallback_add(PyBytes_AsString(bytes), tenon_fallback_cpu, NULL, NULL, 0, &registration);
  Py_DECREF(bytes);
  if (status != TENON_OK && status != TENON_EXISTS) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *fallback_report(PyObject *module, PyObject *unused) {
  char *text = NULL;
  (void)module;
  (void)unused;
  tenon_status_t status = tenon_fallback_report(&text);
  return text_take(status, text);
}

static PyMethodDef functions[] = {
    {"fallback_to_cpu", fallback_to_cpu, METH_O,
     "fallback_to_cpu(backend)\n--\n\nRuns operators without a kernel for a backend (\"sim\", "
     "\"opencl\") on the CPU from now on, with copies of their tensors."},
    {"fallback_report", fallback_report, METH_NOARGS,
     "fallback_report()\n--\n\nReturns a line for each operator that fell back to the CPU, with "
     "the number of calls and of copied bytes."},
    {"check_interpreter", check_interpreter, METH_NOARGS, NULL},
    {"version", version, METH_NOARGS, "version()\n--\n\nReturns the version of libtenon."},
    {"doctor", doctor, METH_NOARGS,
     "doctor()\n--\n\nReturns a report on the machine, the build and the settings."},
    {"threads_set", threads_set, METH_O,
     "threads_set(count)\n--\n\nSets how many threads the calls made by this thread use; 0: the "
     "default."},
    {"seed", seed, METH_O,
     "seed(number)\n--\n\nSeeds the random operators that this thread calls: they draw from a "
     "generator of the thread, which starts anew with this seed."},
    {"threads_get", threads_get, METH_NOARGS,
     "threads_get()\n--\n\nReturns how many threads the calls made by this thread use."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "tenon._core",
                                        "The part of Tenon's Python package that is written in C.",
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

/* Adds the types and functions of all files. The exceptions come first. */
static bool add_all(PyObject *module) {
  static bool (*const adders[])(PyObject * module) = {
      errors_add,   tensors_add,     sparse_add,       operators_add,     libraries_add,
      graphs_add,   executables_add, values_add,       builders_add,      nodes_add,
      dispatch_add, profiles_add,    dumps_add,        registrations_add, definitions_add,
      metas_add,    gradients_add,   cancellations_add};
  for (size_t i = 0; i < sizeof adders / sizeof *adders; i++)
    if (!adders[i](module)) return false;
  return true;
}

PyMODINIT_FUNC PyInit__core(void) {
  if (tenon_start() != TENON_OK)
    return PyErr_Format(PyExc_ImportError, "tenon cannot start: %s", tenon_error());
  PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  if (module && unlocked_start() && add_all(module)) return module;
  Py_XDECREF(module);
  return NULL;
}
