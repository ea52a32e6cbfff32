/* The extension tenon._core. */
#include "core.h"

static PyObject *version(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  return PyUnicode_FromString(tenon_version());
}

static PyObject *doctor(PyObject *module, PyObject *unused) {
  char *text;
  (void)module;
  (void)unused;
  tenon_status_t status = tenon_doctor(&text);
  if (status != TENON_OK) return raise_status(status);
  PyObject *report = PyUnicode_FromString(text);
  tenon_text_release(text);
  return report;
}

static PyObject *threads_set(PyObject *module, PyObject *count) {
  long threads = PyLong_AsLong(count);
  (void)module;
  if (threads == -1 && PyErr_Occurred()) return NULL;
  if (threads < 0 || threads > 4096)
    return raise_invalid("%ld threads: expected 0 (the default) to 4096", threads);
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

/* Types and operators are those of the process: Python would give other interpreters a copy of the
 * module's dictionary. */
static PyObject *check_interpreter(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) Py_RETURN_NONE;
  return PyErr_Format(
      PyExc_ImportError,
      "tenon works in the main interpreter only, and this is another: call it there");
}

/* It lasts as long as the process. */
static PyObject *fallback_to_cpu(PyObject *module, PyObject *backend) {
  tenon_registration_t *registration;
  PyObject *bytes = PyUnicode_Check(backend) ? PyUnicode_AsUTF8String(backend) : NULL;
  (void)module;
  if (!bytes)
    return PyErr_Occurred()
               ? NULL
               : PyErr_Format(PyExc_TypeError, "the name of a backend: expected a str, found %R",
                              backend);
  tenon_status_t status =
      tenon_fallback_add(PyBytes_AsString(bytes), tenon_fallback_cpu, NULL, NULL, 0, &registration);
  Py_DECREF(bytes);
  if (status != TENON_OK && status != TENON_EXISTS) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *fallback_report(PyObject *module, PyObject *unused) {
  char *text;
  (void)module;
  (void)unused;
  tenon_status_t status = tenon_fallback_report(&text);
  if (status != TENON_OK) return raise_status(status);
  PyObject *report = PyUnicode_FromString(text);
  tenon_text_release(text);
  return report;
}

static PyMethodDef functions[] = {
    {"fallback_to_cpu", fallback_to_cpu, METH_O,
     "fallback_to_cpu(backend)\n--\n\nWhat a backend (\"sim\", \"opencl\") has no kernel for runs "
     "on the CPU from here on, with copies."},
    {"fallback_report", fallback_report, METH_NOARGS,
     "fallback_report()\n--\n\nA line for each operator that fell back to the CPU: calls, bytes "
     "copied."},
    {"check_interpreter", check_interpreter, METH_NOARGS, NULL},
    {"version", version, METH_NOARGS, "version()\n--\n\nOf libtenon."},
    {"doctor", doctor, METH_NOARGS, "doctor()\n--\n\nA report on machine, build and settings."},
    {"threads_set", threads_set, METH_O,
     "threads_set(count)\n--\n\nThreads that calls begun by this thread use; 0: the default."},
    {"seed", seed, METH_O,
     "seed(number)\n--\n\nRandom operators that this thread calls draw from a generator of its own "
     "from here on, with that seed, from its start."},
    {"threads_get", threads_get, METH_NOARGS,
     "threads_get()\n--\n\nThreads that calls begun by this thread use."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "tenon._core",
                                        "What of Tenon's Python package is in C.",
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__core(void) {
  if (tenon_start() != TENON_OK)
    return PyErr_Format(PyExc_ImportError, "tenon cannot start: %s", tenon_error());
  PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  if (module && unlocked_start() && errors_add(module) && tensors_add(module) &&
      sparse_add(module) && operators_add(module) && libraries_add(module) && graphs_add(module) &&
      builders_add(module) && dispatch_add(module) && profiles_add(module) &&
      recordings_add(module) && definitions_add(module))
    return module;
  Py_XDECREF(module);
  return NULL;
}
