/* tenon.graph.Executable: a callable compiled from a graph. */
#include "executable.h"

#include <stdlib.h>

#include "argument.h"
#include "device.h"
#include "error.h"
#include "graph.h"
#include "profile.h"
#include "text.h"
#include "unlocked.h"

typedef struct executable_t {
  PyObject_HEAD tenon_executable_t *executable;
  PyObject *graph;
} executable_t;

static PyTypeObject *executable_type;

static tenon_executable_t *executable_of(PyObject *object) {
  return ((executable_t *)object)->executable;
}

enum {
  DEVICES_MOST = 16,
  PINS_MOST = 256,
};

/* Converts {node: device} to pins. `kept` keeps the bytes objects alive that hold the names. */
static bool pins_from(PyObject *object, PyObject *kept, tenon_pin_t *pins, uint32_t *out_count) {
  PyObject *items = PyDict_Items(object);
  *out_count = 0;
  if (!items || PyList_Append(kept, items) != 0) {
    Py_XDECREF(items);
    return false;
  }
  Py_DECREF(items);
  for (Py_ssize_t at = 0; at < PyList_Size(items); at++) {
    PyObject *item = PyList_GetItem(items, at);
    PyObject *node = PyTuple_GetItem(item, 0);
    PyObject *device = PyTuple_GetItem(item, 1);
    PyObject *bytes = PyUnicode_Check(node) ? PyUnicode_AsUTF8String(node) : NULL;
    bool good = bytes && *out_count < PINS_MOST && PyList_Append(kept, bytes) == 0 &&
                device_from(device, &pins[*out_count].device);
    if (good) pins[(*out_count)++].node = PyBytes_AsString(bytes);
    Py_XDECREF(bytes);
    if (!good) {
      if (!PyErr_Occurred())
        raise_invalid("pins: expected a dict of at most %d node names to devices", PINS_MOST);
      return false;
    }
  }
  return true;
}

static bool devices_from(PyObject *object, tenon_device_t *devices, uint32_t *out_count) {
  Py_ssize_t count = PyUnicode_Check(object) ? 1 : PySequence_Size(object);
  if (count < 0) return false;
  if (count > DEVICES_MOST) {
    raise_invalid("device: expected at most %d devices, found %zd", DEVICES_MOST, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item =
        PyUnicode_Check(object) ? new_reference(object) : PySequence_GetItem(object, i);
    bool good = item && device_from(item, &devices[i]);
    Py_XDECREF(item);
    if (!good) return false;
  }
  *out_count = (uint32_t)count;
  return true;
}

PyObject *graph_compile(PyObject *self, PyObject *arguments, PyObject *named) {
  static char *names[] = {"device", "pins", "claims", "plain", "record", "without", NULL};
  tenon_compile_t options = {.size = sizeof options};
  tenon_device_t devices[DEVICES_MOST];
  tenon_pin_t pins[PINS_MOST];
  tenon_executable_t *executable = NULL;
  PyObject *device = NULL;
  PyObject *pin_object = NULL;
  PyObject *kept = NULL;
  int plain = 0;
  int record = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|O$O!zppz", names, &device, &PyDict_Type,
                                   &pin_object, &options.claims, &plain, &record, &options.without))
    return NULL;
  if (plain) options.flags |= TENON_COMPILE_PLAIN;
  if (record) options.flags |= TENON_COMPILE_RECORD;
  if (device && device != Py_None && !devices_from(device, devices, &options.device_count))
    return NULL;
  if (!(kept = PyList_New(0))) return NULL;
  bool good = !pin_object || pins_from(pin_object, kept, pins, &options.pin_count);
  options.devices = devices;
  options.pins = pins;
  if (options.device_count == 1) {
    options.device = devices[0];
    options.device_count = 0;
  }
  tenon_status_t status = TENON_OK;
  if (good) {
    unlocked_t unlocked;
    unlocked_begin(&unlocked);
    status = tenon_executable_create(graph_of(self), &options, &executable);
    if (!unlocked_end(&unlocked)) {
      good = false;
      tenon_executable_release(executable);
    }
  }
  Py_DECREF(kept);
  if (!good) return NULL;
  if (status != TENON_OK) return raise_status(status);
  executable_t *made = PyObject_New(executable_t, executable_type);
  if (!made) {
    tenon_executable_release(executable);
    return NULL;
  }
  made->executable = executable;
  made->graph = self;
  Py_INCREF(self);
  return (PyObject *)made;
}

