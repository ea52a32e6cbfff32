/* tenon.profile, which measures where the time of a model run goes, node by node; and the switches
 * for tracing and explaining dispatch. A profile that was entered belongs to its thread: runs of
 * executables by this thread are added to it. */
#include "profile.h"

#include <stdatomic.h>

#include "error.h"

typedef struct profile_t {
  PyObject_HEAD tenon_profile_t *profile;
  struct profile_t *before; /* the profile that was current before */
  _Atomic bool is_entered;
} profile_t;

static PyTypeObject *profile_type;
static _Thread_local profile_t *current;

tenon_profile_t *profile_current(void) { return current ? current->profile : NULL; }

static PyObject *profile_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  static char *names[] = {NULL};
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "", names)) return NULL;
  /* GenericAlloc clears the memory; `type` may be a subclass written in Python. */
  profile_t *self = (profile_t *)PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  tenon_status_t status = tenon_profile_create(&self->profile);
  if (status == TENON_OK) return (PyObject *)self;
  Py_DECREF(self);
  return raise_status(status);
}

static void profile_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tenon_profile_release(((profile_t *)object)->profile);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyObject *profile_enter(PyObject *object, PyObject *unused) {
  profile_t *self = (profile_t *)object;
  (void)unused;
  if (atomic_exchange(&self->is_entered, true))
    return PyErr_Format(error_class, "this profile was already entered");
  self->before = current;
  current = self;
  /* one reference for `current`, one for the caller */
  Py_INCREF(object);
  Py_INCREF(object);
  return object;
}

static PyObject *profile_leave(PyObject *object, PyObject *arguments) {
  profile_t *self = (profile_t *)object;
  (void)arguments;
  if (current != self)
    return PyErr_Format(
        error_class,
        "a profile must be left by the thread that entered it, the last entered profile first");
  current = self->before;
  self->before = NULL;
  self->is_entered = false;
  Py_DECREF(object);
  Py_RETURN_NONE;
}

static PyObject *span_of(const tenon_profile_t *profile, int32_t i) {
  tenon_span_t span = {.size = sizeof span};
  tenon_status_t status = tenon_profile_span(profile, i, &span);
  return status != TENON_OK ? raise_status(status)
                            : Py_BuildValue("(sziLL)", span.name, span.kind, (int)span.depth,
                                            (long long)span.begin, (long long)span.end);
}

static PyObject *work_of(const tenon_profile_t *profile, int32_t i) {
  tenon_span_t span = {.size = sizeof span};
  tenon_status_t status = tenon_profile_span(profile, i, &span);
  return status != TENON_OK ? raise_status(status)
                            : Py_BuildValue("(dd)", span.bytes, span.operations);
}

static PyObject *level_of(const tenon_profile_t *profile, int32_t i) {
  tenon_level_t level = {.size = sizeof level};
  tenon_status_t status = tenon_profile_level(profile, i, &level);
  return status != TENON_OK ? raise_status(status)
                            : Py_BuildValue("(sLK)", level.device, (long long)level.time,
                                            (unsigned long long)level.bytes);
}

static PyObject *list_of(PyObject *object, int32_t (*count)(const tenon_profile_t *profile),
                         PyObject *(*item_of)(const tenon_profile_t *profile, int32_t i)) {
  const tenon_profile_t *profile = ((profile_t *)object)->profile;
  PyObject *list = PyList_New(0);
  for (int32_t i = 0, n = count(profile); list && i < n; i++) {
    PyObject *item = item_of(profile, i);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}
static PyObject *get_spans(PyObject *object, void *unused) {
  (void)unused;
  return list_of(object, tenon_profile_count, span_of);
}
static PyObject *get_work(PyObject *object, void *unused) {
  (void)unused;
  return list_of(object, tenon_profile_count, work_of);
}
static PyObject *get_memory(PyObject *object, void *unused) {
  (void)unused;
  return list_of(object, tenon_profile_level_count, level_of);
}

static PyObject *profile_write(PyObject *object, PyObject *path) {
  PyObject *bytes = NULL;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  tenon_status_t status =
      tenon_profile_write(((profile_t *)object)->profile, PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"__enter__", profile_enter, METH_NOARGS, NULL},
    {"__exit__", profile_leave, METH_VARARGS, NULL},
    {"write", profile_write, METH_O,
     "write(path)\n--\n\nWrites a Chrome trace, for ui.perfetto.dev and chrome://tracing."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef properties[] = {
    {"spans", get_spans, NULL,
     "A list of (name, operator, depth, begin, end): nodes have depth 0, spans that their kernels "
     "report a greater depth; times in nanoseconds.",
     NULL},
    {"work", get_work, NULL,
     "A list of (bytes, operations), one for each span: the bytes of a node's arguments and "
     "results, "
     "and the multiplications and additions of products, convolutions, attention and recurrent "
     "layers; 0: unknown.",
     NULL},
    {"memory", get_memory, NULL,
     "A list of (device, time, bytes): the memory in use from this time on; times in nanoseconds, "
     "as in spans.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, (void *)profile_new},
                              {Py_tp_dealloc, (void *)profile_delete},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {0, NULL}};
static PyType_Spec spec = {"tenon._core.Profile", sizeof(profile_t), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

static PyObject *trace_set(PyObject *module, PyObject *arguments) {
  const char *what;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "z", &what)) return NULL;
  tenon_status_t status = tenon_trace_set(what);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *explain_set(PyObject *module, PyObject *arguments) {
  int how;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "i", &how)) return NULL;
  tenon_status_t status = tenon_explain_set(how);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"trace_set", trace_set, METH_VARARGS, NULL},
                                  {"explain_set", explain_set, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

bool profiles_add(PyObject *module) {
  profile_type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!profile_type) return false;
  Py_INCREF(profile_type);
  return PyModule_AddObject(module, "Profile", (PyObject *)profile_type) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}