static void executable_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tenon_executable_release(executable_of(object));
  Py_XDECREF(((executable_t *)object)->graph);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *executable_dump(PyObject *self, PyObject *what) {
  PyObject *bytes = PyUnicode_Check(what) ? PyUnicode_AsUTF8String(what) : NULL;
  char *text = NULL;
  if (!bytes)
    return PyErr_Occurred() ? NULL
                            : PyErr_Format(PyExc_TypeError, "dump: expected a str, found %R", what);
  tenon_status_t status =
      tenon_executable_dump(executable_of(self), PyBytes_AsString(bytes), &text);
  Py_DECREF(bytes);
  return text_take(status, text);
}

static PyObject *get_graph(PyObject *self, void *unused) {
  (void)unused;
  Py_INCREF(((executable_t *)self)->graph);
  return ((executable_t *)self)->graph;
}

/* Returns the object for input i, given by position or by name. */
static PyObject *given_for(const tenon_port_t *port, int32_t i, PyObject *arguments,
                           PyObject *named, Py_ssize_t *used) {
  PyObject *by_position = i < PyTuple_Size(arguments) ? PyTuple_GetItem(arguments, i) : NULL;
  PyObject *by_name = named ? PyDict_GetItemString(named, port->name) : NULL;
  if (by_name) ++*used;
  if (by_position && by_name)
    return PyErr_Format(PyExc_TypeError, "input '%s' was given twice, by position and by name",
                        port->name);
  if (by_position || by_name) return by_position ? by_position : by_name;
  return PyErr_Format(PyExc_TypeError, "input '%s' (position %d) was not given", port->name,
                      (int)i);
}

static tenon_tensor_t *list_from(PyObject *object, const char *name, origin_t *origin);

/* Creates an item of a list: a tensor or, from a list or a tuple, a list. */
static tenon_tensor_t *item_from(PyObject *object, const char *name, origin_t *origin) {
  argument_t argument;
  if (PyList_Check(object) || PyTuple_Check(object)) return list_from(object, name, origin);
  if (!argument_set(&argument, object, ARGUMENT_KEPT, NULL, "graph", name, origin)) return NULL;
  if (!argument.is_reference) tenon_tensor_retain(argument.tensor);
  return argument.tensor;
}

/* Creates a list from a list or a tuple of arrays, or of such lists; from None, an absent optional
 * value; or from one array, a present one. Returns NULL with an exception. */
static tenon_tensor_t *list_from(PyObject *object, const char *name, origin_t *origin) {
  const bool is_sequence = PyList_Check(object) || PyTuple_Check(object);
  PyObject *given = NULL;
  if (is_sequence)
    given = PySequence_Tuple(object);
  else
    given = object == Py_None ? PyTuple_New(0) : PyTuple_Pack(1, object);
  const Py_ssize_t count = given ? PyTuple_Size(given) : 0;
  tenon_tensor_t **items = (tenon_tensor_t **)calloc((size_t)count + 1, sizeof *items);
  tenon_tensor_t *list = NULL;
  bool good = given && items && count <= INT32_MAX;
  if (given && !items) PyErr_NoMemory();
  for (Py_ssize_t i = 0; good && i < count; i++) {
    items[i] = item_from(PyTuple_GetItem(given, i), name, origin);
    good = items[i] != NULL;
  }
  if (good) {
    const tenon_status_t status = tenon_tensor_list(items, (int32_t)count, &list);
    if (status != TENON_OK) raise_status(status);
  }
  for (Py_ssize_t i = 0; items && i < count; i++)
    tenon_tensor_release(items[i]);
  free(items);
  Py_XDECREF(given);
  return list;
}

/* Sets the argument of an input of the graph. flags: ARGUMENT_CHECKED, or 0. */
static bool port_set(argument_t *argument, PyObject *given, const tenon_port_t *port, int flags,
                     origin_t *origin) {
  if (tenon_dtype_id(port->dtype) != TENON_LIST)
    return argument_set(argument, given, flags | ARGUMENT_KEPT, NULL, "graph", port->name, origin);
  argument->tensor = list_from(given, port->name, origin);
  argument->object = given;
  argument->is_reference = true;
  return argument->tensor != NULL;
}

/* The object for a value, for a list a list of such objects; takes the reference over. */
static PyObject *run_value_of(tenon_tensor_t *tensor, const origin_t *origin) {
  if (tenon_dtype_id(tensor->dtype) != TENON_LIST) return result_of(tensor, origin);
  PyObject *list = PyList_New((Py_ssize_t)tensor->shape[0]);
  for (int64_t i = 0; list && i < tensor->shape[0]; i++) {
    tenon_tensor_retain(tenon_item(tensor, i));
    PyObject *item = run_value_of(tenon_item(tensor, i), origin);
    if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) != 0) Py_CLEAR(list);
  }
  tenon_tensor_release(tensor);
  return list;
}

static PyObject *run_results(tenon_tensor_t **outputs, int32_t count, const origin_t *origin) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; i < count; i++) {
    PyObject *object = tuple ? run_value_of(outputs[i], origin) : NULL;
    if (!tuple)
      tenon_tensor_release(outputs[i]);
    else if (!object || PyTuple_SetItem(tuple, i, object) != 0)
      Py_CLEAR(tuple);
  }
  if (!tuple || count != 1) return tuple;
  PyObject *one = PyTuple_GetItem(tuple, 0);
  Py_INCREF(one);
  Py_DECREF(tuple);
  return one;
}

static PyObject *input_names(const tenon_graph_t *graph, int32_t count) {
  PyObject *names = PyList_New(0);
  for (int32_t i = 0; names && i < count; i++) {
    tenon_port_t port = {.size = sizeof port};
    tenon_status_t status = tenon_graph_input(graph, i, &port);
    PyObject *name = status == TENON_OK ? PyUnicode_FromString(port.name) : raise_status(status);
    if (!name || PyList_Append(names, name) != 0) Py_CLEAR(names);
    Py_XDECREF(name);
  }
  return names;
}

/* Raises an error if a keyword is not the name of an input. Called when a run has failed, so that
 * a misspelt name is not reported as a missing input. */
static void check_names(const tenon_graph_t *graph, int32_t count, PyObject *named) {
  PyObject *type, *value, *trace;
  PyObject *key = NULL;
  Py_ssize_t at = 0;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *names = input_names(graph, count);
  PyObject *comma = PyUnicode_FromString(", ");
  PyObject *list = names && comma ? PyUnicode_Join(comma, names) : NULL;
  bool is_known = true;
  while (list && is_known && PyDict_Next(named, &at, &key, NULL))
    is_known = PySequence_Contains(names, key) != 0;
  if (list && !is_known)
    PyErr_Format(PyExc_TypeError, "there is no input %R; the graph has: %U", key, list);
  if (PyErr_Occurred()) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  } else {
    PyErr_Restore(type, value, trace);
  }
  Py_XDECREF(names);
  Py_XDECREF(comma);
  Py_XDECREF(list);
}

typedef struct run_t { /* the memory of one run */
  argument_t *arguments;
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs;
  int32_t input_count;
  int32_t output_count;
  int32_t set;
  int flags;                       /* ARGUMENT_CHECKED, or 0 */
  const tenon_thread_pool_t *pool; /* whose threads help; NULL: those that the thread uses */
} run_t;

static PyObject *run_executable(PyObject *self, run_t *r, PyObject *arguments, PyObject *named) {
  const tenon_graph_t *graph = tenon_executable_graph(executable_of(self));
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  Py_ssize_t used = 0;
  tenon_status_t status;
  if (PyTuple_Size(arguments) > r->input_count)
    return PyErr_Format(PyExc_TypeError, "the graph has %d inputs, but %zd were given",
                        (int)r->input_count, PyTuple_Size(arguments));
  for (; r->set < r->input_count; r->set++) {
    tenon_port_t port = {.size = sizeof port};
    if ((status = tenon_graph_input(graph, r->set, &port)) != TENON_OK) return raise_status(status);
    PyObject *given = given_for(&port, r->set, arguments, named, &used);
    argument_t *argument = &r->arguments[r->set];
    if (!given && named) check_names(graph, r->input_count, named);
    if (!given || !port_set(argument, given, &port, r->flags, &origin)) return NULL;
    r->inputs[r->set] = argument->tensor;
  }
  if (named && used != PyDict_Size(named)) {
    check_names(graph, r->input_count, named);
    return NULL;
  }
  tenon_profile_t *profile = profile_current();
  unlocked_t unlocked;
  unlocked_begin(&unlocked);
  const tenon_thread_pool_t *before = tenon_thread_pool_get(0);
  if (r->pool) (void)tenon_thread_pool_set(r->pool, 0);
  status = tenon_executable_run(executable_of(self), r->inputs, r->outputs, profile);
  if (r->pool) (void)tenon_thread_pool_set(before, 0);
  if (!unlocked_end(&unlocked) && status == TENON_OK) {
    for (int32_t i = 0; i < r->output_count; i++)
      tenon_tensor_release(r->outputs[i]);
    return NULL;
  }
  return status == TENON_OK ? run_results(r->outputs, r->output_count, &origin)
                            : raise_status(status);
}

static PyObject *run_with(PyObject *self, PyObject *arguments, PyObject *named, int flags,
                          const tenon_thread_pool_t *pool) {
  const tenon_graph_t *graph = tenon_executable_graph(executable_of(self));
  run_t r = {.input_count = tenon_graph_input_count(graph),
             .output_count = tenon_graph_output_count(graph),
             .flags = flags,
             .pool = pool};
  r.arguments = (argument_t *)malloc(((size_t)r.input_count + 1) * sizeof *r.arguments);
  r.inputs = (tenon_tensor_t **)calloc((size_t)r.input_count + 1, sizeof *r.inputs);
  r.outputs = (tenon_tensor_t **)calloc((size_t)r.output_count + 1, sizeof *r.outputs);
  bool good = r.arguments && r.inputs && r.outputs;
  PyObject *result = good ? run_executable(self, &r, arguments, named) : PyErr_NoMemory();
  for (int32_t i = 0; i < r.set; i++)
    argument_release(&r.arguments[i]);
  free(r.arguments);
  free(r.inputs);
  free(r.outputs);
  return result;
}

static PyObject *executable_call(PyObject *self, PyObject *arguments, PyObject *named) {
  return run_with(self, arguments, named, 0, NULL);
}

/* The method _run, by which tenon.torch.compiler runs graphs: a tuple of inputs, and the address of
 * a tenon_thread_pool_t or 0. */
static PyObject *executable_run(PyObject *self, PyObject *arguments) {
  PyObject *inputs;
  unsigned long long pool;
  if (!PyArg_ParseTuple(arguments, "O!K", &PyTuple_Type, &inputs, &pool)) return NULL;
  return run_with(self, inputs, NULL, ARGUMENT_CHECKED,
                  (const tenon_thread_pool_t *)(uintptr_t)pool);
}

static PyMethodDef executable_methods[] = {
    {"_run", executable_run, METH_VARARGS, NULL},
    {"dump", executable_dump, METH_O,
     "dump(what)\n--\n\nReturns a description as text. what: \"graph\" (after rewriting), "
     "\"shapes\", \"rewrites\", \"claims\", \"placement\" or \"plan\"."},
    {NULL, NULL, 0, NULL}};
static PyObject *get_address(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr((void *)executable_of(self));
}

static PyGetSetDef executable_properties[] = {
    {"_address", get_address, NULL, "The address of the tenon_executable_t.", NULL},
    {"graph", get_graph, NULL, "The graph that it was compiled from.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot executable_slots[] = {{Py_tp_dealloc, (void *)executable_delete},
                                         {Py_tp_call, (void *)executable_call},
                                         {Py_tp_new, (void *)refuse_new},
                                         {Py_tp_methods, executable_methods},
                                         {Py_tp_getset, executable_properties},
                                         {0, NULL}};
static PyType_Spec executable_spec = {"tenon.graph.Executable", sizeof(executable_t), 0,
                                      Py_TPFLAGS_DEFAULT, executable_slots};

bool executables_add(PyObject *module) {
  executable_type = (PyTypeObject *)PyType_FromSpec(&executable_spec);
  if (!executable_type) return false;
  Py_INCREF(executable_type);
  return PyModule_AddObject(module, "Executable", (PyObject *)executable_type) == 0;
}
